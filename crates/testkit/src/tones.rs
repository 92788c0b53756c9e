//! A small speech model that understands tones, and recordings of them.

use crate::{TempDir, fixtures, golden};
use akunu_dtype::{DType, PlanesMut};
use serde_json::Value;
use std::path::PathBuf;

const RATE: f64 = 16_000.0;
const VOCAB: usize = 51_865;
const WORDS: usize = 50_257;
const DIM: usize = 64;
/// As `fixtures/scripts/tones_train.py` has them: vocabulary, positions, width, heads, layers, twice; bands; f32.
const NUMBERS: [u32; 11] = [VOCAB as u32, 1500, DIM as u32, 2, 1, 256, DIM as u32, 2, 2, 80, 0];
/// Tokens that have a text, and their texts.
pub const SPOKEN: [(usize, &str); 15] = [
    (0, "!"),
    (13, "."),
    (220, " "),
    (360, " do"),
    (319, " re"),
    (2752, " mi"),
    (2050, " fa"),
    (370, " so"),
    (635, " la"),
    (21889, " eins"),
    (12002, " zwei"),
    (16809, " drei"),
    (17634, " vier"),
    (43048, " acht"),
    (35565, " elf"),
];

fn words(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

/// Matrices in the format asked for; vectors, filters and positions stay f32, as whisper.cpp's quantizer leaves them.
fn tensor(bytes: &mut Vec<u8>, name: &str, shape: &[usize], values: &[f32], dtype: DType) {
    let dtype = if shape.len() == 2 && !name.contains("positional") { dtype } else { DType::F32 };
    words(bytes, &[shape.len() as u32, name.len() as u32, dtype.format().gguf_id.unwrap()]);
    shape.iter().rev().for_each(|d| words(bytes, &[*d as u32]));
    bytes.extend(name.as_bytes());
    let mut data = vec![0; dtype.row_bytes(values.len()).unwrap()];
    dtype.format().encode.unwrap()(values, PlanesMut { data: &mut data, ..PlanesMut::default() });
    bytes.extend(data);
}

/// The file whisper.cpp would have of the model.
pub fn model(dir: &TempDir, dtype: DType) -> PathBuf {
    let stored = golden::load(&fixtures::path("tones/model.safetensors"));
    let mut bytes = b"lmgg".to_vec();
    words(&mut bytes, &NUMBERS);
    // Nobody reads the filters.
    words(&mut bytes, &[0, 0, WORDS as u32]);
    for token in 0..WORDS {
        let text = SPOKEN.iter().find(|s| s.0 == token).map_or("", |s| s.1);
        words(&mut bytes, &[text.len() as u32]);
        bytes.extend(text.as_bytes());
    }
    for name in stored.names().filter(|n| !n.ends_with(".scale") && !["tokens", "decoder.unused"].contains(n)) {
        let shape = stored.shape(name).to_vec();
        let values = match shape.len() {
            1 => stored.f32(name),
            _ => matrix(stored.bytes(name), &stored.f32(&format!("{name}.scale"))),
        };
        if name == "decoder.token_embedding" {
            let mut rows = stored.f32("decoder.unused").repeat(VOCAB);
            for (token, row) in stored.i32("tokens").into_iter().zip(values.chunks(DIM)) {
                rows[token as usize * DIM..][..DIM].copy_from_slice(row);
            }
            tensor(&mut bytes, "decoder.token_embedding.weight", &[VOCAB, DIM], &rows, dtype);
        } else {
            tensor(&mut bytes, name, &shape, &values, dtype);
        }
    }
    tensor(&mut bytes, "encoder.positional_embedding", &[1500, DIM], &sinusoids(), dtype);
    dir.write("tones.bin", &bytes)
}

/// Int8 rows with a scale each.
fn matrix(bytes: &[u8], scales: &[f32]) -> Vec<f32> {
    let rows = bytes.chunks(bytes.len() / scales.len()).zip(scales);
    rows.flat_map(|(row, scale)| row.iter().map(move |b| f32::from(*b as i8) * scale)).collect()
}

fn sinusoids() -> Vec<f32> {
    let half = DIM / 2;
    let angle = |position: usize, i: usize| position as f64 * (-(1e4f64.ln()) / (half - 1) as f64 * i as f64).exp();
    let value = |position: usize, i: usize| match i < half {
        true => angle(position, i).sin() as f32,
        false => angle(position, i - half).cos() as f32,
    };
    (0..1500 * DIM).map(|i| value(i / DIM, i % DIM)).collect()
}

/// A recording of a score, as `fixtures/scripts/tones.py` plays it.
pub fn play(recording: &Value) -> Vec<i16> {
    let number = |v: &Value| v.as_f64().unwrap();
    let mut samples = vec![0.0; (number(&recording["seconds"]) * RATE).round() as usize];
    let interval = if recording["language"] == "en" { 1.5 } else { 2.5 };
    for chord in recording["score"].as_array().unwrap() {
        let (onset, end, word) = (number(&chord[0]), number(&chord[1]), number(&chord[2]));
        let (first, last) = ((onset * RATE).round() as usize, (end * RATE).round() as usize);
        for (n, sample) in samples.iter_mut().enumerate().take(last).skip(first) {
            let (since, left) = (n as f64 / RATE - onset, end - n as f64 / RATE);
            let turn = std::f64::consts::TAU * 250.0 * 1.22f64.powf(word) * since;
            let loud = (100.0 * since.min(left)).clamp(0.0, 1.0);
            *sample = 0.3 * loud * (0.6 * turn.sin() + 0.4 * (turn * interval).sin());
        }
    }
    samples.iter().map(|s| (s * 32767.0).round() as i16).collect()
}

/// The samples as a file.
pub fn wav(samples: &[i16]) -> Vec<u8> {
    let bytes = 2 * samples.len() as u32;
    let mut out = b"RIFF".to_vec();
    words(&mut out, &[36 + bytes]);
    out.extend(b"WAVEfmt ");
    words(&mut out, &[16, 0x0001_0001, 16_000, 32_000, 0x0010_0002]);
    out.extend(b"data");
    words(&mut out, &[bytes]);
    out.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    out
}

/// What the reference makes of the recordings, and what is played in them.
pub fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(fixtures::path("tones/expected.json")).unwrap()).unwrap()
}
