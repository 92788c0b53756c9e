//! Kernels that are right give what they should, and each planted fault is found and named.
#![cfg(emulated)]

use akunu_metal_emulator::{Buffer, Geometry, dispatch, kernels, unwritten};
use half::{bf16, f16};

fn bytes<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: numbers without padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn bytes_mut<T: Copy>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: numbers without padding, of which every pattern is one.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

fn geometry(threadgroups: u32, threads: u32) -> Geometry {
    Geometry { threadgroups: [threadgroups, 1, 1], threads: [threads, 1, 1], ..Default::default() }
}

#[test]
fn a_norm_of_both_instantiations_is_right() {
    const ROWS: usize = 5;
    const COLUMNS: usize = 300;
    let input: Vec<f32> = (0..ROWS * COLUMNS).map(|i| f16::from_f32((i as f32 * 0.37).sin()).to_f32()).collect();
    let weight: Vec<f32> = (0..COLUMNS).map(|i| 1.0 + i as f32 / 100.0).collect();
    let (columns, epsilon) = (COLUMNS as u32, 1e-5_f32);
    let params = [columns, epsilon.to_bits(), 0, 0];
    let expected: Vec<f32> = input
        .chunks(COLUMNS)
        .flat_map(|row| {
            let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / COLUMNS as f64;
            let by = 1.0 / (mean + 1e-5).sqrt();
            row.iter().zip(&weight).map(move |(x, w)| (f64::from(*x) * by * f64::from(*w)) as f32).collect::<Vec<_>>()
        })
        .collect();
    let mut output = vec![0.0_f32; input.len()];
    dispatch(
        "norm_f32",
        &geometry(ROWS as u32, 96),
        &mut [
            Buffer::Constant(bytes(&input)),
            Buffer::Constant(bytes(&weight)),
            Buffer::Device(bytes_mut(&mut output)),
            Buffer::Constant(bytes(&params)),
        ],
    )
    .unwrap();
    assert!(output.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs()));
    let halves: Vec<f16> = input.iter().map(|x| f16::from_f32(*x)).collect();
    let mut output = vec![f16::ZERO; input.len()];
    dispatch(
        "norm_f16",
        &geometry(ROWS as u32, 256),
        &mut [
            Buffer::Constant(bytes(&halves)),
            Buffer::Constant(bytes(&weight)),
            Buffer::Device(bytes_mut(&mut output)),
            Buffer::Constant(bytes(&params)),
        ],
    )
    .unwrap();
    assert_eq!(unwritten(2, 0..output.len() * 2), None);
    assert!(output.iter().zip(&expected).all(|(a, b)| (a.to_f32() - b).abs() <= 1e-3 * b.abs().max(1e-3)));
}

#[test]
fn a_product_of_matrices_is_right() {
    let number = |i: usize| f16::from_f32(((i * 7) % 11) as f32 - 5.0);
    let a: Vec<f16> = (0..256).map(number).collect();
    let b: Vec<f16> = (100..356).map(number).collect();
    let mut c = vec![0.0_f32; 256];
    let geometry = Geometry { shared: vec![1024], ..geometry(1, 128) };
    let mut buffers = [Buffer::Constant(bytes(&a)), Buffer::Constant(bytes(&b)), Buffer::Device(bytes_mut(&mut c))];
    dispatch("multiply", &geometry, &mut buffers).unwrap();
    for (at, value) in c.iter().enumerate() {
        let (row, column) = (at / 16, at % 16);
        let expected: f32 = (0..16).map(|k| a[row * 16 + k].to_f32() * b[k * 16 + column].to_f32()).sum();
        assert_eq!(*value, expected, "{row}, {column}");
    }
}

#[test]
fn function_constants_reach_the_kernel() {
    for (constants, by) in [(vec![(3, 5)], 5), (vec![(3, 5), (4, 1)], 10), (vec![(3, 5), (4, 0)], 5)] {
        let mut output = [0_u32; 12];
        let geometry = Geometry { threadgroups: [1; 3], threads: [4, 3, 1], constants, ..Default::default() };
        dispatch("constants", &geometry, &mut [Buffer::Device(bytes_mut(&mut output))]).unwrap();
        assert!(output.iter().enumerate().all(|(at, value)| *value == by * at as u32), "{output:?}");
    }
}

