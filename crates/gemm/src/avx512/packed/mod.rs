//! Packed weights (`crate::packed`): lanes are weight rows, as in a panel, straight from memory.
//!
//! A broadcast of four activation bytes multiplies 16 rows, eight `vpdpbusd` make a block's integer sum, and nothing is
//! ever added across lanes. [`gemv`] has the sums of one activation row in registers; in [`small_m`] they wait in memory. Where
//! there are tiles of bytes, they make the integer sums of 16 rows ([`small_m`]) or more ([`gemm`]). [`no_vnni`] is for machines
//! without VNNI.

mod amx;
mod amx_small_m;
mod gemv;
mod no_vnni;
mod small_m;
mod sums;

pub use no_vnni::q8_packed_no_vnni;

use super::blocks::{IQ4_LEVELS, Iq4Nl, Q4_0, Q4_1, Q8_0};
use super::superblocks::{Q4K, Q5K, Q6K, join, masked_or, negated, product};
use super::{BLOCKS, broadcast, panel};
use crate::gemm::{Gemm, q8_row};
use crate::packed::ROWS;
use crate::simd::prefetch;
use crate::simd::tiles::SIDE;
use std::arch::x86_64::*;

/// 32 values of 16 weight rows.
#[derive(Clone, Copy)]
pub struct WeightBlock {
    /// Four values of each row, made unsigned by adding the format's bias.
    pub q: [__m512i; 8],
    pub scales: Scales,
}

/// What a block is scaled by: its first and its second half, equal if wide.
#[derive(Clone, Copy)]
pub struct Scales {
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
    /// Has offsets: if so, one per 32 values, and no bias.
    const OFFSETS: bool;
    /// What the integers are larger by than the format's.
    const BIAS: u8;
    /// Bits of the integers with the bias.
    const BITS: u32;
    /// What blocks that lie together share.
    type Head: Copy;

    /// # Safety
    /// The blocks of 16 rows are at `p`, and the machine has AVX-512 F, BW, VL and DQ.
    unsafe fn head(p: *const u8) -> Self::Head;

    /// Values `4 * I..4 * I + 4` of block `2 * pair + ODD` of those at `p`, with the bias.
    ///
    /// # Safety
    /// As [`Packed::head`].
    unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, pair: usize) -> __m512i;

    /// Scales and offsets of block `b` of those at `p`.
    ///
    /// # Safety
    /// As [`Packed::head`], which is theirs.
    unsafe fn scales(p: *const u8, head: &Self::Head, b: usize) -> Scales;

    /// Block `2 * pair + ODD` of those at `p`.
    ///
    /// # Safety
    /// As [`Packed::scales`].
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
    unsafe fn block<const ODD: usize>(p: *const u8, head: &Self::Head, pair: usize) -> WeightBlock {
        // SAFETY: the same contract.
        unsafe {
            macro_rules! quads {
                ($($i:literal)*) => { [$(Self::quad::<ODD, $i>(p, pair)),*] };
            }
            WeightBlock { q: quads!(0 1 2 3 4 5 6 7), scales: Self::scales(p, head, 2 * pair + ODD) }
        }
    }
}

/// Blocks of the longest row there is a kernel for.
const LONGEST: usize = crate::packed::MAX_COLS / 32;

/// What a block of activations has beside integers and a scale: what takes the bias off the integer sums of its halves, or
/// the sums that offsets are multiplied with, as bits. A wide format takes the first.
type Extra = [i32; 2];

/// The kernel of a format.
///
/// # Safety
/// As [`Gemm`] promises, of packed weights: their rows, and the tile's, come by 16 and have no more than
/// [`crate::packed::MAX_COLS`] values. The machine has AVX-512 F, BW, VL, DQ and VNNI.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn q8_packed<P: Packed>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe {
        match d.rows {
            0 => {}
            1 => gemv::gemv::<P>(d),
            _ => small_m::small_m::<P>(d),
        }
    }
}

/// The kernel of a format on a machine with tiles.
///
/// # Safety
/// As [`q8_packed`]; the machine has AMX.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn q8_packed_tiles<P: Packed>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe {
        if d.rows < SIDE {
            q8_packed::<P>(d);
        } else if P::WIDE && (d.rows >= 2 * SIDE || !amx_small_m::divides(d.k)) {
            amx::gemm::<P>(d);
        } else {
            amx_small_m::small_m::<P>(d);
        }
    }
}

/// Extras of a row, in whole pairs of steps.
fn extras_len(d: &Gemm) -> usize {
    (d.k / 32).next_multiple_of(2 * BLOCKS)
}

