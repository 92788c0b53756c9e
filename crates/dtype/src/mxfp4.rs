//! MXFP4: 32 values as 4-bit floats (E2M1) and one power of two (E8M0); the OCP microscaling
//! format. `value = 2^(e - 127) * float`.
//!
//! Bytes: the exponent `e`, then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, furthest, part, part_mut};
use crate::nibble;

pub(crate) struct Mxfp4;

/// The 4-bit floats, doubled to be integers; the scale is halved in turn.
pub(crate) const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl Block<17> for Mxfp4 {
    const GGUF: u32 = 39;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 17], out: &mut Unpacked) {
        out.set_scale(2, half_scale(block[0]));
        nibble::unpack(part(block, 1), part_mut(&mut out.q, 0), |q| DOUBLED[q as usize & 15]);
    }
}

impl Encode<17> for Mxfp4 {
    fn encode(values: &[f32], block: &mut [u8; 17]) {
        // The largest 4-bit float is 6 = 1.5 * 2^2: the block's largest exponent, less two.
        let exponent = furthest(values).abs().to_bits() >> 23;
        block[0] = exponent.saturating_sub(2) as u8;
        let scale = half_scale(block[0]);
        *part_mut(block, 1) = nibble::pack(&std::array::from_fn(|i| nearest(values[i], scale)));
    }
}

/// `2^(e - 128)`, subnormal for the two smallest exponents.
fn half_scale(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits((u32::from(e) - 1) << 23),
    }
}

/// The code nearest to `v`, the lowest of equals.
pub(crate) fn nearest(v: f32, scale: f32) -> u8 {
    let mut best = (0, f32::INFINITY);
    for (code, &level) in DOUBLED.iter().enumerate() {
        let error = (f32::from(level) * scale - v).abs();
        if error < best.1 {
            best = (code as u8, error);
        }
    }
    best.0
}
