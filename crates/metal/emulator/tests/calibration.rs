//! Kernels of MLX, which Apple's compiler compiles and Apple's GPUs run, give on the emulator what they should. Their sources are
//! none of ours: they are compiled where `AKUNU_MLX_METAL` names the folder of an unpacked wheel (`cargo xtask calibrate-metal`).
#![cfg(emulated)]

use akunu_metal_emulator::{Buffer, Geometry, dispatch, kernels, unwritten};
use akunu_testkit::fixtures::{Source, needed};
use half::f16;

fn bytes<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: numbers without padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn bytes_mut<T: Copy>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: numbers without padding, of which every pattern is one.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Whether MLX's kernels were compiled in.
#[track_caller]
fn compiled(kernel: &str) -> bool {
    needed(kernels().contains(&kernel).then_some(()), Source::Fetched, "source of MLX's kernels").is_some()
}

/// Numbers between -1 and 1 that are halves, too.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| (((i + 31 * seed) * 7919 % 2039) as f32 / 1024.0 - 1.0).clamp(-1.0, 1.0)).map(rounded).collect()
}

fn rounded(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

fn halves(values: &[f32]) -> Vec<f16> {
    values.iter().map(|x| f16::from_f32(*x)).collect()
}

fn widened(values: &[f16]) -> Vec<f32> {
    values.iter().map(|x| x.to_f32()).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}

/// The output of a kernel, which is all written. What Apple's compiler has made of the same kernel gives the same bits.
fn run<T: Copy + Default>(
    kernel: &str,
    geometry: &Geometry,
    at: usize,
    length: usize,
    inputs: &[(usize, &[u8])],
) -> Vec<T> {
    let output = run_one::<T>(kernel, geometry, at, length, inputs);
    let twin = kernel.replace("mlx_", "air_");
    if kernels().contains(&twin.as_str()) {
        let geometry = Geometry { bounds_only: true, ..geometry.clone() };
        let same = bytes(&output) == bytes(&run_one::<T>(&twin, &geometry, at, length, inputs));
        assert!(same, "{twin} has other bits than {kernel}");
    }
    output
}

fn run_one<T: Copy + Default>(
    kernel: &str,
    geometry: &Geometry,
    at: usize,
    length: usize,
    inputs: &[(usize, &[u8])],
) -> Vec<T> {
    let mut output = vec![T::default(); length];
    let most = inputs.iter().map(|(at, _)| at + 1).max().unwrap_or(0).max(at + 1);
    let mut buffers: Vec<_> = (0..most).map(|_| Buffer::Constant(&[])).collect();
    for (at, input) in inputs {
        buffers[*at] = Buffer::Constant(input);
    }
    buffers[at] = Buffer::Device(bytes_mut(&mut output));
    dispatch(kernel, geometry, &mut buffers).unwrap_or_else(|error| panic!("{error}"));
    let left = if geometry.bounds_only { None } else { unwritten(at, 0..length * size_of::<T>()) };
    assert_eq!(left, None, "{kernel}: a byte that is not written");
    output
}

#[track_caller]
fn close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*a) - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {a} at {at}, and it should be {b}");
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / sum).collect()
}

#[test]
fn rows_become_probabilities() {
    if !compiled("mlx_softmax_f32") {
        return;
    }
    for (kernel, columns, threads) in
        [("mlx_softmax_f32", 300, 96), ("mlx_softmax_f16", 127, 32), ("mlx_softmax_looped_f32", 4999, 1024)]
    {
        let input: Vec<f32> = numbers(2 * columns, 1).iter().map(|x| x * 8.0).collect();
        let expected: Vec<f64> = input.chunks(columns).flat_map(|row| softmax(&wide(row))).collect();
        let geometry = Geometry { threadgroups: [2, 1, 1], threads: [threads, 1, 1], ..Default::default() };
        let size = [columns as i32];
        let found = if kernel.ends_with("f16") {
            let input = halves(&input);
            widened(&run(kernel, &geometry, 1, input.len(), &[(0, bytes(&input)), (2, bytes(&size))]))
        } else {
            run(kernel, &geometry, 1, input.len(), &[(0, bytes(&input)), (2, bytes(&size))])
        };
        close(kernel, &found, &expected, if kernel.ends_with("f16") { 5e-4 } else { 1e-6 });
    }
}

