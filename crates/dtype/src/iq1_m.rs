//! IQ1_M: 256 values, each 8 a shifted tuple as in IQ1_S, and a 3-bit scale per 16;
//! `value = d * (2 * scale + 1) * (grid ± 1/8)`.
//!
//! Bytes: 32 low bytes of grid indices, 16 bytes with a nibble for each index (three high bits,
//! and whether the shift is down), four u16 of scales: 12 bits are four scales, and the top
//! nibbles together are the f16 `d`, lowest nibble first.

use crate::Unpacked;
use crate::block::{Block, NO_OFFSET, part};
use crate::iq1_s::{eighth_scale, shifted};
use half::f16;

pub(crate) struct Iq1M;

impl Block<56> for Iq1M {
    const GGUF: u32 = 29;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 56], out: &mut Unpacked) {
        let (low, high) = (part::<_, _, 32>(block, 0), part::<_, _, 16>(block, 32));
        let scales: [u16; 4] = std::array::from_fn(|i| u16::from_le_bytes([block[48 + 2 * i], block[49 + 2 * i]]));
        let bits = scales.iter().rev().fold(0, |bits, s| bits << 4 | s >> 12);
        let d = f16::from_bits(bits).to_f32();
        for (g, scale) in out.scale.iter_mut().enumerate() {
            *scale = eighth_scale(d, scales[g / 4] >> (3 * (g % 4)));
        }
        out.offset.fill(NO_OFFSET);
        let (q, _) = out.q.as_chunks_mut();
        for i in 0..32 {
            let nibble = high[i / 2] >> (4 * (i % 2)) & 15;
            q[i] = shifted(u16::from(low[i]) | u16::from(nibble & 7) << 8, nibble >= 8);
        }
    }
}
