//! Q5_1: 32 values as 5-bit integers, a scale and a minimum; `value = d * q + m`.
//!
//! Bytes: `d` f16, `m` f16, the fifth bits as a u32, then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, part, part_mut, put_f16, range, reciprocal};
use crate::nibble;
use crate::q5_0::{fifth_bits, unpack_five};

pub(crate) struct Q5_1;

impl Block<24> for Q5_1 {
    const GGUF: u32 = 7;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 24], out: &mut Unpacked) {
        out.set_affine(2, f16_at(block, 0), f16_at(block, 2));
        unpack_five(part(block, 4), part(block, 8), part_mut(&mut out.q, 0));
    }
}

impl Encode<24> for Q5_1 {
    fn encode(values: &[f32], block: &mut [u8; 24]) {
        let (min, max) = range(values);
        let d = (max - min) / 31.0;
        let inverse = reciprocal(d);
        put_f16(block, 0, d);
        put_f16(block, 2, min);
        let q = std::array::from_fn(|i| (((values[i] - min) * inverse + 0.5) as u8).min(31));
        *part_mut(block, 4) = fifth_bits(&q);
        *part_mut(block, 8) = nibble::pack(&q);
    }
}
