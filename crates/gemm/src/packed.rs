//! Packed weights: 16 rows interleaved, so that one load has the same bytes of all of them, a row to a lane.
//!
//! Packing keeps every byte and moves none out of its 16 rows. The blocks that 16 rows have at the same place lie
//! together, and in them the fields: the field at byte `at` of a block is there at `16 * at`, row by row. A field is a word
//! of four bytes, or of two where a format has 16-bit numbers before or after its words.

use akunu_dtype::{DType, Format, Planes};
use std::ops::Range;

/// Rows that are interleaved.
pub const ROWS: usize = 16;
/// Values of the longest row that is packed: kernels keep something about each block of theirs.
pub const MAX_COLS: usize = 1 << 16;
/// Bytes of the largest block.
const MAX_BYTES: usize = 256;

/// The formats that can be packed.
const FIELDS: [(DType, Fields); 7] = [
    (DType::Q4_0, Fields::new::<1, 4, 0>()),
    (DType::Q4_1, Fields::new::<2, 4, 0>()),
    (DType::Q8_0, Fields::new::<1, 8, 0>()),
    (DType::IQ4_NL, Fields::new::<1, 4, 0>()),
    (DType::Q4_K, Fields::new::<2, { 3 + 32 }, 0>()),
    (DType::Q5_K, Fields::new::<2, { 3 + 8 + 32 }, 0>()),
    (DType::Q6_K, Fields::new::<0, { 32 + 16 + 4 }, 1>()),
];

/// How the blocks of a format are made of fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Bytes of the 16-bit numbers before the words, of these with the words, and of the block.
    ends: [usize; 3],
    pack: fn(&[u8], usize, &mut [u8]),
}

/// By the ends, which determine how rows are packed: addresses of functions say nothing.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
    }
}

impl Eq for Fields {}

impl Fields {
    /// `BEFORE` 16-bit numbers, `WORDS`, and `AFTER` more 16-bit numbers.
    const fn new<const BEFORE: usize, const WORDS: usize, const AFTER: usize>() -> Self {
        let words = 2 * BEFORE + 4 * WORDS;
        Self { ends: [2 * BEFORE, words, words + 2 * AFTER], pack: pack::<BEFORE, WORDS, AFTER> }
    }

    /// Those of a format that can be packed.
    pub fn of(dtype: DType) -> Option<Self> {
        FIELDS.iter().find(|row| row.0 == dtype).map(|row| row.1)
    }

    /// Bytes of a block of one row.
    pub fn bytes(self) -> usize {
        self.ends[2]
    }

    /// Packs some 16 rows, of `row_bytes` each.
    pub fn pack(self, rows: &[u8], row_bytes: usize, packed: &mut [u8]) {
        (self.pack)(rows, row_bytes, packed);
    }

    /// Block `index` of row `row` of the packed rows that begin at `packed`, in the first bytes.
    pub fn block(self, packed: &[u8], row_bytes: usize, row: usize, index: usize) -> [u8; MAX_BYTES] {
        let mut block = [0; MAX_BYTES];
        let at = row / ROWS * ROWS * row_bytes + index * ROWS * self.bytes();
        let packed = &packed[at..at + ROWS * self.bytes()];
        self.runs(|width, range| {
            for field in range.step_by(width) {
                let from = ROWS * field + row % ROWS * width;
                block[field..field + width].copy_from_slice(&packed[from..from + width]);
            }
        });
        block
    }

    /// Decodes blocks of format `f` from value `k` of row `row` on, as many as `out` has room for.
    pub fn decode(self, f: &Format, packed: &[u8], row_bytes: usize, (row, k): (usize, usize), out: &mut [f32]) {
        for (i, out) in out.chunks_mut(f.block).enumerate() {
            let block = self.block(packed, row_bytes, row, k / f.block + i);
            (f.decode)(Planes { data: &block[..self.bytes()], ..Planes::default() }, out);
        }
    }

    /// The runs of fields of one width: the width, and their bytes.
    fn runs(self, mut each: impl FnMut(usize, Range<usize>)) {
        let [before, words, end] = self.ends;
        each(2, 0..before);
        each(4, before..words);
        each(2, words..end);
    }
}

/// Packs some 16 rows of `row_bytes` each, whose blocks are `BEFORE` 16-bit numbers, `WORDS`, and `AFTER` more 16-bit numbers.
fn pack<const BEFORE: usize, const WORDS: usize, const AFTER: usize>(rows: &[u8], row_bytes: usize, packed: &mut [u8]) {
    let [words, after, bytes] = const { Fields::new::<BEFORE, WORDS, AFTER>().ends };
    for (rows, packed) in rows.chunks_exact(ROWS * row_bytes).zip(packed.chunks_exact_mut(ROWS * row_bytes)) {
        for (at, packed) in (0..row_bytes).step_by(bytes).zip(packed.chunks_exact_mut(ROWS * bytes)) {
            for row in (0..ROWS).step_by(4) {
                let from: [&[u8]; 4] = std::array::from_fn(|i| &rows[(row + i) * row_bytes + at..][..bytes]);
                spread::<2, BEFORE>(from, packed, row);
                spread::<4, WORDS>(from.map(|f| &f[words..]), &mut packed[ROWS * words..], row);
                spread::<2, AFTER>(from.map(|f| &f[after..]), &mut packed[ROWS * after..], row);
            }
        }
    }
}

/// Puts `N` fields of `WIDTH` bytes of four rows to places `row` to `row + 3` of 16: registers are transposed, because both
/// numbers are constants.
#[inline(always)]
fn spread<const WIDTH: usize, const N: usize>(from: [&[u8]; 4], to: &mut [u8], row: usize) {
    for (field, to) in to.chunks_exact_mut(ROWS * WIDTH).take(N).enumerate() {
        for (to, from) in to[row * WIDTH..][..4 * WIDTH].chunks_exact_mut(WIDTH).zip(from) {
            to.copy_from_slice(&from[field * WIDTH..][..WIDTH]);
        }
    }
}
