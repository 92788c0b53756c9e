//! Angles, and heads that turn.

use crate::rig::*;
use akunu_dtype::{DType, Planes};
use akunu_plan::backend::Loaded;
use akunu_plan::op::*;
use akunu_plan::program::{Arg, BufferId, KvGroup};
use akunu_plan::steps::{KV_BLOCK, NO_BLOCK, RowVars};

#[test]
fn angles_are_exact_at_any_position() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(5);
    for pairs in [1, 8, 13, 32, 64] {
        for rows in [1, 5] {
            let mut rig = Rig::new(rows, 0);
            // Frequencies of a base, some divided as scaling does.
            let frequency = |i: usize| 1e4f32.powf(-(i as f32) / pairs as f32) / if i % 3 == 2 { 8.0 } else { 1.0 };
            let frequencies = rig.constant(&(0..pairs).map(frequency).collect::<Vec<_>>());
            let y = rig.f32(2 * pairs);
            let slope = if pairs % 2 == 0 { 0.1 } else { 0.0 };
            let params = RopeAnglesParams { pairs: pairs as u32, magnitude: 1.25, slope, period: 100.0 };
            rig.op(OpKind::RopeAngles, Per::Row, &[frequencies, Arg::Buffer(y)], Params::RopeAngles(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            let far = [0, 1, 4096, (1 << 17) - 1, noise.below(1 << 17) as u32];
            let row = |r: usize| RowVars { position: far[(r + pairs) % 5], ahead: 3, ..RowVars::default() };
            running.rows(&(0..rows).map(row).collect::<Vec<_>>());
            running.run();
            failures.compare(&format!("{pairs} pairs"), &running.got(y, rows), &running.want(y, rows), 1e-6);
        }
    }
    failures.report();
}

/// Head size, pairs that rotate.
const HEADS: [(usize, usize); 8] = [(16, 8), (20, 5), (64, 32), (64, 8), (80, 40), (96, 24), (128, 64), (256, 128)];

#[test]
fn heads_turn_in_place() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(6);
    for (d, most) in HEADS {
        for style in [ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] {
            for normed in [false, true] {
                let (heads, rows) = (noise.pick(&[1, 3, 9]), noise.pick(&[1, 2, 5]));
                let pairs = if style == ROPE_NONE { 0 } else { most };
                let p = HeadParams { heads: heads as u32, head_dim: d as u32, pairs: pairs as u32, style, eps: 1e-6 };
                let mut rig = Rig::new(rows, 0);
                let (x, angles) = (rig.f32(heads * d), rig.f32((2 * pairs).max(1)));
                let mut args = [Arg::Buffer(x), Arg::None, Arg::None];
                if style != ROPE_NONE {
                    args[slots::head::ANGLES] = Arg::Buffer(angles);
                }
                if normed {
                    args[slots::head::NORM] = rig.constant(&noise.values(d));
                }
                rig.op(OpKind::HeadNormRope, Per::Row, &args, Params::Head(p));
                let case = Case::new(rig);
                let mut running = case.start(&chip());
                running.set(x, &noise.values(rows * heads * d));
                running.set(angles, &noise.values(rows * 2 * pairs));
                running.run();
                let name = format!("{heads} heads of {d}, style {style}, {pairs} pairs, norm {normed}");
                failures.compare(&name, &running.got(x, rows), &running.want(x, rows), 2e-6);
            }
        }
    }
    failures.report();
}

/// The blocks of two sequences, out of order; one is missing.
const TABLES: [[u32; 3]; 2] = [[3, 0, NO_BLOCK], [1, 4, 2]];

/// What a group's blocks are like: of three layers, this is the second.
pub fn kv_params(dtype: DType, kv_heads: usize, head_dim: usize) -> KvParams {
    let row = dtype.row_bytes(head_dim).expect("whole blocks");
    let half = kv_heads * KV_BLOCK * row;
    KvParams {
        group: 0,
        dtype: dtype.index().into(),
        block_bytes: 6 * half as u32,
        layer_offset: 2 * half as u32,
        value_offset: half as u32,
        head_bytes: (KV_BLOCK * row) as u32,
        row_bytes: row as u32,
    }
}

/// Makes room for the cache in a rig.
pub fn with_cache(rig: &mut Rig, kv: &KvParams) {
    rig.program.kv_groups =
        vec![KvGroup { window: None, layers: 3, block_bytes: kv.block_bytes as usize, encoded: None }];
    (rig.layout.sequences, rig.layout.table_blocks) = (TABLES.len(), TABLES[0].len());
}

