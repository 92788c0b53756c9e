//! Running a suite against a server of its own, and what became of each test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Place, Runner, Suite};

/// What became of a suite.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub passed: usize,
    /// Tests and what they said.
    pub failed: Vec<(String, String)>,
    /// Tests and why they do not apply.
    pub not_applicable: Vec<(String, String)>,
    /// Tests that are said not to apply, and passed.
    pub needless: Vec<String>,
    /// Why the suite did not run, or not to its end.
    pub broken: Option<String>,
}

impl Results {
    pub fn not_run(why: String) -> Self {
        Self { broken: Some(why), ..Self::default() }
    }

    /// No test has begun.
    pub fn is_empty(&self) -> bool {
        self.passed + self.failed.len() + self.not_applicable.len() == 0
    }
}

/// Why tests do not apply, by suite. A name that ends in `*` stands for all that begin so.
pub(super) struct Reasons(BTreeMap<String, BTreeMap<String, String>>);

impl Reasons {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self(serde_json::from_slice(&text).with_context(|| format!("{} is no table of reasons", path.display()))?))
    }

    fn of(&self, suite: &str, test: &str) -> Option<&str> {
        let fits = |name: &str| name.strip_suffix('*').map_or(name == test, |start| test.starts_with(start));
        let reasons = self.0.get(suite)?;
        reasons.iter().find(|(name, _)| fits(name)).map(|(_, reason)| reason.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Skipped,
    Passed,
    Failed,
}

/// A test, what became of it and what it said: a line of a report.
fn parsed(line: &str) -> Option<(String, Outcome, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let outcome = match line["outcome"].as_str()? {
        "skipped" => Outcome::Skipped,
        "passed" => Outcome::Passed,
        "failed" => Outcome::Failed,
        _ => return None,
    };
    Some((line["test"].as_str()?.to_owned(), outcome, line["reason"].as_str()?.to_owned()))
}

pub(super) fn suite(suite: &Suite, tool: &Path, place: &Place, reasons: &Reasons) -> anyhow::Result<Results> {
    let report = place.dir.join(format!("{}.jsonl", suite.name));
    let log = place.dir.join(format!("{}.log", suite.name));
    if report.exists() {
        fs::remove_file(&report)?;
    }
    // llama.cpp's tests start theirs.
    let mut server = match suite.runner {
        Runner::LlamaCpp => None,
        _ => Some(Server::start(place, suite.name)?),
    };
    let mut command = command(suite, tool, place, &report);
    command
        .env("AKUNU_URL", server.as_ref().map_or("", |s| s.url.as_str()))
        .env("AKUNU_BINARY", &place.akunu)
        .env("AKUNU_MODELS", place.models.join("\n"))
        .env("AKUNU_REPORT", &report)
        .env("AKUNU_FIXTURES", crate::root().join("fixtures"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    let out = File::create(&log)?;
    let status = command.stdout(out.try_clone()?).stderr(out).status();
    let status = status.with_context(|| format!("cannot start {}", tool.display()))?;
    let mut results = sorted(&fs::read_to_string(&report).unwrap_or_default(), suite.name, reasons)?;
    if let Some(server) = &mut server
        && let Some(status) = server.process.try_wait()?
    {
        results.broken = Some(format!("the server ended: {status}"));
    // Runners say 1 where a test failed.
    } else if !matches!(status.code(), Some(0 | 1)) || results.is_empty() {
        results.broken = Some(format!("{status}: see {}.log", suite.name));
    }
    Ok(results)
}

fn command(suite: &Suite, tool: &Path, place: &Place, report: &Path) -> Command {
    let tests = place.tests(suite.runner);
    let mut command = Command::new(tool);
    match suite.runner {
        Runner::Node => {
            command.args(["--test", "--test-concurrency=1", "--test-timeout=120000", "--test-reporter=./report.mjs"]);
            command.arg("--test-reporter-destination").arg(report).arg(suite.file).current_dir(place.dir.join("node"));
        }
        Runner::Python => {
            command.args(["-m", "pytest", "-p", "report", "-p", "no:cacheprovider", "--tb=short", suite.file]);
            command.current_dir(&tests).env("PYTHONPATH", &tests);
        }
        Runner::LlamaCpp => {
            let paths = [&tests, &place.tests(Runner::Python)].map(|p| p.display().to_string()).join(":");
            let theirs = place.llama_cpp.as_deref().unwrap_or(Path::new("")).join("tools/server/tests");
            command.args(["-m", "pytest", "-p", "report", "-p", "plugin", "-p", "no:cacheprovider", "--tb=short"]);
            command.args(["--timeout=120", "-m", "not slow"]).arg(format!("unit/{}", suite.file));
            command.current_dir(theirs).env("PYTHONPATH", paths).env("LLAMA_SERVER_BIN_PATH", tests.join("server.py"));
        }
    }
    command
}

/// Every test once, with the worst that was said of it.
fn sorted(report: &str, suite: &str, reasons: &Reasons) -> anyhow::Result<Results> {
    let mut tests: BTreeMap<String, (Outcome, String)> = BTreeMap::new();
    for line in report.lines() {
        let (test, outcome, said) = parsed(line).with_context(|| format!("not a line of a report: {line}"))?;
        let worst = tests.entry(test).or_insert((outcome, String::new()));
        if outcome >= worst.0 {
            *worst = (outcome, said);
        }
    }
    let mut results = Results::default();
    for (test, (outcome, said)) in tests {
        match (outcome, reasons.of(suite, &test)) {
            (Outcome::Passed, reason) => {
                results.passed += 1;
                results.needless.extend(reason.map(|_| test));
            }
            (Outcome::Failed, None) => results.failed.push((test, said)),
            (Outcome::Failed, Some(reason)) => results.not_applicable.push((test, reason.to_owned())),
            (Outcome::Skipped, reason) => {
                results
                    .not_applicable
                    .push((test, reason.map_or_else(|| format!("skips itself: {said}"), str::to_owned)));
            }
        }
    }
    Ok(results)
}

/// A server that ends when it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(place: &Place, name: &str) -> anyhow::Result<Self> {
        let log = File::create(place.dir.join(format!("{name}.server.log")))?;
        let mut command = Command::new(&place.akunu);
        command.arg("serve").args(&place.models).args(["--port", "0", "--print-address"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let mut server = Self { process, url: String::new() };
        let out = server.process.stdout.take().context("the server has no output")?;
        BufReader::new(out).read_line(&mut server.url)?;
        server.url.truncate(server.url.trim_end().len());
        ensure!(server.url.starts_with("http"), "the server did not say where it is; see {name}.server.log");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The versions that a list of packages pins.
pub(super) fn version(sources: &Path, suite: &Suite) -> anyhow::Result<String> {
    match suite.runner {
        Runner::LlamaCpp => Ok(String::new()),
        Runner::Python => {
            let list = fs::read_to_string(sources.join("python/requirements.txt"))?;
            let pinned = list.lines().filter_map(|line| line.split_once("=="));
            Ok(pinned.filter(|(name, _)| *name == suite.package).map(|(_, version)| version.to_owned()).collect())
        }
        Runner::Node => {
            let package: Value = serde_json::from_slice(&fs::read(sources.join("node/package.json"))?)?;
            Ok(package["dependencies"][suite.package].as_str().unwrap_or_default().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_counts_once_with_the_worst_that_was_said_of_it() {
        let reasons = r#"{"s":{"b[*":"no model here sees","c":"is not so"}}"#;
        let reasons = Reasons(serde_json::from_str(reasons).unwrap());
        let line = |test, outcome, reason| {
            format!("{{\"test\":\"{test}\",\"outcome\":\"{outcome}\",\"reason\":\"{reason}\"}}\n")
        };
        let report = [
            line("a", "passed", ""),
            line("a", "failed", "at the end"),
            line("b[1]", "failed", "no"),
            line("b[2]", "skipped", "slow"),
            line("c", "passed", ""),
            line("d", "skipped", "slow"),
        ];
        let results = sorted(&report.concat(), "s", &reasons).unwrap();
        assert_eq!(results.passed, 1);
        assert_eq!(results.failed, [("a".into(), "at the end".into())]);
        let not_applicable: Vec<&str> = results.not_applicable.iter().map(|(_, reason)| reason.as_str()).collect();
        assert_eq!(not_applicable, ["no model here sees", "no model here sees", "skips itself: slow"]);
        assert_eq!(results.needless, ["c"]);
        assert_eq!(sorted("", "s", &reasons).unwrap().passed, 0);
        assert!(sorted("what?", "s", &reasons).is_err());
    }
}
