//! Model files: opened, read to the last byte, and understood.

use std::path::Path;

use akunu_arch::Model;
use akunu_formats::{Metadata, ModelFile, gguf::Value};
use akunu_testkit::TempDir;
use akunu_text::Ranked;
use serde_json::{Map, json};

use crate::{halves, is_a_sentence};

/// A GGUF file.
pub fn gguf(bytes: &[u8]) {
    let dir = TempDir::new();
    if let Some(file) = open(&dir.write("m.gguf", bytes)) {
        understand(&file);
    }
}

/// A Whisper file from before GGUF, with its vocabulary.
pub fn ggml(bytes: &[u8]) {
    let dir = TempDir::new();
    let Some(file) = open(&dir.write("m.bin", bytes)) else { return };
    understand(&file);
    match Ranked::new(file.tokens()) {
        Err(error) => is_a_sentence(&error),
        Ok(words) => {
            if let Err(error) = words.encode("It is what it is: 3.14 \u{e9}t\u{e9}s") {
                is_a_sentence(&error);
            }
            words.as_byte_pairs();
        }
    }
}

/// An index and the shard `a.safetensors`, or one file of weights.
pub fn safetensors(bytes: &[u8]) {
    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    match halves(bytes) {
        (weights, None) => dir.write("model.safetensors", weights),
        (index, Some(shard)) => {
            dir.write("a.safetensors", shard);
            dir.write("model.safetensors.index.json", index)
        }
    };
    open(dir.path());
}

/// A `config.json` beside sound weights, those of a small Llama, and a `modules.json`.
pub fn config(bytes: &[u8]) {
    let dir = TempDir::new();
    let (config, modules) = halves(bytes);
    dir.write("config.json", config);
    if let Some(modules) = modules {
        dir.write("modules.json", modules);
    }
    dir.write("model.safetensors", &small_llama());
    if let Some(file) = open(dir.path()) {
        understand(&file);
    }
}

/// Opens a model and reads everything that it offers.
fn open(path: &Path) -> Option<ModelFile> {
    let file = match ModelFile::open(path) {
        Ok(file) => file,
        Err(error) => {
            is_a_sentence(&error);
            return None;
        }
    };
    let touch = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum ^ byte);
    for tensor in file.tensors() {
        let planes = file.planes(tensor);
        let bytes = tensor.dtype.row_bytes(tensor.cols()).map(|row| row * tensor.rows());
        assert_eq!(Some(planes.data.len()), bytes, "{tensor:?}");
        std::hint::black_box([planes.data, planes.scales, planes.biases].map(touch));
    }
    if let Metadata::Gguf(metadata) = file.metadata() {
        for (_, value) in metadata.iter() {
            if let Value::Array(array) = value {
                let strings = array.strings().map_or(0, |strings| strings.map(str::len).sum::<usize>());
                let numbers = array.i64s().map_or(0, |n| n.count()) + array.f32s().map_or(0, |n| n.count());
                std::hint::black_box(strings + numbers);
            }
        }
    }
    Some(file)
}

fn understand(file: &ModelFile) {
    if let Err(error) = Model::read(file) {
        is_a_sentence(&error);
    }
}

/// The weights that `corpus/config/small.json` describes, all zero.
fn small_llama() -> Vec<u8> {
    let mut header = Map::new();
    let mut offset = 0;
    for (name, shape) in [
        ("embed_tokens", &[16, 16][..]),
        ("layers.0.self_attn.q_proj", &[16, 16]),
        ("layers.0.self_attn.k_proj", &[8, 16]),
        ("layers.0.self_attn.v_proj", &[8, 16]),
        ("layers.0.self_attn.o_proj", &[16, 16]),
        ("layers.0.mlp.gate_proj", &[32, 16]),
        ("layers.0.mlp.up_proj", &[32, 16]),
        ("layers.0.mlp.down_proj", &[16, 32]),
        ("layers.0.input_layernorm", &[16]),
        ("layers.0.post_attention_layernorm", &[16]),
        ("norm", &[16]),
    ] {
        let end = offset + 2 * shape.iter().product::<usize>();
        let entry = json!({ "dtype": "F16", "shape": shape, "data_offsets": [offset, end] });
        header.insert(format!("model.{name}.weight"), entry);
        offset = end;
    }
    let header = serde_json::Value::Object(header).to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &vec![0; offset]].concat()
}
