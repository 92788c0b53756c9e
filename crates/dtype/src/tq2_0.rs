//! TQ2_0: 256 values of -1, 0 or 1 in 2 bits each, and one scale; `value = d * (q - 1)`.
//!
//! Bytes: 64 of integers ordered as in Q2_K, `d` f16.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, furthest, put_f16, reciprocal};
use crate::q2_k::{pack_two, unpack_two};

pub(crate) struct Tq2_0;

impl Block<66> for Tq2_0 {
    const GGUF: u32 = 35;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 66], out: &mut Unpacked) {
        out.set_scale(16, f16_at(block, 64));
        unpack_two(&block[..64], &mut out.q);
        out.q.iter_mut().for_each(|q| *q -= 1);
    }
}

impl Encode<66> for Tq2_0 {
    fn encode(values: &[f32], block: &mut [u8; 66]) {
        let d = furthest(values).abs();
        let inverse = reciprocal(d);
        let q = std::array::from_fn(|i| ((values[i] * inverse).round() as i8 + 1) as u8);
        pack_two(&q, &mut block[..64]);
        put_f16(block, 64, d);
    }
}
