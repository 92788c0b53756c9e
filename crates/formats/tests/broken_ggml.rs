//! Whisper ggml files, sound and not: each broken one gives one sentence that names the file and the fault.

mod support;

use akunu_formats::{Container, Metadata};
use akunu_testkit::TempDir;
use support::*;

fn word(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend(value.to_le_bytes());
}

/// A tensor of F32 (type 0) with dimensions innermost first.
fn tensor(name: &[u8], dims: &[u32], id: u32, data: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    [dims.len() as u32, name.len() as u32, id].iter().for_each(|v| word(&mut bytes, *v));
    dims.iter().for_each(|d| word(&mut bytes, *d));
    bytes.extend(name);
    bytes.resize(bytes.len() + data, 1);
    bytes
}

fn header() -> Vec<u8> {
    let mut bytes = b"lmgg".to_vec();
    [51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1].iter().for_each(|v| word(&mut bytes, *v));
    bytes
}

fn file(tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header();
    [2, 3].iter().for_each(|v| word(&mut bytes, *v));
    bytes.resize(bytes.len() + 24, 0);
    word(&mut bytes, 2);
    for token in [&b"!"[..], b"\xff\x00"] {
        word(&mut bytes, token.len() as u32);
        bytes.extend(token);
    }
    tensors.iter().for_each(|t| bytes.extend(t));
    bytes
}

fn sound() -> Vec<u8> {
    file(&[tensor(b"encoder.conv1.bias", &[1, 3], 0, 12), tensor(b"a", &[3, 2], 1, 12)])
}

#[test]
fn the_sound_file_opens() {
    let dir = TempDir::new();
    let file = open(&dir.write("sound.bin", &sound())).unwrap();
    assert_eq!(file.container(), Container::Ggml);
    assert_eq!(file.tokens().collect::<Vec<_>>(), [&b"!"[..], b"\xff\x00"]);
    let shapes: Vec<_> = file.tensors().iter().map(|t| t.shape.clone()).collect();
    assert_eq!(shapes, [vec![3], vec![2, 3]]);
    let Metadata::Gguf(keys) = file.metadata() else { panic!("not GGUF's keys") };
    assert_eq!(keys.str("general.architecture").unwrap(), Some("whisper"));
    assert_eq!(keys.u64("whisper.encoder.block_count").unwrap(), Some(4));
    assert_eq!(keys.u64("whisper.decoder.feed_forward_length").unwrap(), Some(1536));
    read_everything(&file);
}

#[test]
fn every_prefix_ends_in_a_sentence_or_between_tensors() {
    let dir = TempDir::new();
    let bytes = sound();
    let ends = [file(&[]).len(), file(&[tensor(b"encoder.conv1.bias", &[1, 3], 0, 12)]).len()];
    for len in (0..bytes.len()).filter(|len| !ends.contains(len)) {
        message(&dir.write("cut.bin", &bytes[..len]));
    }
}

#[test]
fn each_fault_is_named() {
    let dir = TempDir::new();
    let mut llama = b"lmgg".to_vec();
    [32000, 4096, 256, 32, 32, 128, 2].iter().for_each(|v| word(&mut llama, *v));
    llama.extend([0xff; 100]);
    let mut filters = header();
    [u32::MAX, u32::MAX].iter().for_each(|v| word(&mut filters, *v));
    let mut tokens = header();
    [0, 0, u32::MAX].iter().for_each(|v| word(&mut tokens, *v));
    let rows = [
        ("another model", llama, "not supported: a ggml file from before GGUF that is not a Whisper model"),
        ("filters", filters, "the mel filters needs"),
        ("tokens", tokens, "a vocabulary of 4294967295 tokens needs"),
        ("no dimensions", file(&[tensor(b"a", &[], 0, 20)]), "has 0 dimensions"),
        ("many dimensions", file(&[tensor(b"a", &[1; 5], 0, 20)]), "has 5 dimensions"),
        ("no size", file(&[tensor(b"a", &[0, 4], 0, 20)]), "has a dimension of zero"),
        ("vast", file(&[tensor(b"a", &[u32::MAX; 4], 0, 20)]), "is too large to address"),
        ("long", file(&[tensor(b"a", &[1 << 30], 0, 20)]), "needs 4294967296 bytes"),
        ("format", file(&[tensor(b"a", &[4], 99, 20)]), "number format id 99"),
        ("blocks", file(&[tensor(b"a", &[33, 2], 8, 200)]), "not a whole number of Q8_0 blocks"),
        ("name", file(&[tensor(b"\xff\xfe", &[4], 0, 16)]), "is not UTF-8"),
        ("name length", file(&[tensor(&[b'a'; 2000], &[4], 0, 16)]), "over the limit of 1024"),
        ("twice", file(&[tensor(b"a", &[4], 0, 16), tensor(b"a", &[4], 0, 16)]), "appears twice"),
        ("rest", file(&[vec![0; 7]]), "tensor 0 needs"),
    ];
    for (name, bytes, expected) in rows {
        let message = message(&dir.write(&format!("{name}.bin"), &bytes));
        assert!(message.contains(expected), "{name}: expected {expected:?} in {message:?}");
    }
}
