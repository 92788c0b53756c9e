//! How keys and values are read, and what is asked for ahead of reading.

use crate::simd::{Simd, prefetch};
use akunu_plan::steps::KV_BLOCK;
use std::ops::Range;

/// Places that are scored before they are weighed, in whole blocks and counted from a text's first: one maximum and one sum
/// for most texts, and scores that stay in the first-level cache.
pub(super) const SPAN: usize = SPAN_BLOCKS * KV_BLOCK;
pub(super) const SPAN_BLOCKS: usize = 4;

/// How keys and values are read.
pub(super) trait Keys {
    /// Whether vectors are loaded from the cache as they are; else a block is decoded first.
    const DIRECT: bool;
    /// Lines that are asked for beside four rows: as many as those have, where that is known beforehand.
    const LINES: usize = 4;
    /// A row's values and bytes, where they are known beforehand: loops over them are unrolled then.
    #[inline(always)]
    fn shape(width: usize, row_bytes: usize) -> (usize, usize) {
        (width, row_bytes)
    }
    /// Values `at..at + LANES` of a row.
    ///
    /// # Safety
    /// The row has them.
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V;
}

/// f32 rows.
pub(super) struct Single;
/// f16 rows of `WIDTH` values, or of any number where that is 0.
pub(super) struct Half<const WIDTH: usize>;
/// Q8_0 rows: blocks of an f16 scale and 32 int8 values.
pub(super) struct Blocks8;
/// Any format and any head size: blocks are decoded to f32 rows first.
pub(super) struct Decoded;

impl Keys for Single {
    const DIRECT: bool = true;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(row.cast::<f32>().add(at)) }
    }
}

impl<const WIDTH: usize> Keys for Half<WIDTH> {
    const DIRECT: bool = true;
    const LINES: usize = if WIDTH > 0 { 4 * 2 * WIDTH / 64 } else { 4 };
    #[inline(always)]
    fn shape(width: usize, row_bytes: usize) -> (usize, usize) {
        if WIDTH > 0 { (WIDTH, 2 * WIDTH) } else { (width, row_bytes) }
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load_f16(row.add(2 * at)) }
    }
}

impl Keys for Blocks8 {
    const DIRECT: bool = true;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V {
        const VALUES: usize = 32;
        const BYTES: usize = 34;
        // SAFETY: the caller's promise; lanes divide a block, so a vector lies in one.
        unsafe {
            let block = row.add(at / VALUES * BYTES);
            let scale = s.half(block.cast::<u16>().read_unaligned());
            s.mul(s.load_i8(block.add(2 + at % VALUES).cast()), s.splat(scale))
        }
    }
}

impl Keys for Decoded {
    const DIRECT: bool = false;
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(row.cast::<f32>().add(at)) }
    }
}

/// One head's keys and values in one block, and the positions of it that are seen: those outside may never have been written.
#[derive(Clone)]
pub(super) struct Block {
    pub keys: *const u8,
    pub values: *const u8,
    pub seen: Range<usize>,
}

impl Block {
    pub const NONE: Block = Block { keys: std::ptr::null(), values: std::ptr::null(), seen: 0..0 };

    pub fn ahead(&self, rows: *const u8, row_bytes: usize) -> Ahead {
        Ahead { at: rows.wrapping_add(self.seen.start * row_bytes), bytes: self.seen.len() * row_bytes }
    }
}

/// Bytes that will be read soon. Rows of other sequences lie in pages of their own, where no prefetcher expects them.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub at: *const u8,
    pub bytes: usize,
}

impl Ahead {
    pub const NOTHING: Ahead = Ahead { at: std::ptr::null(), bytes: 0 };

    /// To be asked for in `steps` parts, while other things are computed: a core has room for few requests, and waits when
    /// all of them come at once.
    #[inline(always)]
    pub fn in_steps(self, steps: usize, lines: usize) -> Asking {
        let gap = (self.bytes / (lines * steps.max(1))).max(64);
        Asking { at: self.at, last: self.at.wrapping_add(self.bytes), gap, lines }
    }
}

/// What is left of asking for bytes ahead. Where a row's bytes are not known beforehand and are many, some lines are left out,
/// which the processor's own prefetchers bring. Nothing here branches: in loops this short that costs more than what is asked for saves.
pub(super) struct Asking {
    at: *const u8,
    last: *const u8,
    gap: usize,
    lines: usize,
}

impl Asking {
    #[inline(always)]
    pub fn step(&mut self) {
        for line in 0..self.lines {
            prefetch(self.at.wrapping_add(line * self.gap));
        }
        // At the end the last lines are asked for again and again, which costs nothing.
        self.at = self.at.wrapping_add(self.lines * self.gap).min(self.last);
    }
}
