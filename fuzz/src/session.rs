//! Session files of the embedded model.

use std::cell::RefCell;

use akunu::{Device, Engine, LoadOptions};
use akunu_testkit::TempDir;

use crate::is_a_sentence;

/// Where a session file has the fingerprint of its model.
const FINGERPRINT: std::ops::Range<usize> = 12..44;

struct Loaded {
    engine: Engine,
    fingerprint: Vec<u8>,
}

thread_local! {
    static LOADED: RefCell<Loaded> = RefCell::new(Loaded::new());
}

impl Loaded {
    fn new() -> Self {
        let options = LoadOptions { device: Device::Reference, context: Some(256), ..LoadOptions::default() };
        let mut engine = Engine::embedded(options).expect("the embedded model loads");
        let dir = TempDir::new();
        let empty = engine.sequence();
        engine.save_session(&dir.join("s"), &empty, &[], "").expect("an empty session can be kept");
        let bytes = std::fs::read(dir.join("s")).expect("it was just written");
        Self { engine, fingerprint: bytes[FINGERPRINT].to_vec() }
    }
}

/// A session file. The fingerprint of the model is written into it, as nobody guesses it.
pub fn session(bytes: &[u8]) {
    LOADED.with_borrow_mut(|loaded| {
        let mut bytes = bytes.to_vec();
        if let Some(fingerprint) = bytes.get_mut(FINGERPRINT) {
            fingerprint.copy_from_slice(&loaded.fingerprint);
        }
        let dir = TempDir::new();
        match loaded.engine.load_session(&dir.write("s", &bytes)) {
            Ok(session) => assert!(session.sequence.len() <= session.tokens.len()),
            Err(error) => is_a_sentence(&error),
        }
    });
}