/// Writes the extras of activation row `m`.
///
/// # Safety
/// As [`q8_packed`]; there is room for [`extras_len`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn extras<P: Packed>(d: &Gemm, m: usize, to: *mut Extra) {
    // Every block has extras, of one kind.
    const { assert!(if P::OFFSETS { P::WIDE && P::BIAS == 0 } else { P::BIAS != 0 }) };
    // SAFETY: blocks of the row.
    unsafe {
        let (q, _, sums) = q8_row(d, m);
        if P::BIAS != 0 {
            panel::starts(q, d.k / 32, P::WIDE, P::BIAS, to);
        }
        for b in 0..if P::OFFSETS { d.k / 32 } else { 0 } {
            let sum = *sums.add(2 * b) + *sums.add(2 * b + 1);
            *to.add(b) = [sum.to_bits() as i32; 2];
        }
    }
}

/// Extras of activation rows that are multiplied with tiles at a time: of very long rows those are fewer.
const EXTRAS: usize = SIDE * LONGEST / 4;

/// Has `some` multiply the activation rows with tiles, at most `most` at a time; a rest of fewer than a tile goes without.
///
/// # Safety
/// As [`q8_packed`]. `some` gets rows of the tile, whose extras are no more than [`EXTRAS`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn in_chunks<P: Packed>(d: &Gemm, most: usize, mut some: impl FnMut(&Gemm)) {
    let most = most.min(EXTRAS / extras_len(d).max(1));
    if most < SIDE {
        // SAFETY: the same contract.
        return unsafe { small_m::small_m::<P>(d) };
    }
    for m in (0..d.rows).step_by(most) {
        let rows = most.min(d.rows - m);
        let (x, out) = (d.x.wrapping_add(m * d.x_stride), d.out.wrapping_add(m * d.out_stride));
        let part = Gemm { x, rows, out, ..*d };
        match rows < SIDE {
            // SAFETY: the same contract.
            true => unsafe { small_m::small_m::<P>(&part) },
            false => some(&part),
        }
    }
}

/// The row that a tile begins with: one of fewer than 16 new rows begins with some of the tile before it.
fn first_row(d: &Gemm, tile: usize) -> usize {
    (tile * SIDE).min(d.rows - SIDE)
}

/// Does something with a block, `2 * pair + ODD`, of those that lie together.
macro_rules! match_block {
    ($p:ty, $block:expr, |$odd:ident, $pair:ident| $do:expr) => {{
        let $pair = if <$p>::BLOCKS == 1 { 0 } else { $block / 2 };
        if <$p>::BLOCKS == 1 || $block % 2 == 0 {
            const $odd: usize = 0;
            $do
        } else {
            const $odd: usize = 1;
            $do
        }
    }};
}
use match_block;

/// A block of an activation row.
#[derive(Clone, Copy)]
struct ActBlock {
    q: *const u8,
    scale: *const f32,
    extra: *const Extra,
}

impl ActBlock {
    /// The first of all activation rows, whose extras are written to `extra` where offsets need them.
    ///
    /// # Safety
    /// As [`q8_packed`]; the extras fit.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn first<P: Packed>(d: &Gemm, extra: *mut Extra) -> Self {
        // SAFETY: rows of the tile.
        unsafe {
            for m in 0..if P::OFFSETS { d.rows } else { 0 } {
                extras::<P>(d, m, extra.add(m * extras_len(d)));
            }
            let (q, scale, _) = q8_row(d, 0);
            Self { q, scale, extra }
        }
    }

    /// That of some rows further, or some blocks.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    unsafe fn further(self, d: &Gemm, rows: usize, blocks: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                q: self.q.add(rows * d.x_stride + 32 * blocks),
                scale: self.scale.byte_add(rows * d.x_stride).add(blocks),
                extra: self.extra.add(rows * extras_len(d) + blocks),
            }
        }
    }
}

/// Prefetches the lines of the next bytes, some ahead.
#[inline(always)]
fn prefetch_bytes(at: *const u8, bytes: usize, ahead: usize) {
    for line in (0..bytes).step_by(64) {
        prefetch(at.wrapping_add(ahead).wrapping_add(line));
    }
}

/// Where blocks of 32 weight rows lie that are multiplied together: those of the first and of the last 16.
struct Pair {
    p: [*const u8; 2],
    /// Bytes to the pair that comes next: in the tile, or in what is multiplied after it.
    ahead: usize,
}

