//! Q6_K: 256 values as 6-bit integers, with an 8-bit scale per 16; `value = d * scale * (q - 32)`.
//!
//! Bytes: 128 of low nibbles, 64 of high bit pairs, 16 signed scales, `d` f16. Each half of the
//! block is 128 values: value `32k + j` has its low nibble in byte `32 * (k % 2) + j`, low half
//! for `k < 2`, and its high bits in byte `j` at bit `2k`.

use crate::Unpacked;
use crate::block::{Block, Encode, NO_OFFSET, f16_at, put_f16};
use crate::superblock::{Integers, symmetric};

pub(crate) struct Q6K;

const LOW: usize = 0;
const HIGH: usize = 128;
const SCALES: usize = 192;
const D: usize = 208;

impl Block<210> for Q6K {
    const GGUF: u32 = 14;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 210], out: &mut Unpacked) {
        let d = f16_at(block, D);
        for (scale, &s) in out.scale.iter_mut().zip(&block[SCALES..D]) {
            *scale = d * f32::from(s as i8);
        }
        out.offset.fill(NO_OFFSET);
        let halves = block[LOW..HIGH].chunks_exact(64).zip(block[HIGH..SCALES].chunks_exact(32));
        for ((low, high), q) in halves.zip(out.q.chunks_exact_mut(128)) {
            for (k, q) in q.chunks_exact_mut(32).enumerate() {
                let low = &low[32 * (k % 2)..][..32];
                for ((q, l), h) in q.iter_mut().zip(low).zip(high) {
                    let (l, h) = (l >> (4 * (k / 2)) & 15, h >> (2 * k) & 3);
                    *q = (l | h << 4) as i8 - 32;
                }
            }
        }
    }
}

impl Encode<210> for Q6K {
    fn encode(values: &[f32], block: &mut [u8; 210]) {
        let fit = symmetric::<16>(values, &Integers { min: -32.0, max: 31.0 }, 128.0);
        *block = [0; 210];
        for (i, &q) in fit.q.iter().enumerate() {
            let (half, k, j) = (i / 128, i / 32 % 4, i % 32);
            let q = (q + 32) as u8;
            block[LOW + 64 * half + 32 * (k % 2) + j] |= (q & 15) << (4 * (k / 2));
            block[HIGH + 32 * half + j] |= (q >> 4) << (2 * k);
        }
        for (b, &s) in block[SCALES..D].iter_mut().zip(&fit.scale) {
            *b = s as u8;
        }
        put_f16(block, D, fit.d);
    }
}
