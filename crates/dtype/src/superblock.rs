//! Fits blocks whose scales are themselves quantized: the encoders of the K formats and IQ4.
//!
//! Every sub-block is first fitted on its own: a range of trial scales, each corrected by least
//! squares. The block's scale (and minimum) then follow, the sub-blocks' integers are chosen
//! among their neighbours by the error they really cause, and the block's scale is corrected by
//! least squares again, until nothing improves.
//!
//! Errors are plain squares: with no activations to go by, no weighting by magnitude that was
//! tried brought a model closer to its unquantized self across the formats.

use crate::MAX_BLOCK;
use crate::block::{furthest, range, reciprocal};
use half::f16;

/// Below this a sub-block counts as all zero; scales would be lost in f16 long before.
const TINY: f32 = 1e-15;

/// Corrections of a block's scale after the first choice.
const ROUNDS: usize = 3;

/// Values are `d * scale * level`.
pub(crate) struct Symmetric {
    pub d: f32,
    pub scale: [i8; 16],
    pub q: [i8; MAX_BLOCK],
}

/// Values are `d * scale * q - dmin * min`.
pub(crate) struct Affine {
    pub d: f32,
    pub dmin: f32,
    pub scale: [u8; 16],
    pub min: [u8; 16],
    pub q: [u8; MAX_BLOCK],
}

/// The levels a scaled value can be rounded to; all fit an i8.
pub(crate) trait Levels {
    /// The level furthest from zero.
    fn lowest(&self) -> f32;
    fn nearest(&self, v: f32) -> f32;
    /// Where trials put the value furthest from zero, relative to the lowest level.
    fn trials(&self) -> impl Iterator<Item = f32>;
}

/// All integers of a range.
pub(crate) struct Integers {
    pub min: f32,
    pub max: f32,
}

impl Levels for Integers {
    fn lowest(&self) -> f32 {
        self.min
    }

    #[inline(always)]
    fn nearest(&self, v: f32) -> f32 {
        round(v).clamp(self.min, self.max)
    }

    fn trials(&self) -> impl Iterator<Item = f32> {
        (-9..=9).map(|t| self.min - 0.1 * t as f32)
    }
}

/// Sub-blocks of `SUB` values; `steps` is how far below zero a sub-block's scale reaches.
pub(crate) fn symmetric<const SUB: usize>(values: &[f32], levels: &impl Levels, steps: f32) -> Symmetric {
    let (subs, _) = values.as_chunks::<SUB>();
    let mut ideal = [0.0; 16];
    for (ideal, x) in ideal.iter_mut().zip(subs) {
        *ideal = fit_scale(x, levels);
    }
    let mut best = Symmetric { d: 0.0, scale: [0; 16], q: [0; MAX_BLOCK] };
    let mut best_error = f32::INFINITY;
    let mut d = to_f16(-furthest(&ideal) / steps);
    let mut center = ideal.map(|s| s * reciprocal(d));
    for _ in 0..=ROUNDS {
        if d == 0.0 {
            break;
        }
        let mut trial = Symmetric { d, scale: [0; 16], q: [0; MAX_BLOCK] };
        let (mut error, mut xa, mut aa) = (0.0, 0.0, 0.0);
        let (q, _) = trial.q.as_chunks_mut::<SUB>();
        for (s, x) in subs.iter().enumerate() {
            let near = round(center[s]);
            let mut least = f32::INFINITY;
            for step in [0.0, -1.0, 1.0] {
                let scale = (near + step).clamp(-steps, steps - 1.0);
                let (e, level) = quantize(x, levels, d * scale);
                if e < least {
                    least = e;
                    center[s] = scale;
                    trial.scale[s] = scale as i8;
                    q[s] = level.map(|l| l as i8);
                }
            }
            error += least;
            let scale = f32::from(trial.scale[s]);
            xa += sum::<SUB>(|i| x[i] * scale * f32::from(q[s][i]));
            aa += sum::<SUB>(|i| (scale * f32::from(q[s][i])).powi(2));
        }
        if error >= best_error {
            break;
        }
        best_error = error;
        best = trial;
        d = to_f16(xa / aa);
        if !d.is_finite() || d == best.d {
            break;
        }
    }
    best
}

/// One scale for all values, without a block above it: the scale as f16 and the levels.
pub(crate) fn single<const N: usize>(values: &[f32], levels: &impl Levels) -> (f32, [i8; N]) {
    let Some(x) = values.first_chunk::<N>() else { return (0.0, [0; N]) };
    let d = to_f16(fit_scale(x, levels));
    let (_, level) = quantize(x, levels, d);
    (d, level.map(|l| l as i8))
}

