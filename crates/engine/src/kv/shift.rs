//! Context shift: positions go, and those after them move up, with their keys rotated to where they are then.

use crate::kv::blocks::Pool;
use crate::{Engine, Error, Sequence};
use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_plan::op::{HeadsParams, KvParams, Params, ROPE_INTERLEAVED};
use akunu_plan::{KV_BLOCK, KvCopy, NO_BLOCK};

/// One layer's keys and values inside a block of its group, and how its keys turn.
struct Layer {
    group: usize,
    heads: HeadsParams,
    /// (cos, sin) of the turn of every pair; empty where keys have no position.
    turn: Vec<(f32, f32)>,
}

impl Layer {
    /// The offset of the row at `slot` of a block: the key of `head`, or its value.
    fn row(&self, head: usize, value: bool, slot: usize) -> usize {
        let KvParams { layer_offset, value_offset, head_bytes, row_bytes, .. } = self.heads.kv;
        let value = if value { value_offset as usize } else { 0 };
        layer_offset as usize + value + head * head_bytes as usize + slot * row_bytes as usize
    }

    /// Turns one stored key.
    fn turn_key(&self, bytes: &mut [u8], values: &mut [f32]) {
        let Some(format) = u8::try_from(self.heads.kv.dtype).ok().and_then(DType::from_index).map(DType::format) else {
            return;
        };
        let Some(encode) = format.encode.filter(|_| !self.turn.is_empty()) else { return };
        (format.decode)(Planes { data: bytes, scales: &[], biases: &[] }, values);
        for (i, (cos, sin)) in self.turn.iter().enumerate() {
            let (a, b) = match self.heads.style {
                ROPE_INTERLEAVED => (2 * i, 2 * i + 1),
                _ => (i, i + self.heads.pairs as usize),
            };
            (values[a], values[b]) = (values[a] * cos - values[b] * sin, values[a] * sin + values[b] * cos);
        }
        encode(values, PlanesMut { data: bytes, scales: &mut [], biases: &mut [] });
    }
}

impl Engine {
    /// Forgets `drop` positions after the first `keep`; what comes after them moves up. Positions stay true: the keys that
    /// move are rotated to their new places. Where the KV cache has no room for it, the sequence is empty afterwards.
    pub fn shift(&mut self, sequence: &mut Sequence, keep: usize, drop: usize) -> Result<(), Error> {
        let len = sequence.len();
        let drop = drop.min(len.saturating_sub(keep));
        if drop == 0 {
            return Ok(());
        }
        let layers = self.shifted_layers(drop);
        for group in 0..sequence.groups() {
            let layers: Vec<&Layer> = layers.iter().filter(|l| l.group == group).collect();
            if let Err(error) = self.shift_group(sequence, &layers, group, (keep, drop, len - drop)) {
                sequence.clear();
                return Err(error);
            }
        }
        sequence.set_len(len - drop);
        Ok(())
    }

    /// Moves the rows at places `first + path[i]` to `first + i`; the path rises, and all are in one block.
    pub(crate) fn gather(&mut self, sequence: &Sequence, first: usize, path: &[usize]) {
        let moves: Vec<(usize, usize)> = path.iter().copied().enumerate().filter(|(to, from)| to != from).collect();
        if moves.is_empty() {
            return;
        }
        let mut copies = Vec::new();
        for layer in self.shifted_layers(0) {
            let block_bytes = layer.heads.kv.block_bytes as usize;
            let block = sequence.table(layer.group)[first / KV_BLOCK] as usize * block_bytes;
            let bytes = layer.heads.kv.row_bytes as usize;
            copies.clear();
            for (head, value) in (0..layer.heads.kv_heads as usize).flat_map(|h| [(h, false), (h, true)]) {
                let at = |node: usize| block + layer.row(head, value, (first + node) % KV_BLOCK);
                copies.extend(moves.iter().map(|&(to, from)| KvCopy { from: at(from), to: at(to), bytes }));
            }
            self.loaded.kv_copy(layer.group, &copies);
        }
    }

