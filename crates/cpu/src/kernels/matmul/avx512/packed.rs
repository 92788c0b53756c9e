//! Packed weights (`crate::packed`): lanes are weight rows, as in a panel, straight from memory.
//!
//! A broadcast of four activation bytes multiplies 16 rows, eight `vpdpbusd` make a block's integer sum, and nothing is
//! ever added across lanes. Up to [`MOST`] activation rows are multiplied from registers, more of them from a panel.

use super::blocks::{IQ4_LEVELS, Iq4Nl, Q4_0, Q4_1, Q8_0, levels};
use super::panel;
use super::superblocks::{Q4K, Q5K, Q6K, join, masked_or, negated, product};
use crate::kernels::matmul::dots::{Dots, q8_row};
use crate::packed::ROWS;
use crate::simd::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// 32 values of 16 weight rows.
#[derive(Clone, Copy)]
pub struct Block {
    /// Four values of each row, made unsigned by adding the format's bias.
    pub q: [__m512i; 8],
    /// Of first and second halves; equal if wide.
    pub scale: [__m512; 2],
    pub offset: [__m512; 2],
}

/// A format that can be packed.
pub trait Packed {
    /// Blocks of 32 values that lie together, and their bytes in one row.
    const BLOCKS: usize;
    const BYTES: usize;
    /// One scale per 32 values, not per 16.
    const WIDE: bool;
    /// Has offsets.
    const OFFSETS: bool;
    /// What the integers are larger by than the format's.
    const BIAS: u8;
    /// What blocks that lie together share.
    type Head: Copy;

    /// # Safety
    /// The blocks of 16 rows are at `p`, and the machine has the AVX-512 level.
    unsafe fn head(p: *const u8) -> Self::Head;

    /// Block `B` of those at `p`.
    ///
    /// # Safety
    /// As [`Packed::head`], which is theirs.
    unsafe fn block<const B: usize>(p: *const u8, head: &Self::Head) -> Block;
}

/// The body for every block of those that lie together, with its number as a constant.
macro_rules! each_block {
    ($format:ty, |$b:ident| $body:expr) => {{
        macro_rules! at {
            ($n:literal) => {{
                const $b: usize = $n;
                $body
            }};
        }
        at!(0);
        if <$format>::BLOCKS == 8 {
            at!(1);
            at!(2);
            at!(3);
            at!(4);
            at!(5);
            at!(6);
            at!(7);
        }
    }};
}
pub(in crate::kernels::matmul) use each_block;

/// Activation rows that are multiplied from registers.
const MOST: usize = 4;
/// Blocks of a row whose sums are kept for that.
const LONGEST: usize = 2048;
/// Bytes that weights are asked for ahead of the loads.
const AHEAD: usize = 4096;

/// The kernel of a format.
///
/// # Safety
/// As [`Dots`] promises, of packed weights: their rows, and the tile's, come by 16. The machine has AVX-512 F, BW, VL, DQ
/// and VNNI.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn q8_packed<P: Packed>(d: &Dots) {
    // SAFETY: the same contract.
    unsafe {
        match d.rows {
            0 => {}
            1 if d.k <= 32 * LONGEST => rows::<P, 1>(d),
            2 if d.k <= 32 * LONGEST => rows::<P, 2>(d),
            3 if d.k <= 32 * LONGEST => rows::<P, 3>(d),
            MOST if d.k <= 32 * LONGEST => rows::<P, MOST>(d),
            _ => panel::packed::<P>(d),
        }
    }
}

/// What belongs to an activation row: integers, scales, group sums, and what takes the bias off.
#[derive(Clone, Copy)]
struct Side {
    q: *const u8,
    scales: *const f32,
    sums: *const f32,
    starts: *const [i32; 2],
}

