//! IQ2_S: 256 values, each 8 a grid tuple with signs, and a 4-bit scale per 16;
//! `value = d * (scale + 0.5) / 4 * ±grid`.
//!
//! Bytes: `d` f16, 32 low bytes of grid indices, 32 sign bytes, 8 bytes with the two high bits
//! of four indices each, 8 bytes of scale nibbles.

use crate::Unpacked;
use crate::block::{Block, f16_at};
use crate::grids::{self, signed};
use crate::iq2_xs::unpack_quarter_scales;

pub(crate) struct Iq2S;

impl Block<82> for Iq2S {
    const GGUF: u32 = 22;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 82], out: &mut Unpacked) {
        unpack_quarter_scales(f16_at(block, 0), &block[74..], out);
        let (low, signs, high) = (&block[2..34], &block[34..66], &block[66..74]);
        let (q, _) = out.q.as_chunks_mut();
        for (i, q) in q.iter_mut().enumerate() {
            let high = high[i / 4] >> (2 * (i % 4)) & 3;
            let index = usize::from(low[i]) | usize::from(high) << 8;
            *q = signed(grids::IQ2_S[index & 1023], signs[i]);
        }
    }
}
