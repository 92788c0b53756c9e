//! IQ3_XXS: 256 values, each 4 a grid tuple, signs per 8 and a 4-bit scale per 32;
//! `value = d * (scale + 0.5) / 2 * ±grid`.
//!
//! Bytes: `d` f16, 64 grid indices, then a u32 for every 32 values: four groups of 7 sign bits
//! and the scale on top.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at};
use crate::grids::{self, even_signs, signed};

pub(crate) struct Iq3Xxs;

impl Block<98> for Iq3Xxs {
    const GGUF: u32 = 18;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 98], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        out.offset.fill(NO_OFFSET);
        let (words, _) = block[66..].as_chunks();
        let (q, _) = out.q.as_chunks_mut();
        for (p, &word) in words.iter().enumerate() {
            let signs = u32::from_le_bytes(word);
            out.scale[2 * p..2 * p + 2].fill(d * (0.5 + (signs >> 28) as f32) * 0.5);
            for l in 0..8 {
                let signs = even_signs(signs >> (7 * (l / 2))) >> (4 * (l % 2));
                q[8 * p + l] = signed(grids::IQ3_XXS[block[2 + 8 * p + l] as usize], signs);
            }
        }
    }
}
