//! Q4_K: 256 values as 4-bit integers, with a 6-bit scale and a 6-bit minimum per 32;
//! `value = d * scale * q - dmin * min`.
//!
//! Bytes: `d` f16, `dmin` f16, 12 of scales and minima, 128 of integers: each 32 bytes hold 64
//! values, byte `j` value `j` in its low nibble and value `32 + j` in its high one.
//!
//! Scales and minima `s < 4` are the low six bits of bytes `s` and `4 + s`. For `s >= 4` the low
//! nibbles share byte `4 + s` (scale low, minimum high), and the top two bits of bytes `s - 4`
//! (scale) and `s` (minimum) hold the rest.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, part, part_mut, put_f16};
use crate::superblock::affine;

pub(crate) struct Q4K;

impl Block<144> for Q4K {
    const GGUF: u32 = 12;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 144], out: &mut Unpacked) {
        unpack_scales(part(block, 0), out);
        unpack_low(part(block, 16), &mut out.q);
    }
}

impl Encode<144> for Q4K {
    fn encode(values: &[f32], block: &mut [u8; 144]) {
        let fit = affine::<32>(values, 15.0, 63.0);
        put_f16(block, 0, fit.d);
        put_f16(block, 2, fit.dmin);
        *part_mut(block, 4) = pack_scales(&fit.scale, &fit.min);
        *part_mut(block, 16) = pack_low(&fit.q);
    }
}

/// Scales and offsets of the 16 groups from the 16 bytes at the head of a Q4_K or Q5_K block.
pub(crate) fn unpack_scales(head: &[u8; 16], out: &mut Unpacked) {
    let (d, dmin) = (f16_at(head, 0), f16_at(head, 2));
    let packed: &[u8; 12] = part(head, 4);
    for s in 0..8 {
        let (scale, min) = if s < 4 {
            (packed[s] & 63, packed[4 + s] & 63)
        } else {
            let (low, top, min_top) = (packed[4 + s], packed[s - 4] >> 6, packed[s] >> 6);
            (low & 15 | top << 4, low >> 4 | min_top << 4)
        };
        out.scale[2 * s..2 * s + 2].fill(d * f32::from(scale));
        out.offset[2 * s..2 * s + 2].fill(-(dmin * f32::from(min)));
    }
}

/// The 12 bytes of the first 8 scales and minima.
pub(crate) fn pack_scales(scale: &[u8; 16], min: &[u8; 16]) -> [u8; 12] {
    let mut packed = [0; 12];
    for s in 0..4 {
        packed[s] = scale[s] | (scale[s + 4] >> 4) << 6;
        packed[s + 4] = min[s] | (min[s + 4] >> 4) << 6;
        packed[s + 8] = scale[s + 4] & 15 | (min[s + 4] & 15) << 4;
    }
    packed
}

/// 4-bit integers, 64 values to each 32 bytes.
pub(crate) fn unpack_low(bytes: &[u8; 128], q: &mut [i8; 256]) {
    for (bytes, q) in bytes.chunks_exact(32).zip(q.chunks_exact_mut(64)) {
        for (j, b) in bytes.iter().enumerate() {
            q[j] = (b & 15) as i8;
            q[j + 32] = (b >> 4) as i8;
        }
    }
}

/// The inverse of [`unpack_low`]; only the low four bits of `q` are kept.
pub(crate) fn pack_low(q: &[u8; 256]) -> [u8; 128] {
    std::array::from_fn(|i| {
        let j = i / 32 * 64 + i % 32;
        q[j] & 15 | q[j + 32] << 4
    })
}
