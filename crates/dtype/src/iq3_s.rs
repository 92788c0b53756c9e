//! IQ3_S: 256 values, each 4 a grid tuple, signs per 8 and a 4-bit scale per 32;
//! `value = d * (2 * scale + 1) * ±grid`.
//!
//! Bytes: `d` f16, 64 low bytes of grid indices, 8 bytes with the ninth bits of eight indices
//! each, 32 sign bytes, 4 bytes of scale nibbles.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at, part};
use crate::grids::{IQ3_S, SIGNS, signed};

pub(crate) struct Iq3S;

impl Block<110> for Iq3S {
    const GGUF: u32 = 21;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 110], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        let (low, high, signs, scales): (&[u8; 64], &[u8; 8], &[u8; 32], &[u8; 4]) =
            (part(block, 2), part(block, 66), part(block, 74), part(block, 106));
        for s in 0..8 {
            let scale = scales[s / 2] >> (4 * (s % 2)) & 15;
            out.scale[2 * s..2 * s + 2].fill(d * f32::from(1 + 2 * scale));
        }
        out.offset.fill(NO_OFFSET);
        let (q, _) = out.q.as_chunks_mut();
        for i in 0..32 {
            // The ninth bits of these two are bits `2 * (i % 4)` and one more.
            let ninth = usize::from(high[i / 4]) << (8 - 2 * (i % 4));
            let tuple = |index: usize| u64::from(IQ3_S[index]);
            let a = tuple(usize::from(low[2 * i]) | ninth & 256);
            let b = tuple(usize::from(low[2 * i + 1]) | ninth >> 1 & 256);
            q[i] = signed(a | b << 32, SIGNS[usize::from(signs[i])]);
        }
    }
}
