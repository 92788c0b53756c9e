//! Reading packed weights: which matrices of a file are packed (`akunu_gemm::packed`), and packing them as they are read.

use crate::pages::CHUNK;
use akunu_dtype::DType;
use akunu_gemm::packed::{Fields, ROWS};
use akunu_plan::backend::{LoadError, WeightFile};
use akunu_plan::bind::Bound;
use akunu_plan::op::{EmbedParams, MatMulHeadsParams, MatMulParams, OpKind, slots};
use akunu_plan::record::{Addr, Record, Region};
use std::io;

/// How weights lie in memory, by the number that records carry: as in their file, or packed.
pub const AS_STORED: u32 = 0;
pub const PACKED: u32 = 1;

/// The layout of weights that are packed or not.
pub fn layout(packed: bool) -> u32 {
    if packed { PACKED } else { AS_STORED }
}

/// Bytes that are read and packed at a time, about.
const AT_ONCE: usize = 64 << 10;

/// A matrix of a file that is packed as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    pub start: usize,
    pub bytes: usize,
    pub row_bytes: usize,
    pub fields: Fields,
}

impl Pack {
    pub fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// The matrices of one file that are packed, in the order of their bytes.
pub struct Packs(pub Vec<Pack>);

impl Packs {
    /// Those that records of `programs` take so, of a file of `len` bytes.
    pub fn of(programs: &[&Bound], file: Region, len: usize) -> Result<Self, LoadError> {
        let records = programs.iter().flat_map(|p| &p.records).filter(|r| r.weight_layout == PACKED);
        let taken = records.flat_map(matrices).filter(|matrix| matrix.at.region() == file);
        let mut packs: Vec<Pack> = taken.filter_map(|matrix| matrix.pack()).collect();
        // What does not fit its file is refused when its program is checked.
        packs.retain(|pack| pack.start.checked_add(pack.bytes).is_some_and(|end| end <= len));
        packs.sort_by_key(|pack| (pack.start, pack.bytes));
        packs.dedup();
        match packs.array_windows().find(|[a, b]| a.end() > b.start) {
            Some([_, b]) => Err(LoadError::Overlapping(b.start)),
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

    /// Where a chunk that begins at byte `at` ends: it is of one matrix, in whole 16 rows of it, or of none.
    pub fn end(&self, at: usize) -> usize {
        match self.after(at) {
            Some(pack) if pack.start <= at => {
                let group = ROWS * pack.row_bytes;
                pack.end().min(at + (CHUNK / 8 / group).max(1) * group)
            }
            Some(pack) => pack.start.min(at + CHUNK),
            None => at + CHUNK,
        }
    }

    /// Reads such a chunk.
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

/// A weight matrix that a record takes.
pub struct Matrix {
    pub at: Addr,
    pub rows: usize,
    pub cols: usize,
    pub row_bytes: usize,
    dtype: u32,
}

impl Matrix {
    /// How it is packed, where its format can be.
    fn pack(&self) -> Option<Pack> {
        let fields = DType::from_index(u8::try_from(self.dtype).ok()?).and_then(Fields::of)?;
        let bytes = self.rows.checked_mul(self.row_bytes)?;
        Some(Pack { start: self.at.offset(), bytes, row_bytes: self.row_bytes, fields })
    }
}

/// The weight matrices that a record takes.
pub fn matrices(record: &Record) -> impl Iterator<Item = Matrix> + use<> {
    let product = |p: &MatMulParams| (p.n, p.k, p.row_bytes, p.dtype);
    let (slots, (rows, cols, row_bytes, dtype)) = match record.kind() {
        Some(OpKind::Embed) => {
            let p = record.params::<EmbedParams>();
            ([slots::embed::TABLE; 2], (p.vocab, p.dim, p.row_bytes, p.dtype))
        }
        Some(OpKind::MatMul) => ([slots::matmul::W; 2], product(record.params())),
        Some(OpKind::MatMulHeads) => {
            ([slots::matmul_heads::W; 2], product(&record.params::<MatMulHeadsParams>().product))
        }
        Some(OpKind::MatMulGated) => ([slots::gated::W, slots::gated::U], product(record.params())),
        _ => ([usize::MAX; 2], (0, 0, 0, 0)),
    };
    let count = if slots[0] == slots[1] { 1 } else { 2 };
    let at = slots.map(|slot| record.args.get(slot).copied());
    at.into_iter().take(count).flatten().map(move |at| Matrix {
        at,
        rows: rows as usize,
        cols: cols as usize,
        row_bytes: row_bytes as usize,
        dtype,
    })
}
