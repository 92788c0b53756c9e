//! Every level's vector against plain arithmetic, and the functions against f64.

use akunu_simd::level::Level;
use akunu_simd::math::{Function, GeluErf, GeluTanh, Silu, exp, tanh};
use akunu_simd::*;
use half::f16;

/// Runs `check` for every level this machine has; the name goes into failures.
macro_rules! every_level {
    ($check:ident) => {
        for level in Level::available() {
            match level {
                Level::Generic => $check("generic", Generic::detect().unwrap()),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => $check("avx2", Avx2::detect().unwrap()),
                #[cfg(target_arch = "x86_64")]
                Level::Avx512Bw => $check("avx512", Avx512::detect().unwrap()),
                #[cfg(target_arch = "aarch64")]
                Level::Neon => $check("neon", Neon::detect().unwrap()),
                _ => {}
            }
        }
    };
}

fn apply<S: Simd>(s: S, x: &[f32], f: impl Fn(S, S::V) -> S::V) -> Vec<f32> {
    let mut y = vec![f32::NAN; x.len()];
    for at in (0..x.len()).step_by(S::LANES) {
        let n = S::LANES.min(x.len() - at);
        // SAFETY: `n` values from `at` lie inside both.
        unsafe { s.store_first(y.as_mut_ptr().add(at), f(s, s.load_first(x.as_ptr().add(at), n)), n) };
    }
    y
}

/// -90 to 90 in uneven steps, and the small end.
fn samples() -> Vec<f32> {
    let mut x: Vec<f32> = (-9000..=9000).map(|i| i as f32 * 0.010_007).collect();
    x.extend((-40..10).map(|e| 2f32.powi(e)));
    x.extend((-40..10).map(|e| -(2f32.powi(e))));
    x
}

fn check_function<S: Simd>(
    name: &str,
    s: S,
    f: impl Fn(S, S::V) -> S::V,
    exact: impl Fn(f64) -> f64,
    bound: impl Fn(f64, f64) -> f64,
) {
    let x = samples();
    for (x, y) in x.iter().zip(apply(s, &x, f)) {
        let want = exact(f64::from(*x));
        let error = (f64::from(y) - want).abs();
        assert!(error <= bound(f64::from(*x), want), "{name}({x}) = {y}, want {want}");
    }
}

/// erf by its Taylor series below 3 and by the continued fraction of erfc above.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let mut f = 0.0;
        for k in (1..100).rev() {
            f = f64::from(k) / 2.0 / (z + f);
        }
        1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + f)
    };
    value.copysign(x)
}

#[test]
fn functions_are_accurate_at_every_level() {
    fn check<S: Simd>(level: &str, s: S) {
        const EPS: f64 = f32::EPSILON as f64;
        check_function(
            &format!("{level} exp"),
            s,
            |s, v| exp(s, v),
            |x| x.clamp(-87.0, 88.0).exp(),
            |_, want| 2.0 * EPS * want,
        );
        check_function(&format!("{level} tanh"), s, |s, v| tanh(s, v), f64::tanh, |_, _| 2.0 * EPS);
        check_function(
            &format!("{level} silu"),
            s,
            |s, v| Silu::of(s, v),
            |x| x / (1.0 + (-x).exp()),
            |x, want| 4.0 * EPS * want.abs() + if x < -80.0 { 1e-35 } else { 0.0 },
        );
        check_function(
            &format!("{level} gelu_tanh"),
            s,
            |s, v| GeluTanh::of(s, v),
            |x| x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            |x, _| 4.0 * EPS * x.abs(),
        );
        check_function(
            &format!("{level} gelu_erf"),
            s,
            |s, v| GeluErf::of(s, v),
            |x| x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            |x, _| 4.0 * EPS * x.abs(),
        );
    }
    every_level!(check);
}

