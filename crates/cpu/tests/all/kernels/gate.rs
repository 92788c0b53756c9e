//! Gated values on their way to bf16.

use akunu_cpu::kernels::matmul::amx::gate::Gate;
use akunu_plan::op::Activation;
use akunu_simd::tiles::STEP;

#[test]
fn gated_values_are_as_near_as_bf16_can_be() {
    if !is_x86_feature_detected!("avx512bf16") || !is_x86_feature_detected!("avx512dq") {
        eprintln!("skipped: no AVX-512 with bf16");
        return;
    }
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let tanh = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh());
    let cases: [(_, &dyn Fn(f64) -> f64); 2] = [(Activation::Silu, &silu), (Activation::GeluTanh, &tanh)];
    let mut xs: Vec<f32> = (-1600..1600).map(|i| i as f32 / 100.0).collect();
    xs.extend([0.0, -0.0, 1e-20, -1e-20, 88.0, -88.0, 1e4, -1e4, 1e19, -1e19, 3e38, -3e38, 90.0, -90.0, 50.0, -50.0]);
    xs.resize(xs.len().next_multiple_of(STEP), 1.0);
    for (activation, definition) in cases {
        let gate = Gate::of(activation as u32).expect("one of those there are");
        for x in xs.chunks_exact(STEP) {
            let (u, mut got) = ([-0.75_f32; STEP], [0_u16; STEP]);
            // SAFETY: 32 values each, and the machine has what it takes.
            unsafe { gate.round32(x.as_ptr(), u.as_ptr(), got.as_mut_ptr().cast()) };
            for (x, got) in x.iter().zip(got) {
                let got = f64::from(f32::from_bits(u32::from(got) << 16));
                let want = definition(f64::from(*x)) * -0.75;
                // Of a number that is nearly lost the exponent is lost too: what counts is how little it is.
                let bound = want.abs() * (1.0 / 256.0 + 3e-4) + 1e-7;
                assert!((got - want).abs() <= bound, "{activation:?} of {x}: {got} is not {want}");
            }
        }
    }
}
