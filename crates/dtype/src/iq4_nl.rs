//! IQ4_NL: 32 values as 4-bit indices into a table of unevenly spaced integers, and one scale;
//! `value = d * TABLE[q]`.
//!
//! Bytes: `d` f16, then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, part, part_mut, put_f16};
use crate::nibble;
use crate::superblock::{Levels, single};

pub(crate) struct Iq4Nl;

/// Denser around zero, where weights are.
pub(crate) const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

impl Block<18> for Iq4Nl {
    const GGUF: u32 = 20;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 18], out: &mut Unpacked) {
        out.set_scale(2, f16_at(block, 0));
        nibble::unpack(part(block, 2), part_mut(&mut out.q, 0), |q| TABLE[q as usize & 15]);
    }
}

impl Encode<18> for Iq4Nl {
    fn encode(values: &[f32], block: &mut [u8; 18]) {
        let (d, levels) = single::<32>(values, &Uneven);
        put_f16(block, 0, d);
        *part_mut(block, 2) = nibble::pack(&levels.map(code));
    }
}

/// The table as levels an encoder may choose.
pub(crate) struct Uneven;

impl Levels for Uneven {
    fn lowest(&self) -> f32 {
        f32::from(TABLE[0])
    }

    #[inline(always)]
    fn nearest(&self, v: f32) -> f32 {
        // One step up for each midpoint passed: no branches, so it vectorizes.
        let mut level = f32::from(TABLE[0]);
        for pair in TABLE.windows(2) {
            let (low, high) = (f32::from(pair[0]), f32::from(pair[1]));
            level += if 2.0 * v > low + high { high - low } else { 0.0 };
        }
        level
    }

    fn trials(&self) -> impl Iterator<Item = f32> {
        let low = (-3..=7).map(|t| f32::from(TABLE[0]) - 5.0 * t as f32);
        let high = (-3..=7).map(|t| f32::from(TABLE[15]) + 5.0 * t as f32);
        low.chain(high)
    }
}

/// The index of a level.
pub(crate) fn code(level: i8) -> u8 {
    TABLE.iter().position(|&t| t == level).unwrap_or(0) as u8
}
