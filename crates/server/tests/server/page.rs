//! The page: that the committed file is what its sources build, and that it works in a browser against this server.
#![cfg(feature = "audio")]

use crate::audio::SAID;
use crate::socket::serve;
use akunu_server::{Entry, Source};
use akunu_testkit::fixtures::{Source as From, needed};
use akunu_testkit::{TempDir, tones};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn committed() -> String {
    text(&web().join("dist/index.html"))
}

/// Without the carriage returns that git adds on some systems.
fn text(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.replace("\r\n", "\n")
}

fn hex(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// As `web/build.mjs` writes it into the page.
fn digest_of_sources() -> String {
    let mut paths = vec![web().join("build.mjs"), web().join("package-lock.json")];
    files(&web().join("src"), &mut paths);
    let name = |path: &Path| path.strip_prefix(web()).unwrap().to_str().unwrap().replace('\\', "/");
    let mut lines: Vec<(String, String)> = paths.iter().map(|path| (name(path), hex(&text(path)))).collect();
    lines.sort();
    hex(&lines.iter().fold(String::new(), |list, (name, hash)| list + hash + "  " + name + "\n"))
}

/// Where there is no Node nobody can build the page, but everybody sees that it was not built.
#[test]
fn the_committed_page_names_the_sources_that_are_there() {
    let line = format!("sources {}", digest_of_sources());
    assert!(committed().contains(&line), "the sources of the page changed: `npm ci && npm run build` in web/");
}

/// Runs a script of `web/`, where its packages are.
fn node(script: &str, arguments: &[&Path], environment: &[(&str, &str)]) -> Option<()> {
    let packages = web().join("node_modules/.package-lock.json").exists();
    needed(packages.then_some(()), From::Fetched, "web/node_modules: `npm ci` in web/")?;
    let mut command = Command::new("node");
    command.arg(script).args(arguments).current_dir(web()).envs(environment.iter().copied());
    let output = command.output().unwrap_or_else(|e| panic!("node: {e}"));
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{script}: {}\n{}", output.status, said.concat());
    eprint!("{}", said[0]);
    Some(())
}

#[test]
fn the_committed_page_is_what_its_sources_build() {
    let dir = TempDir::new();
    let built = dir.join("index.html");
    if node("build.mjs", &[&built], &[]).is_some() {
        assert!(
            text(&built) == committed(),
            "the page is not what its sources build: `npm ci && npm run build` in web/"
        );
    }
}

#[test]
fn the_units_of_the_page_pass() {
    node("test/units.mjs", &[], &[]);
}

/// A model that tells a story, whatever it is asked: never nothing, and never less than a sentence.
fn teller(name: &str) -> Entry {
    let mut entry = Entry::new(name, Source::Embedded);
    entry.template = Some("Once upon a time".into());
    entry
}

/// A real conversation in Chromium: `web/test/page.mjs` has the steps.
#[test]
fn the_page_talks_to_this_server() {
    let places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let browser = named.into_iter().chain(places).find(|path| path.exists());
    let Some(browser) = needed(browser, From::Fetched, "Chromium (CHROMIUM may name one)") else { return };
    let dir = TempDir::new();
    let speech = Entry::new("tones", Source::Path(tones::model(&dir, akunu::DType::F32)));
    let german = tones::wav(&tones::play(&tones::expected()["recordings"]["german"]));
    let recording = dir.write("german.wav", &german);
    let url = format!("http://{}/", serve(vec![teller("first"), teller("second"), speech], |_| {}));
    let environment = [
        ("AKUNU_URL", url.as_str()),
        ("AKUNU_RECORDING", recording.to_str().unwrap()),
        ("AKUNU_WORDS", SAID),
        ("CHROMIUM", browser.to_str().unwrap()),
    ];
    node("test/page.mjs", &[], &environment);
}
