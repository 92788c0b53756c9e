//! Text from files and from standard input: UTF-8, or one sentence that says where it is not.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use akunu::{Limits, over};
use anyhow::Result;

use crate::failure::{NextStep, failure};

/// A file's text; `-` is standard input.
pub fn file(path: &Path, limits: Limits) -> Result<String> {
    if path.as_os_str() == "-" {
        return stdin(limits);
    }
    let name = path.display();
    let next = "check the path and its permissions";
    let file = File::open(path).or_fail(|e| format!("{name}: cannot be opened: {e}"), next)?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(failure(format!("{name}: is a directory, not a file"), "give a text file"));
    }
    text(file, &name.to_string(), limits)
}

/// All of standard input.
pub fn stdin(limits: Limits) -> Result<String> {
    text(io::stdin().lock(), "standard input", limits)
}

/// Whether something other than a person is at the other end.
pub fn stdin_is_piped() -> bool {
    !io::stdin().is_terminal()
}

fn text(source: impl Read, name: &str, limits: Limits) -> Result<String> {
    let mut bytes = Vec::new();
    let next = "check the path and its permissions";
    source
        .take(limits.text_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .or_fail(|e| format!("{name}: cannot be read: {e}"), next)?;
    if bytes.len() as u64 > limits.text_bytes {
        let over = over!(limits, text_bytes);
        return Err(over).or_fail(|_| format!("{name}: is longer than {over} bytes"), "give a shorter text");
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        failure(format!("{name}: is not UTF-8 at byte {at}"), "convert it to UTF-8 first")
    })
}