/// `M` activation rows.
///
/// # Safety
/// As [`q8_packed`], with `d.rows == M`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn rows<P: Packed, const M: usize>(d: &Dots) {
    let mut starts = [const { MaybeUninit::<[[i32; 2]; LONGEST]>::uninit() }; M];
    let blocks = d.k / 32;
    // SAFETY: blocks of the rows; sums are read where they were written; results stay within the tile.
    unsafe {
        let x: [Side; M] = std::array::from_fn(|m| {
            let (q, scales, sums) = q8_row(d, m);
            let to = starts[m].as_mut_ptr().cast();
            if P::BIAS != 0 {
                panel::starts(q, blocks, P::WIDE, P::BIAS, to);
            }
            Side { q, scales, sums, starts: to }
        });
        for n in (0..d.cols).step_by(ROWS) {
            let mut at = d.w.add(n * d.w_stride);
            let mut sum = [[_mm512_setzero_ps(); 4]; M];
            let mut b = 0;
            while P::BLOCKS == 1 && b + 4 <= blocks {
                ask(at, 4 * ROWS * P::BYTES);
                let next = |i: usize| at.add(i * ROWS * P::BYTES);
                add::<P, M, 0, 0>(&mut sum, &x, next(0), &P::head(next(0)), b);
                add::<P, M, 0, 1>(&mut sum, &x, next(1), &P::head(next(1)), b + 1);
                add::<P, M, 0, 2>(&mut sum, &x, next(2), &P::head(next(2)), b + 2);
                add::<P, M, 0, 3>(&mut sum, &x, next(3), &P::head(next(3)), b + 3);
                (at, b) = (next(4), b + 4);
            }
            while P::BLOCKS == 8 && b < blocks {
                ask(at, ROWS * P::BYTES);
                let head = P::head(at);
                add::<P, M, 0, 0>(&mut sum, &x, at, &head, b);
                add::<P, M, 1, 1>(&mut sum, &x, at, &head, b + 1);
                add::<P, M, 2, 2>(&mut sum, &x, at, &head, b + 2);
                add::<P, M, 3, 3>(&mut sum, &x, at, &head, b + 3);
                add::<P, M, 4, 0>(&mut sum, &x, at, &head, b + 4);
                add::<P, M, 5, 1>(&mut sum, &x, at, &head, b + 5);
                add::<P, M, 6, 2>(&mut sum, &x, at, &head, b + 6);
                add::<P, M, 7, 3>(&mut sum, &x, at, &head, b + 7);
                (at, b) = (at.add(ROWS * P::BYTES), b + 8);
            }
            // Up to three that are left of blocks that lie alone.
            if b < blocks {
                ask(at, (blocks - b) * ROWS * P::BYTES);
                add::<P, M, 0, 0>(&mut sum, &x, at, &P::head(at), b);
            }
            if b + 1 < blocks {
                let at = at.add(ROWS * P::BYTES);
                add::<P, M, 0, 1>(&mut sum, &x, at, &P::head(at), b + 1);
            }
            if b + 2 < blocks {
                let at = at.add(2 * ROWS * P::BYTES);
                add::<P, M, 0, 2>(&mut sum, &x, at, &P::head(at), b + 2);
            }
            for (m, c) in sum.into_iter().enumerate() {
                let sum = _mm512_add_ps(_mm512_add_ps(c[0], c[1]), _mm512_add_ps(c[2], c[3]));
                _mm512_storeu_ps(d.out.add(m * d.out_stride + n), sum);
            }
        }
    }
}

/// Asks for the lines of the next bytes, some ahead.
#[inline(always)]
fn ask(at: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(64) {
        prefetch(at.wrapping_add(AHEAD + line));
    }
}

/// Adds the products of block `b`, which is block `B` of those at `at`, to chain `C` of every activation row.
///
/// # Safety
/// The caller has the AVX-512 level; the block exists, and `head` is its.
#[inline(always)]
unsafe fn add<P: Packed, const M: usize, const B: usize, const C: usize>(
    sum: &mut [[__m512; 4]; M],
    x: &[Side; M],
    at: *const u8,
    head: &P::Head,
    b: usize,
) {
    // SAFETY: the same contract.
    unsafe {
        let w = P::block::<B>(at, head);
        for (sum, x) in sum.iter_mut().zip(x) {
            sum[C] = multiply::<P>(sum[C], &w, x, b);
        }
    }
}

