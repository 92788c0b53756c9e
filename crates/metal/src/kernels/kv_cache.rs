//! Keys and values: writing and moving them. No op is run by these alone: programs write what they have just rotated.

use super::{Category, KernelRow, Plain};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::KvParams;

params! {
    KVCacheWriteParams {
        rows: u32,
        head_dim: u32,
        kv: KvParams,
        k_stride: u32,
        v_stride: u32,
    }
    KVCacheShiftParams {
        /// Positions before these stay.
        keep: u32,
        /// So many after them go.
        drop: u32,
        /// Positions there are before.
        length: u32,
        head_dim: u32,
        kv: KvParams,
        /// As for the rotation of heads.
        pairs: u32,
        style: u32,
    }
}

/// Number formats that keys and values can have.
pub const KV_FORMATS: [&str; 3] = ["f32", "f16", "q8_0"];

/// A row for every format of the cache.
pub(super) fn rows(plain: &Plain) -> impl Iterator<Item = KernelRow> {
    KV_FORMATS.iter().map(|format| KernelRow {
        name: format!("{}_{format}", plain.name),
        format: Some(format),
        ..plain.row()
    })
}

static ROWS: &[Plain] = &[
    Plain {
        name: "kv_cache_write",
        source: "kv_cache/kv_cache_write.metal",
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "32 threads; (KV heads, rows, 2: keys and values)",
        chosen: "no op: heads are written as they are rotated",
    },
    Plain {
        name: "kv_cache_shift",
        source: "kv_cache/kv_cache_shift.metal",
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "32 threads; (KV heads, 2: keys and values)",
        chosen: "no op: the host shifts contexts",
    },
];

pub(super) const CATEGORY: Category = Category {
    name: "kv_cache",
    sources: sources!["kv_cache/kv_cache_shift.metal", "kv_cache/kv_cache_write.metal"],
    rows: || ROWS.iter().flat_map(rows).collect(),
    layouts,
};
