//! `shaders/formats/grids.h`: the tables of number formats, written from those of `dtype`.

use akunu_dtype::{DType, Planes, grids};
use std::fmt::Write;

/// The header.
pub fn header() -> String {
    let mut out = String::from(
        "// Written by `cargo run -p akunu-metal` from the tables of crates/dtype: do not edit.\n#pragma once\n",
    );
    let words = |grid: &[u64]| grid.iter().flat_map(|tuple| [*tuple as u32, (tuple >> 32) as u32]).collect::<Vec<_>>();
    table(&mut out, "uint IQ1_GRID", &words(&grids::IQ1), |word| format!("{word:#x}"));
    table(&mut out, "uint IQ2_XXS_GRID", &words(&grids::IQ2_XXS), |word| format!("{word:#x}"));
    table(&mut out, "uint IQ2_XS_GRID", &words(&grids::IQ2_XS), |word| format!("{word:#x}"));
    table(&mut out, "uint IQ2_S_GRID", &words(&grids::IQ2_S), |word| format!("{word:#x}"));
    table(&mut out, "uint IQ3_XXS_GRID", &grids::IQ3_XXS, |word| format!("{word:#x}"));
    table(&mut out, "uint IQ3_S_GRID", &grids::IQ3_S, |word| format!("{word:#x}"));
    // Blocks whose scale is 1: a half in front of the nibbles, or an exponent.
    table(&mut out, "float IQ4_LEVELS", &levels(DType::IQ4_NL, &[0x00, 0x3c]), f32::to_string);
    table(&mut out, "float FP4_DOUBLED", &levels(DType::MXFP4, &[128]), f32::to_string);
    out
}

/// What every nibble stands for.
fn levels(dtype: DType, head: &[u8]) -> Vec<f32> {
    let data: Vec<u8> = head.iter().copied().chain(0..16).collect();
    let mut values = vec![0.0; dtype.format().block];
    (dtype.format().decode)(Planes { data: &data, ..Planes::default() }, &mut values);
    values.truncate(16);
    values
}

fn table<T>(out: &mut String, declared: &str, values: &[T], write: impl Fn(&T) -> String) {
    let _ = writeln!(out, "\nconstant {declared}[{}] = {{", values.len());
    for line in values.chunks(16) {
        let line: Vec<String> = line.iter().map(&write).collect();
        let _ = writeln!(out, "    {},", line.join(", "));
    }
    out.push_str("};\n");
}
