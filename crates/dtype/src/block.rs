//! What the one-plane block formats share: the trait a format implements, and the row, the
//! scalar decoder and the safe encoder built from it.

use crate::{DType, Format, GROUP, Planes, PlanesMut, Unpacked};
use half::f16;

/// Offset of the symmetric formats. Unlike `+0.0` it leaves a product of `-0.0` alone, so that
/// `scale * q + offset` is the product to the bit.
pub(crate) const NO_OFFSET: f32 = -0.0;

/// Encoders see values clamped to the range of f16, which is what scales are stored in.
const LIMIT: f32 = 65504.0;

/// A format whose block is `N` bytes in one plane.
pub(crate) trait Block<const N: usize> {
    /// ggml's type id.
    const GGUF: u32;
    /// Values per block: at most `MAX_BLOCK`, a multiple of `GROUP`.
    const VALUES: usize;

    fn unpack(block: &[u8; N], out: &mut Unpacked);
}

/// A block format we can write.
pub(crate) trait Encode<const N: usize>: Block<N> {
    /// `values` are `Self::VALUES` finite numbers no larger than an f16 can be.
    fn encode(values: &[f32], block: &mut [u8; N]);
}

/// The row of a format that is only read.
pub(crate) const fn readable<B: Block<N>, const N: usize>() -> Format {
    Format {
        dtype: DType(0),
        name: "",
        gguf_id: Some(B::GGUF),
        safetensors: None,
        block: B::VALUES,
        bytes: N,
        side_bytes: 0,
        side: None,
        decode: decode::<B, N>,
        encode: None,
        unpack: Some(unpack::<B, N>),
    }
}

/// The row of a format that is read and written.
pub(crate) const fn writable<B: Encode<N>, const N: usize>() -> Format {
    Format { encode: Some(encode::<B, N>), ..readable::<B, N>() }
}

fn unpack<B: Block<N>, const N: usize>(planes: Planes<'_>, out: &mut Unpacked) {
    if let Some(block) = planes.data.first_chunk() {
        B::unpack(block, out);
    }
}

fn decode<B: Block<N>, const N: usize>(planes: Planes<'_>, out: &mut [f32]) {
    let mut unpacked = Unpacked::default();
    let (blocks, _) = planes.data.as_chunks::<N>();
    for (block, values) in blocks.iter().zip(out.chunks_exact_mut(B::VALUES)) {
        B::unpack(block, &mut unpacked);
        unpacked.values(values);
    }
}

fn encode<B: Encode<N>, const N: usize>(values: &[f32], planes: PlanesMut<'_>) {
    let (blocks, _) = planes.data.as_chunks_mut::<N>();
    let mut tame = [0.0; crate::MAX_BLOCK];
    for (values, block) in values.chunks_exact(B::VALUES).zip(blocks) {
        let tame = &mut tame[..B::VALUES];
        for (t, &v) in tame.iter_mut().zip(values) {
            *t = finite(v);
        }
        B::encode(tame, block);
    }
}

/// `v` within the range of f16; NaN becomes 0.
pub(crate) fn finite(v: f32) -> f32 {
    if v.is_nan() { 0.0 } else { v.clamp(-LIMIT, LIMIT) }
}

impl Unpacked {
    /// The values of the block's first `out.len()` integers.
    pub fn values(&self, out: &mut [f32]) {
        let groups = self.q.chunks_exact(GROUP).zip(self.scale.iter().zip(&self.offset));
        for (out, (q, (scale, offset))) in out.chunks_mut(GROUP).zip(groups) {
            for (v, &q) in out.iter_mut().zip(q) {
                *v = scale * f32::from(q) + offset;
            }
        }
    }

    /// One scale for the whole block, and no offset.
    pub(crate) fn set_scale(&mut self, groups: usize, scale: f32) {
        self.set_affine(groups, scale, NO_OFFSET);
    }

    /// One scale and one offset for the whole block.
    pub(crate) fn set_affine(&mut self, groups: usize, scale: f32, offset: f32) {
        self.scale[..groups].fill(scale);
        self.offset[..groups].fill(offset);
    }
}

/// The f16 in bytes `at` and `at + 1`.
pub(crate) fn f16_at<const N: usize>(block: &[u8; N], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Writes `v` as f16, and the largest f16 in place of infinity.
pub(crate) fn put_f16<const N: usize>(block: &mut [u8; N], at: usize, v: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(v.clamp(-LIMIT, LIMIT)).to_le_bytes());
}

/// `1 / v`, and 0 where there is no finite reciprocal.
pub(crate) fn reciprocal(v: f32) -> f32 {
    let r = 1.0 / v;
    if r.is_finite() { r } else { 0.0 }
}

/// The value furthest from zero, the first of equals.
pub(crate) fn furthest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |far: f32, &v| if v.abs() > far.abs() { v } else { far })
}

/// The smallest and the largest value.
pub(crate) fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &v| (min.min(v), max.max(v)))
}

/// `M` elements from `at`. Layouts are constants: a part that does not fit panics in any test
/// that touches the format, and for no input in particular.
pub(crate) fn part<T, const N: usize, const M: usize>(block: &[T; N], at: usize) -> &[T; M] {
    block[at..].first_chunk().unwrap()
}

/// [`part`], to write to.
pub(crate) fn part_mut<T, const N: usize, const M: usize>(block: &mut [T; N], at: usize) -> &mut [T; M] {
    block[at..].first_chunk_mut().unwrap()
}