impl Pair {
    /// Those of the first values. If there are but 16 rows from `n` on, they stand in for the others.
    ///
    /// # Safety
    /// Row `n` is of the tile.
    #[inline(always)]
    unsafe fn new(d: &Gemm, n: usize) -> Self {
        let group = ROWS * d.w_stride;
        let second = if n + ROWS < d.cols { group } else { 0 };
        // SAFETY: rows of the tile.
        let p = unsafe { [d.w.add(n * d.w_stride), d.w.add(n * d.w_stride + second)] };
        let last = n + 2 * ROWS >= d.cols && !d.next.is_null();
        let ahead = if last { d.next.addr().wrapping_sub(p[0].addr()) } else { 2 * group };
        Self { p, ahead }
    }

    /// # Safety
    /// The blocks exist, and the caller has the AVX-512 level.
    #[inline(always)]
    unsafe fn heads<P: Packed>(&self) -> [P::Head; 2] {
        // SAFETY: the same contract.
        unsafe { [P::head(self.p[0]), P::head(self.p[1])] }
    }

    /// Prefetches block `b` of the next pair: all lines of a superblock at once would wait for each other.
    #[inline(always)]
    fn prefetch<P: Packed>(&self, b: usize) {
        let part = ROWS * P::BYTES / P::BLOCKS;
        for p in self.p {
            prefetch_bytes(p.wrapping_add(b * part), part, self.ahead);
        }
    }

    /// Goes on to the blocks after these.
    #[inline(always)]
    fn advance<P: Packed>(&mut self) {
        self.p = self.p.map(|p| p.wrapping_add(ROWS * P::BYTES));
    }
}

/// 64 bytes of packed blocks.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn line(p: *const u8, at: usize) -> __m512i {
    // SAFETY: the caller's bytes.
    unsafe { _mm512_loadu_si512(p.add(at).cast()) }
}

/// The f16 numbers of 16 rows.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn f16s(p: *const u8, at: usize) -> __m512 {
    // SAFETY: the caller's bytes.
    unsafe { _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(_mm256_loadu_si256(p.add(at).cast())) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
fn low(v: __m512i) -> __m512i {
    _mm512_and_si512(v, _mm512_set1_epi8(15))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
fn high(v: __m512i) -> __m512i {
    low(_mm512_srli_epi16::<4>(v))
}

/// Quad `I` of nibbles: first halves are low ones, second halves high ones.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn nibble<const I: usize>(p: *const u8) -> __m512i {
    // SAFETY: the caller's bytes.
    let v = unsafe { line(p, 64 * (I % 4)) };
    if I < 4 { low(v) } else { high(v) }
}

/// A format of blocks that lie alone: its integers after `skip` bytes, scales and offsets.
macro_rules! alone {
    ($name:ty: bytes $bytes:expr, bits $bits:expr, bias $bias:expr, offsets $offsets:expr, $quad:ident after $skip:expr, |$p:ident| $scale:expr, $offset:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 1;
            const BYTES: usize = $bytes;
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const BITS: u32 = $bits;
            type Head = ();

            #[inline(always)]
            unsafe fn head(_: *const u8) {}

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
            unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, _: usize) -> __m512i {
                // SAFETY: bytes of the blocks.
                unsafe { $quad::<I>(p.add($skip)) }
            }

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
            unsafe fn scales($p: *const u8, _: &(), _: usize) -> Scales {
                // SAFETY: bytes of the blocks.
                unsafe { Scales { scale: [$scale; 2], offset: [$offset; 2] } }
            }
        }
    };
}

alone!(Q4_0: bytes 18, bits 4, bias 8, offsets false, nibble after 32, |p| f16s(p, 0), _mm512_setzero_ps());
alone!(Q4_1: bytes 20, bits 4, bias 0, offsets true, nibble after 64, |p| f16s(p, 0), f16s(p, 32));
alone!(Q8_0: bytes 34, bits 8, bias 128, offsets false, flipped after 32, |p| f16s(p, 0), _mm512_setzero_ps());
alone!(Iq4Nl: bytes 18, bits 8, bias 128, offsets false, uneven after 32, |p| f16s(p, 0), _mm512_setzero_ps());

/// Q8_0's bytes, 128 added.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn flipped<const I: usize>(p: *const u8) -> __m512i {
    // SAFETY: the caller's bytes.
    unsafe { _mm512_xor_si512(line(p, 64 * I), _mm512_set1_epi8(-128)) }
}

