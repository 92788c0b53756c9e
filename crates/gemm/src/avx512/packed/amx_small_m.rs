//! Small-M GEMM on int8 tiles, of 16 activation rows or some more: the integer sums of 16 activation rows times 16 weight rows at
//! a time.
//!
//! A step is up to eight products of tiles, whose sums go to memory. Between their instructions the weights of the next step
//! are unpacked, for which the matrix unit does not wait. Then the sums are scaled and added, in registers and in the order of
//! [`super::small_m`], so that the results are the same to the bit. Not beside the tiles: there a core begins half as many
//! conversions and products, and with few rows unpacking is enough to do there. What waits in memory shares the first-level
//! cache with the activation rows, and so is small.

use super::super::{CHAINS, joined};
use super::{ActBlock, EXTRAS, Extra, Packed, Scales, first_row, in_chunks, match_block, prefetch_bytes};
use crate::gemm::Gemm;
use crate::packed::ROWS;
use crate::simd::tiles::{ByteTiles, SIDE};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows whose sums wait.
const TILE: usize = 32;
/// Products of a step, at most: a unit is the values that share a scale.
const UNITS: usize = 8;

/// Blocks that weights are prefetched ahead of unpacking, or as many as lie together.
const AHEAD: usize = 12;

/// What waits in memory.
#[repr(C, align(64))]
struct Scratch {
    /// Right tiles: of the step at hand and of the next.
    weights: [[[__m512i; 8]; UNITS]; 2],
    /// What the tiles give.
    integers: [[[i32; ROWS]; SIDE]; UNITS],
    /// Between the steps, of rows of tiles.
    sums: [[__m512; CHAINS]; TILE],
    extra: [Extra; EXTRAS],
}

const _: () = assert!(SIDE == ROWS && TILE.is_multiple_of(SIDE));

/// # Safety
/// As [`super::q8_packed`], of values that [`divides`] lets through; the machine has AMX.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn small_m<P: Packed>(d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    // SAFETY: the same contract; room for all sums.
    unsafe {
        let tiles = ByteTiles::configure(values::<P>());
        in_chunks::<P>(d, TILE, |part| some::<P>(part, s, &tiles));
    }
}

/// Whether so many values are segments of four, six and eight blocks.
pub fn divides(k: usize) -> bool {
    k.is_multiple_of(64) && k > 64
}

/// Values of a unit.
const fn values<P: Packed>() -> usize {
    if P::WIDE { 32 } else { 16 }
}

/// As many rows as there is room for.
///
/// # Safety
/// As [`small_m`]; the extras fit.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn some<P: Packed>(d: &Gemm, s: *mut Scratch, tiles: &ByteTiles) {
    // SAFETY: rows and columns of the tile.
    unsafe {
        let x = ActBlock::first::<P>(d, (&raw mut (*s).extra).cast());
        let mut segment = Segment::new::<P>(d, 0, 0, 0);
        let first = NextSegment::new::<P>(d, s, segment);
        (0..UNITS).for_each(|unit| first.unpack::<P>(unit));
        while let Some(at) = segment {
            segment = at.next::<P>(d);
            let ahead = NextSegment::new::<P>(d, s, segment);
            match at.units {
                6 if P::BLOCKS == 1 => steps::<P, 6>(d, s, tiles, x, at, ahead),
                4 if P::BLOCKS == 1 => steps::<P, 4>(d, s, tiles, x, at, ahead),
                _ => steps::<P, UNITS>(d, s, tiles, x, at, ahead),
            }
        }
    }
}

/// The weights of a step: some units of 16 weight rows.
#[derive(Clone, Copy)]
struct Segment {
    /// Pieces before it.
    index: usize,
    /// The first weight row and the first block.
    n: usize,
    block: usize,
    units: usize,
}

impl Segment {
    /// The segment that begins there, if it exists. Of blocks that do not divide by eight, segments of six come first.
    #[inline(always)]
    fn new<P: Packed>(d: &Gemm, index: usize, n: usize, block: usize) -> Option<Self> {
        let left = d.k / 32 - block;
        let units = match left % UNITS {
            0 => UNITS,
            4 if left < UNITS && P::WIDE => 4,
            _ if P::BLOCKS == 1 => 6,
            _ => UNITS,
        };
        (n < d.cols).then_some(Self { index, n, block, units })
    }

    /// The block after it.
    #[inline(always)]
    fn end<P: Packed>(self) -> usize {
        self.block + self.units * values::<P>() / 32
    }

