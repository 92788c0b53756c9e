//! Q4_1: 32 values as 4-bit integers, a scale and a minimum; `value = d * q + m`.
//!
//! Bytes: `d` f16, `m` f16, then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, part, part_mut, put_f16, range, reciprocal};
use crate::nibble;

pub(crate) struct Q4_1;

impl Block<20> for Q4_1 {
    const GGUF: u32 = 3;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 20], out: &mut Unpacked) {
        out.set_affine(2, f16_at(block, 0), f16_at(block, 2));
        nibble::unpack(part(block, 4), part_mut(&mut out.q, 0), |q| q as i8);
    }
}

impl Encode<20> for Q4_1 {
    fn encode(values: &[f32], block: &mut [u8; 20]) {
        let (min, max) = range(values);
        let d = (max - min) / 15.0;
        let inverse = reciprocal(d);
        put_f16(block, 0, d);
        put_f16(block, 2, min);
        let q = std::array::from_fn(|i| (((values[i] - min) * inverse + 0.5) as u8).min(15));
        *part_mut(block, 4) = nibble::pack(&q);
    }
}
