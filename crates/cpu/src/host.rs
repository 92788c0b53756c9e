//! What the operating system says about this processor and its memory.

/// The processor's name; empty where the system does not say.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name");
    name.map_or_else(String::new, |(_, name)| name.trim().to_string())
}

/// Bytes that this process could use; `None` where the system does not say.
pub fn free_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:", 1024));
    match (machine, group_memory()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What the control group of this process has left; files that are only cached can go.
fn group_memory() -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cached: u64 = ["active_file ", "inactive_file "].iter().filter_map(|name| field(&stat, name, 1)).sum();
    Some(most.saturating_sub(used.saturating_sub(cached)))
}

/// The number after `name` at the beginning of a line, times `unit`.
pub fn field(text: &str, name: &str, unit: u64) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(unit)
}
