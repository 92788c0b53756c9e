//! IQ3_XXS: 256 values, each 4 a grid tuple, signs per 8 and a 4-bit scale per 32;
//! `value = d * (scale + 0.5) / 2 * ±grid`.
//!
//! Bytes: `d` f16, 64 grid indices, then a u32 for every 32 values: four groups of 7 sign bits
//! and the scale on top.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at, part};
use crate::grids::{EVEN_SIGNS, IQ3_XXS, signed};

pub(crate) struct Iq3Xxs;

impl Block<98> for Iq3Xxs {
    const GGUF: u32 = 18;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 98], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        out.offset.fill(NO_OFFSET);
        let (words, _) = part::<_, _, 32>(block, 66).as_chunks();
        let (pairs, _) = part::<_, _, 64>(block, 2).as_chunks::<2>();
        let (q, _) = out.q.as_chunks_mut();
        for (p, &word) in words.iter().enumerate() {
            let signs = u32::from_le_bytes(word);
            out.scale[2 * p..2 * p + 2].fill(d * (0.5 + (signs >> 28) as f32) * 0.5);
            for l in 0..4 {
                let [a, b] = pairs[4 * p + l].map(|i| u64::from(IQ3_XXS[usize::from(i)]));
                q[4 * p + l] = signed(a | b << 32, EVEN_SIGNS[(signs >> (7 * l)) as usize & 127]);
            }
        }
    }
}
