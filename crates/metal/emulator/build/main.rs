//! Compiles the emulator, and with it every kernel of the backend and of the tests.

mod air;
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

/// A folder with MLX's kernels (the unpacked wheel `mlx-metal`), which the emulator is calibrated with where it is given.
const MLX: &str = "AKUNU_MLX_METAL";

/// Formats of one object file: all of them together would keep one core busy while the others wait.
const FORMATS_AT_ONCE: usize = 4;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(emulated)");
    println!("cargo::rerun-if-env-changed={MLX}");
    for path in ["build", "calibration", "cpp", "tests/kernels", "../shaders", "../src/formats.rs", "../src/source.rs"]
    {
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

    let (mut translated, mut objects) = (Vec::new(), Vec::new());
    for (root, folder) in [("tests/kernels", "tests/kernels"), ("../shaders", "../shaders")] {
        for path in sources(Path::new(folder)) {
            let name = path.strip_prefix(root).expect("it was found there").display().to_string();
            translated.extend(units(&[Path::new(root)], &name).unwrap_or_else(|why| panic!("{why}")));
        }
    }
    if let Some(mlx) = env::var_os(MLX).filter(|folder| !folder.is_empty()).map(PathBuf::from) {
        // What stands for headers of MLX's that only Apple's compiler takes comes first.
        let roots = [Path::new("calibration"), &mlx.join("mlx/include")];
        for path in sources(roots[0]) {
            let name = path.strip_prefix(roots[0]).expect("it was found there").display().to_string();
            let units = units(&roots, &name).unwrap_or_else(|why| panic!("{MLX}={}: {why}", mlx.display()));
            translated.extend(units.into_iter().map(|(name, text)| (format!("mlx-{name}"), text)));
        }
        match compiled_by_apple(&mlx) {
            Ok((sources, made)) => {
                translated.extend(sources);
                objects.extend(made);
            }
            Err(why) => println!("cargo::warning=MLX's kernels are not run as Apple's compiler has made them: {why}"),
        }
    }
    objects.extend(compile(&translated));
    let mut build = cc::Build::new();
    build.cpp(true).objects(objects);
    // Kernels register themselves: nobody names them.
    build.link_lib_modifier("+whole-archive").compile("kernels");
}

/// Kernels of the calibration, and what they are called in MLX's library.
const COMPILED_BY_APPLE: &[(&str, &str)] = &[
    ("air_softmax_f32", "block_softmax_float32"),
    ("air_softmax_f16", "block_softmax_precise_float16"),
    ("air_softmax_looped_f32", "looped_softmax_float32"),
    ("air_sdpa_vector_f32_64", "sdpa_vector_float_64_64"),
    ("air_sdpa_vector_f16_64", "sdpa_vector_float16_t_64_64"),
    ("air_attention_f32_64", "steel_attention_float32_bq32_bk32_bd64_bv64_wm4_wn1_maskfloat32"),
    ("air_qmv_fast_f32", "affine_qmv_fast_float_gs_64_b_4_batch_0_pr_0_hgs_0_r_4"),
    ("air_qmv_f32", "affine_qmv_float_gs_64_b_4_batch_0_pr_0_hgs_0_r_4"),
    ("air_gemv_f32", "gemv_float32_bm4_bn1_sm1_sn32_tm4_tn4_nc0_axpby0"),
    ("air_gemm_nt_f32", "steel_gemm_fused_nt_float32_float32_bm32_bn32_bk16_wm2_wn2"),
    ("air_gemm_nn_f16", "steel_gemm_fused_nn_float16_float16_bm32_bn32_bk16_wm2_wn2"),
    ("air_delta_chunk_f32", "gated_delta_fused_chunk_float_128_128_24_24_8"),
    ("air_delta_seq_f32", "seq_gated_delta_float_128_128_24_24_8"),
    ("air_row_sum_f32", "row_reduce_simple_sumfloat32"),
    ("air_scan_sum_f32", "contig_scan_inclusive_sum_float32_float32"),
    ("air_scan_max_f32", "contig_scan_inclusive_max_float32_float32"),
    ("air_scan_sum_i64", "contig_scan_reverse_exclusive_sum_int64_int64"),
];

/// Sources in C++, by name.
type Units = Vec<(String, String)>;

/// Kernels of MLX's library as Apple's compiler has made them: C++ that runs them, and their objects.
fn compiled_by_apple(mlx: &Path) -> Result<(Units, Vec<PathBuf>), String> {
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "linux") {
        return Err("the names of functions are written for ELF".to_owned());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let path = mlx.join("mlx/lib/mlx.metallib");
    let library = fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let (mut wrappers, mut objects) = (String::from(air::HEADER), Vec::new());
    for (name, function) in COMPILED_BY_APPLE {
        let bitcode =
            air::bitcode(&library, function).ok_or_else(|| format!("{} has no {function}", path.display()))?;
        wrappers += &air::compile(bitcode, function, name, &out)?;
        objects.push(out.join(format!("{name}.o")));
    }
    let calls = fs::read_to_string("cpp/air.cpp").expect("a source of ours");
    Ok((vec![("air".to_owned(), calls), ("air-kernels".to_owned(), wrappers)], objects))
}

/// A source as C++, in several files where it is instantiated for many formats. What it includes is in the first of these folders
/// that has it.
fn units(roots: &[&Path], name: &str) -> Result<Vec<(String, String)>, String> {
    let read = |path: &str| roots.iter().find_map(|root| fs::read_to_string(root.join(path)).ok());
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
