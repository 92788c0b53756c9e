//! Attention against the reference executor: blocks in any order, several sequences, windows, caps, branches.

use crate::rig::*;
use akunu_dtype::{DType, PlanesMut};
use akunu_metal::chip::Chip;
use akunu_plan::backend::{Loaded, Want};
use akunu_plan::op::*;
use akunu_plan::program::{Arg, BufferId, KvGroup};
use akunu_plan::steps::{KV_BLOCK, NO_BLOCK, RowVars};

const SEQUENCES: usize = 3;
const TABLE: usize = 12;
const KV_FORMATS: [DType; 3] = [DType::F32, DType::F16, DType::Q8_0];

/// What a program's attention is.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kv: DType,
    d: usize,
    kv_heads: usize,
    group: usize,
    window: usize,
    cap: f32,
    sees: Sees,
    prefill: bool,
}

impl Shape {
    const PLAIN: Shape =
        Shape { kv: DType::F16, d: 64, kv_heads: 1, group: 2, window: 0, cap: 0.0, sees: Sees::Past, prefill: false };

    fn params(&self) -> AttentionParams {
        AttentionParams {
            heads: (self.kv_heads * self.group) as u32,
            kv_heads: self.kv_heads as u32,
            head_dim: self.d as u32,
            scale: 2.0 / (self.d as f32).sqrt(),
            soft_cap: self.cap,
            window: self.window as u32,
            kv: kv_params(self.kv, self.kv_heads, self.d),
            sees: self.sees as u32,
        }
    }

    /// The blocks that a row sees.
    fn blocks(&self, row: &RowVars) -> std::ops::RangeInclusive<usize> {
        let seen = self.seen(row);
        seen.start / KV_BLOCK..=(seen.end - 1) / KV_BLOCK
    }

    fn seen(&self, row: &RowVars) -> std::ops::Range<usize> {
        let (at, window) = (row.position as usize, self.window);
        match self.sees {
            Sees::Past if window == 0 => 0..row.place() + 1,
            Sees::Past => (at + 1).saturating_sub(window)..row.place() + 1,
            Sees::All if window == 0 => 0..row.length as usize,
            Sees::All => at.saturating_sub(window / 2)..(at + window / 2 + 1).min(row.length as usize),
        }
    }
}

/// A second layer of a group, with keys of `kv_heads` before its values.
pub fn kv_params(dtype: DType, kv_heads: usize, d: usize) -> KvParams {
    let row_bytes = dtype.row_bytes(d).expect("whole blocks");
    let value_offset = kv_heads * KV_BLOCK * row_bytes;
    KvParams {
        group: 0,
        dtype: dtype.index().into(),
        block_bytes: 4 * value_offset as u32,
        layer_offset: 2 * value_offset as u32,
        value_offset: value_offset as u32,
        head_bytes: (KV_BLOCK * row_bytes) as u32,
        row_bytes: row_bytes as u32,
    }
}

/// A program of one op over a cache that is filled with what `rows` see, and with what is no number elsewhere.
struct Cached {
    case: Case,
    shape: Shape,
    q: BufferId,
    y: BufferId,
    queries: Vec<f32>,
    tables: [[u32; TABLE]; SEQUENCES],
    cache: Vec<u8>,
    rows: Vec<RowVars>,
}

impl Cached {
    fn new(noise: &mut Noise, shape: Shape, rows: &[RowVars]) -> Self {
        let width = shape.kv_heads * shape.group * shape.d;
        let params = shape.params();
        let mut rig = Rig::new(rows.len(), 0);
        rig.program.may_round = shape.prefill;
        (rig.layout.sequences, rig.layout.table_blocks) = (SEQUENCES, TABLE);
        let block_bytes = params.kv.block_bytes as usize;
        rig.program.kv_groups.push(KvGroup { window: None, layers: 2, block_bytes, encoded: None });
        let (q, y) = (rig.f32(width), rig.f32(width));
        let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
        rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));

        let (tables, cache) = fill(noise, &shape, rows);
        let queries = noise.values(rows.len() * width);
        Self { case: Case::new(rig), shape, q, y, queries, tables, cache, rows: rows.to_vec() }
    }

    fn start(&self, chip: &Chip) -> Running<'_> {
        let mut running = self.case.start(chip);
        running.set_kv(0, &self.cache);
        for mut vars in [running.loaded.steps(), running.reference.steps()] {
            for (sequence, table) in self.tables.iter().enumerate() {
                vars.table_mut(0, sequence).copy_from_slice(table);
            }
        }
        running
    }

    fn width(&self) -> usize {
        self.shape.kv_heads * self.shape.group * self.shape.d
    }

    /// What the emulator makes of some of the rows in one step.
    fn step(&self, running: &mut Running<'_>, rows: std::ops::Range<usize>) -> Vec<f32> {
        let queries = &self.queries[rows.start * self.width()..rows.end * self.width()];
        running.rows(&self.rows[rows.clone()]);
        running.set(self.q, queries);
        running.loaded.submit(0, 1, Want::All).unwrap_or_else(|error| panic!("{error}"));
        running.got(self.y, rows.len())
    }
}

