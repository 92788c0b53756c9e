//! NVFP4: 64 values as 4-bit floats (E2M1), with an unsigned 8-bit float (E4M3) as scale per 16.
//!
//! Bytes: 4 scales, then 8 bytes for every 16 values: byte `j` holds value `j` in its low nibble
//! and value `j + 8` in its high one. A tensor's second, f32 scale is a tensor of its own.

use crate::Unpacked;
use crate::block::{Block, Encode, NO_OFFSET, furthest};
use crate::mxfp4::{DOUBLED, nearest};

pub(crate) struct Nvfp4;

impl Block<36> for Nvfp4 {
    const GGUF: u32 = 40;
    const VALUES: usize = 64;

    fn unpack(block: &[u8; 36], out: &mut Unpacked) {
        let (q, _) = out.q.as_chunks_mut::<16>();
        for (g, bytes) in block[4..].chunks_exact(8).enumerate() {
            out.scale[g] = half_scale(block[g]);
            out.offset[g] = NO_OFFSET;
            for (j, b) in bytes.iter().enumerate() {
                q[g][j] = DOUBLED[(b & 15) as usize];
                q[g][j + 8] = DOUBLED[(b >> 4) as usize];
            }
        }
    }
}

impl Encode<36> for Nvfp4 {
    fn encode(values: &[f32], block: &mut [u8; 36]) {
        for (g, values) in values.chunks_exact(16).enumerate() {
            block[g] = encode_scale(furthest(values).abs() / 6.0);
            let scale = half_scale(block[g]);
            for j in 0..8 {
                block[4 + 8 * g + j] = nearest(values[j], scale) | nearest(values[j + 8], scale) << 4;
            }
        }
    }
}

/// The E4M3 float, halved because [`DOUBLED`] is doubled. The code for NaN counts as 0.
fn half_scale(code: u8) -> f32 {
    let (exponent, mantissa) = (code >> 3 & 15, f32::from(code & 7));
    match (code, exponent) {
        (0 | 0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (8.0 + mantissa) * f32::from_bits((u32::from(exponent) + 127 - 11) << 23),
    }
}

/// The nearest positive E4M3 float, halves up, at most 448.
fn encode_scale(v: f32) -> u8 {
    if v < 1.0 / 64.0 {
        // Subnormal: steps of 2^-9.
        return ((v * 512.0 + 0.5) as u8).min(7);
    }
    // Keep three mantissa bits; the carry of rounding goes to the exponent, as it should.
    let rounded = (v.min(448.0).to_bits() + (1 << 19)) >> 20;
    (rounded - ((127 - 7) << 3)).min(0x7e) as u8
}
