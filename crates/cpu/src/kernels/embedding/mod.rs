//! Embeddings of tokens, positions and segments: rows of a table in any number format.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::packed::PACKED;
use crate::share::Share;
use crate::simd::Simd;
use akunu_dtype::{DType, MAX_BLOCK, Planes};
use akunu_gemm::packed::Fields;
use akunu_plan::op::{EmbedParams, Index, OpKind, slots::embed};
use akunu_plan::record::Record;

pub(super) const EMBED: &[LeveledRow] = levels!("embed", OpKind::Embed, serves, body);

fn serves(record: &Record) -> bool {
    DType::from_index(record.params::<EmbedParams>().dtype as u8).is_some()
}

/// Values a worker decodes at a time: whole blocks of every format.
const CHUNK: usize = MAX_BLOCK;

/// `y[r][..dim] = scale * table[index(r)][..dim]`, split by rows and chunks of a row.
#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<EmbedParams>();
    let Some(dtype) = DType::from_index(p.dtype as u8) else { return };
    let format = dtype.format();
    let packed = Fields::of(dtype).filter(|_| record.weight_layout == PACKED);
    let dim = p.dim as usize;
    let chunks = dim.div_ceil(CHUNK);
    let table = context.operand(record, embed::TABLE);
    let [scales, biases] = [context.address(record.planes[0]), context.address(record.planes[1])];
    for unit in share.of(context.count(record) * chunks, 1) {
        let (row, from) = (unit / chunks, unit % chunks * CHUNK);
        let n = CHUNK.min(dim - from);
        let vars = context.row_vars(row);
        let index = match p.index {
            i if i == Index::Position as u32 => vars.position,
            i if i == Index::Segment as u32 => vars.segment,
            _ => vars.token,
        };
        let index = index.min(p.vocab - 1) as usize;
        let blocks = n / format.block;
        let plane = |base: *mut u8, row_bytes: u32, block_bytes: usize| {
            if block_bytes == 0 {
                return &[][..];
            }
            let at = index * row_bytes as usize + from / format.block * block_bytes;
            // SAFETY: the table's planes have `vocab` rows of their row bytes, `index < vocab`, and
            // the row is whole blocks of which these are some.
            unsafe { std::slice::from_raw_parts(base.wrapping_add(at), blocks * block_bytes) }
        };
        let planes = Planes {
            data: plane(table, p.row_bytes, format.bytes),
            scales: plane(scales, p.side_bytes, format.side_bytes),
            biases: plane(biases, p.side_bytes, format.side_bytes),
        };
        let y = context.row(record, embed::Y, row).cast::<f32>().wrapping_add(from);
        // SAFETY: `y` has `dim` values per row, of which this worker alone has these `n`.
        let y = unsafe { std::slice::from_raw_parts_mut(y, n) };
        match packed {
            None => (format.decode)(planes, y),
            Some(fields) => {
                // SAFETY: the table has `vocab` rows.
                let table = unsafe { std::slice::from_raw_parts(table, p.vocab as usize * p.row_bytes as usize) };
                fields.decode(format, table, p.row_bytes as usize, (index, from), y);
            }
        }
        if p.scale != 1.0 {
            scale_in_place(s, y, p.scale);
        }
    }
}

#[inline(always)]
fn scale_in_place<S: Simd>(s: S, y: &mut [f32], scale: f32) {
    let scale = s.splat(scale);
    for part in y.chunks_mut(S::LANES) {
        let n = part.len();
        // SAFETY: `part` has `n` values.
        unsafe { s.store_first(part.as_mut_ptr(), s.mul(s.load_first(part.as_ptr(), n), scale), n) }
    }
}
