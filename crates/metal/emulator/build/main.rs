//! Compiles the emulator, and every kernel of the tests with it.

mod shader;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(emulated)");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=cpp");
    let is = |key: &str, among: &[&str]| env::var(key).is_ok_and(|value| among.contains(&value.as_str()));
    let native = env::var("HOST").is_ok_and(|host| is("TARGET", &[&host]));
    // Fibres are written for these, the compiler's instrumentation is there, and what is built can be run.
    if !native || !is("CARGO_CFG_TARGET_FAMILY", &["unix"]) || !is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"]) {
        return;
    }
    println!("cargo::rustc-cfg=emulated");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).warnings(true).extra_warnings(true);
    build.include("cpp/include").files(["cpp/emulator.cpp", "cpp/fibre.cpp", "cpp/watch.cpp"]).compile("emulator");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut build = cc::Build::new();
    // The calls at every access are the emulator's: nothing of the compiler's own library is linked.
    build.cpp(true).std("c++17").opt_level(1).debug(false).warnings(false).flag("-fsanitize=thread");
    build.flag("-ffp-contract=off").include("cpp/include");
    for folder in ["tests/kernels"] {
        println!("cargo::rerun-if-changed={folder}");
        for source in sources(Path::new(folder)) {
            let text = fs::read_to_string(&source).expect("a readable source");
            let translated = shader::translate(&source.display().to_string(), &text);
            let name = source.with_extension("cpp").display().to_string().replace(['/', '\\'], "-");
            let path = out.join(name);
            fs::write(&path, translated.unwrap_or_else(|why| panic!("{why}"))).expect("a writable folder");
            build.file(path).include(source.parent().expect("a folder"));
        }
    }
    // Kernels register themselves: nobody names them.
    build.link_lib_modifier("+whole-archive").compile("kernels");
}

/// The Metal sources in a folder and below.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).expect("a readable folder");
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|e| e == "metal") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}