    /// Where every layer's rows lie, and the turn of keys that move up by `drop` positions.
    fn shifted_layers(&self, drop: usize) -> Vec<Layer> {
        let config = &self.model().config;
        let layer = |op: &akunu_plan::program::Op| {
            let (Params::Heads(heads), Some(l)) = (op.params, op.layer) else { return None };
            let rope = config.layers.get(l as usize).and_then(|l| l.rope).and_then(|r| config.ropes.get(r));
            let turn = |f: &f32| {
                // In f64: the angle is a large multiple of the frequency.
                let angle = -(drop as f64) * f64::from(*f);
                (angle.cos() as f32, angle.sin() as f32)
            };
            let turn =
                rope.filter(|_| drop > 0).map(|r| r.frequencies.iter().take(heads.pairs as usize).map(turn).collect());
            Some(Layer { group: heads.kv.group as usize, heads, turn: turn.unwrap_or_default() })
        };
        self.decode_program().ops.iter().filter_map(layer).collect()
    }

    /// Moves the rows of one group, block of the result by block: by then nothing needs the block's own old rows any more.
    fn shift_group(
        &mut self,
        sequence: &mut Sequence,
        layers: &[&Layer],
        group: usize,
        (keep, drop, new_len): (usize, usize, usize),
    ) -> Result<(), Error> {
        let block_bytes = self.decode_program().kv_groups[group].block_bytes;
        let (mut staged, mut source_block) = (vec![0u8; block_bytes], vec![0u8; block_bytes]);
        let mut values = vec![0.0; self.model().config.head_dim];
        let pools = self.pools().clone();
        for block in keep / KV_BLOCK..new_len.div_ceil(KV_BLOCK) {
            // The block that `source_block` holds.
            let mut held = NO_BLOCK;
            for slot in 0..KV_BLOCK.min(new_len - block * KV_BLOCK) {
                let position = block * KV_BLOCK + slot;
                let source = if position < keep { position } else { position + drop };
                let from = sequence.table(group)[source / KV_BLOCK];
                if from == NO_BLOCK {
                    continue;
                }
                if from != held {
                    self.loaded.kv_read(group, from as usize * block_bytes, &mut source_block);
                    held = from;
                }
                for layer in layers {
                    let bytes = layer.heads.kv.row_bytes as usize;
                    for (head, value) in (0..layer.heads.kv_heads as usize).flat_map(|h| [(h, false), (h, true)]) {
                        let (at, to) = (layer.row(head, value, source % KV_BLOCK), layer.row(head, value, slot));
                        staged[to..to + bytes].copy_from_slice(&source_block[at..at + bytes]);
                        if !value && position >= keep {
                            layer.turn_key(&mut staged[to..to + bytes], &mut values);
                        }
                    }
                }
            }
            let any = held != NO_BLOCK;
            let table = sequence.table_mut(group);
            let to = pools.with(|pools| {
                let pool = &mut pools[group];
                let to = if any { own(pool, &mut table[block])? } else { release(pool, &mut table[block]) };
                // Blocks whose rows have all moved.
                let moved = ((block + 1) * KV_BLOCK + drop) / KV_BLOCK;
                table.iter_mut().take(moved).skip(block + 1).for_each(|b| drop_block(pool, b));
                Ok::<_, Error>(to)
            })?;
            if any {
                self.loaded.kv_write(group, to as usize * block_bytes, &staged);
            }
        }
        let table = sequence.table_mut(group);
        let end = new_len.div_ceil(KV_BLOCK).min(table.len());
        pools.with(|pools| table.drain(end..).filter(|b| *b != NO_BLOCK).for_each(|b| pools[group].release(b)));
        Ok(())
    }
}

/// Makes the block one that may be written.
fn own(pool: &mut Pool, block: &mut u32) -> Result<u32, Error> {
    if *block == NO_BLOCK || pool.is_shared(*block) {
        let new = pool.take().ok_or(Error::KvFull { blocks: pool.blocks() })?;
        drop_block(pool, block);
        *block = new;
    }
    Ok(*block)
}

fn release(pool: &mut Pool, block: &mut u32) -> u32 {
    drop_block(pool, block);
    NO_BLOCK
}

fn drop_block(pool: &mut Pool, block: &mut u32) {
    let block = std::mem::replace(block, NO_BLOCK);
    if block != NO_BLOCK {
        pool.release(block);
    }
}
