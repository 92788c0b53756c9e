//! How long a model stays loaded, as requests say it.

use crate::http::body::short;
use crate::models::Keep;
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Seconds, or a duration such as `1h30m`; below 0: without end.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KeepAlive {
    Seconds(f64),
    Text(String),
}

impl KeepAlive {
    pub fn read(self) -> Result<Keep, Problem> {
        let seconds = match &self {
            KeepAlive::Seconds(seconds) => Some(*seconds),
            KeepAlive::Text(text) => seconds(text),
        };
        match seconds {
            Some(seconds) if seconds < 0.0 => Ok(Keep::UntilNeeded),
            Some(seconds) => Ok(Duration::try_from_secs_f64(seconds).map_or(Keep::UntilNeeded, Keep::For)),
            None => {
                let text = if let KeepAlive::Text(text) = &self { short(text) } else { String::new() };
                let sentence = format!("keep_alive: {text:?} is neither seconds nor a duration such as 5m");
                Err(Problem::field("keep_alive", sentence))
            }
        }
    }
}

/// The seconds of a duration: numbers with their units in a row, or one number of seconds.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("\u{b5}s", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Ok(seconds) = rest.parse::<f64>() {
        return seconds.is_finite().then_some(sign * seconds);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let of_unit = &rest[digits..];
        let end = of_unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(of_unit.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &of_unit[..end])?;
        total += number * unit;
        rest = &of_unit[end..];
    }
    (!text.is_empty()).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let known = [
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("300ms", 0.3),
            ("0s", 0.0),
            ("0", 0.0),
            ("90", 90.0),
            ("-1", -1.0),
            ("1.5h", 5400.0),
        ];
        for (text, expected) in known {
            assert!((seconds(text).unwrap() - expected).abs() < 1e-9, "{text}");
        }
        for wrong in ["", "soon", "5 m", "5x", "m", "inf", "1h-3m"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(KeepAlive::Seconds(-1.0).read().unwrap(), Keep::UntilNeeded);
        assert_eq!(KeepAlive::Text("2s".into()).read().unwrap(), Keep::For(Duration::from_secs(2)));
    }
}
