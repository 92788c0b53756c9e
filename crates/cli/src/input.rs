//! Text from files and from standard input: UTF-8, or one sentence that says where it is not.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::Result;

use crate::failure::{NextStep, failure};

/// The longest text that is read; a book has a few megabytes.
const MAX_BYTES: u64 = 1 << 30;

/// A file's text; `-` is standard input.
pub fn file(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return stdin();
    }
    let name = path.display();
    let next = "check the path and its permissions";
    let file = File::open(path).or_fail(|e| format!("{name}: cannot be opened: {e}"), next)?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(failure(format!("{name}: is a directory, not a file"), "give a text file"));
    }
    text(file, &name.to_string())
}

/// All of standard input.
pub fn stdin() -> Result<String> {
    text(io::stdin().lock(), "standard input")
}

/// Whether something other than a person is at the other end.
pub fn stdin_is_piped() -> bool {
    !io::stdin().is_terminal()
}

fn text(source: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let next = "check the path and its permissions";
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).or_fail(|e| format!("{name}: cannot be read: {e}"), next)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failure(format!("{name}: is longer than {MAX_BYTES} bytes"), "give a shorter text"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        failure(format!("{name}: is not UTF-8 at byte {at}"), "convert it to UTF-8 first")
    })
}
