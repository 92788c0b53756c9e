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
    const LINES: usize = PLACES;
    /// Places they are asked for at by turns.
    const PLACES: usize = if Self::LINES < PLACES { Self::LINES } else { PLACES };
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
    const LINES: usize = if WIDTH > 0 { 4 * 2 * WIDTH / 64 } else { PLACES };
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

/// One head's keys in one block, and the positions of it that are seen: those outside may never have been written.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub keys: *const u8,
    pub from: usize,
    pub to: usize,
}

impl Block {
    pub const NONE: Block = Block { keys: std::ptr::null(), from: 0, to: 0 };

    pub fn seen(&self) -> Range<usize> {
        self.from..self.to
    }
}

/// Places that are asked for by turns, at most: as far from each other as what is seen of a span allows.
const PLACES: usize = 2 * SPAN_BLOCKS;

/// What a row sees of one span of its text, of the first KV head.
#[derive(Clone)]
pub(super) struct Span {
    pub blocks: [Block; SPAN_BLOCKS],
    /// Bytes from a key to its value.
    pub values: isize,
    /// Keys from which on what is seen is asked for by turns, and the bytes from each to the next.
    places: [*const u8; PLACES],
    bytes: usize,
}

impl Span {
    pub const NONE: Span =
        Span { blocks: [Block::NONE; SPAN_BLOCKS], values: 0, places: [std::ptr::null(); PLACES], bytes: 0 };

    #[inline(always)]
    pub fn new<K: Keys>(blocks: [Block; SPAN_BLOCKS], values: isize, row_bytes: usize) -> Self {
        let all: usize = blocks.iter().map(|block| block.seen().len()).sum();
        let each = all.div_ceil(K::PLACES);
        let (mut index, mut row) = (0, 0);
        let places = std::array::from_fn(|_| {
            while index + 1 < SPAN_BLOCKS && row >= blocks[index].seen().len() {
                (index, row) = (index + 1, row - blocks[index].seen().len());
            }
            let place = blocks[index].keys.wrapping_add((blocks[index].from + row) * row_bytes);
            row += each;
            place
        });
        Self { blocks, values, places, bytes: each * row_bytes }
    }
}

/// Keys or values of a span that will be read soon, asked for bit by bit while other things are computed: a core has room for
/// few requests, and waits when all of them come at once.
///
/// They are asked for at several places by turns, because memory gives most so (see `akunu_dots::dots::PLACES`). Where a row's
/// bytes are not known beforehand and are many, some lines are left out, which the processor's own prefetchers bring. Nothing
/// here branches: in loops this short that costs more than what is asked for saves.
pub(super) struct Asking<'a> {
    places: &'a [*const u8; PLACES],
    /// Bytes from each place on: where what was asked for ends, and what is to be.
    at: isize,
    end: isize,
    /// Lines of each place in a step, and the bytes between them.
    lines: usize,
    gap: usize,
}

impl<'a> Asking<'a> {
    /// The rows `offset` from the first head's keys, in `steps` steps of about `lines` lines.
    #[inline(always)]
    pub fn new<K: Keys>(span: &'a Span, offset: isize, (steps, lines): (usize, usize)) -> Self {
        let lines = if span.bytes > 0 { lines.div_ceil(K::PLACES) } else { 0 };
        let gap = if span.bytes > 64 * lines * steps { span.bytes / (lines * steps).max(1) } else { 64 };
        Self { places: &span.places, at: offset, end: offset + span.bytes as isize, lines, gap }
    }

    #[inline(always)]
    pub fn step<K: Keys>(&mut self) {
        for line in 0..self.lines {
            for place in &self.places[..K::PLACES] {
                prefetch(place.wrapping_offset(self.at + (line * self.gap) as isize));
            }
        }
        // At the end the last lines are asked for again and again, which costs nothing.
        self.at = (self.at + (self.lines * self.gap) as isize).min(self.end);
    }
}
