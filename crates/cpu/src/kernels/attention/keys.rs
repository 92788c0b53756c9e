//! How keys and values are read, and what is prefetched.

use crate::simd::{Simd, prefetch};
use akunu_plan::steps::KV_BLOCK;
use std::ops::Range;

/// Places that are scored before they are weighed, in whole blocks and counted from a text's first: one maximum and one sum
/// for most texts, and scores that stay in L1.
pub const SPAN: usize = SPAN_BLOCKS * KV_BLOCK;
pub const SPAN_BLOCKS: usize = 4;

/// How keys and values are read.
pub trait Keys {
    /// Lines that are prefetched beside four rows: as many as those have, where that is known at compile time.
    const LINES: usize = STREAMS;
    /// Streams they are prefetched in.
    const STREAMS: usize = if Self::LINES < STREAMS { Self::LINES } else { STREAMS };
    /// A row's values and bytes, where they are known at compile time: loops over them are unrolled then.
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

/// f32 rows: as they are stored, or of any format and head size, decoded first.
pub struct Single;
/// f16 rows of `WIDTH` values, or of any number where that is 0.
pub struct Half<const WIDTH: usize>;
/// Q8_0 rows: blocks of an f16 scale and 32 int8 values.
pub struct Blocks8;

impl Keys for Single {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, row: *const u8, at: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(row.cast::<f32>().add(at)) }
    }
}

impl<const WIDTH: usize> Keys for Half<WIDTH> {
    const LINES: usize = if WIDTH > 0 { 4 * 2 * WIDTH / 64 } else { STREAMS };
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

/// One head's keys in one block, and the positions of it that are seen: those outside may never have been written.
#[derive(Clone, Copy)]
pub struct KeyBlock {
    pub keys: *const u8,
    pub from: usize,
    pub to: usize,
    /// Whether all its positions can be read, as in the KV cache, whose memory begins as zeros.
    pub whole: bool,
}

impl KeyBlock {
    pub const NONE: KeyBlock = KeyBlock { keys: std::ptr::null(), from: 0, to: 0, whole: false };

    pub fn seen(&self) -> Range<usize> {
        self.from..self.to
    }

    /// The positions that can be read.
    pub fn readable(&self) -> Range<usize> {
        if self.whole { 0..KV_BLOCK } else { self.seen() }
    }
}

/// Streams of a round, at most.
pub const STREAMS: usize = 2 * SPAN_BLOCKS;

/// What a row sees of one span of its text, of the first KV head.
#[derive(Clone)]
pub struct Span {
    pub blocks: [KeyBlock; SPAN_BLOCKS],
    /// Bytes from a key to its value.
    pub values: isize,
    pub rounds: [Round; SPAN_BLOCKS],
}

/// Keys that are prefetched in turn, as streams that begin far from each other and have so many bytes each.
#[derive(Clone, Copy)]
pub struct Round {
    pub starts: [*const u8; STREAMS],
    pub bytes: usize,
}

impl Round {
    const NONE: Round = Round { starts: [std::ptr::null(); STREAMS], bytes: 0 };
}

impl Span {
    pub const NONE: Span =
        Span { blocks: [KeyBlock::NONE; SPAN_BLOCKS], values: 0, rounds: [Round::NONE; SPAN_BLOCKS] };

    /// One, two or four blocks of which as many rows are seen make a round of `together` streams.
    pub fn new(blocks: [KeyBlock; SPAN_BLOCKS], values: isize, row_bytes: usize, together: usize) -> Self {
        let mut span = Self { blocks, values, ..Self::NONE };
        let (mut left, mut rounds) = (&blocks[..], span.rounds.iter_mut());
        while let Some(first) = left.first() {
            let rows = first.seen().len();
            let alike = |&n: &usize| left.get(..n).is_some_and(|some| some.iter().all(|b| b.seen().len() == rows));
            let count = [4, 2].into_iter().find(alike).unwrap_or(1).min(together);
            let some;
            (some, left) = left.split_at(count);
            if rows == 0 {
                continue;
            }
            let Some(round) = rounds.next() else { break };
            let in_each = together / count;
            let each = rows.div_ceil(in_each);
            for (i, start) in round.starts[..in_each * count].iter_mut().enumerate() {
                let block = &some[i / in_each];
                *start = block.keys.wrapping_add((block.from + i % in_each * each) * row_bytes);
            }
            round.bytes = each * row_bytes;
        }
        span
    }

    /// The blocks; how many is hidden from the compiler, which would write out loops over them.
    #[inline(always)]
    pub fn blocks(&self) -> &[KeyBlock] {
        &self.blocks[..std::hint::black_box(SPAN_BLOCKS)]
    }

    fn bytes<K: Keys>(&self) -> usize {
        self.rounds.iter().map(|round| K::STREAMS * round.bytes).sum()
    }
}

/// Prefetches keys or values of a span, a few lines beside every step of other work: a core has room for few requests, and waits
/// when all of them come at once.
///
/// It reads ahead in several streams (see `akunu_gemm::gemm::STREAMS`). Where a row's bytes are not known at compile time and are
/// many, it leaves lines out, which the hardware prefetchers bring. Almost nothing here branches: in loops this short a branch
/// costs more than the prefetch saves.
pub struct Prefetcher<'a> {
    /// The streams of the round at hand, and their bytes.
    starts: [*const u8; STREAMS],
    bytes: usize,
    /// The rounds after it.
    rounds: std::slice::Iter<'a, Round>,
    /// Bytes to it from the first head's keys.
    offset: isize,
    /// Bytes of each stream that were prefetched.
    at: usize,
    /// Lines of each stream in a step, and the bytes between them.
    lines: usize,
    gap: usize,
}

impl<'a> Prefetcher<'a> {
    /// The rows `offset` from the first head's keys, in `steps` steps of about `lines` lines.
    #[inline(always)]
    pub fn new<K: Keys>(span: &'a Span, offset: isize, (steps, lines): (usize, usize)) -> Self {
        let bytes = span.bytes::<K>();
        let lines = lines.div_ceil(K::STREAMS);
        let most = lines * steps * K::STREAMS;
        let gap = if bytes > 64 * most { bytes / most.max(1) } else { 64 };
        // Where there is nothing, what is near anyway.
        let starts = [(&raw const *span).cast(); STREAMS];
        let mut prefetcher = Self { starts, bytes: 0, rounds: span.rounds.iter(), offset, at: 0, lines, gap };
        prefetcher.turn::<K>();
        prefetcher
    }

    #[inline(always)]
    pub fn step<K: Keys>(&mut self) {
        if self.at >= self.bytes {
            self.turn::<K>();
        }
        for line in 0..self.lines {
            for start in &self.starts[..K::STREAMS] {
                prefetch(start.wrapping_add(self.at + line * self.gap));
            }
        }
        self.at += self.lines * self.gap;
    }

    /// Goes on to the next round.
    #[inline(always)]
    fn turn<K: Keys>(&mut self) {
        match self.rounds.next().filter(|next| next.bytes > 0) {
            Some(next) => {
                for (to, start) in self.starts.iter_mut().zip(&next.starts[..K::STREAMS]) {
                    *to = start.wrapping_offset(self.offset);
                }
                // What lines went beyond a round, they went into the next.
                (self.at, self.bytes) = (self.at - self.bytes, next.bytes);
            }
            // At the end some lines are prefetched again and again, which costs nothing.
            None => (self.at, self.gap, self.bytes) = (0, 0, usize::MAX),
        }
    }
}
