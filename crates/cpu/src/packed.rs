//! Reading packed weights: which matrices of a file are packed (`akunu_gemm::packed`), and packing them as they are read.

use crate::block::PIECE;
use crate::memory::{MemoryError, WeightFile};
use akunu_gemm::packed::{Fields, ROWS};
use akunu_dtype::DType;
use akunu_plan::bind::Bound;
use akunu_plan::op::{EmbedParams, MatMulParams, OpKind, slots};
use akunu_plan::record::{Addr, Record, Region, W_IS_PACKED};
use std::io;

/// Bytes that are read and packed at a time, about.
const AT_ONCE: usize = 64 << 10;

/// A matrix of a file that is packed as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        packs.dedup();
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
}
