//! What is written from the kernel table is what is checked in, and every row has its kernel.

use akunu_metal::{catalogue, formats, grids, kernels, params, shaders};
use std::path::Path;

#[test]
fn what_is_written_from_rust_is_new() {
    for (path, new) in [
        ("shaders/params.h", params::header()),
        ("shaders/formats/grids.h", grids::header()),
        ("../../docs/metal-kernels.md", catalogue::page()),
    ] {
        let written = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        assert!(written == new, "{path} is old: run `cargo run -p akunu-metal`");
    }
}

#[test]
fn every_format_that_weights_can_have_is_one_of_the_shaders() {
    for format in akunu_dtype::FORMATS.iter().filter(|f| f.unpack.is_some()) {
        let suffix = kernels::suffix(format.dtype);
        assert!(formats::FORMATS.iter().any(|(known, _)| *known == suffix), "{}: no {suffix}", format.name);
    }
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
