//! `strftime_now`: the date as templates ask for it, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The present time by `format`.
pub(super) fn strftime_now(format: &str) -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    strftime(seconds, format)
}

/// `seconds` after 1970 by `format`, in C's letters; unknown ones stay as they are.
fn strftime(seconds: u64, format: &str) -> String {
    let days = (seconds / 86_400) as i64;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (year, month, day) = civil(days);
    let weekday = (days + 3).rem_euclid(7) as usize; // 1970-01-01 was a Thursday.
    let day_of_year = days - days_before(year, 1) + 1;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut letter = chars.next();
        let unpadded = letter == Some('-');
        if unpadded {
            letter = chars.next();
        }
        let number = |value: i64, width: usize| if unpadded { value.to_string() } else { format!("{value:0width$}") };
        out.push_str(&match letter {
            Some('Y') => number(year, 4),
            Some('y') => number(year.rem_euclid(100), 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('H') => number(hour as i64, 2),
            Some('I') => number((hour as i64 + 11) % 12 + 1, 2),
            Some('M') => number(minute as i64, 2),
            Some('S') => number(second as i64, 2),
            Some('j') => number(day_of_year, 3),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('B') => MONTHS[month as usize - 1].to_owned(),
            Some('b' | 'h') => MONTHS[month as usize - 1][..3].to_owned(),
            Some('A') => DAYS[weekday].to_owned(),
            Some('a') => DAYS[weekday][..3].to_owned(),
            Some('u') => number(weekday as i64 + 1, 1),
            Some('w') => number((weekday as i64 + 1) % 7, 1),
            Some('F') => format!("{year:04}-{month:02}-{day:02}"),
            Some('D') => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('s') => seconds.to_string(),
            Some('z') => "+0000".to_owned(),
            Some('Z') => "UTC".to_owned(),
            Some('n') => "\n".to_owned(),
            Some('t') => "\t".to_owned(),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        });
    }
    out
}

/// Days from 1970-01-01 to the first of a month. Years are counted from March, so that the leap day comes last.
fn days_before(year: i64, month: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era_days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    era_days + (153 * month + 2) / 5 - 719_468
}

/// Year, month and day of the day number `days` after 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // 146,097 days are 400 years; the guess is never more than one year off.
    let mut year = 1970 + days * 400 / 146_097;
    while days_before(year, 1) > days {
        year -= 1;
    }
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| days_before(year, month) <= days).unwrap_or(1);
    (year, month, days - days_before(year, month) + 1)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn dates_of_known_seconds() {
        for (seconds, format, expected) in [
            (0, "%Y-%m-%d %H:%M:%S %A %j", "1970-01-01 00:00:00 Thursday 001"),
            (951_782_400, "%d %b %Y", "29 Feb 2000"),
            (951_868_800, "%-d %B %y %a", "1 March 00 Wed"),
            (1_735_689_599, "%d %B %Y, %I:%M %p, day %j", "31 December 2024, 11:59 PM, day 366"),
            (4_102_444_800, "%F %T%%%q", "2100-01-01 00:00:00%%q"),
        ] {
            assert_eq!(strftime(seconds, format), expected);
        }
    }
}