/// Adds the products of block `b` of an activation row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<P: Packed>(mut sum: __m512, w: &Block, x: &Side, b: usize) -> __m512 {
    // SAFETY: the block exists.
    unsafe {
        let start = |h: usize| if P::BIAS == 0 { 0 } else { (*x.starts.add(b))[h] };
        let quad = |i: usize| _mm512_set1_epi32(x.q.add(32 * b + 4 * i).cast::<i32>().read());
        let scale = _mm512_set1_ps(*x.scales.add(b));
        let sums = (*x.sums.add(2 * b), *x.sums.add(2 * b + 1));
        if P::WIDE {
            let mut v = _mm512_set1_epi32(start(0));
            for (i, q) in w.q.into_iter().enumerate() {
                v = _mm512_dpbusd_epi32(v, q, quad(i));
            }
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_mul_ps(w.scale[0], scale), sum);
            if P::OFFSETS {
                sum = _mm512_fmadd_ps(w.offset[0], _mm512_set1_ps(sums.0 + sums.1), sum);
            }
            return sum;
        }
        for h in 0..2 {
            let mut v = _mm512_set1_epi32(start(h));
            for i in 4 * h..4 * h + 4 {
                v = _mm512_dpbusd_epi32(v, w.q[i], quad(i));
            }
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_mul_ps(w.scale[h], scale), sum);
        }
        if P::OFFSETS {
            sum = _mm512_fmadd_ps(w.offset[0], _mm512_set1_ps(sums.0), sum);
            sum = _mm512_fmadd_ps(w.offset[1], _mm512_set1_ps(sums.1), sum);
        }
        sum
    }
}

/// 64 bytes of packed blocks.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn line(p: *const u8, at: usize) -> __m512i {
    // SAFETY: the caller's bytes.
    unsafe { _mm512_loadu_si512(p.add(at).cast()) }
}

/// The f16 numbers of 16 rows.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn f16s(p: *const u8, at: usize) -> __m512 {
    // SAFETY: the caller's bytes.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.add(at).cast())) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn low(v: __m512i) -> __m512i {
    _mm512_and_si512(v, _mm512_set1_epi8(15))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn high(v: __m512i) -> __m512i {
    low(_mm512_srli_epi16::<4>(v))
}

/// First halves from low nibbles, second halves from high ones.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn nibbles(p: *const u8) -> [__m512i; 8] {
    // SAFETY: the caller's bytes.
    let v = unsafe { [line(p, 0), line(p, 64), line(p, 128), line(p, 192)] };
    [low(v[0]), low(v[1]), low(v[2]), low(v[3]), high(v[0]), high(v[1]), high(v[2]), high(v[3])]
}

/// A format of blocks that lie alone: its integers, scales and offsets.
macro_rules! alone {
    ($name:ty: bytes $bytes:expr, bias $bias:expr, offsets $offsets:expr, |$p:ident| $q:expr, $scale:expr, $offset:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 1;
            const BYTES: usize = $bytes;
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            type Head = ();

            #[inline(always)]
            unsafe fn head(_: *const u8) {}

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
            unsafe fn block<const B: usize>($p: *const u8, _: &()) -> Block {
                // SAFETY: bytes of the blocks.
                unsafe { Block { q: $q, scale: [$scale; 2], offset: [$offset; 2] } }
            }
        }
    };
}

alone!(Q4_0: bytes 18, bias 8, offsets false, |p| nibbles(p.add(32)), f16s(p, 0), _mm512_setzero_ps());
alone!(Q4_1: bytes 20, bias 0, offsets true, |p| nibbles(p.add(64)), f16s(p, 0), f16s(p, 32));
alone!(Q8_0: bytes 34, bias 128, offsets false, |p| flipped(p.add(32)), f16s(p, 0), _mm512_setzero_ps());
alone!(Iq4Nl: bytes 18, bias 128, offsets false, |p| uneven(p.add(32)), f16s(p, 0), _mm512_setzero_ps());

/// Q8_0's bytes, 128 added.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn flipped(p: *const u8) -> [__m512i; 8] {
    // SAFETY: the caller's bytes.
    std::array::from_fn(|i| unsafe { _mm512_xor_si512(line(p, 64 * i), _mm512_set1_epi8(-128)) })
}

/// IQ4_NL's levels.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn uneven(p: *const u8) -> [__m512i; 8] {
    // SAFETY: the caller's bytes.
    let q = unsafe { nibbles(p) };
    let pair = |i: usize| levels((q[i], q[i + 4]), &IQ4_LEVELS);
    let v = [pair(0), pair(1), pair(2), pair(3)];
    [v[0].0, v[1].0, v[2].0, v[3].0, v[0].1, v[1].1, v[2].1, v[3].1]
}