    /// The segment after it.
    #[inline(always)]
    fn next<P: Packed>(self, d: &Gemm) -> Option<Self> {
        match self.end::<P>() == d.k / 32 {
            true => Self::new::<P>(d, self.index + 1, self.n + ROWS, 0),
            false => Self::new::<P>(d, self.index + 1, self.n, self.end::<P>()),
        }
    }

    /// Where the blocks that it begins with lie together.
    #[inline(always)]
    fn place<P: Packed>(self, d: &Gemm) -> *const u8 {
        d.w.wrapping_add(self.n * d.w_stride + self.block / P::BLOCKS * ROWS * P::BYTES)
    }
}

/// A segment of weights times all activation rows.
///
/// # Safety
/// As [`some`]: the weights are unpacked, and there are `U` units.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn steps<P: Packed, const U: usize>(
    d: &Gemm,
    s: *mut Scratch,
    tiles: &ByteTiles,
    x: ActBlock,
    segment: Segment,
    ahead: NextSegment,
) {
    // SAFETY: rows of the tile; places in the scratch.
    unsafe {
        let factors = Factors::<U>::new::<P>(segment.place::<P>(d), segment.block % P::BLOCKS);
        let right = (&raw const (*s).weights[segment.index % 2]).cast::<[__m512i; 8]>();
        for tile in 0..d.rows.div_ceil(SIDE) {
            let row = first_row(d, tile);
            let x = x.further(d, row, segment.block);
            let integers = (&raw mut (*s).integers).cast::<[[i32; ROWS]; SIDE]>();
            multiply::<P, U>(tiles, (x.q, d.x_stride), right, integers, |unit| {
                if tile == 0 {
                    ahead.unpack::<P>(unit);
                }
            });
            let sums = &raw mut (*s).sums[tile * SIDE];
            let out = d.out.wrapping_add(row * d.out_stride + segment.n);
            let out = (segment.end::<P>() == d.k / 32).then_some(out);
            factors.add::<P>(d, x, integers.cast(), (sums, segment.block), out);
        }
        (U..UNITS).for_each(|unit| ahead.unpack::<P>(unit));
    }
}