/// Attention of one head: `queries` rows over `keys` rows, in f64; `sees` says how many keys a query sees.
fn attention(
    dim: usize,
    [q, k, v]: [&[f64]; 3],
    scale: f64,
    sink: Option<f64>,
    sees: &dyn Fn(usize, usize) -> Option<f64>,
) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let rows = q.chunks(dim).enumerate().flat_map(|(row, q)| {
        let score = |(key, k)| sees(row, key).map_or(f64::NEG_INFINITY, |bias| dot(q, k) * scale + bias);
        let scores = k.chunks(dim).enumerate().map(score).chain([sink.unwrap_or(f64::NEG_INFINITY)]);
        let weights = softmax(&scores.collect::<Vec<_>>());
        (0..dim).map(move |d| v.chunks(dim).zip(&weights).map(|(v, w)| v[d] * w).sum()).collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn attention_of_a_step_is_right() {
    const DIM: usize = 64;
    const KEYS: usize = 70;
    const HEADS: usize = 4;
    const KV_HEADS: usize = 2;
    if !compiled("mlx_sdpa_vector_f32_64") {
        return;
    }
    let (k, v) = (numbers(KV_HEADS * KEYS * DIM, 2), numbers(KV_HEADS * KEYS * DIM, 3));
    let sinks = numbers(HEADS, 5);
    let (gqa, keys, scale) = ([(HEADS / KV_HEADS) as i32], [KEYS as i32], [0.125_f32]);
    let (of_head, of_key) = ([(KEYS * DIM) as u64], [DIM as u64]);
    for (half_precision, rows, causal, masked, sunk) in [
        (false, 1, false, false, false),
        (true, 1, false, false, false),
        (false, 3, true, false, false),
        (false, 2, false, true, true),
    ] {
        let q = numbers(HEADS * rows * DIM, 4);
        let mask = numbers(HEADS * rows * KEYS, 6);
        let (mask_strides, heads) = ([1_i32, KEYS as i32, (rows * KEYS) as i32], [HEADS as i32]);
        let flags = [(20, masked), (21, false), (22, causal), (23, false), (24, masked), (25, sunk)];
        let geometry = Geometry {
            threadgroups: [HEADS as u32, rows as u32, 1],
            threads: [1024, 1, 1],
            constants: flags.map(|(number, flag)| (number, u64::from(flag))).to_vec(),
            ..Default::default()
        };
        let expected: Vec<f64> = (0..HEADS)
            .flat_map(|head| {
                let kv = head * KV_HEADS / HEADS * KEYS * DIM..;
                let of = |values: &[f32]| wide(&values[kv.clone()][..KEYS * DIM]);
                let q = wide(&q[head * rows * DIM..][..rows * DIM]);
                let sees = |row: usize, key: usize| {
                    let bias = if masked { f64::from(mask[(head * rows + row) * KEYS + key]) } else { 0.0 };
                    (!causal || key + rows <= KEYS + row).then_some(bias)
                };
                attention(DIM, [&q, &of(&k), &of(&v)], 0.125, sunk.then_some(f64::from(sinks[head])), &sees)
            })
            .collect();
        let (half_q, half_k, half_v) = (halves(&q), halves(&k), halves(&v));
        let [qs, ks, vs] = if half_precision {
            [bytes(&half_q), bytes(&half_k), bytes(&half_v)]
        } else {
            [bytes(&q), bytes(&k), bytes(&v)]
        };
        let mut inputs = vec![(0, qs), (1, ks), (2, vs), (4, bytes(&gqa)), (5, bytes(&keys)), (10, bytes(&scale))];
        inputs.extend([(6, bytes(&of_head)), (7, bytes(&of_key)), (8, bytes(&of_head)), (9, bytes(&of_key))]);
        inputs.extend([(12, bytes(&mask)), (13, &bytes(&mask_strides)[..4]), (14, &bytes(&mask_strides)[4..8])]);
        inputs.extend([(15, &bytes(&mask_strides)[8..]), (16, bytes(&sinks)), (17, bytes(&heads))]);
        if half_precision {
            let found: Vec<f16> = run("mlx_sdpa_vector_f16_64", &geometry, 3, q.len(), &inputs);
            close("sdpa_vector of halves", &widened(&found), &expected, 1e-3);
        } else {
            let found: Vec<f32> = run("mlx_sdpa_vector_f32_64", &geometry, 3, q.len(), &inputs);
            close("sdpa_vector", &found, &expected, 1e-5);
        }
    }
}

#[test]
fn attention_by_matrices_is_right() {
    const DIM: usize = 64;
    const HEADS: usize = 2;
    if !compiled("mlx_attention_f32_64") {
        return;
    }
    for (rows, keys, causal) in [(40, 50, false), (64, 64, false), (45, 77, true)] {
        let (q, k, v) = (numbers(HEADS * rows * DIM, 7), numbers(keys * DIM, 8), numbers(keys * DIM, 9));
        let (query_blocks, key_blocks) = (rows.div_ceil(32), keys.div_ceil(32));
        let counts = [1, HEADS, DIM, rows, keys, HEADS];
        let mut params: Vec<u32> = counts.iter().map(|n| *n as u32).collect();
        params.push(0.125_f32.to_bits());
        let blocks = [query_blocks, key_blocks, rows / 32, keys / 32, rows % 32, keys % 32, keys - rows];
        params.extend(blocks.iter().map(|n| *n as u32));
        for length in [rows, keys, keys, rows] {
            let strides = [HEADS * length * DIM, length * DIM, DIM];
            params.extend(strides.iter().flat_map(|n| [*n as u32, 0]));
        }
        let flags =
            [(200, rows % 32 == 0), (201, keys % 32 == 0), (300, false), (301, causal), (302, false), (303, false)];
        let geometry = Geometry {
            threadgroups: [query_blocks as u32, HEADS as u32, 1],
            threads: [32, 4, 1],
            constants: flags.map(|(number, flag)| (number, u64::from(flag))).to_vec(),
            ..Default::default()
        };
        let sees = |row: usize, key: usize| (!causal || key + rows <= keys + row).then_some(0.0);
        let head = |q| attention(DIM, [&wide(q), &wide(&k), &wide(&v)], 0.125, None, &sees);
        let expected: Vec<f64> = q.chunks(rows * DIM).flat_map(head).collect();
        let inputs = [(0, bytes(&q)), (1, bytes(&k)), (2, bytes(&v)), (4, bytes(&params))];
        let found: Vec<f32> = run("mlx_attention_f32_64", &geometry, 3, q.len(), &inputs);
        close("attention by matrices", &found, &expected, 1e-5);
    }
}

#[test]
fn products_with_quantized_weights_are_right() {
    if !compiled("mlx_qmv_fast_f32") {
        return;
    }
    for (kernel, rows, columns) in [("mlx_qmv_fast_f32", 16, 1024), ("mlx_qmv_f32", 24, 320)] {
        let weights: Vec<u32> =
            (0..rows * columns / 8).map(|i: usize| (i as u32).wrapping_mul(2_654_435_761)).collect();
        let (scales, biases) = (numbers(rows * columns / 64, 10), numbers(rows * columns / 64, 11));
        let x = numbers(columns, 12);
        let weight = |at: usize| {
            let number = weights[at / 8] >> (4 * (at % 8)) & 15;
            f64::from(scales[at / 64]) * f64::from(number) + f64::from(biases[at / 64])
        };
        let row = |row| (0..columns).map(|c| weight(row * columns + c) * f64::from(x[c])).sum();
        let expected: Vec<f64> = (0..rows).map(row).collect();
        let groups = [1, rows.div_ceil(8) as u32, 1];
        let geometry = Geometry { threadgroups: groups, threads: [32, 2, 1], ..Default::default() };
        let (columns, count) = ([columns as i32], [rows as i32]);
        let mut inputs = vec![(0, bytes(&weights)), (1, bytes(&scales)), (2, bytes(&biases)), (3, bytes(&x))];
        inputs.extend([(5, bytes(&columns)), (6, bytes(&count))]);
        close(kernel, &run::<f32>(kernel, &geometry, 4, rows, &inputs), &expected, 1e-5);
    }
}

#[test]
fn products_with_a_vector_are_right() {
    const ROWS: usize = 52;
    const COLUMNS: usize = 300;
    if !compiled("mlx_gemv_f32") {
        return;
    }
    let (matrix, x) = (numbers(ROWS * COLUMNS, 13), numbers(COLUMNS, 14));
    let row = |row: &[f32]| row.iter().zip(&x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    let expected: Vec<f64> = matrix.chunks(COLUMNS).map(row).collect();
    let groups = [ROWS.div_ceil(16) as u32, 1, 1];
    let geometry = Geometry { threadgroups: groups, threads: [32, 1, 4], ..Default::default() };
    let (columns, rows, no_stride) = ([COLUMNS as i32], [ROWS as i32], [0_u64]);
    let mut inputs = vec![(0, bytes(&matrix)), (1, bytes(&x)), (4, bytes(&columns)), (5, bytes(&rows))];
    inputs.extend([(6, bytes(&columns)), (11, bytes(&no_stride)), (12, bytes(&no_stride))]);
    close("gemv", &run::<f32>("mlx_gemv_f32", &geometry, 3, ROWS, &inputs), &expected, 1e-5);
}

#[test]
fn products_of_matrices_are_right() {
    if !compiled("mlx_gemm_nt_f32") {
        return;
    }
    for (kernel, [m, n, k], adds) in [
        ("mlx_gemm_nt_f32", [64, 32, 32], false),
        ("mlx_gemm_nt_f32", [40, 45, 37], false),
        // Rows of the matrix that is added are read beyond its last, to no effect, where they are no whole tiles.
        ("mlx_gemm_nt_f32", [32, 45, 16], true),
        ("mlx_gemm_nn_f16", [40, 50, 40], false),
    ] {
        let (a, b, c) = (numbers(m * k, 15), numbers(k * n, 16), numbers(m * n, 17));
        let transposed = kernel.contains("nt");
        let of_b = |row: usize, column: usize| if transposed { b[column * k + row] } else { b[row * n + column] };
        let element = |at: usize| {
            let sum: f64 = (0..k).map(|i| f64::from(a[at / n * k + i]) * f64::from(of_b(i, at % n))).sum();
            if adds { 0.5 * sum + 2.0 * f64::from(c[at]) } else { sum }
        };
        let expected: Vec<f64> = (0..m * n).map(element).collect();
        let (tiles_n, tiles_m) = (n.div_ceil(32), m.div_ceil(32));
        let mut params: Vec<u32> =
            [m, n, k, k, if transposed { k } else { n }, n, tiles_n, tiles_m].map(|n| n as u32).to_vec();
        // No batch; whole steps along K.
        params.extend([0, 0, 0, 0, 0, 0, 0, k as u32 / 16, 0, 0]);
        let add = [n as u32, 1, 0, 0, 0.5_f32.to_bits(), 2_f32.to_bits()];
        let flags = [(10, false), (100, adds), (110, adds), (200, m % 32 == 0), (201, n % 32 == 0), (202, k % 16 == 0)];
        let geometry = Geometry {
            threadgroups: [tiles_n as u32, tiles_m as u32, 1],
            threads: [32, 2, 2],
            constants: flags.map(|(number, flag)| (number, u64::from(flag))).to_vec(),
            ..Default::default()
        };
        let (half_a, half_b) = (halves(&a), halves(&b));
        let ins = if transposed { [bytes(&a), bytes(&b)] } else { [bytes(&half_a), bytes(&half_b)] };
        let inputs = [(0, ins[0]), (1, ins[1]), (2, bytes(&c)), (4, bytes(&params)), (5, bytes(&add))];
        let what = format!("{kernel}, {m} x {n} x {k}");
        if transposed {
            close(&what, &run::<f32>(kernel, &geometry, 3, m * n, &inputs), &expected, 1e-5);
        } else {
            close(&what, &widened(&run(kernel, &geometry, 3, m * n, &inputs)), &expected, 1e-3);
        }
    }
}

#[test]
fn sums_of_rows_are_right() {
    const ROWS: usize = 8;
    const COLUMNS: usize = 1000;
    if !compiled("mlx_row_sum_f32") {
        return;
    }
    let input = numbers(ROWS * COLUMNS, 18);
    let expected: Vec<f64> = input.chunks(COLUMNS).map(|row| wide(row).iter().sum()).collect();
    let geometry = Geometry { threadgroups: [1, 2, 1], threads: [96, 1, 1], ..Default::default() };
    let inputs =
        [(0, bytes(&input)), (2, bytes(&[COLUMNS as u64])), (3, bytes(&[ROWS as u64]))].map(|(at, b)| (at, b.to_vec()));
    let inputs: Vec<_> = inputs.iter().map(|(at, b)| (*at, b.as_slice())).collect();
    close("row_reduce_simple", &run::<f32>("mlx_row_sum_f32", &geometry, 1, ROWS, &inputs), &expected, 1e-5);
}

#[test]
fn prefixes_are_right() {
    const COLUMNS: usize = 999;
    if !compiled("mlx_scan_sum_f32") {
        return;
    }
    let input = numbers(2 * COLUMNS, 19);
    let whole: Vec<i64> = input.iter().map(|x| (x * 1024.0) as i64).collect();
    let size = [COLUMNS as u64];
    let running = |begin: f64, with: fn(f64, f64) -> f64| -> Vec<f64> {
        let rows = input.chunks(COLUMNS).flat_map(|row| {
            row.iter().scan(begin, |so_far, x| {
                *so_far = with(*so_far, f64::from(*x));
                Some(*so_far)
            })
        });
        rows.collect()
    };
    // Fewer SIMD groups than 32 leave threadgroup memory unwritten that is read all the same, to no effect.
    for (threads, bounds_only) in [(1024, false), (64, true)] {
        let geometry =
            Geometry { threadgroups: [1, 2, 1], threads: [threads, 1, 1], bounds_only, ..Default::default() };
        let inputs = [(0, bytes(&input)), (2, bytes(&size))];
        let sums = run::<f32>("mlx_scan_sum_f32", &geometry, 1, input.len(), &inputs);
        close("running sums", &sums, &running(0.0, |a, b| a + b), 1e-5);
        let most = run::<f32>("mlx_scan_max_f32", &geometry, 1, input.len(), &inputs);
        close("running maxima", &most, &running(f64::NEG_INFINITY, f64::max), 0.0);
        // From the end, without the number itself.
        let inputs = [(0, bytes(&whole)), (2, bytes(&size))];
        let sums = run::<i64>("mlx_scan_sum_i64", &geometry, 1, whole.len(), &inputs);
        for (row, sums) in whole.chunks(COLUMNS).zip(sums.chunks(COLUMNS)) {
            assert!((0..COLUMNS).all(|at| sums[at] == row[at + 1..].iter().sum::<i64>()), "{threads} threads");
        }
    }
    let mut sums = vec![0_f32; input.len()];
    let geometry = Geometry { threadgroups: [1, 2, 1], threads: [64, 1, 1], ..Default::default() };
    let mut buffers =
        [Buffer::Constant(bytes(&input)), Buffer::Device(bytes_mut(&mut sums)), Buffer::Constant(bytes(&size))];
    let error = dispatch("mlx_scan_sum_f32", &geometry, &mut buffers).unwrap_err();
    assert!(error.contains("reads threadgroup memory that nobody has written"), "{error}");
}

#[test]
fn a_hadamard_transform_is_right() {
    const SIZE: usize = 256;
    if !compiled("mlx_hadamard_f32") {
        return;
    }
    let input = numbers(3 * SIZE, 20);
    let sign = |a: usize, b: usize| if (a & b).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let of_row = |row: &[f32]| -> Vec<f64> {
        (0..SIZE).map(|at| 0.0625 * (0..SIZE).map(|i| sign(at, i) * f64::from(row[i])).sum::<f64>()).collect()
    };
    let expected: Vec<f64> = input.chunks(SIZE).flat_map(of_row).collect();
    let geometry = Geometry { threadgroups: [1, 3, 1], threads: [16, 1, 1], ..Default::default() };
    let scale = [0.0625_f32];
    let inputs = [(0, bytes(&input)), (2, bytes(&scale))];
    close("hadamard_n", &run::<f32>("mlx_hadamard_f32", &geometry, 1, input.len(), &inputs), &expected, 1e-5);
}

/// Of a linear attention with a state: by steps, and by chunks of 8 with matrices that are loaded and stored as such.
#[test]
fn a_state_is_carried_as_it_should_be() {
    const DIM: usize = 128;
    const HEADS: usize = 24;
    const ROWS: usize = 13;
    // Of the state's 128 rows; the rest and the other heads are not run.
    const STATES: usize = 32;
    if !compiled("mlx_delta_chunk_f32") {
        return;
    }
    let row = HEADS * DIM;
    let (q, v) = (numbers(ROWS * row, 21), numbers(ROWS * row, 23));
    let k: Vec<f32> = numbers(ROWS * row, 22).iter().map(|x| x / 8.0).collect();
    let state = numbers(STATES * DIM, 24);
    let gates: Vec<f32> = numbers(ROWS * HEADS, 25).iter().map(|x| 0.75 + x / 8.0).collect();
    let betas: Vec<f32> = numbers(ROWS * HEADS, 26).iter().map(|x| 0.5 + x / 4.0).collect();
    let (mut states, mut expected) = (wide(&state), vec![0.0; ROWS * STATES]);
    for t in 0..ROWS {
        let (q, k) = (wide(&q[t * row..][..DIM]), wide(&k[t * row..][..DIM]));
        for (at, state) in states.chunks_mut(DIM).enumerate() {
            state.iter_mut().for_each(|s| *s *= f64::from(gates[t * HEADS]));
            let known: f64 = state.iter().zip(&k).map(|(s, k)| s * k).sum();
            let delta = (f64::from(v[t * row + at]) - known) * f64::from(betas[t * HEADS]);
            state.iter_mut().zip(&k).for_each(|(s, k)| *s += k * delta);
            expected[t * STATES + at] = state.iter().zip(&q).map(|(s, q)| s * q).sum();
        }
    }
    for (kernel, groups) in [("mlx_delta_seq_f32", STATES / 4), ("mlx_delta_chunk_f32", STATES / 32)] {
        let mut bits = Vec::new();
        for name in [kernel.to_owned(), kernel.replace("mlx_", "air_")] {
            if !kernels().contains(&name.as_str()) {
                continue;
            }
            let (mut y, mut after) = (vec![0_f32; ROWS * row], vec![0_f32; STATES * DIM]);
            let geometry = Geometry {
                threadgroups: [1, groups as u32, 1],
                threads: [32, 4, 1],
                constants: vec![(200, 0)],
                // Between chunks, lanes write what others have read with no barrier between: a SIMD group goes in step.
                bounds_only: name != "mlx_delta_seq_f32",
                ..Default::default()
            };
            let length = [ROWS as i32];
            let mut buffers = [
                Buffer::Constant(bytes(&q)),
                Buffer::Constant(bytes(&k)),
                Buffer::Constant(bytes(&v)),
                Buffer::Constant(bytes(&state)),
                Buffer::Constant(bytes(&gates)),
                Buffer::Constant(bytes(&betas)),
                Buffer::Device(bytes_mut(&mut y)),
                Buffer::Device(bytes_mut(&mut after)),
                Buffer::Constant(bytes(&length)),
            ];
            dispatch(&name, &geometry, &mut buffers).unwrap_or_else(|error| panic!("{error}"));
            let y: Vec<f32> = y.chunks(row).flat_map(|y| &y[..STATES]).copied().collect();
            close(&name, &y, &expected, 1e-4);
            close(&name, &after, &states, 1e-4);
            bits.push([y, after].concat());
        }
        assert!(bits.windows(2).all(|two| bytes(&two[0]) == bytes(&two[1])), "{kernel} has other bits in the library");
    }
}