/// Writes the block tables.
pub fn with_tables(running: &mut Running<'_>) {
    for mut vars in [running.loaded.steps(), running.reference.steps()] {
        for (sequence, table) in TABLES.iter().enumerate() {
            vars.table_mut(0, sequence).copy_from_slice(table);
        }
    }
}

/// Rows of both sequences at places of all blocks; some are ahead of their positions.
pub fn places(noise: &mut Noise, rows: usize) -> Vec<RowVars> {
    let mut places: Vec<(u32, u32)> = Vec::new();
    while places.len() < rows {
        let at = (noise.below(2) as u32, noise.below(192) as u32);
        if !places.contains(&at) {
            places.push(at);
        }
    }
    places.sort_unstable();
    let mut row = |&(sequence, place): &(u32, u32)| {
        let ahead = (noise.below(4) as u32).min(place % KV_BLOCK as u32);
        RowVars { position: place - ahead, ahead, sequence, ..RowVars::default() }
    };
    places.iter().map(&mut row).collect()
}

/// The whole cache as numbers: what nobody wrote is zero.
pub fn decoded(kv: &KvParams, bytes: &[u8]) -> Vec<f32> {
    let format = DType::from_index(kv.dtype as u8).unwrap().format();
    let values = kv.row_bytes as usize / format.bytes * format.block;
    let row = |data: &[u8]| {
        let mut out = vec![0.0; values];
        (format.decode)(Planes { data, ..Planes::default() }, &mut out);
        out
    };
    bytes.chunks(kv.row_bytes as usize).flat_map(row).collect()
}

/// What has been written into the cache, by the kernels and by the reference executor, agrees as far as its format can.
pub fn compare_cache(failures: &mut Failures, name: &str, running: &mut Running<'_>, kv: &KvParams, error: f32) {
    let blocks = TABLES.len() * TABLES[0].len();
    let mut got = vec![0; blocks * kv.block_bytes as usize];
    running.loaded.kv_read(0, 0, &mut got);
    let want = running.reference.kv_mut(0).to_vec();
    let (got, want) = (decoded(kv, &got), decoded(kv, &want));
    // A number may be rounded to its neighbour.
    let step = match DType::from_index(kv.dtype as u8).unwrap() {
        DType::F32 => 0.0,
        DType::F16 => 1e-3,
        _ => 1.01 / 127.0,
    };
    failures.compare(&format!("{name}, KV"), &got, &want, step + error);
    let others = got.iter().zip(&want).filter(|(a, b)| a != b).count();
    let written = want.iter().filter(|v| **v != 0.0).count();
    failures.check(name, step == 0.0 || others <= 1 + written / 20, &format!("{others} of {written} round otherwise"));
    let strays = got.iter().zip(&want).filter(|(a, b)| (**a != 0.0) && **b == 0.0).count();
    failures.check(name, strays * 100 <= written, &format!("{strays} values are where none should be"));
}

/// Heads of one op, and what goes into it.
struct Heads {
    p: HeadsParams,
    q_norm: Option<Vec<f32>>,
    k_norm: Option<Vec<f32>>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    angles: Vec<f32>,
}

impl Heads {
    fn rig(&self, rows: usize) -> (Rig, [BufferId; 4]) {
        use slots::heads::*;
        let p = &self.p;
        let mut rig = Rig::new(rows, 0);
        with_cache(&mut rig, &p.kv);
        let d = p.head_dim as usize;
        let (heads, kv_heads) = (p.heads as usize, p.kv_heads as usize);
        let ids = [(heads * d).max(1), kv_heads * d, kv_heads * d, (2 * p.pairs as usize).max(1)].map(|w| rig.f32(w));
        let mut args = [Arg::None; 7];
        (args[K], args[V], args[KV]) = (Arg::Buffer(ids[1]), Arg::Buffer(ids[2]), Arg::Kv(0));
        if heads > 0 {
            args[Q] = Arg::Buffer(ids[0]);
        }
        if p.style != ROPE_NONE {
            args[ANGLES] = Arg::Buffer(ids[3]);
        }
        for (slot, norm) in [(Q_NORM, &self.q_norm), (K_NORM, &self.k_norm)] {
            if let Some(norm) = norm {
                args[slot] = rig.constant(norm);
            }
        }
        rig.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(*p));
        (rig, ids)
    }

    /// Rows of them, from `first` on.
    fn fill(&self, running: &mut Running<'_>, ids: [BufferId; 4], first: usize, rows: usize) {
        let p = &self.p;
        let d = p.head_dim as usize;
        let widths = [p.heads as usize * d, p.kv_heads as usize * d, p.kv_heads as usize * d, 2 * p.pairs as usize];
        for ((id, values), width) in ids.into_iter().zip([&self.q, &self.k, &self.v, &self.angles]).zip(widths) {
            if width > 0 {
                running.set(id, &values[first * width..][..rows * width]);
            }
        }
    }
}