/// The integer sums of `U` units. `between` is other work beside each; the sums leave their tile when the next product has begun.
///
/// # Safety
/// The units exist on both sides, and there is room for the sums.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<P: Packed, const U: usize>(
    tiles: &ByteTiles,
    (left, stride): (*const u8, usize),
    right: *const [__m512i; 8],
    to: *mut [[i32; ROWS]; SIDE],
    mut between: impl FnMut(usize),
) {
    const { assert!(U.is_multiple_of(2)) };
    macro_rules! unit {
        ($turn:literal, $other:literal, $unit:expr) => {
            tiles.left::<$turn>(left.add($unit * values::<P>()), stride);
            tiles.right::<$turn>(right.add($unit).cast());
            between($unit);
            tiles.multiply::<$turn>();
            if $unit > 0 {
                tiles.store::<$other>(to.wrapping_add($unit).wrapping_sub(1).cast());
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        for unit in (0..U).step_by(2) {
            unit!(0, 1, unit);
            unit!(1, 0, unit + 1);
        }
        tiles.store::<1>(to.add(U - 1).cast());
    }
}

/// The weights of the next step, on the way to tiles.
#[derive(Clone, Copy)]
struct NextSegment {
    units: usize,
    from: *const u8,
    /// Of those that lie together at `from`, the first block.
    block: usize,
    /// Bytes to what is prefetched.
    far: usize,
    to: *mut [__m512i; 8],
}

impl NextSegment {
    #[inline(always)]
    fn new<P: Packed>(d: &Gemm, s: *mut Scratch, segment: Option<Segment>) -> Self {
        let Some(segment) = segment else {
            return Self { units: 0, from: d.w, block: 0, far: 0, to: std::ptr::null_mut() };
        };
        let from = segment.place::<P>(d);
        // Weights follow one another: those of the next blocks are prefetched, or what is multiplied after all of them.
        let last = segment.n + ROWS >= d.cols && segment.end::<P>() == d.k / 32 && !d.next.is_null();
        let far = if last {
            d.next.addr().wrapping_sub(from.addr())
        } else {
            AHEAD.next_multiple_of(P::BLOCKS) * ROWS * P::BYTES / P::BLOCKS
        };
        // SAFETY: a place in the scratch.
        let to = unsafe { (&raw mut (*s).weights[segment.index % 2]).cast() };
        Self { units: segment.units, from, block: segment.block % P::BLOCKS, far, to }
    }

    /// Unpacks the block that begins with a unit, if there is one: a unit of eight quads, or two of four.
    ///
    /// # Safety
    /// As [`some`].
    #[inline(always)]
    unsafe fn unpack<P: Packed>(self, unit: usize) {
        if unit >= self.units || !P::WIDE && !unit.is_multiple_of(2) {
            return;
        }
        let block = unit * values::<P>() / 32;
        let bytes = ROWS * P::BYTES / P::BLOCKS;
        // SAFETY: blocks of the weights; right tiles of the step.
        unsafe {
            prefetch_bytes(self.from.wrapping_add((self.block + block) * bytes), bytes, self.far);
            macro_rules! quads {
                ($odd:ident, $pair:ident, $p:expr, $($i:literal)*) => {
                    [$(_mm512_sub_epi8(P::quad::<$odd, $i>($p, $pair), _mm512_set1_epi8(P::BIAS as i8))),*]
                };
            }
            let p = self.from.add(if P::BLOCKS == 1 { block * bytes } else { 0 });
            let quads = match_block!(P, (self.block + block), |ODD, pair| quads!(ODD, pair, p, 0 1 2 3 4 5 6 7));
            let to = self.to.add(unit);
            for (i, quad) in quads.into_iter().enumerate() {
                match P::WIDE {
                    true => (*to)[i] = quad,
                    false => (*to.add(i / 4))[i % 4] = quad,
                }
            }
        }
    }
}

/// What the units of 16 weight rows are scaled by.
struct Factors<const U: usize> {
    scale: [__m512; U],
    offset: [__m512; U],
}

impl<const U: usize> Factors<U> {
    /// Those from block `first` of those that lie together at `p`.
    ///
    /// # Safety
    /// As [`some`].
    #[inline(always)]
    unsafe fn new<P: Packed>(p: *const u8, first: usize) -> Self {
        // SAFETY: blocks of the weights.
        unsafe {
            let mut factors = Self { scale: [_mm512_setzero_ps(); U], offset: [_mm512_setzero_ps(); U] };
            let head = P::head(p);
            for unit in (0..U).step_by(32 / values::<P>()) {
                let block = unit * values::<P>() / 32;
                let p = p.add(if P::BLOCKS == 1 { block * ROWS * P::BYTES } else { 0 });
                let Scales { scale, offset } = P::scales(p, &head, first + block);
                factors.scale[unit] = scale[0];
                factors.offset[unit] = offset[0];
                if !P::WIDE {
                    factors.scale[unit + 1] = scale[1];
                }
            }
            factors
        }
    }

    /// Adds the integer sums of 16 activation rows to their sums, which are at `sums` between the steps of a row; the last step has
    /// an `out` for the results.
    ///
    /// # Safety
    /// As [`some`].
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn add<P: Packed>(
        &self,
        d: &Gemm,
        x: ActBlock,
        integers: *const [i32; ROWS],
        (sums, first): (*mut [__m512; CHAINS], usize),
        out: Option<*mut f32>,
    ) {
        // The first block is even, so that chains from there on are added up in the same order.
        let chain = |i: usize| (first + i) % CHAINS;
        // The first step has no sums before it.
        let before = if first == 0 { 0 } else { !0 };
        for row in 0..SIDE {
            // SAFETY: rows, integers and sums of the step.
            unsafe {
                let (x, sums) = (x.further(d, row, 0), sums.add(row).cast::<__m512>());
                let mut v = [_mm512_setzero_ps(); CHAINS];
                for (i, v) in v.iter_mut().enumerate() {
                    *v = _mm512_maskz_load_ps(before, sums.add(chain(i)).cast());
                }
                for unit in 0..U {
                    let block = unit * values::<P>() / 32;
                    let v = &mut v[block % CHAINS];
                    let integers = _mm512_cvtepi32_ps(_mm512_load_si512(integers.add(unit * SIDE + row).cast()));
                    let scale = _mm512_mul_ps(self.scale[unit], _mm512_set1_ps(*x.scale.add(block)));
                    *v = _mm512_fmadd_ps(integers, scale, *v);
                    if P::OFFSETS {
                        let of = _mm512_set1_ps(f32::from_bits((*x.extra.add(block))[0] as u32));
                        *v = _mm512_fmadd_ps(self.offset[unit], of, *v);
                    }
                }
                if let Some(out) = out {
                    _mm512_storeu_ps(out.add(row * d.out_stride), joined(v));
                } else {
                    for (i, v) in v.into_iter().enumerate() {
                        *sums.add(chain(i)) = v;
                    }
                }
            }
        }
    }
}
