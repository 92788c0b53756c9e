//! What a run was measured on, and when.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The processor's name, as the system gives it.
pub fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|p| p.1.to_owned()));
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// A folder's name for this kind of machine.
pub fn slug() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let words = processor().to_ascii_lowercase();
    let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    let words: Vec<&str> = words.filter(|w| !matches!(*w, "r" | "tm" | "cpu" | "processor")).take(5).collect();
    format!("{}-{threads}t", words.join("-"))
}

/// Today, as `2026-11-15`.
pub fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a day since 1970, by counting.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_723, (2024, 1, 1)),
            (20_772, (2026, 11, 15)),
        ] {
            assert_eq!(civil(days), date);
        }
    }
}
