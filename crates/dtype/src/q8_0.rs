//! Q8_0: 32 values as 8-bit integers and one scale; `value = d * q`.
//!
//! Bytes: `d` f16, then 32 signed bytes.

use crate::Unpacked;
use crate::block::{Block, Encode, f16_at, furthest, put_f16, reciprocal};

pub(crate) struct Q8_0;

impl Block<34> for Q8_0 {
    const GGUF: u32 = 8;
    const VALUES: usize = 32;

    fn unpack(block: &[u8; 34], out: &mut Unpacked) {
        out.set_scale(2, f16_at(block, 0));
        for (q, &b) in out.q.iter_mut().zip(&block[2..]) {
            *q = b as i8;
        }
    }
}

impl Encode<34> for Q8_0 {
    fn encode(values: &[f32], block: &mut [u8; 34]) {
        let d = furthest(values).abs() / 127.0;
        let inverse = reciprocal(d);
        put_f16(block, 0, d);
        for (b, &v) in block[2..].iter_mut().zip(values) {
            *b = (v * inverse).round() as i8 as u8;
        }
    }
}
