//! Q2_K: 256 values as 2-bit integers, with a 4-bit scale and a 4-bit minimum per 16;
//! `value = d * scale * q - dmin * min`.
//!
//! Bytes: 16 of scale (low nibble) and minimum (high nibble), 64 of integers, `d` f16, `dmin` f16.
//! Each 32 bytes of integers hold 128 values: bits `2k..2k + 2` of byte `j` are value `32k + j`.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, put_f16};
use crate::superblock::affine;

pub(crate) struct Q2K;

impl Block<84> for Q2K {
    const GGUF: u32 = 10;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 84], out: &mut Unpacked) {
        let (d, dmin) = (f16_at(block, 80), f16_at(block, 82));
        for (g, &s) in block[..16].iter().enumerate() {
            out.scale[g] = d * f32::from(s & 15);
            out.offset[g] = -(dmin * f32::from(s >> 4));
        }
        unpack_two(&block[16..80], &mut out.q);
    }
}

impl Encode<84> for Q2K {
    fn encode(values: &[f32], block: &mut [u8; 84]) {
        let fit = affine::<16>(values, 3.0, 15.0);
        for (b, (scale, min)) in block.iter_mut().zip(fit.scale.iter().zip(&fit.min)) {
            *b = scale | min << 4;
        }
        pack_two(&fit.q, &mut block[16..80]);
        put_f16(block, 80, fit.d);
        put_f16(block, 82, fit.dmin);
    }
}

/// 2-bit integers, 128 values to each 32 bytes.
pub(crate) fn unpack_two(bytes: &[u8], q: &mut [i8; 256]) {
    for (bytes, q) in bytes.chunks_exact(32).zip(q.chunks_exact_mut(128)) {
        for (k, q) in q.chunks_exact_mut(32).enumerate() {
            for (q, b) in q.iter_mut().zip(bytes) {
                *q = (b >> (2 * k) & 3) as i8;
            }
        }
    }
}

/// The inverse of [`unpack_two`]; only the low two bits of `q` are kept.
pub(crate) fn pack_two(q: &[u8; 256], bytes: &mut [u8]) {
    for (bytes, q) in bytes.chunks_exact_mut(32).zip(q.chunks_exact(128)) {
        for (j, b) in bytes.iter_mut().enumerate() {
            *b = (0..4).fold(0, |b, k| b | (q[32 * k + j] & 3) << (2 * k));
        }
    }
}
