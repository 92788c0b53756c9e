//! Every format: the weights are unpacked or decoded by `akunu_dtype`, a piece at a time, and the
//! products are those of the formats with kernels of their own.

use super::{RowPtrs, Step, Weights, pieces};
use crate::kernels::matmul::dots::Dots;
use akunu_dtype::{DType, Format, GROUP, Planes, Unpacked};
use std::arch::x86_64::*;

/// A quantized format without a kernel of its own; one scale per 16 values.
pub struct Any {
    format: &'static Format,
    unpack: fn(Planes<'_>, &mut Unpacked),
}

/// 256 values of four rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Integers {
    q: [[i8; 256]; 4],
    /// Per step, per half of a block, lanes `4 * block + row`.
    scale: [[[f32; 16]; 2]; 2],
    offset: [[[f32; 16]; 2]; 2],
}

impl Weights for Any {
    const VALUES: usize = 32;
    const WIDE: bool = false;
    const OFFSETS: bool = true;
    const BIAS: u8 = 128;
    // Unpacking takes far longer than reading: nothing to ask for ahead.
    const STEP_BYTES: usize = 0;
    type Head = Integers;

    fn of(d: &Dots) -> Option<Self> {
        let format = DType::from_index(d.dtype)?.format();
        Some(Self { format, unpack: format.unpack? })
    }

    #[inline(never)]
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Integers {
        let (f, mut w) = (self.format, Unpacked::default());
        let mut out = Integers { q: [[0; 256]; 4], scale: [[[0.0; 16]; 2]; 2], offset: [[[0.0; 16]; 2]; 2] };
        for row in 0..4 {
            for (i, at) in (0..32 * blocks).step_by(f.block).enumerate() {
                let block = k / f.block + i;
                // SAFETY: a whole block of the row, and its numbers in the side planes if it has some.
                let planes = unsafe {
                    let side = |p: *const u8| match f.side_bytes {
                        0 => &[][..],
                        bytes => std::slice::from_raw_parts(p.add(block * bytes), bytes),
                    };
                    let data = std::slice::from_raw_parts(rows.data[row].add(block * f.bytes), f.bytes);
                    Planes { data, scales: side(rows.scales[row]), biases: side(rows.biases[row]) }
                };
                (self.unpack)(planes, &mut w);
                out.q[row][at..at + f.block].copy_from_slice(&w.q[..f.block]);
                for g in 0..f.block / GROUP {
                    let group = at / GROUP + g;
                    let (half, block, part) = (group / 8, group / 2 % 4, group % 2);
                    out.scale[half][part][4 * block + row] = w.scale[g];
                    out.offset[half][part][4 * block + row] = w.offset[g];
                }
            }
        }
        out
    }

    #[inline(always)]
    unsafe fn step(&self, _: &RowPtrs, _: usize, half: usize, _: usize, head: &Integers) -> Step {
        // SAFETY: the caller has the AVX-512 level.
        unsafe { load(head, half) }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn load(w: &Integers, half: usize) -> Step {
    let flip = _mm512_set1_epi8(-128);
    // SAFETY: 128 bytes of a row.
    let part = |row: usize, at: usize| unsafe { pieces(w.q[row].as_ptr().add(128 * half + at).cast(), 32, 4) };
    let floats = |v: &[[f32; 16]; 2]| [0, 1].map(|t| unsafe { _mm512_loadu_ps(v[t].as_ptr()) });
    Step {
        q: [0, 1, 2, 3].map(|r| (_mm512_xor_si512(part(r, 0), flip), _mm512_xor_si512(part(r, 16), flip))),
        scale: floats(&w.scale[half]),
        offset: floats(&w.offset[half]),
    }
}