/// Block tables in any order, and the bytes of the cache: NaN where nobody looks.
fn fill(noise: &mut Noise, shape: &Shape, rows: &[RowVars]) -> ([[u32; TABLE]; SEQUENCES], Vec<u8>) {
    let kv = shape.params().kv;
    let mut free: Vec<u32> = (0..(SEQUENCES * TABLE) as u32).collect();
    let mut tables = [[NO_BLOCK; TABLE]; SEQUENCES];
    let mut cache = vec![0xFF; SEQUENCES * TABLE * kv.block_bytes as usize];
    let mut stored = std::collections::HashSet::new();
    for row in rows {
        for entry in &mut tables[row.sequence as usize][shape.blocks(row)] {
            if *entry == NO_BLOCK {
                *entry = free.swap_remove(noise.below(free.len()));
            }
        }
        for position in shape.seen(row).filter(|position| stored.insert((row.sequence, *position))) {
            let block = tables[row.sequence as usize][position / KV_BLOCK];
            for (head, half) in (0..shape.kv_heads).flat_map(|head| [(head, 0), (head, 1)]) {
                let at = block as usize * kv.block_bytes as usize
                    + kv.layer_offset as usize
                    + half * kv.value_offset as usize
                    + head * kv.head_bytes as usize
                    + position % KV_BLOCK * kv.row_bytes as usize;
                let encode = shape.kv.format().encode.expect("a KV format");
                let data = &mut cache[at..at + kv.row_bytes as usize];
                encode(&noise.values(shape.d), PlanesMut { data, ..PlanesMut::default() });
            }
        }
    }
    (tables, cache)
}

fn at(sequence: u32, position: u32) -> RowVars {
    RowVars { position, sequence, length: 230 + 7 * sequence, ..RowVars::default() }
}

/// A chunk of a sequence.
fn chunk(sequence: u32, positions: std::ops::Range<u32>) -> Vec<RowVars> {
    positions.map(|position| at(sequence, position)).collect()
}

/// Without the matrices of SIMD groups.
fn without_matrices() -> Chip {
    Chip { matrices: false, ..chip() }
}

fn compare(failures: &mut Failures, noise: &mut Noise, chip: &Chip, shape: Shape, rows: &[RowVars]) {
    let cached = Cached::new(noise, shape, rows);
    let mut running = cached.start(chip);
    running.rows(rows);
    running.set(cached.q, &cached.queries);
    running.run();
    let positions: Vec<u32> = rows.iter().map(|row| row.position).take(4).collect();
    let name = format!("{shape:?}, {} rows at {positions:?}, matrices {}", rows.len(), chip.matrices);
    failures.compare(&name, &running.got(cached.y, rows.len()), &running.want(cached.y, rows.len()), 1e-5);
}

#[test]
fn rows_of_any_head_format_and_position_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(31);
    for kv in KV_FORMATS {
        for d in [2, 16, 32, 64, 66, 80, 96, 128, 256, 512] {
            if kv == DType::Q8_0 && d % 32 != 0 {
                continue;
            }
            let group = noise.pick(&[1, 2, 3, 4]);
            let shape = Shape { kv, d, group, ..Shape::PLAIN };
            // Few rows, and more.
            let position = noise.pick(&[1, 63, 64, 65, 300]);
            compare(&mut failures, &mut noise, &chip(), shape, &[at(1, position)]);
            let many = [at(0, 0), at(0, 1), at(1, 63), at(1, 64), at(1, 65), at(2, 150)];
            compare(&mut failures, &mut noise, &chip(), shape, &many);
        }
    }
    failures.report();
}