/// A case that is as likely as any.
fn heads(noise: &mut Noise, d: usize, most: usize, style: u32, dtype: DType, rows: usize) -> Heads {
    let kv_heads = noise.pick(&[1, 2, 3]);
    let heads = kv_heads * noise.pick(&[0, 1, 2, 3]);
    let pairs = if style == ROPE_NONE { 0 } else { most };
    let p = HeadsParams {
        heads: heads as u32,
        kv_heads: kv_heads as u32,
        head_dim: d as u32,
        pairs: pairs as u32,
        style,
        eps: 1e-6,
        kv: kv_params(dtype, kv_heads, d),
    };
    let norm = |noise: &mut Noise, among: usize| (noise.below(among) > 0).then(|| noise.values(d));
    let normed = 1 + noise.below(3);
    Heads {
        p,
        q_norm: norm(noise, normed),
        k_norm: norm(noise, normed),
        q: noise.values(rows * heads * d),
        k: noise.values(rows * kv_heads * d),
        v: noise.values(rows * kv_heads * d),
        angles: noise.values(rows * 2 * pairs),
    }
}

#[test]
fn heads_are_normalized_rotated_and_stored() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(11);
    for dtype in [DType::F32, DType::F16, DType::Q8_0] {
        for style in [ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] {
            for (d, most) in HEADS.into_iter().filter(|(d, _)| dtype.row_bytes(*d).is_some()) {
                let rows = noise.pick(&[1, 1, 2, 6]);
                let heads = heads(&mut noise, d, most, style, dtype, rows);
                let (rig, ids) = heads.rig(rows);
                let case = Case::new(rig);
                let mut running = case.start(&chip());
                with_tables(&mut running);
                running.rows(&places(&mut noise, rows));
                heads.fill(&mut running, ids, 0, rows);
                running.run();
                let p = &heads.p;
                let name = format!(
                    "{rows} rows of {}/{} heads of {d} to {dtype}, style {style}, {most} pairs, norms {}/{}",
                    p.heads,
                    p.kv_heads,
                    heads.q_norm.is_some(),
                    heads.k_norm.is_some()
                );
                if p.heads > 0 {
                    failures.compare(&name, &running.got(ids[0], rows), &running.want(ids[0], rows), 2e-6);
                }
                compare_cache(&mut failures, &name, &mut running, &p.kv, 2e-6);
            }
        }
    }
    failures.report();
}

#[test]
fn a_row_alone_is_as_it_is_among_others() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(12);
    for style in [ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] {
        for dtype in [DType::F32, DType::F16, DType::Q8_0] {
            let (d, rows) = (64, 4);
            let heads = heads(&mut noise, d, 32, style, dtype, rows);
            let vars = places(&mut noise, rows);
            let run = |first: usize, rows: usize| {
                let (rig, ids) = heads.rig(rows);
                let case = Case::new(rig);
                let mut running = case.start(&chip());
                with_tables(&mut running);
                running.rows(&vars[first..first + rows]);
                heads.fill(&mut running, ids, first, rows);
                running.run();
                let mut cache = vec![0; 6 * heads.p.kv.block_bytes as usize];
                running.loaded.kv_read(0, 0, &mut cache);
                (running.got(ids[0], rows), cache)
            };
            let (together, cache) = run(0, rows);
            let mut one_by_one = vec![0; cache.len()];
            let width = (heads.p.heads as usize * d).max(1);
            for row in 0..rows {
                let (q, cache) = run(row, 1);
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                let same = bits(&q) == bits(&together[row * width..][..width]);
                failures.check(&format!("style {style}"), same, "queries differ");
                one_by_one.iter_mut().zip(cache).for_each(|(all, byte)| *all |= byte);
            }
            failures.check(&format!("style {style} to {dtype}"), one_by_one == cache, "keys or values differ");
        }
    }
    failures.report();
}
