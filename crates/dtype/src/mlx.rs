//! The MLX affine formats: integers of 2 to 8 bits with a scale and a bias per group;
//! `value = scale * q + bias`.
//!
//! The block is a group. Its integers are a little-endian bit stream in the data plane: integer
//! `i` is bits `i * BITS..(i + 1) * BITS`, across words where they do not divide. Scale and bias
//! are one element each of their planes, in the checkpoint's float type.

use crate::block::{finite, range};
use crate::{DType, FORMATS, Format, GROUP, Planes, PlanesMut, Unpacked};
use half::{bf16, f16};

/// The smallest scale MLX writes.
const LEAST_SCALE: f32 = 1e-7;

/// A float type of the scale and bias planes, `N` bytes each.
pub(crate) trait Side<const N: usize> {
    const DTYPE: DType;
    fn read(bytes: [u8; N]) -> f32;
    fn write(v: f32) -> [u8; N];
}

impl Side<2> for f16 {
    const DTYPE: DType = DType::F16;
    fn read(bytes: [u8; 2]) -> f32 {
        f16::from_le_bytes(bytes).to_f32()
    }
    fn write(v: f32) -> [u8; 2] {
        f16::from_f32(v).to_le_bytes()
    }
}

impl Side<2> for bf16 {
    const DTYPE: DType = DType::BF16;
    fn read(bytes: [u8; 2]) -> f32 {
        bf16::from_le_bytes(bytes).to_f32()
    }
    fn write(v: f32) -> [u8; 2] {
        bf16::from_f32(v).to_le_bytes()
    }
}

impl Side<4> for f32 {
    const DTYPE: DType = DType::F32;
    fn read(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
    fn write(v: f32) -> [u8; 4] {
        v.to_le_bytes()
    }
}

/// The row of one width, group and float type.
pub(crate) const fn row<S: Side<N>, const N: usize, const BITS: usize, const BLOCK: usize>() -> Format {
    Format {
        dtype: DType(0),
        name: "",
        gguf_id: None,
        safetensors: None,
        block: BLOCK,
        bytes: BLOCK * BITS / 8,
        side_bytes: N,
        side: Some(S::DTYPE),
        decode: decode::<S, N, BITS, BLOCK>,
        encode: Some(encode::<S, N, BITS, BLOCK>),
        unpack: Some(unpack::<S, N, BITS, BLOCK>),
    }
}

pub(crate) fn find(bits: u32, group: u32, scales: DType) -> Option<DType> {
    let (bits, group) = (bits as usize, group as usize);
    FORMATS.iter().find(|f| f.side == Some(scales) && f.block == group && f.bytes * 8 == group * bits).map(|f| f.dtype)
}

/// The integers of whole groups of 8, in turn.
fn integers<const BITS: usize>(data: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let (eights, _) = data.as_chunks::<BITS>();
    eights.iter().map(|bytes| {
        let mut word = [0; 8];
        word[..BITS].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        std::array::from_fn(|i| (word >> (i * BITS)) as u8 & most::<BITS>())
    })
}

/// The largest integer.
fn most<const BITS: usize>() -> u8 {
    u8::MAX >> (8 - BITS)
}

fn decode<S: Side<N>, const N: usize, const BITS: usize, const BLOCK: usize>(p: Planes<'_>, out: &mut [f32]) {
    let sides = p.scales.as_chunks().0.iter().zip(p.biases.as_chunks().0);
    let groups = p.data.chunks_exact(BLOCK * BITS / 8).zip(sides);
    for (out, (data, (&scale, &bias))) in out.chunks_exact_mut(BLOCK).zip(groups) {
        let (scale, bias) = (S::read(scale), S::read(bias));
        for (out, q) in out.as_chunks_mut::<8>().0.iter_mut().zip(integers::<BITS>(data)) {
            *out = q.map(|q| scale * f32::from(q) + bias);
        }
    }
}

fn unpack<S: Side<N>, const N: usize, const BITS: usize, const BLOCK: usize>(p: Planes<'_>, out: &mut Unpacked) {
    let (Some(&scale), Some(&bias), Some(data)) =
        (p.scales.first_chunk(), p.biases.first_chunk(), p.data.get(..BLOCK * BITS / 8))
    else {
        return;
    };
    let (scale, bias) = (S::read(scale), S::read(bias));
    // Eight bits are unsigned: to fit an i8 they move down by 128, and the offset up by as much.
    let (shift, offset) = if BITS == 8 { (128, bias + 128.0 * scale) } else { (0, bias) };
    out.set_affine(BLOCK / GROUP, scale, offset);
    for (out, q) in out.q.as_chunks_mut::<8>().0.iter_mut().zip(integers::<BITS>(data)) {
        *out = q.map(|q| q.wrapping_sub(shift) as i8);
    }
}

/// Scales and biases as MLX chooses them; integers nearest under the scale and bias as stored,
/// which loses a little less than MLX's own rounding where those are f16 or bf16.
fn encode<S: Side<N>, const N: usize, const BITS: usize, const BLOCK: usize>(values: &[f32], p: PlanesMut<'_>) {
    let sides = p.scales.as_chunks_mut().0.iter_mut().zip(p.biases.as_chunks_mut().0);
    let groups = p.data.chunks_exact_mut(BLOCK * BITS / 8).zip(sides);
    for (values, (data, (scale_out, bias_out))) in values.chunks_exact(BLOCK).zip(groups) {
        let mut tame = [0.0; BLOCK];
        for (t, &v) in tame.iter_mut().zip(values) {
            *t = finite(v);
        }
        let (scale, bias) = choose(&tame, f32::from(most::<BITS>()));
        *scale_out = S::write(scale);
        *bias_out = S::write(bias);
        let (scale, bias) = (S::read(*scale_out), S::read(*bias_out));
        for (x, bytes) in tame.as_chunks::<8>().0.iter().zip(data.as_chunks_mut::<BITS>().0) {
            let mut word = 0;
            for (i, x) in x.iter().enumerate() {
                // A NaN from 0 / 0 becomes 0.
                let q = ((x - bias) / scale).round_ties_even() as u8;
                word |= u64::from(q.min(most::<BITS>())) << (i * BITS);
            }
            bytes.copy_from_slice(&word.to_le_bytes()[..BITS]);
        }
    }
}

/// The end of the range that is further from zero becomes the bias, and zero an exact multiple
/// of the scale away from it.
fn choose(values: &[f32], most: f32) -> (f32, f32) {
    let (min, max) = range(values);
    let step = ((max - min) / most).max(LEAST_SCALE);
    let (scale, edge) = if min.abs() > max.abs() { (step, min) } else { (-step, max) };
    let zero = (edge / scale).round_ties_even();
    if zero == 0.0 { (scale, 0.0) } else { (edge / zero, edge) }
}
