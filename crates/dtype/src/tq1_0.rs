//! TQ1_0: 256 values of -1, 0 or 1, five to a byte, and one scale; `value = d * t`.
//!
//! Bytes: 48 of five digits, 4 of four digits, `d` f16. A byte is its base-3 digits as a fraction
//! of 256, rounded up, so that the next digit is the carry of multiplying by 3. The first 32
//! bytes hold values 0..160 (digit `n` of byte `m` is value `32n + m`), the next 16 hold
//! 160..240 (`16n + m`), the last 4 hold 240..256 (`4n + m`).

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, furthest, part, put_f16, reciprocal};

pub(crate) struct Tq1_0;

/// First byte, bytes and digits of each part.
const PARTS: [(usize, usize, usize); 3] = [(0, 32, 5), (32, 16, 5), (48, 4, 4)];

impl Block<54> for Tq1_0 {
    const GGUF: u32 = 34;
    const VALUES: usize = 256;

    fn unpack(block: &[u8; 54], out: &mut Unpacked) {
        out.set_scale(16, f16_at(block, 52));
        digits::<32>(part(block, 0), &mut out.q[..160]);
        digits::<16>(part(block, 32), &mut out.q[160..240]);
        digits::<4>(part(block, 48), &mut out.q[240..]);
    }
}

/// The digits of `N` bytes, first digits first.
fn digits<const N: usize>(bytes: &[u8; N], q: &mut [i8]) {
    let mut fractions = *bytes;
    for q in q.as_chunks_mut::<N>().0 {
        for (q, fraction) in q.iter_mut().zip(&mut fractions) {
            let product = u16::from(*fraction) * 3;
            *fraction = product as u8;
            *q = (product >> 8) as i8 - 1;
        }
    }
}

impl Encode<54> for Tq1_0 {
    fn encode(values: &[f32], block: &mut [u8; 54]) {
        let d = furthest(values).abs();
        let inverse = reciprocal(d);
        let digit = |i: usize| ((values[i] * inverse).round() as i8 + 1) as u16;
        let mut start = 0;
        for (first, count, digits) in PARTS {
            for m in 0..count {
                let number = (0..5).fold(0, |n, k| 3 * n + if k < digits { digit(start + count * k + m) } else { 0 });
                block[first + m] = (number * 256).div_ceil(243) as u8;
            }
            start += count * digits;
        }
        put_f16(block, 52, d);
    }
}
