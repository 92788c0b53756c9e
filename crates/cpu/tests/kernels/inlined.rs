//! An instruction that a kernel is written with is an instruction of the kernel, and not a call: that saves all vectors around
//! it, and costs more than what most kernels do between two of them.
//!
//! It becomes a call where it stands in a function that was compiled without the level's instructions, such as a closure that is
//! given to `map` or `fold` and not inlined. Then the symbol table has a function of that instruction's name.

/// Bytes of a number at `at`.
fn bytes<const N: usize>(file: &[u8], at: usize) -> [u8; N] {
    file[at..at + N].try_into().unwrap()
}

/// The names in the symbol table of a 64-bit ELF file.
fn names(file: &[u8]) -> Vec<String> {
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

#[test]
fn no_instruction_of_a_kernel_is_a_call() {
    // With assertions loads and stores are so large that some stay calls.
    if cfg!(debug_assertions) {
        return println!("skipped: built with debug assertions");
    }
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let names = names(&file);
    assert!(names.iter().any(|name| name.contains("akunu_cpu7kernels")), "no symbols of kernels");
    // What asks the processor for its abilities is no instruction of a kernel.
    let calls: Vec<_> = (names.iter())
        .filter(|name| name.contains("9core_arch") && !name.contains("5xsave") && !name.contains("5cpuid"))
        .collect();
    assert!(calls.is_empty(), "{calls:#?}");
}
