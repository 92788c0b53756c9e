//! Q3_K: 256 values as 3-bit integers, with a 6-bit scale per 16; `value = d * (scale - 32) * (q - 4)`.
//!
//! Bytes: 32 of third bits, 64 of low bits ordered as in Q2_K, 12 of scales, `d` f16.
//! Bit `k` of high byte `j` is value `32k + j`. Scale `s` has its low nibble in byte `s % 8`
//! (low half for `s < 8`) and its two high bits in byte `8 + s % 4`, at bit `2 * (s / 4)`.

use crate::Unpacked;
use crate::block::{Block, Encode, NO_OFFSET, f16_at, put_f16};
use crate::q2_k::{pack_two, unpack_two};
use crate::superblock::{Integers, symmetric};

pub(crate) struct Q3K;

const HIGH: usize = 0;
const LOW: usize = 32;
const SCALES: usize = 96;
const D: usize = 108;

impl Block<110> for Q3K {
    const GGUF: u32 = 11;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 110], out: &mut Unpacked) {
        let d = f16_at(block, D);
        let scales = &block[SCALES..D];
        for s in 0..16 {
            let low = scales[s % 8] >> (4 * (s / 8)) & 15;
            let high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
            out.scale[s] = d * (f32::from(low | high << 4) - 32.0);
        }
        out.offset.fill(NO_OFFSET);
        unpack_two(&block[LOW..SCALES], &mut out.q);
        for (k, q) in out.q.chunks_exact_mut(32).enumerate() {
            for (q, high) in q.iter_mut().zip(&block[HIGH..LOW]) {
                *q += ((high >> k & 1) << 2) as i8 - 4;
            }
        }
    }
}

impl Encode<110> for Q3K {
    fn encode(values: &[f32], block: &mut [u8; 110]) {
        let fit = symmetric::<16>(values, &Integers { min: -4.0, max: 3.0 }, 32.0);
        let q = fit.q.map(|q| (q + 4) as u8);
        *block = [0; 110];
        pack_two(&q, &mut block[LOW..SCALES]);
        for (i, q) in q.iter().enumerate() {
            block[HIGH + i % 32] |= (q >> 2 & 1) << (i / 32);
        }
        for s in 0..16 {
            let scale = (fit.scale[s] + 32) as u8;
            block[SCALES + s % 8] |= (scale & 15) << (4 * (s / 8));
            block[SCALES + 8 + s % 4] |= (scale >> 4) << (2 * (s / 4));
        }
        put_f16(block, D, fit.d);
    }
}
