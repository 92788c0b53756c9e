//! GGUF files that must not open: each gives one sentence that names the file and the fault, and little memory.

mod support;

use akunu_testkit::TempDir;
use support::*;

/// Runs every row, and reports every row that fails.
fn table(rows: Vec<(&str, Vec<u8>, &str)>) {
    let dir = TempDir::new();
    let mut failures = Vec::new();
    for (name, bytes, expected) in rows {
        let message = message(&dir.write(&format!("{}.gguf", name.replace([' ', '/'], "-")), &bytes));
        if !message.contains(expected) {
            failures.push(format!("{name}: expected {expected:?} in {message:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn sound() -> Gguf {
    Gguf::default()
}

/// The sound file with one more key.
fn with_key(key: Vec<u8>) -> Vec<u8> {
    let mut file = sound();
    file.keys.push(key);
    file.bytes()
}

/// A file without keys that has these tensors and this much data.
fn with_tensors(infos: Vec<Vec<u8>>, data: usize) -> Vec<u8> {
    Gguf { keys: Vec::new(), infos, data, ..sound() }.bytes()
}

fn patched(change: impl FnOnce(&mut Gguf)) -> Vec<u8> {
    let mut file = sound();
    change(&mut file);
    file.bytes()
}

#[test]
fn the_sound_file_opens() {
    let dir = TempDir::new();
    for version in [2, 3] {
        let file = open(&dir.write("sound.gguf", &patched(|f| f.version = version))).unwrap();
        assert_eq!(file.tensors().len(), 2);
        assert_eq!(file.tensors()[1].shape, [2, 32]);
        read_everything(&file);
    }
}

#[test]
fn every_prefix_of_a_sound_file_is_an_error() {
    let dir = TempDir::new();
    let bytes = sound().bytes();
    for len in 0..bytes.len() {
        message(&dir.write("cut.gguf", &bytes[..len]));
    }
}

#[test]
fn wrong_magic_and_versions() {
    table(vec![
        ("another magic", patched(|f| f.magic = *b"ABCD"), "neither a GGUF file"),
        ("swapped magic", patched(|f| f.magic = *b"FUGG"), "not supported: a big-endian GGUF file"),
        ("old ggml", patched(|f| f.magic = *b"tjgg"), "not supported: a ggml file from before GGUF"),
        ("version 0", patched(|f| f.version = 0), "not supported: GGUF version 0"),
        ("version 1", patched(|f| f.version = 1), "not supported: GGUF version 1"),
        ("version 4", patched(|f| f.version = 4), "not supported: GGUF version 4"),
        ("swapped version", patched(|f| f.version = 3u32.swap_bytes()), "not supported: a big-endian GGUF file"),
    ]);
}

#[test]
fn counts_beyond_the_file() {
    for count in [1 << 20, 1 << 32, 1 << 63, u64::MAX, u64::MAX / 13 + 1] {
        let text = |what: &str| format!("{what} of {count}");
        table(vec![
            ("keys", patched(|f| f.key_count = Some(count)), &text("metadata")),
            ("tensors", patched(|f| f.tensor_count = Some(count)), &text("the list")),
            ("numbers", with_key(key("k", ARRAY, array(U32, count, [0; 64]))), &text("the array")),
            ("strings", with_key(key("k", ARRAY, array(STRING, count, [0; 64]))), &text("the array")),
            ("bools", with_key(key("k", ARRAY, array(BOOL, count, [0; 64]))), &text("the array")),
        ]);
        let length = count.to_le_bytes();
        table(vec![
            ("key length", with_key([&length[..], b"key"].concat()), "key 9 needs"),
            ("string length", with_key(key("k", STRING, length)), "the value of key \"k\" needs"),
            ("element length", with_key(key("k", ARRAY, array(STRING, 1, length))), "string 0 of key \"k\" needs"),
            ("name length", with_tensors(vec![[&length[..], &[0; 64]].concat()], 0), "the name of tensor 0 needs"),
        ]);
    }
}

#[test]
fn one_key_or_tensor_too_many_or_too_few() {
    table(vec![
        ("one key more", patched(|f| f.key_count = Some(10)), ""),
        ("one key less", patched(|f| f.key_count = Some(8)), ""),
        ("one tensor more", patched(|f| f.tensor_count = Some(3)), ""),
    ]);
}

#[test]
fn lengths_over_their_limits() {
    let long = "n".repeat(70_000);
    let many: Vec<_> = (0..70_000u32).map(|i| key(i.to_string(), BOOL, [0])).collect();
    table(vec![
        ("long key", with_key(key(&long, BOOL, [0])), "the length of key 9 is 70000, over the limit of 65535"),
        ("long name", with_tensors(vec![info(&long, &[4], 0, 0)], 16), "over the limit of 1024"),
        ("many keys", patched(|f| f.keys = many), "the number of keys is 70000, over the limit of 65536"),
    ]);
}

#[test]
fn strings_that_are_not_utf8() {
    let bad = b"\xff\xfe";
    table(vec![
        ("key", with_key(key(bad, BOOL, [0])), "key 9 at offset"),
        ("value", with_key(key("k", STRING, string(bad))), "the value of key \"k\" at offset"),
        ("element", with_key(key("k", ARRAY, array(STRING, 1, string(bad)))), "string 0 of key \"k\" at offset"),
        ("surrogate", with_key(key("k", STRING, string(b"\xed\xa0\x80"))), "is not UTF-8"),
        ("name", with_tensors(vec![info(bad, &[4], 0, 0)], 16), "the name of tensor 0 at offset"),
    ]);
}

#[test]
fn types_that_do_not_exist_or_do_not_fit() {
    let nested = array(ARRAY, 1, array(U32, 1, [0; 4]));
    let deep = (0..10_000).fold(Vec::new(), |inner, _| array(ARRAY, 1, inner));
    table(vec![
        ("value type", with_key(key("k", 13, [0; 8])), "key \"k\" has type id 13"),
        ("value type 2^32-1", with_key(key("k", u32::MAX, [0; 8])), "key \"k\" has type id 4294967295"),
        ("element type", with_key(key("k", ARRAY, array(99, 1, [0; 8]))), "key \"k\" has type id 99"),
        ("nested array", with_key(key("k", ARRAY, nested)), "not supported: an array of arrays in key \"k\""),
        ("deep array", with_key(key("k", ARRAY, deep)), "not supported: an array of arrays"),
        ("bool of 2", with_key(key("k", BOOL, [2])), "key \"k\" must be a bool of 0 or 1"),
        ("bools of 2", with_key(key("k", ARRAY, array(BOOL, 3, [0, 1, 2]))), "element 2 of key \"k\" must be a bool"),
        (
            "alignment is a string",
            with_tensors_aligned(key("general.alignment", STRING, string("32"))),
            "must be a non-negative",
        ),
        ("split is a string", with_key(key("split.count", STRING, string("2"))), "key \"split.count\" must be"),
    ]);
}

fn with_tensors_aligned(key: Vec<u8>) -> Vec<u8> {
    Gguf { keys: vec![key], ..sound() }.bytes()
}

#[test]
fn alignments_that_are_not_powers_of_two() {
    for value in [0u32, 1, 3, 24, 33, 1 << 31, u32::MAX] {
        let bytes = with_tensors_aligned(key("general.alignment", U32, value.to_le_bytes()));
        table(vec![("alignment", bytes, "key \"general.alignment\" must be a power of two")]);
    }
    let bytes = with_tensors_aligned(key("general.alignment", U64, (1u64 << 63).to_le_bytes()));
    table(vec![("alignment 2^63", bytes, "key \"general.alignment\" must be a power of two")]);
}

#[test]
fn duplicates() {
    let twice = vec![info("t", &[4], 0, 0), info("t", &[4], 0, 32)];
    table(vec![
        ("key", with_key(key("llama.eps", BOOL, [0])), "key \"llama.eps\" appears twice"),
        ("tensor", with_tensors(twice, 64), "tensor \"t\" appears twice"),
    ]);
}

#[test]
fn shapes_that_cannot_be() {
    let one = |dims: &[u64], kind| with_tensors(vec![info("t", dims, kind, 0)], 64);
    let big = 1 << 32;
    table(vec![
        ("no dimension", one(&[], 0), "tensor \"t\" has 0 dimensions, but must have 1 to 4"),
        ("five dimensions", one(&[1; 5], 0), "tensor \"t\" has 5 dimensions"),
        ("zero", one(&[0], 0), "tensor \"t\" has a dimension of zero"),
        ("inner zero", one(&[4, 0, 4], 0), "tensor \"t\" has a dimension of zero: [4, 0, 4]"),
        ("2^63", one(&[1 << 63], 0), "tensor \"t\" is too large"),
        ("2^64-1", one(&[u64::MAX], 0), "tensor \"t\" is too large"),
        ("product over 2^64", one(&[big, big, big], 0), "tensor \"t\" is too large"),
        ("product of 2^64", one(&[big, big], 2), "tensor \"t\" is too large"),
        ("bytes over 2^64", one(&[1 << 31, 1 << 32], 0), "tensor \"t\" is too large"),
        ("part of a block", one(&[33], 2), "tensor \"t\" has rows of 33 values, which is not a whole number of Q4_0"),
        ("part of a superblock", one(&[32, 8], 14), "not a whole number of Q6_K blocks of 256"),
        ("unknown type", one(&[4], 31), "not supported: number format id 31 of tensor \"t\""),
        ("type 2^32-1", one(&[4], u32::MAX), "number format id 4294967295"),
    ]);
}

#[test]
fn tensors_outside_the_file_or_on_top_of_each_other() {
    let one = |dims: &[u64], offset| with_tensors(vec![info("t", dims, 0, offset)], 64);
    let overlapping = vec![info("t", &[16], 0, 0), info("u", &[4], 0, 32)];
    let same = vec![info("t", &[4], 0, 0), info("u", &[4], 0, 0)];
    let inside = vec![info("t", &[4], 0, 32), info("u", &[32], 0, 0)];
    table(vec![
        ("too long", one(&[17], 0), "tensor \"t\" needs 68 bytes at offset 64, but the file ends after 128"),
        ("far too long", one(&[1 << 40], 0), "tensor \"t\" needs 4398046511104 bytes at offset 64"),
        ("starts at the end", one(&[1], 64), "tensor \"t\" needs 4 bytes at offset 128"),
        ("starts after the end", one(&[4], 1 << 40), "tensor \"t\" needs 16 bytes"),
        ("offset 2^63", one(&[4], 1 << 63), "tensor \"t\" needs 16 bytes"),
        ("offset 2^64-32", one(&[4], u64::MAX - 31), "tensor \"t\" needs 16 bytes"),
        ("offset 1", one(&[4], 1), "tensor \"t\" starts at offset 1, which is not a multiple of 32"),
        ("offset 2^64-1", one(&[4], u64::MAX), "which is not a multiple of 32"),
        ("overlap", with_tensors(overlapping, 64), "tensors \"t\" and \"u\" overlap"),
        ("same place", with_tensors(same, 64), "overlap"),
        ("one inside another", with_tensors(inside, 128), "tensors \"u\" and \"t\" overlap"),
    ]);
}

#[test]
fn hostile_names_are_escaped_and_cut() {
    let dir = TempDir::new();
    let path = dir.write("t.gguf", &with_tensors(vec![info("a\n\u{1b}[31m\"b", &[0], 0, 0)], 0));
    assert!(message(&path).contains(r#"tensor "a\n\u{1b}[31m\"b" has"#));
    let path = dir.write("t.gguf", &with_tensors(vec![info("é".repeat(500), &[0], 0, 0)], 0));
    assert!(message(&path).contains("éé…\" has"));
}

/// The most tensors there may be, all sound but the last.
#[test]
fn a_fault_at_the_end_of_a_long_list_costs_little() {
    let dir = TempDir::new();
    let count = 1 << 17;
    let mut infos: Vec<_> = (0..count).map(|i| info(format!("t{i}"), &[1], 0, 32 * i)).collect();
    let file = |infos| Gguf { keys: Vec::new(), infos, data: 32 * count as usize, ..sound() }.bytes();
    infos[count as usize - 1] = info("t1", &[1], 0, 32 * (count - 1));
    let path = dir.write("long.gguf", &file(infos.clone()));
    assert!(message(&path).contains("tensor \"t1\" appears twice"));
    infos.push(info("t", &[1], 0, 0));
    let path = dir.write("long.gguf", &file(infos));
    assert!(message(&path).contains("the number of tensors is 131073, over the limit tensors of 131072"));
}