/// Q4_K's and Q5_K's `d` and `-dmin`, and their scales and minima of the first and the last four blocks, a byte each.
#[derive(Clone, Copy)]
pub struct Head {
    d: __m512,
    dmin: __m512,
    scales: [__m512i; 2],
    minima: [__m512i; 2],
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q45_head(p: *const u8) -> Head {
    // SAFETY: the caller's bytes.
    unsafe {
        let v = [line(p, 64), line(p, 128), line(p, 192)];
        let six = _mm512_set1_epi8(0x3f);
        let four = _mm512_set1_epi8(15);
        let top = |v| _mm512_and_si512(_mm512_srli_epi32::<2>(v), _mm512_set1_epi8(0x30));
        Head {
            d: f16s(p, 0),
            dmin: negated(f16s(p, 32)),
            scales: [_mm512_and_si512(v[0], six), masked_or(top(v[0]), v[2], four)],
            minima: [_mm512_and_si512(v[1], six), masked_or(top(v[1]), _mm512_srli_epi32::<4>(v[2]), four)],
        }
    }
}

/// Byte `i` of every lane.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn byte(v: __m512i, i: usize) -> __m512i {
    _mm512_and_si512(_mm512_srlv_epi32(v, _mm512_set1_epi32(8 * i as i32)), _mm512_set1_epi32(0xff))
}

/// Q4_K and Q5_K: the nibbles begin at line `NIBBLES`, and Q5_K's fifth bits at line 4.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q45_block<const NIBBLES: usize, const B: usize>(p: *const u8, head: &Head) -> Block {
    let q = std::array::from_fn(|i| {
        // SAFETY: the caller's bytes.
        let (v, fifth) = unsafe { (line(p, 64 * (NIBBLES + B / 2 * 8 + i)), line(p, 64 * (4 + i))) };
        let v = if B.is_multiple_of(2) { low(v) } else { high(v) };
        if NIBBLES == 4 {
            return v;
        }
        // Bit `B` becomes bit 4.
        let fifth = _mm512_rolv_epi32(fifth, _mm512_set1_epi32((36 - B as i32) % 32));
        masked_or(v, fifth, _mm512_set1_epi8(16))
    });
    let scale = product(head.d, byte(head.scales[B / 4], B % 4));
    let offset = product(head.dmin, byte(head.minima[B / 4], B % 4));
    Block { q, scale: [scale; 2], offset: [offset; 2] }
}

/// A format of superblocks.
macro_rules! superblocks {
    ($name:ty: bytes $bytes:expr, wide $wide:expr, bias $bias:expr, offsets $offsets:expr, $head:ty: $make:expr, $block:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 8;
            const BYTES: usize = $bytes;
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            type Head = $head;

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
            unsafe fn head(p: *const u8) -> $head {
                // SAFETY: bytes of the superblocks.
                unsafe { $make(p) }
            }

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
            unsafe fn block<const B: usize>(p: *const u8, head: &$head) -> Block {
                // SAFETY: bytes of the superblocks.
                unsafe { $block(p, head) }
            }
        }
    };
}

superblocks!(Q4K: bytes 144, wide true, bias 0, offsets true, Head: q45_head, q45_block::<4, B>);
superblocks!(Q5K: bytes 176, wide true, bias 0, offsets true, Head: q45_head, q45_block::<12, B>);
superblocks!(Q6K: bytes 210, wide false, bias 32, offsets false, __m512: q6_head, q6_block::<B>);

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_head(p: *const u8) -> __m512 {
    // SAFETY: the last field.
    unsafe { f16s(p, 208 * ROWS) }
}

/// Lines: 32 of low nibbles, 16 of high bit pairs, 4 of scales. Of the four blocks of half a superblock, the first two have
/// the low nibbles of the first and second eight lines, the others the high ones; block `i` has bits `2i` and `2i + 1` of
/// the high bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_block<const B: usize>(p: *const u8, d: &__m512) -> Block {
    let (step, at) = (B / 4, B % 4);
    let q = std::array::from_fn(|i| {
        // SAFETY: the caller's bytes.
        let (l, h) = unsafe { (line(p, 64 * (16 * step + at % 2 * 8 + i)), line(p, 64 * (32 + 8 * step + i))) };
        let l = if at < 2 { l } else { _mm512_srli_epi16::<4>(l) };
        join(l, _mm512_rolv_epi32(h, _mm512_set1_epi32((36 - 2 * at as i32) % 32)))
    });
    // SAFETY: the caller's bytes.
    let scales = unsafe { line(p, 64 * (48 + B / 2)) };
    let scale = |half: usize| {
        let top = _mm512_sllv_epi32(scales, _mm512_set1_epi32(8 * (3 - (B % 2 * 2 + half)) as i32));
        product(*d, _mm512_srai_epi32::<24>(top))
    };
    Block { q, scale: [scale(0), scale(1)], offset: [_mm512_setzero_ps(); 2] }
}
