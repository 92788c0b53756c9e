//! Safetensors files and directories that must not open.

mod support;

use akunu_testkit::TempDir;
use support::*;

/// Headers over 16 bytes of data.
fn headers(rows: &[(&str, &str, &str)]) {
    let dir = TempDir::new();
    let mut failures = Vec::new();
    for (name, header, expected) in rows {
        let message = message(&dir.write("model.safetensors", &safetensors(header, 16)));
        if !message.contains(expected) {
            failures.push(format!("{name}: expected {expected:?} in {message:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_sound_file_opens() {
    let dir = TempDir::new();
    let file = open(&dir.write("x", &safetensors(SAFETENSORS, SAFETENSORS_DATA))).unwrap();
    let names: Vec<_> = file.tensors().iter().map(|t| (t.name.as_str(), &t.shape[..])).collect();
    assert_eq!(names, [("a.weight", &[2, 4][..]), ("b", &[1]), ("ids", &[2])]);
    read_everything(&file);
}

#[test]
fn every_prefix_of_a_sound_file_is_an_error() {
    let dir = TempDir::new();
    let bytes = safetensors(SAFETENSORS, SAFETENSORS_DATA);
    for len in 0..bytes.len() {
        message(&dir.write("cut.safetensors", &bytes[..len]));
    }
}

#[test]
fn header_lengths_beyond_the_file() {
    let dir = TempDir::new();
    for (length, expected) in [
        (0, "neither a GGUF"),
        (1, "is not valid: its header says"),
        (99_999_999, "the header needs 99999999 bytes at offset 8, but the file ends after"),
        (100_000_001, "the header's length is 100000001, over the limit of 100000000"),
        (1 << 63, "over the limit of 100000000"),
        (u64::MAX, "over the limit of 100000000"),
    ] {
        let mut bytes = safetensors(SAFETENSORS, SAFETENSORS_DATA);
        bytes[..8].copy_from_slice(&u64::to_le_bytes(length));
        let message = message(&dir.write("model.safetensors", &bytes));
        assert!(message.contains(expected), "{length}: {message}");
    }
}

#[test]
fn headers_that_are_not_what_they_should_be() {
    headers(&[
        ("empty object", "{}", "16 bytes at offset 10 belong to no tensor"),
        ("not closed", r#"{"a":"#, "EOF while parsing"),
        ("two objects", "{}{}", "trailing characters"),
        ("number", r#"{"a":1}"#, "of tensor \"a\": invalid type: integer"),
        ("list", r#"{"a":[]}"#, "invalid type: sequence"),
        ("null", r#"{"a":null}"#, "invalid type: null"),
        ("metadata of numbers", r#"{"__metadata__":{"a":1}}"#, "invalid type: integer"),
        ("metadata is a list", r#"{"__metadata__":[]}"#, "__metadata__"),
        ("no dtype", r#"{"a":{"shape":[4],"data_offsets":[0,16]}}"#, "missing field `dtype`"),
        ("no shape", r#"{"a":{"dtype":"F32","data_offsets":[0,16]}}"#, "missing field `shape`"),
        ("no offsets", r#"{"a":{"dtype":"F32","shape":[4]}}"#, "missing field `data_offsets`"),
        ("another field", r#"{"a":{"dtype":"F32","shape":[4],"x":[],"data_offsets":[0,16]}}"#, "unknown field \"x\""),
        ("field twice", r#"{"a":{"dtype":"F32","dtype":"F32"}}"#, "field dtype appears twice"),
        ("unknown dtype", r#"{"a":{"dtype":"F7","shape":[4],"data_offsets":[0,16]}}"#, "dtype \"F7\" is not supported"),
        ("dtype is a number", r#"{"a":{"dtype":1,"shape":[4],"data_offsets":[0,16]}}"#, "expected a string"),
        ("escaped surrogate", r#"{"\ud800":{}}"#, "hex escape"),
    ]);
    let dir = TempDir::new();
    let bytes = safetensors(b"{\"\xff\":{}}", 16);
    assert!(message(&dir.write("x", &bytes)).contains("invalid unicode"));
}

#[test]
fn offsets_that_cannot_be() {
    let offsets =
        |shape: &str, offsets: &str| format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
    for (shape, range, expected) in [
        ("[4]", "[-1,16]", "invalid value: integer `-1`"),
        ("[4]", "[0.0,16]", "invalid type: floating point"),
        ("[4]", "[0,1e2]", "invalid type: floating point"),
        ("[4]", "[0,18446744073709551616]", "invalid type: floating point"),
        ("[4]", "[\"0\",16]", "invalid type: string"),
        ("[4]", "[16,0]", "data_offsets end at 0, before their start at 16"),
        ("[4]", "[16]", "data_offsets must be two numbers"),
        ("[4]", "[0,16,32]", "invalid length 3"),
        ("[4]", "[0,12]", "tensor \"a\" has 12 bytes, but its shape and type need 16"),
        ("[5]", "[0,20]", "tensor \"a\" needs 20 bytes at offset"),
        ("[4]", "[9223372036854775808,9223372036854775824]", "tensor \"a\" needs 16 bytes at offset 9223372036854775"),
        ("[4]", "[18446744073709551599,18446744073709551615]", "tensor \"a\" needs 16 bytes"),
        ("[9223372036854775808]", "[0,16]", "tensor \"a\" is too large"),
        ("[4294967296,4294967296]", "[0,0]", "tensor \"a\" is too large"),
        ("[0]", "[0,0]", "tensor \"a\" has a dimension of zero"),
        ("[-4]", "[0,16]", "invalid value: integer `-4`"),
        ("[4.5]", "[0,16]", "invalid type: floating point"),
        ("[[4]]", "[0,16]", "invalid type: sequence"),
        ("[1,1,1,1,1,1,1,1,4]", "[0,16]", "invalid length 9"),
        ("[2]", "[0,8]", "8 bytes at offset"),
        ("[2]", "[8,16]", "8 bytes at offset"),
    ] {
        headers(&[(range, &offsets(shape, range), expected)]);
    }
}

#[test]
fn tensors_twice_or_on_top_of_each_other() {
    let tensor = |name: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"U8","shape":[{}],"data_offsets":[{from},{to}]}}"#, to - from)
    };
    let two = |a: String, b: String| format!("{{{a},{b}}}");
    headers(&[
        ("twice", &two(tensor("a", 0, 8), tensor("a", 8, 16)), "tensor \"a\" appears twice"),
        ("overlap", &two(tensor("a", 0, 9), tensor("b", 8, 16)), "tensors \"a\" and \"b\" overlap"),
        ("same", &two(tensor("a", 0, 16), tensor("b", 0, 16)), "overlap"),
        ("hole", &two(tensor("a", 0, 7), tensor("b", 8, 16)), "1 bytes at offset"),
    ]);
}

#[test]
fn bombs_of_json_cost_little() {
    let dir = TempDir::new();
    let nested = |open: &str, n: usize| open.repeat(n);
    for (header, expected) in [
        (format!("{{\"a\":{}", nested("[", 1_000_000)), "is not valid"),
        (nested("{\"a\":", 1_000_000), "is not valid"),
        (format!("{{\"__metadata__\":{}", nested("{\"a\":", 1_000_000)), "is not valid"),
        (format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{}", nested("1,", 10_000_000)), "invalid length 9"),
        (format!("{{{}\"a\":0}}", nested("\"a\":0,", 10_000_000)), "invalid type"),
    ] {
        let path = dir.write("bomb.safetensors", &safetensors(&header, 0));
        drop(header);
        assert!(message(&path).contains(expected));
    }
}