/// IQ4_NL's levels.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn uneven<const I: usize>(p: *const u8) -> __m512i {
    // SAFETY: the caller's bytes, and the table.
    unsafe { _mm512_shuffle_epi8(broadcast(IQ4_LEVELS.as_ptr()), nibble::<I>(p)) }
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
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
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
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
fn byte(v: __m512i, i: usize) -> __m512i {
    _mm512_and_si512(_mm512_srlv_epi32(v, _mm512_set1_epi32(8 * i as i32)), _mm512_set1_epi32(0xff))
}

/// Q4_K and Q5_K: the nibbles begin at line `NIBBLES`, and Q5_K's fifth bits at line 4.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn q45_quad<const NIBBLES: usize, const ODD: usize, const I: usize>(p: *const u8, pair: usize) -> __m512i {
    // SAFETY: the caller's bytes.
    let (v, fifth) = unsafe { (line(p, 64 * (NIBBLES + pair * 8 + I)), line(p, 64 * (4 + I))) };
    let v = if ODD == 0 { low(v) } else { high(v) };
    if NIBBLES == 4 {
        return v;
    }
    // The bit of the block's number becomes bit 4.
    let fifth = _mm512_rolv_epi32(fifth, _mm512_set1_epi32((36 - (2 * pair + ODD) as i32) % 32));
    masked_or(v, fifth, _mm512_set1_epi8(16))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn q45_scales(_: *const u8, head: &Head, b: usize) -> Scales {
    let scale = product(head.d, byte(head.scales[b / 4], b % 4));
    let offset = product(head.dmin, byte(head.minima[b / 4], b % 4));
    Scales { scale: [scale; 2], offset: [offset; 2] }
}

/// A format of superblocks.
macro_rules! superblocks {
    ($name:ty: bytes $bytes:expr, wide $wide:expr, bits $bits:expr, bias $bias:expr, offsets $offsets:expr, $head:ty: $make:expr, $quad:expr, $scales:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 8;
            const BYTES: usize = $bytes;
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const BITS: u32 = $bits;
            type Head = $head;

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
            unsafe fn head(p: *const u8) -> $head {
                // SAFETY: bytes of the superblocks.
                unsafe { $make(p) }
            }

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
            unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, pair: usize) -> __m512i {
                // SAFETY: bytes of the superblocks.
                unsafe { $quad(p, pair) }
            }

            #[inline]
            #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
            unsafe fn scales(p: *const u8, head: &$head, b: usize) -> Scales {
                // SAFETY: bytes of the superblocks.
                unsafe { $scales(p, head, b) }
            }
        }
    };
}

superblocks!(Q4K: bytes 144, wide true, bits 4, bias 0, offsets true, Head: q45_head, q45_quad::<4, ODD, I>, q45_scales);
superblocks!(Q5K: bytes 176, wide true, bits 5, bias 0, offsets true, Head: q45_head, q45_quad::<12, ODD, I>, q45_scales);
superblocks!(Q6K: bytes 210, wide false, bits 6, bias 32, offsets false, __m512: q6_head, q6_quad::<ODD, I>, q6_scales);

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn q6_head(p: *const u8) -> __m512 {
    // SAFETY: the last field.
    unsafe { f16s(p, 208 * ROWS) }
}

/// Lines: 32 of low nibbles, 16 of high bit pairs, 4 of scales. Of the four blocks of half a superblock, the first two have
/// the low nibbles of the first and second eight lines, the others the high ones; block `i` has bits `2i` and `2i + 1` of
/// the high bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn q6_quad<const ODD: usize, const I: usize>(p: *const u8, pair: usize) -> __m512i {
    let (step, upper) = (pair / 2, pair % 2);
    // SAFETY: the caller's bytes.
    let (l, h) = unsafe { (line(p, 64 * (16 * step + 8 * ODD + I)), line(p, 64 * (32 + 8 * step + I))) };
    let l = _mm512_srlv_epi16(l, _mm512_set1_epi16(4 * upper as i16));
    join(l, _mm512_rolv_epi32(h, _mm512_set1_epi32((36 - 2 * (2 * upper + ODD) as i32) % 32)))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn q6_scales(p: *const u8, d: &__m512, b: usize) -> Scales {
    // SAFETY: the caller's bytes.
    let scales = unsafe { line(p, 64 * (48 + b / 2)) };
    let scale = |half: usize| {
        let top = _mm512_sllv_epi32(scales, _mm512_set1_epi32(8 * (3 - (b % 2 * 2 + half)) as i32));
        product(*d, _mm512_srai_epi32::<24>(top))
    };
    Scales { scale: [scale(0), scale(1)], offset: [_mm512_setzero_ps(); 2] }
}
