//! Q4_0: 32 values as 4-bit integers and one scale; `value = d * (q - 8)`.
//!
//! Bytes: `d` f16, then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, furthest, part, part_mut, put_f16, reciprocal};
use crate::nibble;

pub(crate) struct Q4_0;

impl Block<18> for Q4_0 {
    const GGUF: u32 = 2;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 18], out: &mut Unpacked) {
        out.set_scale(2, f16_at(block, 0));
        nibble::unpack(part(block, 2), part_mut(&mut out.q, 0), |q| q as i8 - 8);
    }
}

impl Encode<18> for Q4_0 {
    fn encode(values: &[f32], block: &mut [u8; 18]) {
        // The value furthest from zero lands on -8, the longer end of the range.
        let d = furthest(values) / -8.0;
        let inverse = reciprocal(d);
        put_f16(block, 0, d);
        let q = std::array::from_fn(|i| ((values[i] * inverse + 8.5) as u8).min(15));
        *part_mut(block, 2) = nibble::pack(&q);
    }
}
