//! IQ2_S: 256 values, each 8 a grid tuple with signs, and a 4-bit scale per 16;
//! `value = d * (scale + 0.5) / 4 * ±grid`.
//!
//! Bytes: `d` f16, 32 low bytes of grid indices, 32 sign bytes, 8 bytes with the two high bits
//! of four indices each, 8 bytes of scale nibbles.

use crate::Unpacked;
use crate::block::{Block, f16_at, part};
use crate::grids::{IQ2_S, SIGNS, signed};
use crate::iq2_xs::unpack_quarter_scales;

pub(crate) struct Iq2S;

impl Block<82> for Iq2S {
    const GGUF: u32 = 22;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 82], out: &mut Unpacked) {
        unpack_quarter_scales(f16_at(block, 0), &block[74..], out);
        let (low, signs) = (part::<_, _, 32>(block, 2), part::<_, _, 32>(block, 34));
        let high = part::<_, _, 8>(block, 66);
        let (q, _) = out.q.as_chunks_mut();
        for i in 0..32 {
            let index = usize::from(low[i]) | usize::from(high[i / 4]) << (8 - 2 * (i % 4)) & 0x300;
            q[i] = signed(IQ2_S[index], SIGNS[usize::from(signs[i])]);
        }
    }
}
