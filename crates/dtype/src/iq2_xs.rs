//! IQ2_XS: 256 values, each 8 a grid tuple with signs, and a 4-bit scale per 16;
//! `value = d * (scale + 0.5) / 4 * ±grid`.
//!
//! Bytes: `d` f16, 32 u16 (9 bits of grid index, 7 sign bits), 8 bytes of scale nibbles.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, f16_at};
use crate::grids::{EVEN_SIGNS, IQ2_XS, signed};

pub(crate) struct Iq2Xs;

impl Block<74> for Iq2Xs {
    const GGUF: u32 = 17;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 74], out: &mut Unpacked) {
        unpack_quarter_scales(f16_at(block, 0), &block[66..], out);
        let (codes, _) = block[2..66].as_chunks();
        let (q, _) = out.q.as_chunks_mut();
        for (q, &code) in q.iter_mut().zip(codes) {
            let code = u16::from_le_bytes(code);
            *q = signed(IQ2_XS[code as usize & 511], EVEN_SIGNS[code as usize >> 9]);
        }
    }
}

/// Nibbles as scales `d * (nibble + 0.5) / 4`, and no offsets.
pub(crate) fn unpack_quarter_scales(d: f32, nibbles: &[u8], out: &mut Unpacked) {
    for (i, &s) in nibbles.iter().enumerate() {
        out.scale[2 * i] = d * (0.5 + f32::from(s & 15)) * 0.25;
        out.scale[2 * i + 1] = d * (0.5 + f32::from(s >> 4)) * 0.25;
    }
    out.offset.fill(NO_OFFSET);
}
