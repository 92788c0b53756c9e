//! Every number format a weight can be stored in: one file and one registry row each.
//!
//! A format is a fixed-size block of values. Block formats keep everything in one plane;
//! MLX affine formats keep packed integers, scales and biases in three planes. Every
//! quantized format reduces to one description, [`Unpacked`]: small integers with a scale
//! and an offset per 16 values. Scalar decoding and the portable integer kernels are built
//! on that, so a new format is one `unpack` function and one row.
//!
//! Activations have two forms besides f32: [`q8`] and [`tiles`].

#![forbid(unsafe_code)]

mod block;
mod float;
pub mod grids;
mod integer;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mlx;
mod mxfp4;
mod nibble;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
pub mod q8;
mod q8_0;
mod registry;
mod superblock;
pub mod tiles;
mod tq1_0;
mod tq2_0;

pub use registry::FORMATS;

use std::fmt;

/// Values that share one scale and one offset in [`Unpacked`].
pub const GROUP: usize = 16;

/// The largest block of any format, in values.
pub const MAX_BLOCK: usize = 256;

/// A number format, by its row in [`FORMATS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct DType(pub(crate) u8);

/// The bytes of whole blocks of one row. `scales` and `biases` are empty for one-plane formats.
#[derive(Clone, Copy, Default)]
pub struct Planes<'a> {
    pub data: &'a [u8],
    pub scales: &'a [u8],
    pub biases: &'a [u8],
}

/// Where an encoder writes the blocks of one row; the planes of [`Planes`].
#[derive(Default)]
pub struct PlanesMut<'a> {
    pub data: &'a mut [u8],
    pub scales: &'a mut [u8],
    pub biases: &'a mut [u8],
}

/// One block as integers: `value[i] = scale[i / GROUP] * q[i] + offset[i / GROUP]`.
///
/// Only the first `Format::block` values are written; a 32-value format fills two groups.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Unpacked {
    pub q: [i8; MAX_BLOCK],
    pub scale: [f32; MAX_BLOCK / GROUP],
    pub offset: [f32; MAX_BLOCK / GROUP],
}

/// Everything there is to know about one number format.
pub struct Format {
    pub dtype: DType,
    /// The name people type and read: `Q4_K`, `BF16`, `MLX4_G64_F16`.
    pub name: &'static str,
    /// ggml's type id in GGUF files.
    pub gguf_id: Option<u32>,
    /// The `dtype` string in safetensors headers.
    pub safetensors: Option<&'static str>,
    /// Values per block.
    pub block: usize,
    /// Bytes per block in the data plane.
    pub bytes: usize,
    /// Bytes per block in each of the scale and bias planes; 0 for one-plane formats.
    pub side_bytes: usize,
    /// What the scale and bias planes are stored in; `None` for one-plane formats.
    pub side: Option<DType>,
    /// Whole blocks to f32: `out.len()` is a multiple of `block`. Any bytes decode to something;
    /// where the planes are short, the rest of `out` is left alone.
    pub decode: fn(Planes<'_>, &mut [f32]),
    /// f32 to whole blocks, where we can write the format. Quantized formats take NaN for 0 and
    /// clamp to the range of f16, so that what they write is finite.
    pub encode: Option<fn(&[f32], PlanesMut<'_>)>,
    /// One block to integers; `None` for formats that are not quantized.
    pub unpack: Option<fn(Planes<'_>, &mut Unpacked)>,
}

impl DType {
    pub fn format(self) -> &'static Format {
        &FORMATS[self.0 as usize]
    }

    /// The row index, as stored in bound programs.
    pub fn index(self) -> u8 {
        self.0
    }

    pub fn from_index(index: u8) -> Option<Self> {
        FORMATS.get(index as usize).map(|f| f.dtype)
    }

    pub fn from_gguf(id: u32) -> Option<Self> {
        FORMATS.iter().find(|f| f.gguf_id == Some(id)).map(|f| f.dtype)
    }

    pub fn from_safetensors(name: &str) -> Option<Self> {
        FORMATS.iter().find(|f| f.safetensors == Some(name)).map(|f| f.dtype)
    }

    /// By name, in any case: `q4_0`, `Q4_0`.
    pub fn from_name(name: &str) -> Option<Self> {
        FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name)).map(|f| f.dtype)
    }

    /// The MLX affine format with these parameters, as found in a checkpoint's `quantization`.
    pub fn mlx(bits: u32, group: u32, scales: DType) -> Option<Self> {
        mlx::find(bits, group, scales)
    }

    pub fn is_quantized(self) -> bool {
        self.format().unpack.is_some()
    }

    /// Data-plane bytes of `cols` values, or `None` where they are not whole blocks.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        let f = self.format();
        (cols.is_multiple_of(f.block)).then(|| (cols / f.block).checked_mul(f.bytes)).flatten()
    }

    /// Bytes of `cols` values in each side plane.
    pub fn row_side_bytes(self, cols: usize) -> usize {
        let f = self.format();
        cols / f.block * f.side_bytes
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format().name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format().name)
    }
}

impl Default for Unpacked {
    fn default() -> Self {
        Self { q: [0; MAX_BLOCK], scale: [0.0; MAX_BLOCK / GROUP], offset: [0.0; MAX_BLOCK / GROUP] }
    }
}
