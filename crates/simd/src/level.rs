//! Instruction-set levels: what the machine has, and what a kernel row asks for.

use std::sync::OnceLock;

/// The environment variable that forces a level.
pub const LEVEL_VARIABLE: &str = "AKUNU_CPU";

/// A set of instructions kernels are written for. A machine of one level has all lower ones of its
/// architecture, but for AVX-VNNI, which not every machine with AVX-512 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What the compiler's target guarantees.
    Generic,
    /// Arm's NEON.
    Neon,
    /// NEON and its dot products of bytes.
    DotProd,
    /// NEON, its dot products and its products of byte matrices.
    I8mm,
    /// AVX2, FMA, F16C.
    Avx2,
    /// AVX2 and the dot products of bytes in its registers.
    AvxVnni,
    /// AVX-512 F, BW, VL and DQ, and BMI2.
    Avx512Bw,
    /// AVX-512 and its dot products of bytes, VNNI.
    Avx512,
    /// AVX-512, its conversion to bf16, and the AMX tiles, with the kernel's permission to use them.
    Amx,
}

/// A level that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    #[error("{LEVEL_VARIABLE}={0} is not a level here; choose one of {list}", list = names())]
    Unknown(String),
    #[error("the level {asked} was asked for, but this machine has only {has}")]
    Missing { asked: Level, has: Level },
}

impl Level {
    /// Those of this architecture, lowest first.
    #[cfg(target_arch = "x86_64")]
    pub const ALL: &[Level] =
        &[Level::Generic, Level::Avx2, Level::AvxVnni, Level::Avx512Bw, Level::Avx512, Level::Amx];
    #[cfg(target_arch = "aarch64")]
    pub const ALL: &[Level] = &[Level::Generic, Level::Neon, Level::DotProd, Level::I8mm];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub const ALL: &[Level] = &[Level::Generic];

    pub fn name(self) -> &'static str {
        match self {
            Level::Generic => "generic",
            Level::Neon => "neon",
            Level::DotProd => "dotprod",
            Level::I8mm => "i8mm",
            Level::Avx2 => "avx2",
            Level::AvxVnni => "avxvnni",
            Level::Avx512Bw => "avx512bw",
            Level::Avx512 => "avx512",
            Level::Amx => "amx",
        }
    }

    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.iter().copied().find(|l| l.name().eq_ignore_ascii_case(name))
    }

    /// The highest level of this machine. Asks once; later calls are free.
    pub fn detect() -> Level {
        static FOUND: OnceLock<Level> = OnceLock::new();
        *FOUND.get_or_init(find)
    }

    /// Every level this machine has, lowest first.
    pub fn available() -> impl Iterator<Item = Level> {
        Level::ALL.iter().copied().filter(|&l| Level::detect().has(l) || l == Level::AvxVnni && has_vnni())
    }

    /// Whether every machine of this level can run kernels of another.
    pub fn has(self, other: Level) -> bool {
        other <= self && (other != Level::AvxVnni || self == Level::AvxVnni)
    }

    /// Whether products of many rows are faster in bf16 than with int8 blocks.
    pub fn has_tiles(self) -> bool {
        self >= Level::Amx
    }

    /// `self`, if this machine has it.
    pub fn checked(self) -> Result<Level, LevelError> {
        let has = Level::detect();
        if Level::available().any(|l| l == self) { Ok(self) } else { Err(LevelError::Missing { asked: self, has }) }
    }

    /// The level that `AKUNU_CPU` forces, or else the machine's highest.
    pub fn from_environment() -> Result<Level, LevelError> {
        match std::env::var_os(LEVEL_VARIABLE) {
            None => Ok(Level::detect()),
            Some(value) if value.is_empty() => Ok(Level::detect()),
            Some(value) => Level::parse(&value.to_string_lossy()),
        }
    }

    /// A level by its name, if this machine has it.
    pub fn parse(name: &str) -> Result<Level, LevelError> {
        Level::from_name(name).ok_or_else(|| LevelError::Unknown(name.to_owned()))?.checked()
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn find() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("fma") && has!("f16c")) {
        return Level::Generic;
    }
    if !(has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq") && has!("bmi2")) {
        return if has_vnni() { Level::AvxVnni } else { Level::Avx2 };
    }
    if !has!("avx512vnni") {
        return Level::Avx512Bw;
    }
    if has!("avx512bf16") && amx::usable() { Level::Amx } else { Level::Avx512 }
}

/// Whether the machine has AVX-VNNI, whatever else it has.
fn has_vnni() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avxvnni");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "aarch64")]
fn find() -> Level {
    use std::arch::is_aarch64_feature_detected as has;
    match (has!("neon"), has!("dotprod"), has!("i8mm")) {
        (true, true, true) => Level::I8mm,
        (true, true, false) => Level::DotProd,
        (true, false, _) => Level::Neon,
        _ => Level::Generic,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn find() -> Level {
    Level::Generic
}

/// The names of all levels of this architecture.
fn names() -> String {
    Level::ALL.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ")
}

/// The standard library does not know AMX, and tiles need the operating system's permission.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;

    /// True once this process may use tile instructions on every thread.
    pub fn usable() -> bool {
        in_cpu() && saved_by_os() && permitted()
    }

    fn in_cpu() -> bool {
        // Leaf 7, subleaf 0, EDX: 22 AMX-BF16, 24 AMX-TILE, 25 AMX-INT8.
        const BITS: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        __cpuid_count(7, 0).edx & BITS == BITS
    }

    fn saved_by_os() -> bool {
        // XCR0: 17 tile configuration, 18 tile data.
        const BITS: u64 = 1 << 17 | 1 << 18;
        let (low, high): (u32, u32);
        // SAFETY: `find` has seen AVX, which implies OSXSAVE and so `xgetbv`; it reads XCR0 and
        // touches no memory.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
        }
        (u64::from(high) << 32 | u64::from(low)) & BITS == BITS
    }

    /// `arch_prctl(ARCH_REQ_XCOMP_PERM, tile data)`: without it the first tile instruction faults.
    fn permitted() -> bool {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        let result: i64;
        // SAFETY: the call takes two integers, reads and writes no memory of ours, and changes
        // only which registers the process may use. `syscall` clobbers rcx and r11.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => result,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        result == 0
    }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
mod amx {
    pub fn usable() -> bool {
        false
    }
}
