//! `cargo run -p akunu-metal`: writes what follows from Rust: `shaders/params.h` from the structs of parameters,
//! `shaders/formats/grids.h` from the tables of number formats, `docs/metal-kernels.md` from the kernel table.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::write(crate_root.join("shaders/params.h"), akunu_metal::params::header())?;
    fs::write(crate_root.join("shaders/formats/grids.h"), akunu_metal::grids::header())?;
    fs::write(crate_root.join("../../docs/metal-kernels.md"), akunu_metal::catalogue::page())
}
