//! JSON of unknown origin, parsed within bounds.

use std::path::Path;

use akunu_limits::{Limits, over};
use serde_json::Value;

use crate::error::{Error, Fault};
use crate::map::read_bounded;

/// Reads and parses a configuration file. A parsed value costs up to some 500 bytes whatever it costs in the file (a map of
/// one entry is the worst), so values are counted before they are made.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Value, Error> {
    let mut bytes = read_bounded(path, over!(limits, config_bytes))?;
    let fail = |fault| Error::new(path, fault);
    let found = count_values(&bytes) as u64;
    if found > limits.config_values {
        let over = over!(limits, config_values);
        return Err(fail(Fault::Over { what: "the number of JSON values", found, over }));
    }
    drop_infinities(&mut bytes);
    serde_json::from_slice(&bytes).map_err(|e| fail(Fault::Json(e.to_string())))
}

/// Python writes `Infinity`, which is no JSON: outside strings it becomes null.
fn drop_infinities(bytes: &mut [u8]) {
    let (mut in_string, mut escaped) = (false, false);
    for at in 0..bytes.len() {
        match bytes[at] {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'I' if !in_string && bytes[at..].starts_with(b"Infinity") => {
                bytes[at..at + 8].copy_from_slice(b"null    ");
                if at > 0 && bytes[at - 1] == b'-' {
                    bytes[at - 1] = b' ';
                }
            }
            _ => {}
        }
    }
}

/// An upper bound of the values in a JSON text: one for each comma and opening bracket outside strings, and one more.
fn count_values(bytes: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for &b in bytes {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{count_values, drop_infinities};

    #[test]
    fn commas_and_brackets_inside_strings_are_not_values() {
        assert_eq!(count_values(br#"{"a,[{\",": [1, 2], "b": {}}"#), 6);
        assert_eq!(count_values(b"1"), 1);
    }

    #[test]
    fn infinities_are_null_outside_strings() {
        let mut bytes = br#"{"Infinity\"": [0, Infinity, -Infinity], "x": "-Infinity"}"#.to_vec();
        drop_infinities(&mut bytes);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value, serde_json::json!({"Infinity\"": [0, null, null], "x": "-Infinity"}));
    }
}
