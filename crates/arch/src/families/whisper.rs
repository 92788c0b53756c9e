//! Whisper: an audio encoder, and a decoder that attends to what it encoded. Positions from tables,
//! LayerNorm before every sublayer, biases everywhere but for keys.

use super::llama::LLAMA;
use super::names::{ggml, hf};
use crate::descriptor::{Activation, ArchDescriptor, Norm, RopeStyle, Timing};

pub const WHISPER: ArchDescriptor = ArchDescriptor {
    encoder: Some(&ENCODER),
    causal: true,
    timing: TIMING,
    gguf_names: &[ggml::DECODER],
    hf_names: &[hf::whisper::DECODER],
    ..ENCODER
};

const ENCODER: ArchDescriptor = ArchDescriptor {
    name: "whisper",
    hf: &["WhisperForConditionalGeneration"],
    causal: false,
    norm: Norm::Layer,
    default_eps: Some(1e-5),
    activation: Activation::GeluErf,
    gguf_rope: RopeStyle::SplitHalf,
    // None of them rotates.
    no_rope_every: Some(1),
    gguf_names: &[ggml::ENCODER],
    hf_names: &[hf::whisper::ENCODER],
    ..LLAMA
};

/// Published with each model. Large v1 and v2 have the same shape: these are v2's.
#[rustfmt::skip]
const TIMING: &[Timing] = &[
    Timing { layers: 4, dim: 384, vocab: 51_864, heads: &[(1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)] },
    Timing { layers: 4, dim: 384, vocab: 51_865, heads: &[(2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)] },
    Timing { layers: 6, dim: 512, vocab: 51_864, heads: &[(3, 3), (4, 7), (5, 1), (5, 5), (5, 7)] },
    Timing { layers: 6, dim: 512, vocab: 51_865, heads: &[(3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6)] },
    Timing { layers: 12, dim: 768, vocab: 51_864, heads: &[
        (6, 6), (7, 0), (7, 3), (7, 8), (8, 2), (8, 5), (8, 7), (9, 0), (9, 4), (9, 8), (9, 10), (10, 0), (10, 1), (10, 2),
        (10, 3), (10, 6), (10, 11), (11, 2), (11, 4)] },
    Timing { layers: 12, dim: 768, vocab: 51_865, heads: &[
        (5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5)] },
    Timing { layers: 24, dim: 1024, vocab: 51_864, heads: &[
        (11, 4), (14, 1), (14, 12), (14, 14), (15, 4), (16, 0), (16, 4), (16, 9), (17, 12), (17, 14), (18, 7), (18, 10),
        (18, 15), (20, 0), (20, 3), (20, 9), (20, 14), (21, 12)] },
    Timing { layers: 24, dim: 1024, vocab: 51_865, heads: &[(13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)] },
    Timing { layers: 32, dim: 1280, vocab: 51_865, heads: &[
        (10, 12), (13, 17), (16, 11), (16, 12), (16, 13), (17, 15), (17, 16), (18, 4), (18, 11), (18, 19), (19, 11), (21, 2),
        (21, 3), (22, 3), (22, 9), (22, 12), (23, 5), (23, 7), (23, 13), (25, 5), (26, 1), (26, 12), (27, 15)] },
    Timing { layers: 32, dim: 1280, vocab: 51_866, heads: &[
        (7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6)] },
    Timing { layers: 4, dim: 1280, vocab: 51_866, heads: &[(2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14)] },
];
