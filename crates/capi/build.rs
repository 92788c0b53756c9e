//! Gives the shared library the name under which programs will look for it.

fn main() {
    let family = std::env::var("CARGO_CFG_TARGET_FAMILY").unwrap_or_default();
    let vendor = std::env::var("CARGO_CFG_TARGET_VENDOR").unwrap_or_default();
    if vendor == "apple" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libakunu.0.dylib");
    } else if family == "unix" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libakunu.so.0");
        // A dependency has a C API of its own, which is not ours to export.
        println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
