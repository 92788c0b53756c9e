//! A model of two layers in both kinds of file, with every value free to be wrong.
#![allow(dead_code)]

use akunu_arch::{Error, Model};
use akunu_dtype::DType;
use akunu_formats::gguf::{Field, Writer};
use akunu_formats::{ModelFile, safetensors};
use akunu_testkit::TempDir;
use serde_json::{Value as Json, json};

pub const VOCAB: usize = 16;
pub const DIM: usize = 16;
pub const FFN: usize = 12;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD_DIM: usize = 4;
pub const LAYERS: usize = 2;

/// Names and shapes of tensors.
pub type Tensors = Vec<(String, Vec<usize>)>;

type Entry = (&'static str, &'static str, &'static [usize]);

/// The same tensor's name in GGUF and in HF files, and its shape; `{}` is the layer.
#[rustfmt::skip]
const TENSORS: &[Entry] = &[
    ("token_embd.weight", "model.embed_tokens.weight", &[VOCAB, DIM]),
    ("output_norm.weight", "model.norm.weight", &[DIM]),
    ("blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight", &[DIM]),
    ("blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight", &[DIM]),
    ("blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", &[HEADS * HEAD_DIM, DIM]),
    ("blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", &[KV_HEADS * HEAD_DIM, DIM]),
    ("blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", &[KV_HEADS * HEAD_DIM, DIM]),
    ("blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", &[DIM, HEADS * HEAD_DIM]),
    ("blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", &[FFN, DIM]),
    ("blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", &[FFN, DIM]),
    ("blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", &[DIM, FFN]),
];

fn tensors(pick: impl Fn(&Entry) -> &'static str) -> Tensors {
    let mut all = Vec::new();
    for entry in TENSORS {
        let pattern = pick(entry);
        let layers = if pattern.contains("{}") { LAYERS } else { 1 };
        all.extend((0..layers).map(|layer| (pattern.replace("{}", &layer.to_string()), entry.2.to_vec())));
    }
    all
}

/// A Hugging Face directory.
pub struct Hf {
    pub config: Json,
    pub tensors: Tensors,
}

pub fn hf() -> Hf {
    let config = json!({
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": DIM,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "max_position_embeddings": 64,
        "rms_norm_eps": 0.5,
        "rope_theta": 100.0,
    });
    Hf { config, tensors: tensors(|t| t.1) }
}

impl Hf {
    pub fn set(mut self, key: &str, value: Json) -> Self {
        self.config[key] = value;
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        self.config.as_object_mut().unwrap().remove(key).unwrap_or_else(|| panic!("there is no {key}"));
        self
    }

    pub fn read(&self) -> Result<Model, Error> {
        let dir = TempDir::new();
        dir.write("config.json", self.config.to_string().as_bytes());
        let bytes: Vec<Vec<u8>> =
            self.tensors.iter().map(|(_, shape)| vec![0; 4 * shape.iter().product::<usize>()]).collect();
        let tensors: Vec<_> = (self.tensors.iter().zip(&bytes))
            .map(|((name, shape), bytes)| (name.as_str(), DType::F32, shape.as_slice(), bytes.as_slice()))
            .collect();
        safetensors::write(&dir.join("model.safetensors"), &tensors).unwrap();
        checked(&ModelFile::open(dir.path()).unwrap())
    }
}

/// A GGUF file.
pub struct Gguf {
    pub fields: Vec<(String, Field)>,
    pub tensors: Tensors,
}

pub fn gguf() -> Gguf {
    let number = |key: &str, value: usize| (format!("llama.{key}"), Field::from(value as u32));
    let fields = vec![
        ("general.architecture".into(), "llama".into()),
        number("embedding_length", DIM),
        number("feed_forward_length", FFN),
        number("block_count", LAYERS),
        number("attention.head_count", HEADS),
        number("attention.head_count_kv", KV_HEADS),
        number("attention.key_length", HEAD_DIM),
        number("vocab_size", VOCAB),
        number("context_length", 64),
        ("llama.attention.layer_norm_rms_epsilon".into(), 0.5f32.into()),
        ("llama.rope.freq_base".into(), 100.0f32.into()),
    ];
    Gguf { fields, tensors: tensors(|t| t.0) }
}

impl Gguf {
    pub fn set(mut self, key: &str, value: impl Into<Field>) -> Self {
        self.fields.retain(|(k, _)| k != key);
        self.fields.push((key.into(), value.into()));
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        let fields = self.fields.len();
        self.fields.retain(|(k, _)| k != key);
        assert!(self.fields.len() < fields, "there is no {key}");
        self
    }

    pub fn read(&self) -> Result<Model, Error> {
        let dir = TempDir::new();
        let path = dir.join("model.gguf");
        let mut writer = Writer::create(&path, false).unwrap();
        for (key, value) in &self.fields {
            writer.set(key, value.clone()).unwrap();
        }
        for (name, shape) in &self.tensors {
            writer.tensor(name, DType::F32, shape).unwrap();
        }
        let mut writer = writer.begin().unwrap();
        for (_, shape) in &self.tensors {
            writer.write_tensor(&vec![0; 4 * shape.iter().product::<usize>()]).unwrap();
        }
        writer.finish().unwrap();
        checked(&ModelFile::open(&path).unwrap())
    }
}

/// Reads the model; an error is one sentence that names the file.
fn checked(file: &ModelFile) -> Result<Model, Error> {
    let result = Model::read(file);
    if let Err(error) = &result {
        let message = error.to_string();
        assert!(message.starts_with(&*file.path().to_string_lossy()), "the file is not named: {message}");
        assert!(!message.contains('\n') && message.len() < 1000, "not one sentence: {message}");
    }
    result
}

/// The message of a model that must not be read.
pub fn refused(model: Result<Model, Error>) -> String {
    match model {
        Ok(_) => panic!("the model was read"),
        Err(error) => error.to_string(),
    }
}
