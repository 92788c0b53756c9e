//! Q4_0: 32 values as 4-bit integers and one scale; `value = d * (q - 8)`.
//!
//! Bytes: `d` f16, then 16 bytes whose low nibbles are values 0..16 and high nibbles 16..32.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, put_f16, reciprocal};

pub(crate) struct Q4_0;

impl Block<18> for Q4_0 {
    const NAME: &'static str = "Q4_0";
    const GGUF: u32 = 2;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 18], out: &mut Unpacked) {
        out.set_scale(2, f16_at(block, 0));
        for (i, &b) in block[2..].iter().enumerate() {
            out.q[i] = (b & 15) as i8 - 8;
            out.q[i + 16] = (b >> 4) as i8 - 8;
        }
    }
}

impl Encode<18> for Q4_0 {
    fn encode(values: &[f32], block: &mut [u8; 18]) {
        // The value furthest from zero lands on -8, the longer end of the range.
        let d = furthest(values) / -8.0;
        let inverse = reciprocal(d);
        let q = |v: f32| ((v * inverse + 8.5) as u8).min(15);
        put_f16(block, 0, d);
        for (i, b) in block[2..].iter_mut().enumerate() {
            *b = q(values[i]) | q(values[i + 16]) << 4;
        }
    }
}

/// The value furthest from zero, the first of equals.
pub(crate) fn furthest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |far: f32, &v| if v.abs() > far.abs() { v } else { far })
}
