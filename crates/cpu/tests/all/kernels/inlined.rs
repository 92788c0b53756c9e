//! An instruction that a kernel is written with is an instruction of the kernel, and not a call: a call saves all vectors around
//! it, and costs more than what most kernels do between two of them.
//!
//! It becomes a call where it stands in a function that was compiled without the level's instructions, such as a closure that is
//! given to `map` or `fold` and not inlined. Then the symbol table has a function of that instruction's name. The kernels are
//! compiled for tests as for a release (see the workspace's profiles), so that what holds here holds there.

use std::arch::x86_64::*;
use std::hint::black_box;

/// Bytes of a number at `at`.
fn bytes<const N: usize>(file: &[u8], at: usize) -> [u8; N] {
    file[at..at + N].try_into().unwrap()
}

/// The names in the symbol table of a 64-bit ELF file; none where it is another file, or has no symbol table.
fn names(file: &[u8]) -> Vec<String> {
    if !file.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    let long = |at| u64::from_le_bytes(bytes(file, at)) as usize;
    let word = |at| u32::from_le_bytes(bytes(file, at)) as usize;
    let half = |at| u16::from_le_bytes(bytes(file, at)) as usize;
    let section = |index: usize| long(0x28) + index * half(0x3a);
    const SYMBOLS: usize = 2;
    let Some(symbols) = (0..half(0x3c)).map(section).find(|at| word(at + 4) == SYMBOLS) else { return Vec::new() };
    let text = section(word(symbols + 0x28));
    let text = &file[long(text + 0x18)..][..long(text + 0x20)];
    text.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// An instruction that no kernel has, as a call: this function is compiled without AVX.
#[inline(never)]
fn calls_an_instruction(to: &mut [__m256; 2]) {
    // SAFETY: never run on a machine without AVX, nor on another.
    to[0] = unsafe { _mm256_addsub_ps(to[0], to[1]) };
}

#[test]
fn no_instruction_of_a_kernel_is_a_call() {
    black_box(calls_an_instruction as fn(&mut [__m256; 2]));
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let names = names(&file);
    if names.is_empty() {
        return println!("skipped: this program has no ELF symbol table");
    }
    for of in ["akunu_cpu7kernels", "10akunu_gemm6avx512", "10akunu_gemm4avx2"] {
        assert!(names.iter().any(|name| name.contains(of)), "no symbols of {of}");
    }
    let calls: Vec<_> = names.iter().filter(|name| name.contains("9core_arch")).collect();
    let (ours, others): (Vec<&String>, Vec<_>) = calls.into_iter().partition(|name| name.contains("_mm256_addsub_ps"));
    assert!(!ours.is_empty(), "calls are not seen");
    // What asks the processor for its abilities is no instruction of a kernel.
    let kernels: Vec<_> =
        others.into_iter().filter(|name| !name.contains("5xsave") && !name.contains("5cpuid")).collect();
    assert!(kernels.is_empty(), "{kernels:#?}");
}
