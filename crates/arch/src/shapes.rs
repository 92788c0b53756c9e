//! Shapes of public models by name, for models of random weights: benchmarks need a model's shape, not its knowledge.

use crate::config::LayerConfig;
use crate::families::{GEMMA, GEMMA2, GEMMA3, LLAMA, QWEN2, QWEN3, SMOLLM3};
use crate::rope::{self, Scaling};
use crate::{ArchDescriptor, ModelConfig};

/// The numbers of a public model, as its published configuration has them.
pub struct Shape {
    pub name: &'static str,
    pub family: &'static ArchDescriptor,
    pub layers: usize,
    pub dim: usize,
    pub ffn: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    pub context: usize,
    /// The output weight is the token embedding.
    pub tied: bool,
    pub eps: f32,
    pub rope_base: f32,
    /// The sliding window of those layers that slide in this family.
    pub window: Option<usize>,
    pub attention_cap: f32,
    pub final_cap: f32,
    /// Factor of Llama 3's rope scaling; 0: none.
    pub llama3_factor: f32,
}

const LLAMA3: Shape = Shape {
    name: "",
    family: &LLAMA,
    layers: 0,
    dim: 0,
    ffn: 0,
    heads: 0,
    kv_heads: 0,
    head_dim: 0,
    vocab: 128_256,
    context: 131_072,
    tied: true,
    eps: 1e-5,
    rope_base: 500_000.0,
    window: None,
    attention_cap: 0.0,
    final_cap: 0.0,
    llama3_factor: 32.0,
};
const PLAIN: Shape = Shape { llama3_factor: 0.0, ..LLAMA3 };
const SMOL2: Shape = Shape { head_dim: 64, vocab: 49_152, context: 8192, rope_base: 100_000.0, ..PLAIN };
const Q25: Shape =
    Shape { family: &QWEN2, vocab: 151_936, context: 32_768, eps: 1e-6, rope_base: 1_000_000.0, ..PLAIN };
const Q3: Shape = Shape { family: &QWEN3, head_dim: 128, context: 40_960, ..Q25 };
const G1: Shape =
    Shape { family: &GEMMA, head_dim: 256, vocab: 256_000, context: 8192, eps: 1e-6, rope_base: 10_000.0, ..PLAIN };
const G2: Shape = Shape { family: &GEMMA2, window: Some(4096), attention_cap: 50.0, final_cap: 30.0, ..G1 };
const G3: Shape = Shape {
    family: &GEMMA3,
    vocab: 262_144,
    context: 32_768,
    rope_base: 1_000_000.0,
    window: Some(512),
    attention_cap: 0.0,
    final_cap: 0.0,
    ..G2
};

