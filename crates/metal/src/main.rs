//! `cargo run -p akunu-metal`: writes what follows from the kernel table: `shaders/params.h` and `docs/metal-kernels.md`.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::write(crate_root.join("shaders/params.h"), akunu_metal::params::header())?;
    fs::write(crate_root.join("../../docs/metal-kernels.md"), akunu_metal::catalogue::page())
}
