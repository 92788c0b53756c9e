//! Faults that were found in other engines and published: names that became paths (path traversal).
//!
//! | fault | what happened there | what we say |
//! |---|---|---|
//! | CVE-2024-37032, Ollama ("Probllama") | a registry's manifest named a digest `../../…`: the blob was written there | what a list says of a file that is no hash of 64 digits, and a name that is no name, is left out |
//! | CVE-2026-7020, Ollama | the same in another transfer: a digest became a path that was read | the same |
//! | CVE-2024-39722, Ollama | whether a file of the server's exists could be asked by a model's name | `not the name of …`, whether it is there or not |
//!
//! A folder of models whose names come from requests belongs to a server, and is not here: there is none yet.

use std::fs;
use std::path::Path;

use crate::server::{Server, length, ranged, response};
use akunu_hub::{Client, Download, Error, Hub, Sources};
use akunu_testkit::TempDir;

/// What is in a folder, by name.
fn listed(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn cve_2024_39722_path_traversal_in_model_names() {
    let dir = TempDir::new();
    let server = Server::start(|path, start| ranged(path.as_bytes(), start));
    let hub = Hub::new(&dir.join("cache"), &server.base);
    // There, and in the way of what the names would lead to.
    fs::create_dir_all(dir.join("cache/models/hub/org")).unwrap();
    for there in ["secret.gguf", "cache/secret.gguf", "cache/models/secret.gguf", "cache/models/hub/org/secret.gguf"] {
        dir.write(there, b"secret");
    }
    let absolute = dir.join("secret.gguf").to_string_lossy().into_owned();
    for name in [
        "../secret.gguf",
        "../../../secret.gguf",
        "org/..",
        "org/../secret.gguf",
        "org/name:../secret.gguf",
        "org/name:../../../../../secret.gguf",
        "org/name:a/../../secret.gguf",
        "org/name:..",
        "org/name:.",
        "org/.:secret.gguf",
        "../hub:org/secret.gguf",
        "org/name@../../x:secret.gguf",
        "org\\..\\..\\secret.gguf",
        "org/name:..\\secret.gguf",
        "org/name:%2e%2e/secret.gguf",
        "org/name:..%2fsecret.gguf",
        "org/name:\u{ff0e}\u{ff0e}/secret.gguf",
        "org/name:a\0/../secret.gguf",
        &absolute,
        &format!("org/name:{absolute}"),
    ] {
        let refused = |result: Result<(), Error>| {
            let error = result.expect_err(name);
            assert!(matches!(error, Error::BadName { .. } | Error::UnknownName { .. }), "{name}: {error}");
        };
        refused(hub.path(name).map(drop));
        refused(hub.remove(name).map(drop));
        refused(hub.fetch(name, Sources::All, &mut |_, _| {}).map(drop));
    }
    for url in ["/..", "/a/..", "/.", "/", "/%2e%2e", "/..%2fx", "/.hidden", "/a\\..\\x"] {
        let error = hub.fetch_url(&format!("{}{url}", server.base), None, &mut |_, _| {}).expect_err(url);
        assert!(matches!(error, Error::BadName { .. }), "{url}: {error}");
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    assert_eq!(listed(dir.path()), ["cache", "secret.gguf"]);
    assert_eq!(listed(&dir.join("cache")), ["models", "secret.gguf"]);
    assert_eq!(listed(&dir.join("cache/models")), ["hub", "secret.gguf"]);
    assert_eq!(listed(&dir.join("cache/models/hub/org")), ["secret.gguf"]);
}

#[test]
fn cve_2024_37032_path_traversal_in_a_servers_answers() {
    let server = Server::start(|path, start| {
        if path.starts_with("/api/") {
            let file = |name: &str, hash: &str| format!(r#"{{"rfilename":"{name}","lfs":{{"sha256":"{hash}"}}}}"#);
            let files = [
                file("model.gguf", "../../../../../planted"),
                file("../planted.gguf", ""),
                file("../../../../planted.gguf", ""),
                file("/planted.gguf", ""),
                file("a/../../planted.gguf", ""),
                file("..\\\\planted.gguf", ""),
            ];
            let json = format!(r#"{{"sha":"../../../planted","siblings":[{}]}}"#, files.join(","));
            return response("200 OK", &[length(json.len())], json.as_bytes());
        }
        // Servers may propose a name, too.
        let name = ("Content-Disposition", "attachment; filename=\"../../../planted.gguf\"".to_owned());
        let body = ranged(path.as_bytes(), start);
        if start.is_none() { response("200 OK", &[length(path.len()), name], path.as_bytes()) } else { body }
    });
    let dir = TempDir::new();
    let hub = Hub::new(&dir.join("a/b/cache"), &server.base);
    let fetched = hub.fetch("org/name", Sources::All, &mut |_, _| {}).unwrap();
    assert_eq!(fetched.path, dir.join("a/b/cache/models/hub/org/name/model.gguf"));
    assert_eq!(server.requests().len(), 2);
    assert!(server.requests()[1].starts_with("/org/name/resolve/main/model.gguf "), "{:?}", server.requests());
    for (folder, only) in
        [("", "a"), ("a", "b"), ("a/b", "cache"), ("a/b/cache/models/hub", "org"), ("a/b/cache/models/hub/org", "name")]
    {
        assert_eq!(listed(&dir.join(folder)), [only], "{folder}");
    }
    assert_eq!(listed(&fetched.path.with_file_name("")), ["model.gguf"]);
}

/// A hash is compared, and never a part of a path: what has another is not kept.
#[test]
fn cve_2026_7020_a_digest_that_is_a_path() {
    let server = Server::start(|path, start| ranged(path.as_bytes(), start));
    let dir = TempDir::new();
    let outside = dir.write("outside", b"secret");
    for digest in ["../outside", "sha256:../outside", "", &outside.to_string_lossy(), "../../../../../etc/passwd"] {
        fs::create_dir_all(dir.join("cache")).unwrap();
        let what = Download {
            url: format!("{}/file", server.base),
            sha256: Some(digest.to_owned()),
            limit: 1 << 20,
            ..Default::default()
        };
        let error = Client::default().download(&what, &dir.join("cache/file"), &mut |_, _| {}).expect_err(digest);
        assert!(matches!(error, Error::WrongHash { .. }), "{digest}: {error}");
        assert!(!dir.join("cache/file").exists());
        assert_eq!(fs::read(&outside).unwrap(), b"secret");
    }
}