/// Every known shape.
#[rustfmt::skip]
pub static SHAPES: &[Shape] = &[
    Shape { name: "llama-1b", layers: 16, dim: 2048, ffn: 8192, heads: 32, kv_heads: 8, head_dim: 64, ..LLAMA3 },
    Shape { name: "llama-3b", layers: 28, dim: 3072, ffn: 8192, heads: 24, kv_heads: 8, head_dim: 128, ..LLAMA3 },
    Shape { name: "llama-8b", layers: 32, dim: 4096, ffn: 14_336, heads: 32, kv_heads: 8, head_dim: 128, tied: false, llama3_factor: 8.0, ..LLAMA3 },
    Shape { name: "llama-70b", layers: 80, dim: 8192, ffn: 28_672, heads: 64, kv_heads: 8, head_dim: 128, tied: false, llama3_factor: 8.0, ..LLAMA3 },
    Shape { name: "tinyllama-1.1b", layers: 22, dim: 2048, ffn: 5632, heads: 32, kv_heads: 4, head_dim: 64, vocab: 32_000, context: 2048, tied: false, rope_base: 10_000.0, ..PLAIN },
    Shape { name: "mistral-7b", layers: 32, dim: 4096, ffn: 14_336, heads: 32, kv_heads: 8, head_dim: 128, vocab: 32_768, context: 32_768, tied: false, rope_base: 1_000_000.0, ..PLAIN },
    Shape { name: "smollm2-135m", layers: 30, dim: 576, ffn: 1536, heads: 9, kv_heads: 3, ..SMOL2 },
    Shape { name: "smollm2-360m", layers: 32, dim: 960, ffn: 2560, heads: 15, kv_heads: 5, ..SMOL2 },
    Shape { name: "smollm2-1.7b", layers: 24, dim: 2048, ffn: 8192, heads: 32, kv_heads: 32, rope_base: 130_000.0, ..SMOL2 },
    Shape { name: "smollm3-3b", family: &SMOLLM3, layers: 36, dim: 2048, ffn: 11_008, heads: 16, kv_heads: 4, head_dim: 128, context: 65_536, eps: 1e-6, rope_base: 5_000_000.0, ..PLAIN },
    Shape { name: "qwen2.5-0.5b", layers: 24, dim: 896, ffn: 4864, heads: 14, kv_heads: 2, head_dim: 64, ..Q25 },
    Shape { name: "qwen2.5-1.5b", layers: 28, dim: 1536, ffn: 8960, heads: 12, kv_heads: 2, head_dim: 128, ..Q25 },
    Shape { name: "qwen2.5-3b", layers: 36, dim: 2048, ffn: 11_008, heads: 16, kv_heads: 2, head_dim: 128, ..Q25 },
    Shape { name: "qwen2.5-7b", layers: 28, dim: 3584, ffn: 18_944, heads: 28, kv_heads: 4, head_dim: 128, vocab: 152_064, tied: false, ..Q25 },
    Shape { name: "qwen3-0.6b", layers: 28, dim: 1024, ffn: 3072, heads: 16, kv_heads: 8, ..Q3 },
    Shape { name: "qwen3-1.7b", layers: 28, dim: 2048, ffn: 6144, heads: 16, kv_heads: 8, ..Q3 },
    Shape { name: "qwen3-4b", layers: 36, dim: 2560, ffn: 9728, heads: 32, kv_heads: 8, ..Q3 },
    Shape { name: "qwen3-8b", layers: 36, dim: 4096, ffn: 12_288, heads: 32, kv_heads: 8, tied: false, ..Q3 },
    Shape { name: "qwen3-14b", layers: 40, dim: 5120, ffn: 17_408, heads: 40, kv_heads: 8, tied: false, ..Q3 },
    Shape { name: "qwen3-32b", layers: 64, dim: 5120, ffn: 25_600, heads: 64, kv_heads: 8, tied: false, ..Q3 },
    Shape { name: "gemma-2b", layers: 18, dim: 2048, ffn: 16_384, heads: 8, kv_heads: 1, ..G1 },
    Shape { name: "gemma2-2b", layers: 26, dim: 2304, ffn: 9216, heads: 8, kv_heads: 4, ..G2 },
    Shape { name: "gemma2-9b", layers: 42, dim: 3584, ffn: 14_336, heads: 16, kv_heads: 8, ..G2 },
    Shape { name: "gemma3-270m", layers: 18, dim: 640, ffn: 2048, heads: 4, kv_heads: 1, ..G3 },
    Shape { name: "gemma3-1b", layers: 26, dim: 1152, ffn: 6912, heads: 4, kv_heads: 1, ..G3 },
];

impl Shape {
    pub fn find(name: &str) -> Option<&'static Shape> {
        SHAPES.iter().find(|s| s.name.eq_ignore_ascii_case(name))
    }

    /// The configuration as far as an outline needs it: which layers slide is the family's to say.
    pub(crate) fn config(&self) -> ModelConfig {
        ModelConfig {
            vocab: self.vocab,
            dim: self.dim,
            ffn: self.ffn,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            rotated: self.head_dim,
            context: self.context,
            eps: self.eps,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            attention_scale: (self.head_dim as f32).sqrt().recip(),
            attention_cap: self.attention_cap,
            final_cap: self.final_cap,
            ropes: Vec::new(),
            beyond: None,
            query_growth: None,
            layers: vec![LayerConfig { window: self.window, rope: None }; self.layers],
            pooling: None,
            head_pooling: self.family.head_pooling,
            segments: 0,
            classes: 0,
            answers: None,
            dense: [0; 2],
            mels: 0,
            timing_heads: Vec::new(),
        }
    }

    pub(crate) fn ropes(&self) -> rope::Pair {
        let base = f64::from(self.rope_base);
        let scaling = match self.llama3_factor {
            0.0 => Scaling::None,
            factor => Scaling::Llama3 { factor: factor.into(), low: 1.0, high: 4.0, original: 8192.0 },
        };
        [(base, scaling), (self.family.sliding_rope_base.map_or(base, f64::from), Scaling::None)]
    }
}
