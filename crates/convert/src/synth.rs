//! Models of random weights in real shapes, as GGUF that other engines load too: for benchmarks, which need a model's
//! shape and not its knowledge.
//!
//! A few thousand blocks of random values are encoded once per format and scale, and tensors are drawn from them: as
//! fast as the disk, with nothing that repeats along a row.

use std::collections::HashMap;
use std::path::Path;

use akunu_arch::{Outline, Role, SHAPES, Shape};
use akunu_dtype::{DType, PlanesMut};
use akunu_formats::gguf::{Array, Writer};

use crate::QUANTIZATION_VERSION;
use crate::mixture::{Mixture, ModelFacts};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not supported: shape {name:?} (known: {})", names())]
    UnknownShape { name: String },
    #[error("not supported: type {name:?} (known: {})", Mixture::names())]
    UnknownType { name: String },
    #[error("a vocabulary of {0} tokens is too small for one of bytes")]
    SmallVocabulary(usize),
    #[error(transparent)]
    Format(#[from] akunu_formats::Error),
}

/// The shapes there are, for messages.
fn names() -> String {
    SHAPES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ")
}

/// How to write a model.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub overwrite: bool,
    /// The same seed gives the same file.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { overwrite: false, seed: 42 }
    }
}

/// Writes a model of shape `shape` (`llama-1b`) and type `kind` (`q4_k_m`); `progress` is told the bytes written so
/// far and the bytes there will be.
pub fn write(
    shape: &str,
    kind: &str,
    path: &Path,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let shape = Shape::find(shape).ok_or_else(|| Error::UnknownShape { name: shape.into() })?;
    let mixture = Mixture::find(kind).ok_or_else(|| Error::UnknownType { name: kind.into() })?;
    write_shape(shape, mixture, path, options, progress)
}

/// [`write()`], of a shape that need not be in the table.
pub fn write_shape(
    shape: &Shape,
    mixture: &Mixture,
    path: &Path,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let outline = Outline::of_shape(shape);
    let facts = ModelFacts { layers: shape.layers, heads: shape.heads, kv_heads: shape.kv_heads, tied: shape.tied };
    let mut writer = Writer::create(path, options.overwrite)?;
    for (key, field) in &outline.fields {
        writer.set(key, field.clone())?;
    }
    writer.set("general.name", format!("{} of random weights", shape.name))?;
    writer.set("general.type", "model")?;
    writer.set("general.quantization_version", QUANTIZATION_VERSION)?;
    writer.set("general.file_type", mixture.file_type)?;
    set_tokenizer(&mut writer, shape.vocab)?;

    let formats: Vec<DType> = outline.tensors.iter().map(|t| mixture.format(t, facts)).collect();
    let mut total = 0;
    for (tensor, &format) in outline.tensors.iter().zip(&formats) {
        writer.tensor(&tensor.name, format, &tensor.shape)?;
        let elements: usize = tensor.shape.iter().product();
        total += (elements / format.format().block * format.format().bytes) as u64;
    }
    let mut out = writer.begin()?;
    let mut random = Random(options.seed);
    let mut pools: HashMap<(DType, u32), Pool> = HashMap::new();
    let mut piece = Vec::new();
    let mut done = 0;
    progress(0, total);
    for (tensor, &format) in outline.tensors.iter().zip(&formats) {
        let elements: usize = tensor.shape.iter().product();
        let (mean, deviation) = spread(tensor.parts[0].0, shape);
        if let Some(values) = &tensor.values {
            out.write(&encode(format, values))?;
        } else if !tensor.is_matrix() {
            let values: Vec<f32> = (0..elements).map(|_| mean + deviation * random.normal()).collect();
            out.write(&encode(format, &values))?;
        } else {
            let key = (format, deviation.to_bits());
            let pool = pools.entry(key).or_insert_with(|| Pool::new(format, deviation, &mut random));
            let mut blocks = elements / format.format().block;
            while blocks > 0 {
                let count = blocks.min(PIECE / format.format().bytes);
                pool.draw(count, &mut random, &mut piece);
                out.write(&piece)?;
                blocks -= count;
                done += piece.len() as u64;
                progress(done, total);
            }
        }
    }
    out.finish()?;
    progress(total, total);
    Ok(())
}

/// A known shape made small, as tests want it: its proportions stay.
pub fn small(shape: &Shape) -> Shape {
    let head_dim = 64;
    let kv_heads = 2;
    let heads = kv_heads * (shape.heads / shape.kv_heads).min(4);
    let (dim, ffn) = (heads * head_dim, 512);
    Shape { layers: 7, dim, ffn, heads, kv_heads, head_dim, vocab: 300, context: 256, ..*shape }
}

