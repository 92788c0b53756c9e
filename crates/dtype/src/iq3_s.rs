//! IQ3_S: 256 values, each 4 a grid tuple, signs per 8 and a 4-bit scale per 32;
//! `value = d * (2 * scale + 1) * ±grid`.
//!
//! Bytes: `d` f16, 64 low bytes of grid indices, 8 bytes with the ninth bits of eight indices
//! each, 32 sign bytes, 4 bytes of scale nibbles.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at};
use crate::grids::{self, signed};

pub(crate) struct Iq3S;

impl Block<110> for Iq3S {
    const GGUF: u32 = 21;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 110], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        let (low, high, signs, scales) = (&block[2..66], &block[66..74], &block[74..106], &block[106..]);
        for s in 0..8 {
            let scale = scales[s / 2] >> (4 * (s % 2)) & 15;
            out.scale[2 * s..2 * s + 2].fill(d * f32::from(1 + 2 * scale));
        }
        out.offset.fill(NO_OFFSET);
        let (q, _) = out.q.as_chunks_mut();
        for (i, q) in q.iter_mut().enumerate() {
            let index = usize::from(low[i]) | usize::from(high[i / 8] >> (i % 8) & 1) << 8;
            *q = signed(grids::IQ3_S[index & 511], signs[i / 2] >> (4 * (i % 2)));
        }
    }
}
