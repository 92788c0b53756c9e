//! What became of the suites, as a document.

use std::fmt::Write;
use std::path::Path;

use super::run::{Results, version};
use super::{Runner, Suite};

/// Of a failure, as much as a cell may hold.
const LONGEST: usize = 160;

const HEAD: &str = "# Clients

<!-- Written by `cargo xtask clients`: do not edit. -->
The packages that people use, and llama.cpp's tests of its own server, against `akunu serve` over a socket. The tests of packages
are in [clients](../clients): protocol, shapes, sums, errors, and that streams, dialects and batches say the same; never whether a
model is wise. The suites of LangChain are its own (`langchain-tests`). llama.cpp's are fetched for the run; where their own models
are asked for, other ones answer: their words and token counts are not compared (`clients/llama_cpp/plugin.py` says which).

```
cargo xtask clients [--llama-cpp CHECKOUT] [--akunu PATH] [--only SUITE,…]
```

A test is not applicable only with a reason, which is committed (`clients/not-applicable.json`), or where the suite skips it itself.

";

/// One line about a suite.
pub(super) fn line(name: &str, results: &Results) -> String {
    let Results { passed, failed, not_applicable, broken, .. } = results;
    let mut line = format!("{name}: {passed} passed, {} failed, {} not applicable", failed.len(), not_applicable.len());
    if let Some(why) = broken {
        // Writing to a string cannot fail.
        let _ = write!(line, "; NOT RUN to its end: {why}");
    }
    line
}

pub(super) fn document(all: &[(&Suite, Results)], sources: &Path) -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    text += "| suite | package | passed | failed | not applicable |\n|---|---|---|---|---|\n";
    for (suite, results) in all {
        let package = match suite.runner {
            Runner::LlamaCpp => format!("`tools/server/tests/unit/{}`", suite.file),
            _ => format!("{} {}", suite.package, version(sources, suite)?),
        };
        let Results { passed, failed, not_applicable, broken, .. } = results;
        let counts = match broken {
            Some(why) if results.is_empty() => format!("not run: {} | | |", cell(why)),
            _ => format!("{passed} | {} | {} |", failed.len(), not_applicable.len()),
        };
        writeln!(text, "| {} | {package} | {counts}", suite.name)?;
    }
    section(&mut text, "Failed", all, |results| &results.failed)?;
    section(&mut text, "Not applicable", all, |results| &results.not_applicable)?;
    let needless: Vec<String> =
        all.iter().flat_map(|(s, r)| r.needless.iter().map(|test| format!("- {}: `{test}`\n", s.name))).collect();
    if !needless.is_empty() {
        write!(text, "\n## Said not to be applicable, and passed\n{}", needless.concat())?;
    }
    Ok(text)
}

type Tests = Vec<(String, String)>;

fn section(
    text: &mut String,
    title: &str,
    all: &[(&Suite, Results)],
    of: impl Fn(&Results) -> &Tests,
) -> anyhow::Result<()> {
    if all.iter().all(|(_, results)| of(results).is_empty()) {
        return Ok(());
    }
    write!(text, "\n## {title}\n| suite | test | why |\n|---|---|---|\n")?;
    for (suite, results) in all {
        // Parameters of one test with one reason are one row.
        let mut rows: Vec<(&str, String, usize)> = Vec::new();
        for (test, why) in of(results) {
            let (bare, why) = (test.split('[').next().unwrap_or(test), cell(why));
            match rows.iter_mut().find(|row| row.0 == bare && row.1 == why) {
                Some(row) => row.2 += 1,
                None => rows.push((bare, why, 1)),
            }
        }
        for (test, why, count) in rows {
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            writeln!(text, "| {} | `{test}`{times} | {why} |", suite.name)?;
        }
    }
    Ok(())
}

/// The beginning of a text, fit for a table.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What follows is how the values came about, with their addresses.
    let line = line.split(" + where ").next().unwrap_or_default().replace('|', "\\|").replace('<', "&lt;");
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((at, _)) => format!("{}…", &line[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_counts_and_reasons_and_groups_parameters() {
        let suite = Suite { name: "s", runner: Runner::LlamaCpp, package: "", file: "test_s.py" };
        let pair = |test: &str, why: &str| (test.to_owned(), why.to_owned());
        let results = Results {
            passed: 3,
            failed: vec![pair("t[1]", "a | b\n<c>"), pair("t[2]", "a | b\n<c>")],
            not_applicable: vec![pair("u", &"x".repeat(1000))],
            needless: vec!["v".into()],
            broken: None,
        };
        let text = document(&[(&suite, results)], Path::new("")).unwrap();
        assert!(text.contains("| s | `tools/server/tests/unit/test_s.py` | 3 | 2 | 1 |"), "{text}");
        assert!(text.contains("| s | `t` (2 times) | a \\| b &lt;c> |"), "{text}");
        assert!(text.contains(&format!("| {}… |", "x".repeat(LONGEST))), "{text}");
        assert!(text.contains("- s: `v`"), "{text}");
        let missing = Results::not_run("no network".into());
        let text = document(&[(&suite, missing)], Path::new("")).unwrap();
        assert!(text.contains("| not run: no network | | |") && !text.contains("## Failed"), "{text}");
    }
}
