//! Numbers for people: bytes, operations, times, rates.

/// `1.50 GB`; decimal, as file sizes and memory bandwidths are given.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, "B")
}

/// `2.10 G`: a count, of operations or parameters.
pub fn count(n: u64) -> String {
    if n < 1000 { n.to_string() } else { scaled(n as f64, "") }
}

/// `1.50 GB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    format!("{}/s", scaled(bytes_per_second, "B"))
}

fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut index = 0;
    while value >= 999.5 && index + 1 < PREFIXES.len() {
        value /= 1000.0;
        index += 1;
    }
    let digits = match value {
        _ if index == 0 => 0,
        v if v >= 99.5 => 0,
        v if v >= 9.95 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}{unit}", PREFIXES[index])
}

/// `12.3 µs`, `4.56 ms`, `7.8 s`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// The middle value; of an even number, the mean of the middle two. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.00 kB");
        assert_eq!(bytes(98_362_432), "98.4 MB");
        assert_eq!(bytes(1_117_320_768), "1.12 GB");
        assert_eq!(count(42), "42");
        assert_eq!(count(1_234_567), "1.23 M");
        assert_eq!(bytes(u64::MAX), "18447 PB");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (0.0, 2.0, 2.5));
    }
}
