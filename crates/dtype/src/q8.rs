//! The one int8 form of activations that quantized weights are multiplied with.
//!
//! A row of `width` values (a multiple of 32) is three runs: `width` int8 values, `width / 32`
//! f32 scales, and `width / 16` f32 group sums (scale × sum of the group's integers), which
//! carry the weights' offsets. One form serves every weight format, because every weight format
//! has its scale and offset per multiple of 16 values.

/// Values that share a scale.
pub const BLOCK: usize = 32;
/// Values that share a group sum.
pub const GROUP: usize = 16;

/// Byte offset of the scales in a row.
pub const fn scales_offset(width: usize) -> usize {
    width
}

/// Byte offset of the group sums in a row.
pub const fn sums_offset(width: usize) -> usize {
    width + width / BLOCK * 4
}

/// Bytes of a row before padding.
pub const fn row_bytes(width: usize) -> usize {
    sums_offset(width) + width / GROUP * 4
}

/// One row, borrowed by its three runs.
pub struct Row<'a> {
    pub q: &'a [i8],
    pub scales: &'a [f32],
    pub sums: &'a [f32],
}

/// Quantizes one block of 32: the definition every kernel is tested against.
/// Returns the scale; rounds half away from zero.
pub fn quantize_block(x: &[f32; BLOCK], q: &mut [i8; BLOCK]) -> f32 {
    let peak = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let scale = peak / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    for (q, x) in q.iter_mut().zip(x) {
        *q = (x * inverse).round() as i8;
    }
    scale
}
