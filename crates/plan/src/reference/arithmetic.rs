//! What ops compute of numbers, in f64.

use crate::op::*;
use crate::steps::RowVars;
use akunu_dtype::q8;

pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

pub fn normalize(values: &mut [f32], weight: Option<&[f32]>, bias: Option<&[f32]>, kind: u32, eps: f32) {
    let n = values.len() as f64;
    let mean = match kind {
        NORM_LAYER => values.iter().map(|v| f64::from(*v)).sum::<f64>() / n,
        _ => 0.0,
    };
    let square = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (square + f64::from(eps)).sqrt();
    for (i, v) in values.iter_mut().enumerate() {
        let w = weight.map_or(1.0, |w| f64::from(w[i]));
        let b = bias.map_or(0.0, |b| f64::from(b[i]));
        *v = ((f64::from(*v) - mean) * scale * w + b) as f32;
    }
}

pub fn rotate(head: &mut [f32], angles: &[f32], style: u32, pairs: usize) {
    for i in 0..pairs {
        let (a, b) = if style == ROPE_INTERLEAVED { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
        let (cos, sin) = (angles[2 * i], angles[2 * i + 1]);
        (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
    }
}

pub fn activate(activation: u32, x: f32) -> f32 {
    let x64 = f64::from(x);
    let y = match activation {
        a if a == Activation::Silu as u32 => x64 / (1.0 + (-x64).exp()),
        a if a == Activation::GeluTanh as u32 => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x64 + 0.044715 * x64.powi(3));
            0.5 * x64 * (1.0 + inner.tanh())
        }
        a if a == Activation::GeluErf as u32 => 0.5 * x64 * (1.0 + erf(x64 / std::f64::consts::SQRT_2)),
        _ => x64,
    };
    y as f32
}

/// The error function: by its series where the terms do not cancel, else by the continued fraction
/// of its complement.
fn erf(x: f64) -> f64 {
    let sqrt_pi = std::f64::consts::PI.sqrt();
    if x.abs() < 2.5 {
        let (mut sum, mut term) = (x, x);
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * 2.0 / sqrt_pi;
    }
    let a = x.abs();
    let tail = (1..60).rev().fold(a, |below, n| a + f64::from(n) / 2.0 / below);
    x.signum() * (1.0 - (-a * a).exp() / (sqrt_pi * tail))
}

/// The largest, NaN aside.
pub fn largest(values: &[f32]) -> f32 {
    values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `ln Σ e^x`
pub fn log_sum(values: &[f32]) -> f32 {
    values.iter().map(|v| f64::from(*v).exp()).sum::<f64>().ln() as f32
}

pub fn round_to_int8(values: &mut [f32]) {
    for block in values.chunks_exact_mut(q8::BLOCK) {
        let mut x = [0.0; q8::BLOCK];
        x.copy_from_slice(block);
        let mut q = [0; q8::BLOCK];
        let scale = q8::quantize_block(&x, &mut q);
        block.iter_mut().zip(q).for_each(|(v, q)| *v = f32::from(q) * scale);
    }
}

/// `e^(s - max)` of every score.
pub fn exponentials(scores: &[f32]) -> Vec<f64> {
    let peak = scores.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    scores.iter().map(|s| f64::from(s - peak).exp()).collect()
}

/// The first and the last position a row sees.
pub fn seen(p: &AttentionParams, row: RowVars) -> (usize, usize) {
    let (position, window) = (row.position as usize, p.window as usize);
    if p.sees == Sees::All as u32 {
        let last = row.length as usize - 1;
        return match window {
            0 => (0, last),
            w => (position.saturating_sub(w / 2), last.min(position + w / 2)),
        };
    }
    (if window == 0 { 0 } else { (position + 1).saturating_sub(window) }, row.place())
}

#[cfg(test)]
mod tests {
    use super::erf;

    /// Values from tables of the error function.
    #[test]
    fn erf_is_the_error_function() {
        let table = [
            (0.0, 0.0),
            (0.5, 0.5204998778),
            (1.0, 0.8427007929),
            (2.4, 0.9993114861),
            (2.6, 0.9997639656),
            (6.0, 1.0),
        ];
        for (x, y) in table {
            assert!((erf(x) - y).abs() < 1e-9 && (erf(-x) + y).abs() < 1e-9, "erf({x}) = {}", erf(x));
        }
    }
}
