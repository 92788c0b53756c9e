//! Packed weights: 16 rows interleaved, so that one load has the same bytes of all of them, a row to a lane.
//!
//! Packing keeps every byte and moves none out of its 16 rows. The blocks that 16 rows have at the same place lie
//! together, and in them the fields: the field at byte `at` of a block is there at `16 * at`, row by row. A field is a word
//! of four bytes, or of two where a format has 16-bit numbers before or after its words.

use crate::block::PIECE;
use crate::memory::{MemoryError, WeightFile};
use akunu_dtype::{DType, Format, Planes};
use akunu_plan::bind::Bound;
use akunu_plan::op::{EmbedParams, MatMulParams, OpKind, slots};
use akunu_plan::record::{Addr, Record, Region, W_IS_PACKED};
use std::io;
use std::ops::Range;

/// Rows that are interleaved.
pub const ROWS: usize = 16;
/// Values of the longest row that is packed: kernels keep something about each block of theirs.
pub const MAX_COLS: usize = 1 << 16;
/// Bytes that are read and packed at a time, about.
const AT_ONCE: usize = 64 << 10;
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
    fn block(self, packed: &[u8], row_bytes: usize, row: usize, index: usize) -> [u8; MAX_BYTES] {
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

/// A matrix of a file that is packed as it is read.
#[derive(Clone, Copy, Debug)]
struct Pack {
    start: usize,
    bytes: usize,
    row_bytes: usize,
    fields: Fields,
}

impl Pack {
    fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// The matrices of one file that are packed, in the order of their bytes.
pub struct Packs(Vec<Pack>);

impl Packs {
    /// Those that records of `programs` take so, of a file of `len` bytes.
    pub fn of(programs: &[&Bound], file: Region, len: usize) -> Result<Self, MemoryError> {
        let records = programs.iter().flat_map(|p| &p.records).filter(|r| r.flags & W_IS_PACKED != 0);
        let mut packs: Vec<Pack> = records.flat_map(|record| matrices(record, file)).collect();
        // What does not fit its file is refused when its program is checked.
        packs.retain(|pack| pack.start.checked_add(pack.bytes).is_some_and(|end| end <= len));
        packs.sort_by_key(|pack| (pack.start, pack.bytes));
        packs.dedup_by_key(|pack| (pack.start, pack.bytes, pack.row_bytes, pack.fields.ends));
        match packs.array_windows().find(|[a, b]| a.end() > b.start) {
            Some([_, b]) => Err(MemoryError::Overlapping(b.start)),
            None => Ok(Self(packs)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where each begins, its bytes and those of a row.
    pub fn matrices(&self, file: Region) -> impl Iterator<Item = (Addr, (usize, usize))> {
        self.0.iter().map(move |pack| (Addr::new(file, pack.start), (pack.bytes, pack.row_bytes)))
    }

    /// The first that ends after byte `at`.
    fn after(&self, at: usize) -> Option<&Pack> {
        self.0.get(self.0.partition_point(|pack| pack.end() <= at))
    }

    /// Where a piece that begins at byte `at` ends: it is of one matrix, in whole 16 rows of it, or of none.
    pub fn end(&self, at: usize) -> usize {
        match self.after(at) {
            Some(pack) if pack.start <= at => {
                let group = ROWS * pack.row_bytes;
                pack.end().min(at + (PIECE / 8 / group).max(1) * group)
            }
            Some(pack) => pack.start.min(at + PIECE),
            None => at + PIECE,
        }
    }

    /// Reads such a piece.
    pub fn read(&self, file: &dyn WeightFile, at: usize, to: &mut [u8]) -> io::Result<()> {
        match self.after(at).filter(|pack| pack.start <= at) {
            Some(pack) => {
                // Little at a time: what is read stays in the cache, and memory for it is not asked of the system again and again.
                let group = ROWS * pack.row_bytes;
                let some = (AT_ONCE / group).max(1) * group;
                let mut room = vec![0; some.min(to.len())];
                for (i, to) in to.chunks_mut(some).enumerate() {
                    let rows = &mut room[..to.len()];
                    file.read(at + i * some, rows)?;
                    pack.fields.pack(rows, pack.row_bytes, to);
                }
                Ok(())
            }
            None => file.read(at, to),
        }
    }
}

/// The matrices of a file that a record takes.
fn matrices(record: &Record, file: Region) -> impl Iterator<Item = Pack> + use<> {
    let (slots, rows, row_bytes, dtype) = match record.kind() {
        Some(OpKind::Embed) => {
            let p = record.params::<EmbedParams>();
            ([slots::embed::TABLE; 2], p.vocab, p.row_bytes, p.dtype)
        }
        Some(OpKind::MatMulGated) => {
            let p = record.params::<MatMulParams>();
            ([slots::gated::W, slots::gated::U], p.n, p.row_bytes, p.dtype)
        }
        _ => {
            let p = record.params::<MatMulParams>();
            ([slots::matmul::W; 2], p.n, p.row_bytes, p.dtype)
        }
    };
    let fields = DType::from_index(dtype as u8).and_then(Fields::of);
    let starts = slots.map(|slot| record.args[slot]);
    starts.into_iter().filter(move |at| at.region() == file).filter_map(move |at| {
        let bytes = rows as usize * row_bytes as usize;
        Some(Pack { start: at.offset(), bytes, row_bytes: row_bytes as usize, fields: fields? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use akunu_dtype::FORMATS;

    #[test]
    fn every_block_comes_back() {
        for f in FORMATS {
            let Some(fields) = Fields::of(f.dtype) else { continue };
            assert_eq!(fields.bytes(), f.bytes, "{}", f.name);
            let (blocks, groups) = (3, 2);
            let row_bytes = blocks * f.bytes;
            let rows: Vec<u8> = (0..groups * ROWS * row_bytes).map(|i| (i * 31 + i / 251) as u8).collect();
            let mut packed = vec![0; rows.len()];
            fields.pack(&rows, row_bytes, &mut packed);
            assert_ne!(packed, rows);
            for (row, bytes) in rows.chunks(row_bytes).enumerate() {
                for (index, want) in bytes.chunks(f.bytes).enumerate() {
                    assert_eq!(&fields.block(&packed, row_bytes, row, index)[..f.bytes], want, "{}", f.name);
                }
            }
        }
    }

    #[test]
    fn what_lies_between_packed_matrices_stays() {
        let fields = Fields::of(DType::Q4_0).unwrap();
        let matrix = |start: usize| Pack { start, bytes: 2 * ROWS * 36, row_bytes: 36, fields };
        let packs = Packs(vec![matrix(5), matrix(5 + 2 * ROWS * 36), matrix(3000)]);
        let file: Vec<u8> = (0..5000).map(|i| (i * 7 + i / 256) as u8).collect();
        let block = Block::filled("test", file.len(), |at| packs.end(at), |at, to| packs.read(&file, at, to)).unwrap();
        // SAFETY: the block's bytes, which nobody else has.
        let got = unsafe { std::slice::from_raw_parts(block.base(), block.len()) };
        let mut want = file.clone();
        for pack in &packs.0 {
            let range = pack.start..pack.end();
            fields.pack(&file[range.clone()], 36, &mut want[range]);
        }
        assert!(got == want);
    }

    #[test]
    fn a_register_has_the_same_word_of_every_row() {
        let fields = Fields::of(DType::Q4_0).unwrap();
        let rows: Vec<u8> = (0..ROWS).flat_map(|row| [row as u8; 18]).collect();
        let mut packed = vec![0; rows.len()];
        fields.pack(&rows, 18, &mut packed);
        let lanes = |width: usize| (0..ROWS).flat_map(|row| vec![row as u8; width]).collect::<Vec<_>>();
        assert_eq!(packed, [lanes(2), lanes(4), lanes(4), lanes(4), lanes(4)].concat());
    }
}