/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;
/// Values in a pool: 1024 of the largest blocks.
const POOL: usize = 1 << 18;

/// Mean and deviation of a tensor's values, chosen so that activations keep their size through all layers.
fn spread(role: Role, shape: &Shape) -> (f32, f32) {
    let fan_in = |n: usize| (n as f32).sqrt().recip();
    // What is added to the residual stream, once per sublayer, shrinks with their number.
    let branch = (2.0 * shape.layers as f32).sqrt().recip();
    match role {
        Role::TokenEmbedding | Role::Output => (0.0, fan_in(shape.dim)),
        Role::AttnOut => (0.0, fan_in(shape.heads * shape.head_dim) * branch),
        Role::Down => (0.0, fan_in(shape.ffn) * branch),
        Role::Q | Role::K | Role::V | Role::Gate | Role::Up => (0.0, fan_in(shape.dim)),
        Role::AttnPostNorm | Role::FfnPostNorm => (branch, 0.02 * branch),
        Role::OutputNorm | Role::AttnNorm | Role::FfnNorm | Role::QNorm | Role::KNorm => (1.0, 0.02),
        _ => (0.0, 0.02),
    }
}

fn encode(format: DType, values: &[f32]) -> Vec<u8> {
    let f = format.format();
    let mut bytes = vec![0; values.len() / f.block * f.bytes];
    if let Some(encode) = f.encode {
        encode(values, PlanesMut { data: &mut bytes, ..PlanesMut::default() });
    }
    bytes
}

/// Encoded random blocks of one format and scale.
struct Pool {
    blocks: Vec<u8>,
    bytes: usize,
}

impl Pool {
    fn new(format: DType, deviation: f32, random: &mut Random) -> Self {
        let values: Vec<f32> = (0..POOL).map(|_| deviation * random.normal()).collect();
        Self { blocks: encode(format, &values), bytes: format.format().bytes }
    }

    /// `count` blocks in random order.
    fn draw(&self, count: usize, random: &mut Random, out: &mut Vec<u8>) {
        out.clear();
        let available = (self.blocks.len() / self.bytes) as u64;
        for _ in 0..count {
            let at = ((random.next() >> 32) * available) >> 32;
            out.extend_from_slice(&self.blocks[at as usize * self.bytes..][..self.bytes]);
        }
    }
}

/// SplitMix64: enough for weights, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Close to normal: the sum of twelve uniforms.
    fn normal(&mut self) -> f32 {
        let sum: u64 = (0..3)
            .flat_map(|_| {
                let word = self.next();
                (0..4).map(move |i| word >> (16 * i) & 0xffff)
            })
            .sum();
        sum as f32 / 65536.0 - 6.0
    }
}

/// The names of the merged tokens; GPT-2 writes a space as `Ġ`.
const MERGES: &[(&str, &str)] = &[("Ġ", "t"), ("Ġ", "a"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("e", "r"), ("o", "n")];
const END: &str = "<|endoftext|>";

/// A byte-level vocabulary of `count` tokens: every byte, a few merges, fillers that no text becomes, and an end.
fn set_tokenizer(writer: &mut Writer, count: usize) -> Result<(), Error> {
    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    let mut tokens: Vec<String> = (0..=255).map(|b| byte_symbol(b).to_string()).collect();
    tokens.extend(MERGES.iter().map(|(left, right)| format!("{left}{right}")));
    if count <= tokens.len() {
        return Err(Error::SmallVocabulary(count));
    }
    let fillers = tokens.len()..count - 1;
    tokens.extend(fillers.map(|id| format!("[{id}]")));
    tokens.push(END.into());
    let end = count as u32 - 1;
    let types = (0..count).map(|id| if id + 1 == count { CONTROL } else { NORMAL });
    writer.set("tokenizer.ggml.model", "gpt2")?;
    writer.set("tokenizer.ggml.pre", "gpt-2")?;
    writer.set("tokenizer.ggml.tokens", Array::from_strings(&tokens))?;
    writer.set("tokenizer.ggml.token_type", Array::from_i32s(types))?;
    let merges = MERGES.iter().map(|(left, right)| format!("{left} {right}"));
    writer.set("tokenizer.ggml.merges", Array::from_strings(merges))?;
    writer.set("tokenizer.ggml.bos_token_id", end)?;
    writer.set("tokenizer.ggml.eos_token_id", end)?;
    writer.set("tokenizer.ggml.add_bos_token", false)?;
    Ok(())
}

/// GPT-2's character for a byte: itself where it is printable, else one of those from U+0100 on, in order.
fn byte_symbol(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}
