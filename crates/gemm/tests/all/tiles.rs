//! What brings numbers into the layout of tiles.

use akunu_dtype::{DType, FORMATS};
use akunu_gemm::bf16_panel::Bf16Panel;
use akunu_gemm::gemm::Gemm;
use akunu_gemm::packed::{Fields, ROWS};
use akunu_gemm::table::PANELS;
use akunu_simd::level::Level;
use akunu_simd::tiles::{SIDE, STEP, transpose};
use std::arch::x86_64::*;

#[test]
fn transposed_lanes_are_in_their_places() {
    if Level::detect() < Level::Avx512Bw {
        println!("skipped: this machine has no AVX-512");
        return;
    }
    let rows: [[f32; 16]; 16] = std::array::from_fn(|r| std::array::from_fn(|c| (16 * r + c) as f32));
    let mut out = [[0.0_f32; 16]; 16];
    // SAFETY: the machine has AVX-512; every access is to an array of 16.
    unsafe {
        let v = transpose(std::array::from_fn(|r| _mm512_loadu_ps(rows[r].as_ptr())));
        for (to, v) in out.iter_mut().zip(v) {
            _mm512_storeu_ps(to.as_mut_ptr(), v);
        }
    }
    for r in 0..16 {
        for c in 0..16 {
            assert_eq!(out[c][r], rows[r][c]);
        }
    }
}

/// The values of 16 packed rows of one block each, all of whose bytes are `byte`.
fn unpacked(dtype: DType, byte: u8) -> Option<Vec<u16>> {
    let strip = PANELS.iter().find(|row| row.packed && row.dtype == Some(dtype))?;
    let fields = Fields::of(dtype)?;
    let block = FORMATS[usize::from(dtype.index())].block.max(STEP);
    let w = vec![byte; ROWS * fields.bytes()];
    let mut out = vec![[0_u64; 128]; block / STEP + 1];
    let of = Gemm {
        w: w.as_ptr(),
        w_scales: std::ptr::null(),
        w_biases: std::ptr::null(),
        w_stride: fields.bytes(),
        w_side_stride: 0,
        next: std::ptr::null(),
        x: std::ptr::null(),
        x_stride: 0,
        rows: 0,
        cols: SIDE,
        k: block,
        out: std::ptr::null_mut(),
        out_stride: 0,
        dtype: dtype.index(),
    };
    // SAFETY: 16 rows of the format's blocks, and a tile for each 32 values from the first whole line on.
    unsafe {
        let to = out.as_mut_ptr().cast::<u8>();
        let to = to.add(to.align_offset(64));
        (strip.run)(&Bf16Panel { of: &of, k: 0, len: block, out: to });
        Some(std::slice::from_raw_parts(to.cast::<u16>(), SIDE * block).to_vec())
    }
}

#[test]
fn weights_that_are_no_numbers_stay_so() {
    if !is_x86_feature_detected!("avx512bf16") || !is_x86_feature_detected!("avx512vnni") {
        println!("skipped: no AVX-512 with bf16");
        return;
    }
    let is_number = |v: &u16| !f32::from_bits(u32::from(*v) << 16).is_nan();
    let all: Vec<_> = FORMATS.iter().filter_map(|f| unpacked(f.dtype, 0xff)).collect();
    assert!(all.len() >= 7);
    for all in all {
        assert_eq!(all.iter().filter(|v| is_number(v)).count(), 0);
    }
    assert!(unpacked(DType::Q4_0, 0x11).unwrap().iter().all(is_number));
}