#[test]
fn sums_and_maxima_agree_with_scalars() {
    fn check<S: Simd>(level: &str, s: S) {
        let x: Vec<f32> = (0..4 * S::LANES).map(|i| ((i * 7919) % 101) as f32 - 50.0).collect();
        // SAFETY: every load lies inside `x`.
        let v: [S::V; 4] = std::array::from_fn(|i| unsafe { s.load(x.as_ptr().add(i * S::LANES)) });
        let want: Vec<f32> = x.chunks(S::LANES).map(|c| c.iter().sum()).collect();
        assert_eq!(s.sum4(v).to_vec(), want, "{level}");
        // Values of which every order of addition gives another sum: the order is that of `sum4`.
        let rough: Vec<f32> = (0..16 * S::LANES).map(|i| 1.0 / (1.0 + ((i * 7919) % 101) as f32)).collect();
        // SAFETY: every load lies inside `rough`, and there is room for 16 sums.
        unsafe {
            let four = |i: usize| std::array::from_fn(|j| s.load(rough.as_ptr().add((4 * i + j) * S::LANES)));
            let mut sums = [0.0; 16];
            s.store_sums(sums.as_mut_ptr(), [0, 1, 2, 3].map(|i| s.part_sums(four(i))));
            assert_eq!(sums.as_chunks::<4>().0, [0, 1, 2, 3].map(|i| s.sum4(four(i))), "{level}");
        }
        for (i, &v) in v.iter().enumerate() {
            assert_eq!(s.sum(v), want[i], "{level}");
            let most = x[i * S::LANES..][..S::LANES].iter().fold(f32::MIN, |a, &b| a.max(b));
            assert_eq!(s.largest(v), most, "{level}");
        }
        for hole in 0..S::LANES {
            let mut y = x[..S::LANES].to_vec();
            y[hole] = f32::NAN;
            let most = y.iter().fold(f32::MIN, |a, &b| a.max(b));
            // SAFETY: `y` has `LANES` values.
            assert_eq!(s.largest(unsafe { s.load(y.as_ptr()) }), most, "{level}");
        }
    }
    every_level!(check);
}

#[test]
fn partial_loads_and_stores_touch_only_their_lanes() {
    fn check<S: Simd>(level: &str, s: S) {
        for n in 0..=S::LANES {
            let x: Vec<f32> = (0..n).map(|i| i as f32 + 1.0).collect();
            let mut y = vec![-7.0; S::LANES + 4];
            // SAFETY: `x` has `n` values, `y` more.
            unsafe { s.store_first(y.as_mut_ptr().add(2), s.load_first(x.as_ptr(), n), n) };
            assert_eq!(&y[2..2 + n], &x[..], "{level}");
            assert!(y[..2].iter().chain(&y[2 + n..]).all(|&v| v == -7.0), "{level} {n}: {y:?}");
        }
    }
    every_level!(check);
}

#[test]
fn f16_loads_and_stores_round_to_even() {
    fn check<S: Simd>(level: &str, s: S) {
        for seed in 0..64 {
            let x: Vec<f32> = (0..S::LANES).map(|i| ((i * 97 + seed * 31) % 613) as f32 * 0.037_1 - 11.0).collect();
            let mut bits = vec![0u16; S::LANES];
            let mut back = vec![0.0; S::LANES];
            // SAFETY: every buffer has `LANES` values.
            unsafe {
                s.store_f16(bits.as_mut_ptr().cast(), s.load(x.as_ptr()));
                s.store(back.as_mut_ptr(), s.load_f16(bits.as_ptr().cast()));
            }
            let want: Vec<f16> = x.iter().map(|&v| f16::from_f32(v)).collect();
            assert_eq!(bits, want.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), "{level}");
            assert_eq!(back, want.iter().map(|v| v.to_f32()).collect::<Vec<_>>(), "{level}");
        }
    }
    every_level!(check);
}

#[test]
fn every_f16_and_every_int8_is_read_exactly() {
    fn check<S: Simd>(level: &str, s: S) {
        let mut values = vec![0.0f32; S::LANES];
        for first in (0..=u16::MAX).step_by(S::LANES) {
            let bits: Vec<u16> = (0..S::LANES as u16).map(|i| first + i).collect();
            // SAFETY: every buffer has `LANES` values.
            unsafe { s.store(values.as_mut_ptr(), s.load_f16(bits.as_ptr().cast())) };
            for (&bits, &got) in bits.iter().zip(&values) {
                let want = f16::from_bits(bits).to_f32();
                let same = |v: f32| v.to_bits() == want.to_bits() || v.is_nan() && want.is_nan();
                assert!(same(got) && same(s.half(bits)), "{level} {bits:#06x}: {got}, want {want}");
            }
        }
        for first in (-128..=127i16).step_by(S::LANES) {
            let q: Vec<i8> = (0..S::LANES as i16).map(|i| (first + i) as i8).collect();
            // SAFETY: every buffer has `LANES` values.
            unsafe { s.store(values.as_mut_ptr(), s.load_i8(q.as_ptr())) };
            assert!(q.iter().zip(&values).all(|(&q, &v)| f32::from(q) == v), "{level}");
        }
    }
    every_level!(check);
}

