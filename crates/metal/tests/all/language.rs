//! Shaders are C++14, as Metal 3 is, and keep address spaces apart: checked by clang, where it is, since Apple's compiler runs on
//! Apple's systems only.

use akunu_metal::{formats, shaders};
use akunu_testkit::TempDir;
use akunu_testkit::fixtures::{Source, needed};
use std::path::Path;
use std::process::Command;

fn clang() -> Option<&'static str> {
    let names = ["clang++", "clang++-19", "clang++-16", "clang++-15", "clang++-14"];
    let found =
        names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()));
    needed(found, Source::Fetched, "clang++")
}

#[test]
fn shaders_are_in_metals_language() {
    let Some(clang) = clang() else { return };
    let (dir, mut failed) = (TempDir::new(), Vec::new());
    for (path, _) in shaders::all().filter(|(path, _)| path.ends_with(".metal")) {
        let text = for_clang(&shaders::whole(path, formats::FORMATS).unwrap());
        let file = dir.write("shader.cpp", text.as_bytes());
        if let Some(errors) = errors(clang, &file) {
            failed.push(format!("{path}:\n{errors}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn what_is_not_metals_language_is_found() {
    let Some(clang) = clang() else { return };
    let dir = TempDir::new();
    for (what, body) in [
        ("an address space", "kernel void f(device float *x [[buffer(0)]]) { float *y = x; *y = 1; }"),
        ("another standard", "kernel void f(device float *x [[buffer(0)]]) { if constexpr (true) *x = 1; }"),
        ("a constant", "kernel void f(constant float *x [[buffer(0)]], device float *y [[buffer(1)]]) { y = x; }"),
    ] {
        let text = for_clang(&format!("#include <metal_stdlib>\nusing namespace metal;\n{body}\n"));
        let file = dir.write("shader.cpp", text.as_bytes());
        assert!(errors(clang, &file).is_some(), "{what}");
    }
}

/// What clang says is wrong.
fn errors(clang: &str, file: &Path) -> Option<String> {
    let language = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language");
    let mut command = Command::new(clang);
    // A target that has 16-bit floats; nothing of its library is used.
    command.args(["--target=aarch64-linux-gnu", "-nostdinc", "-nostdinc++", "-std=c++14", "-fsyntax-only"]);
    command.args(["-pedantic-errors", "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-undefined-internal"]);
    command.args(["-ferror-limit=5", "-x", "c++", "-isystem"]).arg(language).arg(file);
    let output = command.output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Metal's few additions to C++ as clang has them.
fn for_clang(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words = line.trim();
        if let Some(list) = words.strip_prefix("INSTANTIATE(") {
            let list = list.trim_end_matches(';').trim_end_matches(')');
            let mut parts = list.splitn(3, ',').map(str::trim).skip(1);
            let (function, arguments) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            out += &format!("template decltype({function}<{arguments}>) {function}<{arguments}>;");
        } else if words.starts_with("threadgroup ") && words.ends_with("];") {
            // A variable in a function has no address space of its own in clang, unless it is static.
            out += &format!("static {words}");
        } else {
            // Here `threadgroup` is an address space.
            out += &vectors(line).replace("[[threadgroup(", "[[argument(");
        }
        out.push('\n');
    }
    out
}

/// `float4(a, b)` is `make_float4(a, b)`.
fn vectors(line: &str) -> String {
    const NAMES: [&str; 10] = ["float", "half", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"];
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('(') {
        let word = rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        let name = &rest[word..at];
        let is_vector = name.ends_with(['2', '3', '4']) && NAMES.contains(&&name[..name.len().saturating_sub(1)]);
        out += &rest[..word];
        out += if is_vector { "make_" } else { "" };
        out += &rest[word..=at];
        rest = &rest[at + 1..];
    }
    out + rest
}