#[test]
fn windows_caps_and_branches_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(32);
    let branch = |position, ahead, hidden: u64| RowVars {
        ahead,
        hidden: [hidden as u32, (hidden >> 32) as u32],
        ..at(1, position)
    };
    let rows = [
        at(0, 10),
        at(0, 70),
        branch(70, 1, 0b1),
        branch(70, 3, 0b101),
        branch(127, 0, u64::MAX >> 1),
        branch(150, 2, 0),
        at(2, 200),
    ];
    for (kv, group) in [(DType::F32, 1), (DType::F16, 4), (DType::Q8_0, 8)] {
        for window in [0, 1, 7, 64, 100, 500] {
            let cap = noise.pick(&[0.0, 3.0]);
            let shape = Shape { kv, d: 32, kv_heads: 2, group, window, cap, ..Shape::PLAIN };
            compare(&mut failures, &mut noise, &chip(), shape, &rows);
            compare(&mut failures, &mut noise, &chip(), shape, &rows[2..4]);
        }
        for window in [0, 9, 130] {
            let shape = Shape { kv, d: 32, group, window, sees: Sees::All, ..Shape::PLAIN };
            compare(&mut failures, &mut noise, &chip(), shape, &[at(0, 0), at(0, 100), at(1, 236)]);
        }
    }
    failures.report();
}

#[test]
fn prefill_agrees_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(33);
    let several = [chunk(0, 0..5), chunk(1, 60..70), chunk(2, 30..33)].concat();
    // V2 and V1: by the chip, and V1 where heads are not whole matrices or are large.
    for (chip, heads) in [(chip(), &[16, 64, 80, 128, 66, 256][..]), (without_matrices(), &[2, 16, 96, 128, 512])] {
        for kv in KV_FORMATS {
            for &d in heads {
                if kv == DType::Q8_0 && d % 32 != 0 {
                    continue;
                }
                let shape = Shape { kv, d, group: noise.pick(&[1, 2]), prefill: true, ..Shape::PLAIN };
                compare(&mut failures, &mut noise, &chip, shape, &several);
            }
        }
        for (window, cap, sees) in [
            (1, 0.0, Sees::Past),
            (20, 3.0, Sees::Past),
            (64, 0.0, Sees::Past),
            (0, 3.0, Sees::All),
            (33, 0.0, Sees::All),
        ] {
            let shape = Shape { d: 16, group: 1, window, cap, sees, prefill: true, ..Shape::PLAIN };
            compare(&mut failures, &mut noise, &chip, Shape { kv_heads: 2, ..shape }, &several);
            compare(&mut failures, &mut noise, &chip, shape, &chunk(1, 100..140));
        }
    }
    failures.report();
}

/// One SIMD group of a threadgroup, eight or 32, heads alone or together: the number of rows chooses.
#[test]
fn a_batch_gives_each_row_the_bits_it_gets_alone() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(34);
    // The last one's blocks are more than eight SIMD groups take at once.
    let rows = [at(0, 3), at(0, 64), at(1, 63), at(1, 200), at(1, 201), at(2, 700)];
    for (kv, d, group, window) in [(DType::F16, 64, 4, 0), (DType::Q8_0, 32, 2, 100), (DType::F32, 80, 3, 300)] {
        let cached = Cached::new(&mut noise, Shape { kv, d, group, window, ..Shape::PLAIN }, &rows);
        let mut running = cached.start(&chip());
        let together = cached.step(&mut running, 0..rows.len());
        for row in 0..rows.len() {
            let alone = cached.step(&mut running, row..row + 1);
            let same = bits(&alone) == bits(&together[row * cached.width()..][..cached.width()]);
            failures.check(&format!("{kv} {d}, row {row}"), same, "other bits alone");
        }
    }
    failures.report();
}

#[test]
fn chunks_of_any_size_give_the_same_bits() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(35);
    let rows = [chunk(0, 40..75), chunk(1, 90..140)].concat();
    for chip in [chip(), without_matrices()] {
        for (kv, d, window) in [(DType::F16, 16, 0), (DType::Q8_0, 32, 40), (DType::F32, 16, 3)] {
            let cached =
                Cached::new(&mut noise, Shape { kv, d, group: 1, window, prefill: true, ..Shape::PLAIN }, &rows);
            let mut running = cached.start(&chip);
            let whole = cached.step(&mut running, 0..rows.len());
            for size in [1, 7, 64] {
                for first in (0..rows.len()).step_by(size) {
                    // Every row alone takes long under the emulator.
                    if size == 1 && first % 6 != 0 {
                        continue;
                    }
                    let end = (first + size).min(rows.len());
                    let part = cached.step(&mut running, first..end);
                    let same = bits(&part) == bits(&whole[first * cached.width()..end * cached.width()]);
                    failures.check(&format!("{kv} {d}, {first}..{end}"), same, "other bits than in one step");
                }
            }
        }
    }
    failures.report();
}

