//! Points in time, as RFC 3339 writes them.

use std::time::{SystemTime, UNIX_EPOCH};

/// To the nanosecond, in UTC; what is before 1970 is 1970.
pub fn written(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (mut days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute, second) = (days + 1, seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_of_leap_years_and_ends_of_years_are_those_of_the_calendar() {
        // By GNU date -u -d @SECONDS.
        let known = [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000007Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000007Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(written(UNIX_EPOCH + Duration::new(seconds, 7)), text);
        }
    }
}
