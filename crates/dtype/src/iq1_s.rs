//! IQ1_S: 256 values, each 8 a tuple of -1, 0 and 1 that is shifted by an eighth up or down,
//! and a 3-bit scale per 32; `value = d * (2 * scale + 1) * (grid ± 1/8)`.
//!
//! Bytes: `d` f16, 32 low bytes of grid indices, then a u16 for every 32 values: three high bits
//! for each of four indices, the scale, and on top whether the shift is down.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at, part};
use crate::grids::{IQ1, bytes};

pub(crate) struct Iq1S;

impl Block<50> for Iq1S {
    const GGUF: u32 = 19;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 50], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        out.offset.fill(NO_OFFSET);
        let (words, _) = part::<_, _, 16>(block, 34).as_chunks();
        let low = part::<_, _, 32>(block, 2);
        let (q, _) = out.q.as_chunks_mut();
        for (p, &word) in words.iter().enumerate() {
            let word = u16::from_le_bytes(word);
            out.scale[2 * p..2 * p + 2].fill(eighth_scale(d, word >> 12));
            for l in 0..4 {
                let index = u16::from(low[4 * p + l]) | (word >> (3 * l) & 7) << 8;
                q[4 * p + l] = shifted(index, word >> 15 == 1);
            }
        }
    }
}

/// `d * (2 * scale + 1) / 8`: the integers of [`shifted`] are eighths.
pub(crate) fn eighth_scale(d: f32, scale: u16) -> f32 {
    d * f32::from(2 * (scale & 7) + 1) * 0.125
}

/// The tuple in eighths, with its shift applied: 8 * grid ± 1.
#[inline(always)]
pub(crate) fn shifted(index: u16, down: bool) -> [i8; 8] {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    // The table is shifted up. To take 2 off every byte, top bits keep borrows from the next one
    // and are put right afterwards.
    let up = IQ1[index as usize & 2047];
    let two = u64::from(down) * 0x0202_0202_0202_0202;
    bytes(((up | TOPS) - two) ^ (!up & TOPS))
}
