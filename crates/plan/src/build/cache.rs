//! Where keys and values lie: in the blocks of a group, or in rows of the step.

use super::{BuildError, Builder};
use crate::op::KvParams;
use crate::program::{BufferId, KvGroup};
use crate::steps::KV_BLOCK;
use akunu_arch::{LayerConfig, Model};
use akunu_dtype::DType;

impl Builder<'_> {
    /// Keys and values in buffers like this one: one row after the other, heads side by side.
    pub(super) fn row_params(&self, keys: BufferId) -> KvParams {
        KvParams {
            group: 0,
            dtype: DType::F32.index().into(),
            block_bytes: 0,
            layer_offset: 0,
            value_offset: 0,
            head_bytes: self.model.config.head_dim as u32 * 4,
            row_bytes: self.program.buffer(keys).stride() as u32,
        }
    }

    pub(super) fn kv_params(&self, l: usize, layer: &LayerConfig) -> KvParams {
        let c = &self.model.config;
        let groups = &self.program.kv_groups;
        let group = groups.iter().position(|g| g.window == layer.window).unwrap_or(0);
        let before = c.layers[..l].iter().filter(|o| o.window == layer.window).count();
        let row_bytes = self.kv.row_bytes(c.head_dim).unwrap_or(0);
        let value_offset = c.kv_heads * KV_BLOCK * row_bytes;
        KvParams {
            group: group as u32,
            dtype: self.kv.index().into(),
            block_bytes: groups[group].block_bytes as u32,
            layer_offset: (before * 2 * value_offset) as u32,
            value_offset: value_offset as u32,
            head_bytes: (KV_BLOCK * row_bytes) as u32,
            row_bytes: row_bytes as u32,
        }
    }

    /// A layer's place in the group that the encoder fills: the last.
    pub(super) fn cross_params(&self, l: usize) -> KvParams {
        let c = &self.model.config;
        let group = self.program.kv_groups.len() - 1;
        let row_bytes = self.kv.row_bytes(c.head_dim).unwrap_or(0);
        let value_offset = c.kv_heads * KV_BLOCK * row_bytes;
        KvParams {
            group: group as u32,
            dtype: self.kv.index().into(),
            block_bytes: self.program.kv_groups[group].block_bytes as u32,
            layer_offset: (l * 2 * value_offset) as u32,
            value_offset: value_offset as u32,
            head_bytes: (KV_BLOCK * row_bytes) as u32,
            row_bytes: row_bytes as u32,
        }
    }
}

/// One group per window that layers have, in order of first appearance.
pub(super) fn kv_groups(model: &Model, kv: DType) -> Result<Vec<KvGroup>, BuildError> {
    let c = &model.config;
    let row_bytes =
        kv.row_bytes(c.head_dim).ok_or(BuildError::KvHead { kv, head_dim: c.head_dim, block: kv.format().block })?;
    let layer_bytes = 2 * c.kv_heads * KV_BLOCK * row_bytes;
    let mut groups: Vec<KvGroup> = Vec::new();
    for layer in &c.layers {
        match groups.iter_mut().find(|g| g.window == layer.window) {
            Some(group) => {
                group.layers += 1;
                group.block_bytes += layer_bytes;
            }
            None => {
                groups.push(KvGroup { window: layer.window, layers: 1, block_bytes: layer_bytes, encoded: None });
            }
        }
    }
    if let Some(encoder) = &model.encoder {
        let layers = c.layers.len();
        let encoded = Some(encoder.config.context);
        groups.push(KvGroup { window: None, layers, block_bytes: layers * layer_bytes, encoded });
    }
    Ok(groups)
}
