//! Q5_0: 32 values as 5-bit integers and one scale; `value = d * (q - 16)`.
//!
//! Bytes: `d` f16, the fifth bits as a u32 (bit `i` is value `i`), then 16 bytes of nibbles.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, furthest, part, part_mut, put_f16, reciprocal};
use crate::nibble;

pub(crate) struct Q5_0;

impl Block<22> for Q5_0 {
    const GGUF: u32 = 6;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 22], out: &mut Unpacked) {
        out.set_scale(2, f16_at(block, 0));
        let q = part_mut(&mut out.q, 0);
        unpack_five(part(block, 2), part(block, 6), q);
        q.iter_mut().for_each(|q| *q -= 16);
    }
}

impl Encode<22> for Q5_0 {
    fn encode(values: &[f32], block: &mut [u8; 22]) {
        let d = furthest(values) / -16.0;
        let inverse = reciprocal(d);
        put_f16(block, 0, d);
        let q = std::array::from_fn(|i| ((values[i] * inverse + 16.5) as u8).min(31));
        *part_mut(block, 2) = fifth_bits(&q);
        *part_mut(block, 6) = nibble::pack(&q);
    }
}

/// 32 unsigned 5-bit integers from their high bits and low nibbles.
pub(crate) fn unpack_five(high: &[u8; 4], low: &[u8; 16], q: &mut [i8; 32]) {
    nibble::unpack(low, q, |q| q as i8);
    let high = u32::from_le_bytes(*high);
    for (i, q) in q.iter_mut().enumerate() {
        *q |= ((high >> i & 1) << 4) as i8;
    }
}

/// Bit 4 of each integer.
pub(crate) fn fifth_bits(q: &[u8; 32]) -> [u8; 4] {
    let bits = q.iter().enumerate().fold(0, |bits, (i, &q)| bits | u32::from(q >> 4 & 1) << i);
    bits.to_le_bytes()
}
