//! Products that finish their heads.

use super::rope::{compare_cache, kv_params, places, with_cache, with_tables};
use crate::rig::*;
use akunu_dtype::{DType, FORMATS, Format};
use akunu_plan::backend::Loaded;
use akunu_plan::op::{slots::matmul_heads::*, *};
use akunu_plan::program::{Arg, BufferId};
use akunu_plan::steps::RowVars;

/// A product that finishes its heads.
struct Product {
    makes: Makes,
    weights: DType,
    kv: DType,
    heads: usize,
    d: usize,
    k: usize,
    pairs: usize,
    style: u32,
    normed: bool,
    biased: bool,
}

impl Product {
    fn rig(&self, rows: usize, seed: u64) -> (Rig, [BufferId; 3], KvParams) {
        let mut noise = Noise::new(seed);
        let (n, kv) = (self.heads * self.d, kv_params(self.kv, self.heads, self.d));
        let mut rig = Rig::new(rows, 0);
        rig.aligned = true;
        with_cache(&mut rig, &kv);
        let w = rig.matrix(&mut noise, self.weights, n, self.k);
        let ids = [self.k, n, (2 * self.pairs).max(1)].map(|width| rig.f32(width));
        let mut args = [Arg::None; 7];
        (args[X], args[W]) = (Arg::Buffer(ids[0]), w.arg);
        match self.makes {
            Makes::Queries => args[Y] = Arg::Buffer(ids[1]),
            _ => args[KV] = Arg::Kv(0),
        }
        if self.biased {
            args[BIAS] = rig.constant(&noise.values(n));
        }
        if self.normed {
            args[NORM] = rig.constant(&noise.values(self.d));
        }
        if self.style != ROPE_NONE {
            args[ANGLES] = Arg::Buffer(ids[2]);
        }
        let head = HeadParams {
            heads: self.heads as u32,
            head_dim: self.d as u32,
            pairs: self.pairs as u32,
            style: self.style,
            eps: 1e-6,
        };
        let params = MatMulHeadsParams { product: w.product, head, makes: self.makes as u32, kv };
        rig.op(OpKind::MatMulHeads, Per::Row, &args, Params::MatMulHeads(params));
        (rig, ids, kv)
    }
}

#[test]
fn products_finish_their_heads() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(13);
    let floats = [DType::F32, DType::F16, DType::BF16];
    let weights = |f: &&Format| f.encode.is_some() && (f.unpack.is_some() || floats.contains(&f.dtype));
    for (case, f) in FORMATS.iter().filter(weights).enumerate() {
        for makes in [Makes::Queries, Makes::Keys, Makes::Values] {
            let turns = makes != Makes::Values;
            let style = noise.pick(if turns { &[ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] } else { &[ROPE_NONE] });
            let kv = [DType::F16, DType::F32, DType::Q8_0][(case + makes as usize) % 3];
            let d = noise.pick(if kv == DType::Q8_0 { &[32, 64] } else { &[18, 32, 64] });
            let product = Product {
                makes,
                weights: f.dtype,
                kv,
                heads: noise.pick(&[1, 2]),
                d,
                // Rows that are no whole groups of 16, where a format can have them.
                k: if f.block == 1 { 45 } else { f.block.max(32) * noise.pick(&[1, 2]) },
                pairs: if style == ROPE_NONE { 0 } else { noise.pick(&[d / 2, d / 4]) },
                style,
                normed: turns && noise.below(2) == 0,
                biased: noise.below(2) == 0,
            };
            let rows = noise.pick(&[1, 2]);
            let (rig, ids, params) = product.rig(rows, case as u64);
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            with_tables(&mut running);
            running.rows(&places(&mut noise, rows));
            running.set(ids[0], &noise.values(rows * product.k));
            running.set(ids[2], &noise.values(rows * 2 * product.pairs));
            running.run();
            let name = format!(
                "{makes:?} of {}: {rows} × {} → {} × {d} to {kv}, style {style}, {} pairs, norm {}, bias {}",
                f.name, product.k, product.heads, product.pairs, product.normed, product.biased
            );
            match makes {
                Makes::Queries => {
                    failures.compare(&name, &running.got(ids[1], rows), &running.want(ids[1], rows), 4e-6)
                }
                _ => compare_cache(&mut failures, &name, &mut running, &params, 4e-6),
            }
        }
    }
    failures.report();
}

#[test]
fn a_rows_heads_are_the_same_among_other_rows() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(14);
    for makes in [Makes::Queries, Makes::Keys] {
        let product = Product {
            makes,
            weights: DType::Q4_0,
            kv: DType::F32,
            heads: 2,
            d: 32,
            k: 96,
            pairs: 16,
            style: ROPE_SPLIT_HALF,
            normed: true,
            biased: true,
        };
        let vars: Vec<RowVars> = places(&mut noise, 3);
        let (x, angles) = (noise.values(3 * 96), noise.values(3 * 32));
        let run = |first: usize, rows: usize| {
            let (rig, ids, kv) = product.rig(rows, 15);
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            with_tables(&mut running);
            running.rows(&vars[first..first + rows]);
            running.set(ids[0], &x[first * 96..][..rows * 96]);
            running.set(ids[2], &angles[first * 32..][..rows * 32]);
            running.run();
            let mut cache = vec![0; 6 * kv.block_bytes as usize];
            running.loaded.kv_read(0, 0, &mut cache);
            let bits = running.got(ids[1], rows).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (bits, cache)
        };
        let (together, cache) = run(0, 3);
        let mut one_by_one = (Vec::new(), vec![0; cache.len()]);
        for row in 0..3 {
            let (y, cache) = run(row, 1);
            one_by_one.0.extend(y);
            one_by_one.1.iter_mut().zip(cache).for_each(|(all, byte)| *all |= byte);
        }
        failures.check(&format!("{makes:?}"), one_by_one == (together, cache), "rows differ alone");
    }
    failures.report();
}
