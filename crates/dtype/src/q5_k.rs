//! Q5_K: 256 values as 5-bit integers, otherwise as Q4_K; `value = d * scale * q - dmin * min`.
//!
//! Bytes: 16 of scales as in Q4_K, 32 of fifth bits, 128 of low nibbles as in Q4_K.
//! Bit `k` of fifth-bit byte `j` is value `32k + j`.

use crate::Unpacked;
use crate::block::{Block, Encode, part, part_mut, put_f16};
use crate::q4_k::{pack_low, pack_scales, unpack_low, unpack_scales};
use crate::superblock::affine;

pub(crate) struct Q5K;

impl Block<176> for Q5K {
    const GGUF: u32 = 13;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 176], out: &mut Unpacked) {
        unpack_scales(part(block, 0), out);
        unpack_low(part(block, 48), &mut out.q);
        for (k, q) in out.q.chunks_exact_mut(32).enumerate() {
            for (q, high) in q.iter_mut().zip(&block[16..48]) {
                *q |= ((high >> k & 1) << 4) as i8;
            }
        }
    }
}

impl Encode<176> for Q5K {
    fn encode(values: &[f32], block: &mut [u8; 176]) {
        let fit = affine::<32>(values, 31.0, 63.0);
        put_f16(block, 0, fit.d);
        put_f16(block, 2, fit.dmin);
        *part_mut(block, 4) = pack_scales(&fit.scale, &fit.min);
        let high: &mut [u8; 32] = part_mut(block, 16);
        *high = [0; 32];
        for (i, q) in fit.q.iter().enumerate() {
            high[i % 32] |= (q >> 4 & 1) << (i / 32);
        }
        *part_mut(block, 48) = pack_low(&fit.q);
    }
}