pub fn bits(values: &[f32]) -> &[u32] {
    bytemuck::cast_slice(values)
}

/// Texts of these lengths, one after the other.
pub fn texts(lengths: &[u32]) -> Vec<RowVars> {
    let text = |(sequence, &length): (usize, &u32)| {
        (0..length).map(move |position| RowVars { position, sequence: sequence as u32, length, ..RowVars::default() })
    };
    lengths.iter().enumerate().flat_map(text).collect()
}

#[test]
fn texts_packed_into_a_step_see_themselves_alone() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(36);
    let packed = texts(&[2, 1, 17, 3]);
    let long = texts(&[70, 65]);
    for (chip, prefill) in [(chip(), false), (chip(), true), (without_matrices(), true)] {
        for (rows, d, kv_heads, group, window, sees) in [
            (&packed, 32, 2, 2, 0, Sees::All),
            (&packed, 20, 1, 3, 0, Sees::Past),
            (&packed, 64, 1, 1, 5, Sees::All),
            (&long, 16, 1, 1, 0, Sees::All),
            (&long, 16, 1, 1, 30, Sees::Past),
        ] {
            let mut rig = Rig::new(rows.len(), 0);
            rig.program.may_round = prefill;
            (rig.layout.groups, rig.layout.sequences, rig.layout.table_blocks) = (0, rows.len(), 0);
            let heads = kv_heads * group;
            let (q, k) = (rig.f32(heads * d), rig.f32(kv_heads * d));
            let (v, y) = (rig.f32(kv_heads * d), rig.f32(heads * d));
            let row_bytes = rig.program.buffer(k).stride() as u32;
            let kv = KvParams { head_bytes: 4 * d as u32, row_bytes, ..KvParams::default() };
            let shape = Shape { d, kv_heads, group, window, sees, kv: DType::F32, prefill, cap: 0.0 };
            let params = AttentionParams { kv, ..shape.params() };
            let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::None, Arg::Buffer(k), Arg::Buffer(v)];
            rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip);
            running.rows(rows);
            for (id, width) in [(q, heads * d), (k, kv_heads * d), (v, kv_heads * d)] {
                running.set(id, &noise.values(rows.len() * width));
            }
            running.run();
            let name = format!("{shape:?}, {} rows, matrices {}", rows.len(), chip.matrices);
            failures.compare(&name, &running.got(y, rows.len()), &running.want(y, rows.len()), 1e-5);
        }
    }
    failures.report();
}

#[test]
fn what_a_head_looks_at_agrees_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(37);
    let rows = [at(0, 5), at(0, 64), at(1, 150), at(2, 300)];
    for (kv, d, window, sees, positions) in [
        (DType::F32, 16, 0, Sees::All, 240),
        (DType::F16, 80, 0, Sees::Past, 310),
        (DType::Q8_0, 64, 30, Sees::All, 140),
    ] {
        let shape = Shape { kv, d, kv_heads: 2, window, sees, ..Shape::PLAIN };
        let rows = if shape.sees == Sees::All { &rows[..3] } else { &rows[..] };
        let mut rig = Rig::new(rows.len(), 0);
        (rig.layout.sequences, rig.layout.table_blocks) = (SEQUENCES, TABLE);
        let block_bytes = shape.params().kv.block_bytes as usize;
        rig.program.kv_groups.push(KvGroup { window: None, layers: 2, block_bytes, encoded: None });
        let (q, y) = (rig.f32(4 * d), rig.f32(positions + 3));
        let attention = shape.params();
        let params = AttentionWeightsParams { attention, head: 3, positions: positions as u32, at: 3 };
        let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
        rig.op(OpKind::AttentionWeights, Per::Row, &args, Params::AttentionWeights(params));
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        let (tables, cache) = fill(&mut noise, &shape, rows);
        running.set_kv(0, &cache);
        for mut vars in [running.loaded.steps(), running.reference.steps()] {
            for (sequence, table) in tables.iter().enumerate() {
                vars.table_mut(0, sequence).copy_from_slice(table);
            }
        }
        running.rows(rows);
        running.set(q, &noise.values(rows.len() * 4 * d));
        // What is before the result stays.
        running.set(y, &vec![7.0; rows.len() * (positions + 3)]);
        running.run();
        let name = format!("{shape:?}, {positions} positions");
        failures.compare(&name, &running.got(y, rows.len()), &running.want(y, rows.len()), 1e-6);
    }
    failures.report();
}
