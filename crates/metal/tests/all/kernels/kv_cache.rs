//! Writing and moving keys and values, to the bit as the host does.

use super::attention::kv_params;
use crate::rig::*;
use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::KV_BLOCK;
use akunu_plan::op::*;
use akunu_plan::steps::{NO_BLOCK, RowVars, StepLayout, StepVars};

const FORMATS: [(DType, &str, usize); 6] = [
    (DType::F32, "f32", 20),
    (DType::F32, "f32", 64),
    (DType::F16, "f16", 34),
    (DType::F16, "f16", 128),
    (DType::Q8_0, "q8_0", 32),
    (DType::Q8_0, "q8_0", 96),
];
const KV_HEADS: usize = 2;

fn encode(dtype: DType, values: &[f32], data: &mut [u8]) {
    dtype.format().encode.expect("a KV format")(values, PlanesMut { data, ..PlanesMut::default() });
}

/// Where a head's key or value at a position is.
fn place(kv: &KvParams, block: u32, half: usize, head: usize, position: usize) -> std::ops::Range<usize> {
    let at = block as usize * kv.block_bytes as usize
        + kv.layer_offset as usize
        + half * kv.value_offset as usize
        + head * kv.head_bytes as usize
        + position % KV_BLOCK * kv.row_bytes as usize;
    at..at + kv.row_bytes as usize
}

#[test]
fn what_is_written_is_what_the_host_encodes() {
    let mut noise = Noise::new(41);
    for (dtype, suffix, d) in FORMATS {
        let kv = kv_params(dtype, KV_HEADS, d);
        let layout = StepLayout { max_rows: 4, max_outputs: 0, groups: 1, sequences: 2, table_blocks: 2, max_chain: 0 };
        let mut steps = vec![0; layout.bytes() / 4];
        let mut vars = StepVars::new(&mut steps);
        *vars.header_mut() = layout.header();
        vars.header_mut().rows = 4;
        let row = |sequence, position, ahead| RowVars { sequence, position, ahead, ..RowVars::default() };
        let rows = [row(0, 0, 0), row(0, 62, 1), row(1, 100, 0), row(1, 3, 0)];
        vars.rows_mut().copy_from_slice(&rows);
        let tables = [[2, NO_BLOCK], [NO_BLOCK, 1]];
        (0..2).for_each(|sequence| vars.table_mut(0, sequence).copy_from_slice(&tables[sequence]));

        let width = KV_HEADS * d;
        let mut keys = noise.values(4 * width);
        // Nothing, next to nothing, and much.
        keys[..d].fill(0.0);
        keys[d..width].iter_mut().for_each(|v| *v *= 1e-38);
        keys[width..width + d].iter_mut().for_each(|v| *v *= 6e4);
        let values = noise.values(4 * width);
        let mut want = vec![0xAA; 3 * kv.block_bytes as usize];
        let mut got = want.clone();
        for (r, row) in rows.iter().enumerate() {
            let block = tables[row.sequence as usize][row.place() / KV_BLOCK];
            for (head, half) in (0..KV_HEADS).flat_map(|head| [(head, 0), (head, 1)]) {
                if block != NO_BLOCK {
                    let from = if half == 0 { &keys } else { &values };
                    let to = place(&kv, block, half, head, row.place());
                    encode(dtype, &from[r * width + head * d..][..d], &mut want[to]);
                }
            }
        }
        let mut params = vec![4, d as u32];
        params.extend_from_slice(bytemuck::cast_slice(bytemuck::bytes_of(&kv)));
        params.extend([width as u32; 2]);
        params.resize(12, 0);
        let geometry = Geometry { threadgroups: [KV_HEADS as u32, 4, 2], threads: [32, 1, 1], ..Geometry::default() };
        let mut buffers = [
            Buffer::Constant(bytemuck::cast_slice(&keys)),
            Buffer::Constant(&[]),
            Buffer::Device(&mut got),
            Buffer::Constant(bytemuck::cast_slice(&params)),
            Buffer::Constant(bytemuck::cast_slice(&steps)),
            Buffer::Constant(bytemuck::cast_slice(&values)),
        ];
        dispatch(&format!("kv_cache_write_{suffix}"), &geometry, &mut buffers).unwrap();
        let differs = got.iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!(differs, None, "{dtype} {d}: the first byte that differs");
    }
}

#[test]
fn keys_that_move_up_are_turned_to_where_they_are() {
    let mut noise = Noise::new(42);
    for (dtype, suffix, d) in FORMATS {
        for style in [ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] {
            let kv = kv_params(dtype, KV_HEADS, d);
            let (keep, drop, length, pairs) = (3usize, 7, 75, d / 2 - 2);
            let mut cache = vec![0; 4 * kv.block_bytes as usize];
            let (from, to) = ([2u32, 0], [1u32, 3]);
            for position in 0..length {
                for (head, half) in (0..KV_HEADS).flat_map(|head| [(head, 0), (head, 1)]) {
                    let at = place(&kv, from[position / KV_BLOCK], half, head, position);
                    encode(dtype, &noise.values(d), &mut cache[at]);
                }
            }
            let turns: Vec<[f32; 2]> = (0..pairs).map(|_| noise.value() * 3.0).map(|a| [a.cos(), a.sin()]).collect();
            // In other blocks, and in its own.
            for to in [to, from] {
                let mut want = cache.clone();
                for position in keep..length - drop {
                    for (head, half) in (0..KV_HEADS).flat_map(|head| [(head, 0), (head, 1)]) {
                        let source = position + drop;
                        let source = place(&kv, from[source / KV_BLOCK], half, head, source);
                        let target = place(&kv, to[position / KV_BLOCK], half, head, position);
                        let mut values = vec![0.0; d];
                        let data = &cache[source];
                        (dtype.format().decode)(Planes { data, ..Planes::default() }, &mut values);
                        for (i, [cos, sin]) in turns.iter().enumerate() {
                            let (a, b) = match style {
                                ROPE_INTERLEAVED => (2 * i, 2 * i + 1),
                                _ => (i, i + pairs),
                            };
                            if half == 0 && style != ROPE_NONE {
                                (values[a], values[b]) =
                                    (values[a] * cos - values[b] * sin, values[a] * sin + values[b] * cos);
                            }
                        }
                        encode(dtype, &values, &mut want[target]);
                    }
                }
                let mut params = vec![keep as u32, drop as u32, length as u32, d as u32];
                params.extend_from_slice(bytemuck::cast_slice(bytemuck::bytes_of(&kv)));
                params.extend([pairs as u32, style]);
                params.resize(16, 0);
                let mut got = cache.clone();
                let geometry =
                    Geometry { threadgroups: [KV_HEADS as u32, 2, 1], threads: [32, 1, 1], ..Geometry::default() };
                let mut buffers = [
                    Buffer::Constant(bytemuck::cast_slice(&from)),
                    Buffer::Constant(bytemuck::cast_slice(&turns)),
                    Buffer::Device(&mut got),
                    Buffer::Constant(bytemuck::cast_slice(&params)),
                    Buffer::Constant(bytemuck::cast_slice(&to)),
                ];
                dispatch(&format!("kv_cache_shift_{suffix}"), &geometry, &mut buffers).unwrap();
                let differs = got.iter().zip(&want).position(|(got, want)| got != want);
                assert_eq!(differs, None, "{dtype} {d}, rope {style}: the first byte that differs");
            }
        }
    }
}
