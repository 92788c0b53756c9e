//! What the operating system says about this machine and this process; nothing is measured.

use std::collections::HashSet;
use std::fs;

/// The most memory this process has used, in bytes, mapped files included; `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// The machine's memory in bytes.
pub fn total_memory() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Physical cores, where the system says.
pub fn physical_cores() -> Option<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let cores: HashSet<(&str, &str)> = values(&text, "physical id").zip(values(&text, "core id")).collect();
    (!cores.is_empty()).then_some(cores.len())
}

fn values<'a>(text: &'a str, key: &'static str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(|l| l.split_once(':')).filter(move |(k, _)| k.trim() == key).map(|(_, v)| v.trim())
}

/// Caches of the first core: level, kind, bytes.
pub fn caches() -> Vec<(String, u64)> {
    (0..8)
        .filter_map(|i| {
            let read =
                |what: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok();
            let kind = match read("type")?.trim() {
                "Data" => "d",
                "Instruction" => return None,
                _ => "",
            };
            let size = read("size")?.trim().strip_suffix('K')?.parse::<u64>().ok()? * 1024;
            Some((format!("L{}{kind}", read("level")?.trim()), size))
        })
        .collect()
}

/// Instruction sets that matter to the kernels and that this processor has.
pub fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detected {
            ($($name:tt),*) => { [$(($name, std::arch::is_x86_feature_detected!($name))),*] };
        }
        let found = detected!(
            "avx2",
            "fma",
            "f16c",
            "avxvnni",
            "avx512f",
            "avx512bw",
            "avx512vl",
            "avx512dq",
            "avx512vnni",
            "avx512bf16",
            "avx512fp16"
        );
        found.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! detected {
            ($($name:tt),*) => { [$(($name, std::arch::is_aarch64_feature_detected!($name))),*] };
        }
        let found = detected!("neon", "dotprod", "i8mm", "fp16", "bf16", "sve");
        found.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_systems_text() {
        assert_eq!(kilobytes("VmPeak:\t 1 kB\nVmHWM:\t  2048 kB\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(kilobytes("VmHWM: many kB", "VmHWM:"), None);
    }

    #[test]
    fn keys_are_whole_words() {
        let text = "model\t\t: 1\nmodel name\t: Some CPU\n";
        assert_eq!(values(text, "model name").collect::<Vec<_>>(), ["Some CPU"]);
    }
}
