//! Sound files with random bytes changed: opening never panics, and what opens can be read to the last byte.

mod support;

use akunu_testkit::TempDir;
use support::*;

/// Values that break things more often than random ones.
const EDGES: [u64; 8] = [0, 1, 31, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX];

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let value = EDGES[random.below(EDGES.len())].to_le_bytes();
                let count = value.len().min(bytes.len() - at);
                bytes[at..at + count].copy_from_slice(&value[..count]);
            }
            3 => bytes.insert(at, random.next() as u8),
            4 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => {
                let from = random.below(bytes.len());
                let count = random.below(16).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + count, at);
            }
        }
    }
}

fn run(name: &str, sound: &[u8], rounds: usize) {
    let dir = TempDir::new();
    let mut random = Random(0x0a11_ce5e);
    let (mut opened, mut sum) = (0, 0u64);
    for round in 0..rounds {
        let mut bytes = sound.to_vec();
        mutate(&mut random, &mut bytes);
        let path = dir.write(name, &bytes);
        match open(&path) {
            Ok(file) => {
                opened += 1;
                sum ^= read_everything(&file);
            }
            Err(e) => assert!(e.to_string().starts_with(&*path.to_string_lossy()), "round {round}: {e}"),
        }
    }
    // Both outcomes must occur, or the test tests nothing.
    assert!(opened > 0 && opened < rounds, "{opened} of {rounds} opened (checksum {sum:x})");
}

#[test]
fn gguf() {
    run("m.gguf", &Gguf::default().bytes(), 20_000);
}

#[test]
fn safetensors_file() {
    run("m.safetensors", &safetensors(SAFETENSORS, SAFETENSORS_DATA), 20_000);
}

#[test]
fn mlx_directory() {
    let dir = TempDir::new();
    let (config, weights) = mlx();
    let mut random = Random(7);
    let (mut opened, rounds) = (0, 20_000);
    for _ in 0..rounds {
        let (mut config, mut weights) = (config.clone(), weights.clone());
        let target = if random.below(2) == 0 { &mut config } else { &mut weights };
        mutate(&mut random, target);
        dir.write("config.json", &config);
        dir.write("model.safetensors", &weights);
        if let Ok(file) = open(dir.path()) {
            opened += 1;
            read_everything(&file);
        }
    }
    assert!(opened > 0 && opened < rounds, "{opened} of {rounds} opened");
}

/// A model of one quantized tensor: `[2, 64]` at 4 bits in groups of 32.
fn mlx() -> (Vec<u8>, Vec<u8>) {
    let config = br#"{"quantization":{"group_size":32,"bits":4,"m.x":{"group_size":32,"bits":4}}}"#;
    let header = concat!(
        r#"{"m.x.weight":{"dtype":"U32","shape":[2,8],"data_offsets":[0,64]},"#,
        r#""m.x.scales":{"dtype":"F16","shape":[2,2],"data_offsets":[64,72]},"#,
        r#""m.x.biases":{"dtype":"F16","shape":[2,2],"data_offsets":[72,80]}}"#
    );
    (config.to_vec(), safetensors(header, 80))
}
