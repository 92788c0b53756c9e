//! IQ4_XS: 256 values as 4-bit indices into IQ4_NL's table, with a 6-bit scale per 32;
//! `value = d * (scale - 32) * TABLE[q]`.
//!
//! Bytes: `d` f16, the high bit pairs of the 8 scales as a u16, their low nibbles in 4 bytes,
//! then 16 bytes of nibbles for every 32 values.

use crate::Unpacked;
use crate::block::{Block, Encode, NO_OFFSET, f16_at, part_mut, put_f16};
use crate::iq4_nl::{TABLE, Uneven, code};
use crate::nibble;
use crate::superblock::symmetric;

pub(crate) struct Iq4Xs;

impl Block<136> for Iq4Xs {
    const GGUF: u32 = 23;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 136], out: &mut Unpacked) {
        let d = f16_at(block, 0);
        let high = u16::from_le_bytes([block[2], block[3]]);
        for s in 0..8 {
            let low = block[4 + s / 2] >> (4 * (s % 2)) & 15;
            let scale = low | ((high >> (2 * s) & 3) << 4) as u8;
            out.scale[2 * s..2 * s + 2].fill(d * (f32::from(scale) - 32.0));
        }
        out.offset.fill(NO_OFFSET);
        let (bytes, _) = block[8..].as_chunks();
        let (q, _) = out.q.as_chunks_mut();
        for (bytes, q) in bytes.iter().zip(q) {
            nibble::unpack(bytes, q, |q| TABLE[q as usize & 15]);
        }
    }
}

impl Encode<136> for Iq4Xs {
    fn encode(values: &[f32], block: &mut [u8; 136]) {
        let fit = symmetric::<32>(values, &Uneven, 32.0);
        *block = [0; 136];
        put_f16(block, 0, fit.d);
        let mut high = 0u16;
        for s in 0..8 {
            let scale = (fit.scale[s] + 32) as u8;
            block[4 + s / 2] |= (scale & 15) << (4 * (s % 2));
            high |= u16::from(scale >> 4) << (2 * s);
        }
        *part_mut(block, 2) = high.to_le_bytes();
        let (levels, _) = fit.q.as_chunks::<32>();
        let (bytes, _) = block[8..].as_chunks_mut();
        for (levels, bytes) in levels.iter().zip(bytes) {
            *bytes = nibble::pack(&levels.map(code));
        }
    }
}