#[test]
fn lanes_see_each_other() {
    let input: Vec<u32> = (0..32).map(|n| n * n).collect();
    let mut output = [0_u32; 128];
    let mut buffers = [Buffer::Constant(bytes(&input)), Buffer::Device(bytes_mut(&mut output))];
    dispatch("shuffles", &geometry(1, 32), &mut buffers).unwrap();
    for lane in 0..32_usize {
        assert_eq!(output[lane], input[lane ^ 1]);
        // Beyond the last lane it is the lane's own.
        assert_eq!(output[32 + lane], input[if lane + 8 < 32 { lane + 8 } else { lane }]);
        assert_eq!(output[64 + lane], 31 * 31);
        assert_eq!(output[96 + lane], input[..=lane].iter().sum::<u32>());
    }
}

#[test]
fn what_a_source_may_declare_is_understood() {
    let (input, more): (Vec<f32>, Vec<u32>) = (0..32).map(|n| (n as f32, 100 * n)).unzip();
    let extent = [32_u32, 2];
    for counts in [0, 1] {
        let mut output = [0_f32; 64];
        let geometry = Geometry { constants: vec![(300, counts)], ..geometry(1, 32) };
        // Without the last, which is there only where it counts.
        let more: &[u8] = if counts == 1 { bytes(&more) } else { &[] };
        let mut buffers = [
            Buffer::Constant(bytes(&extent)),
            Buffer::Device(bytes_mut(&mut output)),
            Buffer::Constant(bytes(&input)),
            Buffer::Constant(more),
        ];
        dispatch("declares_f32", &geometry, &mut buffers).unwrap();
        for lane in 0..32 {
            assert_eq!(output[2 * lane], (31 - lane) as f32 + (counts as usize * 100 * lane) as f32, "{lane}");
        }
    }
}

#[test]
fn numbers_mix_as_they_should() {
    let input = [f16::from_f32(2048.0)];
    let numbers = [f32::NAN, 5.0, f32::MIN_POSITIVE, f32::MIN_POSITIVE / 2.0];
    let mut output = [f32::NAN; 10];
    let mut buffers =
        [Buffer::Device(bytes_mut(&mut output)), Buffer::Constant(bytes(&input)), Buffer::Constant(bytes(&numbers))];
    dispatch("mixes", &geometry(1, 1), &mut buffers).unwrap();
    assert_eq!(output, [2048.0, -4096.0, 65504.0, f32::NEG_INFINITY, 5.0, 5.0, 2.0, 2.0, 0.0, 0.0]);
    // That was for the kernel alone.
    assert!(std::hint::black_box(numbers[2]) / 2.0 > 0.0);
}

#[test]
fn lanes_see_before_and_beyond() {
    let input: Vec<u32> = (0..32).map(|n| n * n).collect();
    let mut output = [0_u32; 256];
    let mut buffers = [Buffer::Constant(bytes(&input)), Buffer::Device(bytes_mut(&mut output))];
    dispatch("lanes", &geometry(1, 32), &mut buffers).unwrap();
    for lane in 0..32_usize {
        // Beyond the ends is what fills, as if its lanes followed, or came before.
        assert_eq!(output[lane], if lane < 3 { 1029 + lane as u32 } else { input[lane - 3] });
        assert_eq!(output[32 + lane], if lane > 28 { 971 + lane as u32 } else { input[lane + 3] });
        assert_eq!(output[64 + lane], input[..lane].iter().sum::<u32>());
        assert_eq!(output[96 + lane], 1 << ((lane + 1) / 8));
        assert_eq!(output[128 + lane], 1 << (lane / 8));
        assert_eq!(output[160 + lane], input[lane / 4 * 4..][..4].iter().sum::<u32>());
        let (and, xor) = input.iter().fold((u32::MAX, 0), |(and, xor), x| (and & (x | 64), xor ^ x));
        assert_eq!(output[192 + lane], and + xor + 32);
        assert_eq!(output[224 + lane], 32_000 + lane as u32);
    }
}

