//! `cargo xtask check-metal`: type-checks on any system what of the Metal backend is for Apple's systems only.
//!
//! The bindings of Apple's frameworks are declarations, which `objc2` has for another runtime too (GNUstep's). What keeps them from
//! being checked elsewhere is one attribute that links a framework: they are checked in a copy without it. The check has a
//! workspace of its own below `target`, so that neither the lock file nor what is built otherwise knows of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The bindings that link a framework.
const BINDINGS: &str = "objc2-metal";
const LINK: &str = "#[link(name = \"Metal\", kind = \"framework\")]\n";

/// What `crates/metal` asks for; a warning fails.
const FLAGS: &str = "--cfg metal_check -D warnings";

const MANIFEST: &str = r#"[package]
name = "check-metal"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "lib.rs"

[dependencies]
akunu-metal = { path = "../../crates/metal" }

[patch.crates-io]
objc2-metal = { path = "objc2-metal" }

[workspace]
"#;

pub fn run(root: &Path) -> Result<bool> {
    let folder = root.join("target/check-metal");
    fs::create_dir_all(&folder)?;
    copy_bindings(&bindings(root)?, &folder.join(BINDINGS))?;
    put(&folder.join("lib.rs"), "")?;
    put(&folder.join("Cargo.toml"), MANIFEST)?;
    // The versions that everything else is built with; that one of them is a copy is noted there.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut check = cargo(&folder);
    check.args(["check", "--offline", "--quiet"]).arg("--target-dir").arg(folder.join("target"));
    Ok(check.status().context("cargo could not be run")?.success())
}

/// Cargo with the flags that turn the modules for Apple's systems on.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder).env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// Where cargo keeps the bindings' sources, which it fetches where they are not there.
fn bindings(root: &Path) -> Result<PathBuf> {
    let host = Command::new("rustc").args(["--print", "host-tuple"]).output().context("rustc could not be run")?;
    let host = String::from_utf8(host.stdout)?;
    let mut cargo = cargo(root);
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host.trim()]);
    let told = cargo.output().context("cargo could not be run")?;
    ensure!(told.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout)?;
    let packages = told["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let found = packages.iter().find(|package| package["name"] == BINDINGS);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{BINDINGS} is not among the dependencies"))?;
    Ok(Path::new(manifest).parent().context("a manifest is in a folder")?.to_owned())
}

/// Copies a crate, leaving out what links a framework. Warnings are its authors' affair, as they are of crates that are no copies.
fn copy_bindings(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_bindings(&path, &to.join(name))?;
            continue;
        }
        let mut text = fs::read_to_string(&path)?;
        if path.ends_with("generated/mod.rs") {
            ensure!(text.contains(LINK), "{} links its framework in another way", path.display());
            text = text.replace(LINK, "");
        } else if path.ends_with("src/lib.rs") {
            text.insert_str(0, "#![allow(warnings)]\n");
        }
        put(&to.join(name), &text)?;
    }
    Ok(())
}

/// Writes what is not there already, so that nothing is checked again that has not changed.
fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    Ok(fs::write(path, text)?)
}
