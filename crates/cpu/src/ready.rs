//! Programs that may be replayed: proven sound in their memory, and by kernels that serve their records on this machine.

use crate::context::RecordState;
use crate::kernels;
use crate::level::Level;
use crate::memory::Memory;
use crate::packed::{AS_STORED, PACKED, matrices};
use akunu_dtype::{q8, tiles};
use akunu_gemm::packed;
use akunu_plan::bind::Bound;
use akunu_plan::op::{MAXIMA_SLICE, OpKind, slots};
use akunu_plan::proof::{MemoryMap, Proof, Unsound, prove};
use akunu_plan::record::{Record, X_IS_BF16, Y_LAYOUT};

/// A bound program that may be replayed in the memory it was checked against.
pub struct Ready {
    pub(crate) bound: Bound,
    pub(crate) proof: Proof,
    pub(crate) memory: u64,
    /// By record.
    pub(crate) states: Vec<RecordState>,
}

impl Ready {
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The records, and what the backend keeps for each.
    pub(crate) fn records(&self) -> (&[Record], &[RecordState]) {
        (&self.bound.records, &self.states)
    }
}

/// Checks `bound` for up to `rows` rows and `outputs` output rows in `memory`.
pub(crate) fn check(bound: Bound, rows: (usize, usize), memory: &Memory, level: Level) -> Result<Ready, Unsound> {
    let map = MemoryMap { lens: &memory.regions().lens, kv: memory.kv_pools() };
    let proof = prove(&bound, rows, &map, |record| serves(record, memory, level))?;
    Ok(Ready { states: RecordState::all(&bound.records), memory: memory.identity(), proof, bound })
}

/// What only this backend knows of a record: its kernel, how its columns are shared out, how its weights lie.
fn serves(record: &Record, memory: &Memory, level: Level) -> Result<(), String> {
    let row = kernels::table().get(record.kernel as usize).ok_or("names a kernel that is not there")?;
    if !row.offers(record, level) {
        return Err(format!("kernel {} does not serve it at level {level}", row.name));
    }
    if let Some(OpKind::MatMul | OpKind::MatMulGated) = record.kind() {
        let grain = record.grain as usize;
        let whole = |applies: bool, unit: usize| !applies || grain.is_multiple_of(unit);
        let converts = record.flags & Y_LAYOUT != 0;
        let packs = record.weight_layout == PACKED;
        if grain == 0 || !whole(converts, q8::BLOCK.max(tiles::VALUES)) || !whole(packs, packed::ROWS) {
            return Err(format!("cannot be split every {grain} columns"));
        }
        let alone = grain.is_multiple_of(MAXIMA_SLICE) && record.flags & X_IS_BF16 == 0;
        if record.kind() == Some(OpKind::MatMul) && !record.args[slots::matmul::MAXIMA].is_none() && !alone {
            return Err("cannot keep the maxima of slices that workers share".into());
        }
    }
    weights(record, memory)
}

/// Whether the weights lie in this memory as the record takes them.
fn weights(record: &Record, memory: &Memory) -> Result<(), String> {
    for matrix in matrices(record) {
        let asked = match record.weight_layout {
            AS_STORED => None,
            PACKED => Some((matrix.rows.saturating_mul(matrix.row_bytes), matrix.row_bytes)),
            other => return Err(format!("its weight has an unknown layout {other}")),
        };
        if memory.packed(matrix.at) != asked {
            return Err("its weight is packed otherwise in this memory".into());
        }
        if asked.is_some() && matrix.cols > packed::MAX_COLS {
            return Err(format!("rows of {} values are too long to be packed", matrix.cols));
        }
    }
    Ok(())
}