#[test]
fn quantization_is_the_definition_to_the_bit() {
    fn check<S: Simd>(level: &str, s: S) {
        let mut state = 1u32;
        for round in 0..4000 {
            let mut x = [0.0f32; 32];
            for v in &mut x {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *v = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            }
            match round % 5 {
                // Halves, which round away from zero.
                0 => x = x.map(|v| (v * 254.0).round() / 2.0),
                1 => x = x.map(|v| v * 1e-38),
                2 => x = x.map(|v| v * 1e30),
                3 if round % 25 == 3 => x = [0.0; 32],
                _ => {}
            }
            if round % 5 == 0 {
                x[7] = 127.0;
            }
            let mut want = [0i8; 32];
            let scale = akunu_dtype::q8::quantize_block(&x, &mut want);
            let mut got = [0i8; 32];
            // SAFETY: both arrays have 32 values.
            let (peak, sums) = unsafe {
                let peak = s.peak32(x.as_ptr());
                let inverse = if peak / 127.0 > 0.0 { 1.0 / (peak / 127.0) } else { 0.0 };
                (peak, s.quantize32(x.as_ptr(), inverse, got.as_mut_ptr()))
            };
            assert_eq!(peak / 127.0, scale, "{level}");
            assert_eq!(got, want, "{level} {x:?}");
            let sum = |q: &[i8]| q.iter().map(|&q| i32::from(q)).sum::<i32>();
            assert_eq!(sums, GroupSums { low: sum(&want[..16]), high: sum(&want[16..]) }, "{level}");
        }
    }
    every_level!(check);
}

#[test]
fn blocks_are_quantized_alike_however_many_there_are() {
    fn check<S: Simd>(level: &str, s: S) {
        let mut state = 11u32;
        for n in 0..=19 {
            let mut x = vec![0.0f32; 32 * n];
            for v in &mut x {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *v = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            }
            for (block, x) in x.chunks_mut(32).enumerate() {
                let factor = [1.0, 254.0, 1e-38, 1e30, 0.0, 3.0, -1e-3][block % 7];
                x.iter_mut().for_each(|v| *v *= factor);
                match block % 9 {
                    5 => x[block % 32] = f32::NAN,
                    7 => x[block % 32] = f32::NEG_INFINITY,
                    8 => x[block % 32] = f32::INFINITY,
                    _ => {}
                }
            }
            let (mut q, mut scales, mut sums) = (vec![99i8; 32 * n], vec![9.0f32; n], vec![9.0f32; 2 * n]);
            let to = Q8Blocks { q: q.as_mut_ptr(), scales: scales.as_mut_ptr(), sums: sums.as_mut_ptr() };
            // SAFETY: `n` blocks of each.
            unsafe { s.quantize(x.as_ptr(), to, n) }
            for block in 0..n {
                let mut want = [0i8; 32];
                let x: &[f32; 32] = x[32 * block..][..32].try_into().unwrap();
                let scale = akunu_dtype::q8::quantize_block(x, &mut want);
                assert_eq!(scales[block].to_bits(), scale.to_bits(), "{level}: block {block} of {n}");
                assert_eq!(q[32 * block..][..32], want, "{level}: block {block} of {n}: {x:?}");
                for (half, want) in want.chunks(16).enumerate() {
                    let sum = scale * want.iter().map(|&q| i32::from(q)).sum::<i32>() as f32;
                    assert_eq!(sums[2 * block + half].to_bits(), sum.to_bits(), "{level}: block {block} of {n}");
                }
            }
        }
    }
    every_level!(check);
}

#[test]
fn even_and_odd_lanes_come_apart() {
    fn check<S: Simd>(level: &str, s: S) {
        let x: Vec<f32> = (0..2 * S::LANES).map(|i| i as f32).collect();
        let mut y = vec![f32::NAN; 2 * S::LANES];
        // SAFETY: two vectors of each.
        unsafe {
            let parts = s.unzip(s.load(x.as_ptr()), s.load(x.as_ptr().add(S::LANES)));
            for (i, part) in parts.into_iter().enumerate() {
                s.store(y.as_mut_ptr().add(i * S::LANES), part);
            }
        }
        let want = x.iter().step_by(2).chain(x.iter().skip(1).step_by(2)).copied().collect::<Vec<_>>();
        assert_eq!(y, want, "{level}");
    }
    every_level!(check);
}
