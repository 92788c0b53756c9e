//! What is written from the kernel table is what is checked in, and every row has its kernel.

use akunu_metal::{catalogue, kernels, params, shaders};
use std::path::Path;

#[test]
fn the_catalogue_is_of_the_kernel_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metal-kernels.md");
    let written = std::fs::read_to_string(page).unwrap();
    assert!(written == catalogue::page(), "docs/metal-kernels.md is old: run `cargo run -p akunu-metal`");
}

#[test]
fn the_shaders_header_is_of_the_hosts_structs() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders/params.h");
    let written = std::fs::read_to_string(header).unwrap();
    assert!(written == params::header(), "shaders/params.h is old: run `cargo run -p akunu-metal`");
}

#[test]
fn every_row_has_a_kernel_and_a_source() {
    let compiled = akunu_metal_emulator::kernels();
    let table = kernels::table();
    let missing: Vec<&str> = table.iter().map(|row| &*row.name).filter(|name| !compiled.contains(name)).collect();
    assert!(missing.is_empty(), "not in the shaders: {missing:?}");
    for row in table {
        assert!(shaders::all().any(|(path, _)| path == row.source), "{}: no {}", row.name, row.source);
        assert!(shaders::whole(row.source, &[]).is_ok(), "{}", row.source);
    }
}