/// Sub-blocks of `SUB` values, integers `0..=most`, scales and minima `0..=steps`.
pub(crate) fn affine<const SUB: usize>(values: &[f32], most: f32, steps: f32) -> Affine {
    let (subs, _) = values.as_chunks::<SUB>();
    let (mut scales, mut mins) = ([0.0; 16], [0.0; 16]);
    for (s, x) in subs.iter().enumerate() {
        (scales[s], mins[s]) = fit_affine(x, most);
    }
    let mut d = to_f16(furthest(&scales) / steps);
    let mut dmin = to_f16(furthest(&mins) / steps);
    let (inverse, min_inverse) = (reciprocal(d), reciprocal(dmin));
    let (mut scales, mut mins) = (scales.map(|s| s * inverse), mins.map(|m| m * min_inverse));
    let mut best = Affine { d: 0.0, dmin: 0.0, scale: [0; 16], min: [0; 16], q: [0; MAX_BLOCK] };
    let mut best_error = f32::INFINITY;
    for _ in 0..=ROUNDS {
        let mut trial = Affine { d, dmin, scale: [0; 16], min: [0; 16], q: [0; MAX_BLOCK] };
        let (mut error, mut normal) = (0.0, Normal::default());
        let (q, _) = trial.q.as_chunks_mut::<SUB>();
        for (s, x) in subs.iter().enumerate() {
            let (near, near_min) = (round(scales[s]), round(mins[s]));
            let mut least = f32::INFINITY;
            for step in [0.0, -1.0, 1.0] {
                for min_step in [0.0, -1.0, 1.0] {
                    let scale = (near + step).clamp(0.0, steps);
                    let min = (near_min + min_step).clamp(0.0, steps);
                    let (e, level) = quantize_affine(x, most, d * scale, -dmin * min);
                    if e < least {
                        least = e;
                        (scales[s], mins[s]) = (scale, min);
                        q[s] = level.map(|l| l as u8);
                    }
                }
            }
            (trial.scale[s], trial.min[s]) = (scales[s] as u8, mins[s] as u8);
            error += least;
            normal.add(x, |i| scales[s] * f32::from(q[s][i]), -mins[s]);
        }
        if error >= best_error {
            break;
        }
        best_error = error;
        best = trial;
        let Some((new_d, new_dmin)) = normal.solve() else { break };
        (d, dmin) = (to_f16(new_d), to_f16(new_dmin));
        if (d, dmin) == (best.d, best.dmin) {
            break;
        }
    }
    best
}

/// The least-squares scale of the best trial.
fn fit_scale<const N: usize>(x: &[f32; N], levels: &impl Levels) -> f32 {
    let far = furthest(x);
    if far.abs() < TINY {
        return 0.0;
    }
    let (mut best, mut best_gain) = (far / levels.lowest(), 0.0);
    for top in levels.trials() {
        let inverse = top / far;
        let q: [f32; N] = std::array::from_fn(|i| levels.nearest(x[i] * inverse));
        let xq = sum::<N>(|i| x[i] * q[i]);
        let qq = sum::<N>(|i| q[i] * q[i]);
        // With the least-squares scale the error falls by xq^2 / qq.
        if qq > 0.0 && xq * xq > best_gain * qq {
            best = xq / qq;
            best_gain = xq * best;
        }
    }
    best
}

/// The scale and the minimum (not negative, to be subtracted) of the best trial.
fn fit_affine<const N: usize>(x: &[f32; N], most: f32) -> (f32, f32) {
    let (min, max) = range(x);
    let min = min.min(0.0);
    if max - min < TINY {
        return (0.0, -min);
    }
    let (mut best, mut best_error) = ((0.0, 0.0), f32::INFINITY);
    for t in -11..=11 {
        let inverse = (most + 0.1 * t as f32) / (max - min);
        let q: [f32; N] = std::array::from_fn(|i| round((x[i] - min) * inverse).clamp(0.0, most));
        let mut normal = Normal::default();
        normal.add(x, |i| q[i], -1.0);
        let Some((scale, min)) = normal.solve() else { continue };
        let (error, _) = quantize_affine(x, most, scale, -min);
        if error < best_error {
            best = (scale, min);
            best_error = error;
        }
    }
    best
}

/// Sums for fitting `x` by `u * a + v * b` with `u > 0` and `v >= 0`.
#[derive(Default)]
struct Normal {
    xa: f32,
    xb: f32,
    aa: f32,
    ab: f32,
    bb: f32,
}

impl Normal {
    fn add<const N: usize>(&mut self, x: &[f32; N], a: impl Fn(usize) -> f32, b: f32) {
        self.xa += sum::<N>(|i| x[i] * a(i));
        self.aa += sum::<N>(|i| a(i) * a(i));
        self.ab += b * sum::<N>(&a);
        self.xb += b * sum::<N>(|i| x[i]);
        self.bb += b * b * N as f32;
    }

    fn solve(&self) -> Option<(f32, f32)> {
        let det = self.aa * self.bb - self.ab * self.ab;
        let (u, v) = ((self.xa * self.bb - self.xb * self.ab) / det, (self.xb * self.aa - self.xa * self.ab) / det);
        let (u, v) = if det > 0.0 && v >= 0.0 { (u, v) } else { (self.xa / self.aa, 0.0) };
        (u.is_finite() && u > 0.0).then_some((u, v))
    }
}

/// The levels nearest to `x / scale`, and their squared error.
#[inline(always)]
fn quantize<const N: usize>(x: &[f32; N], levels: &impl Levels, scale: f32) -> (f32, [f32; N]) {
    let inverse = reciprocal(scale);
    let level: [f32; N] = std::array::from_fn(|i| levels.nearest(x[i] * inverse));
    let error = sum::<N>(|i| (scale * level[i] - x[i]).powi(2));
    (error, level)
}

/// The integers nearest to `(x - offset) / scale`, and their squared error.
#[inline(always)]
fn quantize_affine<const N: usize>(x: &[f32; N], most: f32, scale: f32, offset: f32) -> (f32, [f32; N]) {
    let inverse = reciprocal(scale);
    let q: [f32; N] = std::array::from_fn(|i| round((x[i] - offset) * inverse).clamp(0.0, most));
    let error = sum::<N>(|i| (scale * q[i] + offset - x[i]).powi(2));
    (error, q)
}

/// To the nearest integer, ties to even, for `|v| < 2^22`; vectorizes on every target.
#[inline(always)]
fn round(v: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    (v.clamp(-4e6, 4e6) + MAGIC) - MAGIC
}

/// A sum in eight lanes, so that it vectorizes.
#[inline(always)]
fn sum<const N: usize>(f: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; 8];
    for i in (0..N).step_by(8) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            *lane += f(i + l);
        }
    }
    lanes.iter().sum()
}

/// As the block will store it.
fn to_f16(v: f32) -> f32 {
    f16::from_f32(v).to_f32()
}
