//! Activation functions, alone and as gates.

use crate::direct::Direct;
use crate::rig::*;
use akunu_plan::op::*;
use akunu_plan::program::Arg;
use std::f32::consts::SQRT_2;

const ACTIVATIONS: [(Activation, &str); 4] = [
    (Activation::None, ""),
    (Activation::Silu, "silu"),
    (Activation::GeluTanh, "gelu"),
    (Activation::GeluErf, "gelu_erf"),
];

/// From where activations are nothing to where they are the identity, and between.
fn inputs(noise: &mut Noise, n: usize) -> Vec<f32> {
    let mut values = vec![0.0, -0.0, 1e-30, -1e-8, SQRT_2, -SQRT_2, 5.0, -5.0, -12.0, 90.0, -90.0, 3e4, -3e4];
    values.extend((0..n.saturating_sub(values.len())).map(|_| 6.0 * noise.value()));
    values.truncate(n);
    values
}

#[test]
fn gates_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(3);
    for (activation, name) in ACTIVATIONS {
        for (rows, dim) in [(1, 1), (2, 31), (3, 700)] {
            let mut rig = Rig::new(rows, 0);
            let (x, u) = (rig.f32(dim), rig.f32(dim));
            let y = if noise.below(2) == 0 { u } else { rig.f32(dim) };
            let params = ElementParams { dim: dim as u32, activation: activation as u32, scale: 1.0 };
            let args = [Arg::Buffer(x), Arg::Buffer(y), Arg::Buffer(u)];
            rig.op(OpKind::GatedActivation, Per::Row, &args, Params::Element(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            running.set(x, &inputs(&mut noise, rows * dim));
            running.set(u, &noise.values(rows * dim));
            running.run();
            let (got, want) = (running.got(y, rows), running.want(y, rows));
            // Each by its own size: results differ by orders of magnitude. Far on the negative side the error of an exponent
            // is that of the exponential.
            for i in 0..got.len() {
                let size = want[i].abs().max(1e-6);
                let near = (got[i] - want[i]).abs() <= 4e-6 * size;
                failures.check(&format!("{name} gate of {dim}"), near, &format!("[{i}] {} for {}", got[i], want[i]));
            }
        }
    }
    failures.report();
}

#[test]
fn activations_alone_are_gates_of_one() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(4);
    for (_, name) in &ACTIVATIONS[1..] {
        let (dim, stride) = (300, 304);
        let x = inputs(&mut noise, 2 * stride);
        let params = [2, dim as u32, stride as u32, stride as u32, stride as u32, 0, 0];
        let run = |kernel: &'static str| {
            let direct =
                Direct::new(kernel, [2, 2, 1], [256, 1, 1]).values(0, &x).output(2, 2 * stride).params(&params);
            direct.values(4, &vec![1.0; 2 * stride]).floats().remove(0)
        };
        let gate: &'static str = match *name {
            "silu" => "silu_gate",
            "gelu" => "gelu_gate",
            _ => "gelu_erf_gate",
        };
        let (alone, gated) = (run(name), run(gate));
        let same = (0..2 * stride).all(|i| alone[i].to_bits() == gated[i].to_bits());
        failures.check(name, same, "differs from its gate");
        failures.check(name, (0..2 * stride).all(|i| alone[i].is_nan() == (i % stride >= dim)), "writes past its rows");
    }
    failures.report();
}
