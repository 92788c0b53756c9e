//! IQ2_XXS: 256 values, each 8 a grid tuple with signs, and a 4-bit scale per 32;
//! `value = d * (scale + 0.5) / 4 * ±grid`.
//!
//! Bytes: `d` f16, then 8 bytes for every 32 values: four grid indices, and a u32 with four
//! groups of 7 sign bits and the scale on top.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at};
use crate::grids::{EVEN_SIGNS, IQ2_XXS, signed};

pub(crate) struct Iq2Xxs;

impl Block<66> for Iq2Xxs {
    const GGUF: u32 = 16;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 66], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        out.offset.fill(NO_OFFSET);
        let (parts, _) = block[2..].as_chunks::<8>();
        let (q, _) = out.q.as_chunks_mut::<8>();
        for (p, &[i0, i1, i2, i3, s0, s1, s2, s3]) in parts.iter().enumerate() {
            let signs = u32::from_le_bytes([s0, s1, s2, s3]);
            out.scale[2 * p..2 * p + 2].fill(d * (0.5 + (signs >> 28) as f32) * 0.25);
            for (l, index) in [i0, i1, i2, i3].into_iter().enumerate() {
                q[4 * p + l] = signed(IQ2_XXS[index as usize], EVEN_SIGNS[(signs >> (7 * l)) as usize & 127]);
            }
        }
    }
}