#[test]
fn small_floats_are_rounded_as_they_should_be() {
    let every: Vec<u16> = (0..=u16::MAX).collect();
    let (mut wide, mut brain_wide) = (vec![0_f32; 65536], vec![0_f32; 65536]);
    let (mut again, mut brain_again) = (vec![0_u16; 65536], vec![0_u16; 65536]);
    let mut buffers = [
        Buffer::Constant(bytes(&every)),
        Buffer::Device(bytes_mut(&mut wide)),
        Buffer::Device(bytes_mut(&mut again)),
        Buffer::Constant(bytes(&every)),
        Buffer::Device(bytes_mut(&mut brain_wide)),
        Buffer::Device(bytes_mut(&mut brain_again)),
    ];
    dispatch("halves", &geometry(256, 256), &mut buffers).unwrap();
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    for bits in every {
        let at = usize::from(bits);
        let (expected, brain) = (f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32());
        assert!(same(wide[at], expected) && same(brain_wide[at], brain), "{bits:#x}");
        assert!(same(f16::from_bits(again[at]).to_f32(), f16::from_f32(expected * 1.0001).to_f32()), "{bits:#x}");
        // Subnormal floats are zero where they are computed with.
        let normal = if brain.is_subnormal() { 0.0_f32.copysign(brain) } else { brain };
        assert!(same(bf16::from_bits(brain_again[at]).to_f32(), bf16::from_f32(normal * 1.001).to_f32()), "{bits:#x}");
    }
}

#[test]
fn atomics_may_meet() {
    let values: Vec<u32> = (0..256).map(|n| n % 3).collect();
    let mut counts = [0_u32; 3];
    let mut buffers = [Buffer::Device(bytes_mut(&mut counts)), Buffer::Constant(bytes(&values))];
    dispatch("count", &geometry(4, 64), &mut buffers).unwrap();
    assert_eq!(counts, [86, 85, 85]);
}

#[test]
fn every_planted_fault_is_found() {
    for (kernel, threadgroups, says) in [
        ("no_barrier", 1, "threadgroup memory"),
        ("overwritten", 1, "no barrier is between them"),
        ("divergent_simd", 1, "faults.metal:21: thread 4 is at simd_sum, and thread 5 has ended"),
        ("two_simd_operations", 1, "faults.metal:26: thread"),
        ("divergent_barrier", 1, "faults.metal:30: thread 31 is at threadgroup_barrier, and thread"),
        ("past_the_end", 1, "thread 63 reads 4 bytes at 256 of buffer 0, which has 256"),
        ("before_the_start", 1, "thread 0 writes 4 bytes at -4 of buffer 0, which has 256"),
        ("past_the_shared", 1, "thread 63 writes byte 256 of threadgroup memory, and 256 are declared"),
        ("writes_what_it_reads", 1, "thread 0 writes buffer 0, which is only read"),
        ("too_much_shared", 1, "33792 bytes of threadgroup memory, and a threadgroup has 32768"),
        ("unwritten_shared", 1, "that nobody has written (byte 256)"),
        ("same_output", 1, "which thread 0 writes, and no barrier is between them"),
        ("across_threadgroups", 2, "which thread 0 writes, and no barrier is between them"),
    ] {
        let input = [1.0_f32; 64];
        let mut output = vec![0.0_f32; 64 * threadgroups];
        let output = bytes_mut(&mut output);
        let mut buffers = match kernel {
            "past_the_end" => vec![Buffer::Constant(bytes(&input)), Buffer::Device(output)],
            "writes_what_it_reads" => vec![Buffer::Constant(output)],
            _ => vec![Buffer::Device(output)],
        };
        let error = dispatch(kernel, &geometry(threadgroups as u32, 64), &mut buffers).unwrap_err();
        assert!(error.starts_with(&format!("{kernel}: ")) && error.contains(says), "{error}");
    }
}

#[test]
fn an_output_that_is_not_written_is_found() {
    let mut output = [0.0_f32; 64];
    dispatch("leaves_some", &geometry(1, 64), &mut [Buffer::Device(bytes_mut(&mut output))]).unwrap();
    assert_eq!(unwritten(0, 0..256), Some(252));
    assert_eq!(unwritten(0, 0..252), None);
}

#[test]
fn what_cannot_be_run_is_an_error() {
    assert!(kernels().contains(&"norm_f16") && kernels().is_sorted());
    for (kernel, threads, says) in [("nobody", 32, "there is no such kernel"), ("constants", 1025, "1 to 1024 threads")]
    {
        let error = dispatch(kernel, &geometry(1, threads), &mut []).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
