//! Compiles the emulator, and with it every kernel of the backend and of the tests.

#[path = "../../src/formats.rs"]
mod formats;
mod shader;
#[path = "../../src/source.rs"]
mod source;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// Formats of one object file: all of them together would keep one core busy while the others wait.
const FORMATS_AT_ONCE: usize = 4;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(emulated)");
    for path in ["build", "cpp", "tests/kernels", "../shaders", "../src/formats.rs", "../src/source.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
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

    let mut translated = Vec::new();
    for (root, folder) in [("tests/kernels", "tests/kernels"), ("../shaders", "../shaders")] {
        for path in sources(Path::new(folder)) {
            let name = path.strip_prefix(root).expect("it was found there").display().to_string();
            translated.extend(units(root, &name).unwrap_or_else(|why| panic!("{why}")));
        }
    }
    let objects = compile(&translated);
    let mut build = cc::Build::new();
    build.cpp(true).objects(objects);
    // Kernels register themselves: nobody names them.
    build.link_lib_modifier("+whole-archive").compile("kernels");
}

/// A source as C++, in several files where it is instantiated for many formats.
fn units(root: &str, name: &str) -> Result<Vec<(String, String)>, String> {
    let read = |path: &str| fs::read_to_string(Path::new(root).join(path)).ok();
    let mut units = Vec::new();
    for (nth, formats) in formats::FORMATS.chunks(FORMATS_AT_ONCE).enumerate() {
        let whole = source::whole(name, formats, &read)?;
        let of_formats = read(name).is_some_and(|text| text.contains("INSTANTIATE_FORMATS("));
        if nth > 0 && !of_formats {
            break;
        }
        let once = nth == 0;
        units.push((format!("{name}-{nth}").replace(['/', '\\'], "-"), shader::translate(name, &whole, once)?));
    }
    Ok(units)
}

/// Objects of C++ sources, compiled anew only where they have changed.
fn compile(sources: &[(String, String)]) -> Vec<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut build = cc::Build::new();
    // The calls at every access are the emulator's: nothing of the compiler's own library is linked.
    build.cpp(true).std("c++17").opt_level(1).debug(false).warnings(false).flag("-fsanitize=thread");
    build.flag("-ffp-contract=off").flag("-w").include("cpp/include");
    let compiler = build.get_compiler();
    let mut all = DefaultHasher::new();
    for header in ["cpp/include/metal_stdlib", "cpp/include/emulator.h"] {
        fs::read_to_string(header).expect("a readable header").hash(&mut all);
    }
    format!("{:?}", compiler.to_command()).hash(&mut all);
    let object = |(name, text): &(String, String)| {
        let mut hash = all.clone();
        text.hash(&mut hash);
        let (cpp, object) = (out.join(format!("{name}.cpp")), out.join(format!("{name}-{:016x}.o", hash.finish())));
        if !object.exists() {
            fs::write(&cpp, text).expect("a writable folder");
            let part = object.with_extension("part");
            let status = compiler.to_command().arg("-c").arg(&cpp).arg("-o").arg(&part).status();
            assert!(status.is_ok_and(|s| s.success()), "{name}: the C++ compiler has failed");
            fs::rename(part, &object).expect("a writable folder");
        }
        object
    };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            let mut made = Vec::new();
            while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                made.push(object(source));
            }
            made
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("its message was shown")).collect()
    })
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
