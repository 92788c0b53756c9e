//! Downloads against a server of our own: whole, in ranges, interrupted, wrong, redirected, without end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::server::{Server, length, ranged, response, sample};
use akunu_hub::{ATTEMPTS, Client, Download, Error, Hub, Sources, sha256_of};
use akunu_testkit::TempDir;

fn client() -> Client {
    Client::new(Duration::from_secs(5))
}

fn download(server: &Server, path: &Path, sha256: Option<String>, limit: u64) -> Result<(), Error> {
    let what = Download { url: format!("{}/file", server.base), sha256, limit, token: None };
    client().download(&what, path, &mut |_, _| {})
}

#[test]
fn a_whole_file_comes_with_progress_and_leaves_nothing_beside_it() {
    let server = Server::start(|_, start| ranged(&sample(), start));
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let what = Download { url: format!("{}/file", server.base), limit: 1 << 30, ..Default::default() };
    let mut seen = Vec::new();
    client().download(&what, &path, &mut |done, total| seen.push((done, total))).unwrap();
    assert_eq!(fs::read(&path).unwrap(), sample());
    assert_eq!(seen.first(), Some(&(0, Some(300_000))));
    assert_eq!(seen.last(), Some(&(300_000, Some(300_000))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_earlier_part_is_continued_and_the_whole_checked() {
    let server = Server::start(|_, start| ranged(&sample(), start));
    let dir = TempDir::new();
    dir.write("a.part", &sample()[..100_000]);
    let hash = sha256_of(&dir.write("reference", &sample())).unwrap();
    download(&server, &dir.join("a"), Some(hash), 1 << 30).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    assert_eq!(server.requests(), ["/file 100000-"]);
}

#[test]
fn a_part_that_is_all_there_is_only_checked() {
    let server = Server::start(|_, start| ranged(&sample(), start));
    let dir = TempDir::new();
    dir.write("a.part", &sample());
    download(&server, &dir.join("a"), None, 1 << 30).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
}

#[test]
fn a_server_without_ranges_sends_it_whole_again() {
    let server = Server::start(|_, _| ranged(&sample(), None));
    let dir = TempDir::new();
    dir.write("a.part", b"something else");
    download(&server, &dir.join("a"), None, 1 << 30).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let server = Server::start(|_, start| {
        // No more than 100,000 bytes of the body at a time.
        let whole = ranged(&sample(), start);
        let body = whole.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        whole[..whole.len().min(body + 100_000)].to_vec()
    });
    let dir = TempDir::new();
    download(&server, &dir.join("a"), None, 1 << 30).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    assert_eq!(server.requests(), ["/file -", "/file 100000-", "/file 200000-"]);
}

#[test]
fn a_server_that_hangs_up_is_left_with_the_part_kept() {
    let server = Server::start(|_, start| match start {
        None => response("200 OK", &[length(300_000)], &sample()[..50_000]),
        Some(start) => {
            let range = format!("bytes {start}-299999/300000");
            response("206 Partial Content", &[length(300_000 - start), ("Content-Range", range)], b"")
        }
    });
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a"), None, 1 << 30).unwrap_err();
    assert_eq!(server.requests().len(), ATTEMPTS, "50,000 bytes are too few to begin counting again");
    assert!(error.to_string().ends_with("ended after 50000 bytes of 300000; fetch again to continue"), "{error}");
    assert_eq!(fs::metadata(dir.join("a.part")).unwrap().len(), 50_000);
    assert!(!dir.join("a").exists());
}

#[test]
fn a_wrong_hash_is_told_and_nothing_kept() {
    let server = Server::start(|_, start| ranged(&sample(), start));
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a"), Some("0".repeat(64)), 1 << 30).unwrap_err();
    assert!(matches!(error, Error::WrongHash { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_not_there_or_forbidden_says_so() {
    let server = Server::start(|path, _| match path {
        "/file" => response("404 Not Found", &[length(0)], b""),
        _ => response("403 Forbidden", &[length(0)], b""),
    });
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a"), None, 1 << 30).unwrap_err();
    assert_eq!(error.to_string(), format!("{}/file is not there (status 404)", server.base));
    let error = client().text(&format!("{}/other", server.base), None).unwrap_err().to_string();
    assert!(error.contains("status 403") && error.contains("HF_TOKEN"), "{error}");
}

#[test]
fn a_body_without_end_is_cut_at_the_limit() {
    // Without a length, the body ends with the connection.
    let server = Server::start(|_, _| response("200 OK", &[], &vec![7; 4 << 20]));
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a"), None, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let length = Server::start(|_, _| response("200 OK", &[length(usize::MAX / 2)], b"x"));
    let error = download(&length, &dir.join("a"), None, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn redirects_are_followed_with_the_hash_and_without_the_token() {
    let target = Server::start(|_, start| ranged(&sample(), start));
    let hash = "1".repeat(64);
    let (to, tag) = (format!("{}/blob", target.base), format!("\"{hash}\""));
    let hub = Server::start(move |path, _| match path {
        "/file" => {
            response("302 Found", &[length(0), ("Location", "/moved".into()), ("X-Linked-ETag", tag.clone())], b"")
        }
        _ => response("302 Found", &[length(0), ("Location", to.clone())], b""),
    });
    let dir = TempDir::new();
    let what = Download {
        url: format!("{}/file", hub.base),
        limit: 1 << 30,
        token: Some("secret".into()),
        ..Default::default()
    };
    let error = client().download(&what, &dir.join("a"), &mut |_, _| {}).unwrap_err();
    assert!(matches!(&error, Error::WrongHash { expected, .. } if *expected == hash), "{error}");
    assert_eq!(hub.requests(), ["/file - token", "/moved - token"]);
    assert_eq!(target.requests(), ["/blob -"]);
    let circle = Server::start(|_, _| response("302 Found", &[length(0), ("Location", "/file".into())], b""));
    let error = download(&circle, &dir.join("b"), None, 1 << 30).unwrap_err();
    assert!(matches!(error, Error::Redirects { .. }), "{error}");
}

#[test]
fn a_model_of_the_hub_is_fetched_listed_found_and_removed() {
    let server = Server::start(|path, start| match path {
        "/api/models/org/name/revision/main" => {
            let json = br#"{"siblings":[{"rfilename":"x-q4_k_m.gguf"},{"rfilename":"x-f16.gguf"},{"rfilename":"../../evil.gguf"}]}"#;
            response("200 OK", &[length(json.len())], json)
        }
        "/org/name/resolve/main/x-q4_k_m.gguf" => ranged(&sample(), start),
        _ => response("404 Not Found", &[length(0)], b""),
    });
    let dir = TempDir::new();
    let hub = Hub::new(dir.path(), &server.base);
    let missing = hub.path("org/name").unwrap_err().to_string();
    assert!(missing.contains("akunu models fetch org/name"), "{missing}");
    let path = hub.fetch("org/name", Sources::All, &mut |_, _| {}).unwrap().path;
    assert_eq!(fs::read(&path).unwrap(), sample());
    assert!(path.starts_with(dir.path()));
    assert_eq!(hub.path("org/name").unwrap(), path);
    let listed = hub.list().into_iter().find(|l| l.name == "org/name:x-q4_k_m.gguf").unwrap();
    assert_eq!((listed.bytes, listed.path.as_ref()), (300_000, Some(&path)));
    let before = server.requests().len();
    assert_eq!(hub.fetch("org/name:x-q4_k_m.gguf", Sources::All, &mut |_, _| {}).unwrap().path, path);
    assert_eq!(server.requests().len(), before, "what is there is not asked for again");
    assert_eq!(hub.remove("org/name").unwrap(), 300_000);
    assert!(!path.exists() && hub.path("org/name").is_err());
    let by_url =
        hub.fetch_url(&format!("{}/org/name/resolve/main/x-q4_k_m.gguf?x=1", server.base), None, &mut |_, _| {});
    assert_eq!(fs::read(by_url.unwrap().path).unwrap(), sample());
}

#[test]
fn a_directory_of_the_hub_comes_as_a_directory() {
    let server = Server::start(|path, start| {
        if path.starts_with("/api/") {
            let json = br#"{"siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"},{"rfilename":"pic.png"}]}"#;
            return response("200 OK", &[length(json.len())], json);
        }
        ranged(path.as_bytes(), start)
    });
    let dir = TempDir::new();
    let folder = Hub::new(dir.path(), &server.base).fetch("org/name", Sources::All, &mut |_, _| {}).unwrap().path;
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name()).collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors"]);
}

#[test]
fn names_that_are_not_names_are_refused_before_anything_is_asked() {
    let dir = TempDir::new();
    let hub = Hub::new(dir.path(), "http://127.0.0.1:9");
    for hostile in ["../../x", "/etc/passwd", "org/..", "org/name:../x", "org/name:/x", "..", "", "a b"] {
        let error = hub.fetch(hostile, Sources::All, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::BadName { .. } | Error::UnknownName { .. }), "{hostile:?}: {error}");
        assert!(hub.remove(hostile).is_err(), "{hostile:?}");
    }
    assert!(hub.fetch_url("http://127.0.0.1:9/..", None, &mut |_, _| {}).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn offline_says_what_was_tried() {
    let dir = TempDir::new();
    // Port 9 answers nobody.
    let error = Hub::new(dir.path(), "http://127.0.0.1:9").fetch("org/name", Sources::All, &mut |_, _| {}).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("http://127.0.0.1:9/api/models/org/name/revision/main?blobs=true cannot be reached: "),
        "{text}"
    );
}
