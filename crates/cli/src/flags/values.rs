//! Parsers of values with a range: what they refuse, they say.

use akunu_formats::Name;

/// More threads than any machine has cores; beyond it the number is a slip.
const MAX_THREADS: usize = 1024;
/// Rows of a prefill chunk; activations are allocated for all of them.
const MAX_CHUNK: usize = 4096;

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "not a number that fits here".to_owned())
}

/// At least 1.
pub fn count(text: &str) -> Result<usize, String> {
    match number(text)? {
        0 => Err("at least 1 is needed".to_owned()),
        n => Ok(n),
    }
}

pub fn threads(text: &str) -> Result<usize, String> {
    count(text).and_then(|n| at_most(n, MAX_THREADS))
}

pub fn chunk(text: &str) -> Result<usize, String> {
    count(text).and_then(|n| at_most(n, MAX_CHUNK))
}

/// A number of bytes; K, M, G and T stand for powers of 1000.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, c)) if c.is_ascii_alphabetic() => (&text[..at], c.to_ascii_uppercase()),
        _ => (text, ' '),
    };
    let power = " KMGT".find(unit).ok_or("a number of bytes, or with K, M, G or T, is needed")?;
    let bytes = number::<u64>(digits)?.checked_mul(1000u64.pow(power as u32));
    bytes.ok_or_else(|| "not a number that fits here".to_owned())
}

/// `NAME=N`: one of the limits, and what to set it to.
pub fn limit(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=N is needed")?;
    let value = bytes(value)?;
    match akunu::Limits::default().set(name, value) {
        Ok(()) => Ok((name.to_owned(), value)),
        Err(unknown) => Err(unknown.to_string()),
    }
}

/// Generations that run at once, and one more.
pub fn streams(text: &str) -> Result<usize, String> {
    count(text).and_then(|n| at_most(n, 63))
}

fn at_most(n: usize, most: usize) -> Result<usize, String> {
    if n <= most { Ok(n) } else { Err(format!("at most {most} is possible")) }
}

/// 0 or more, and finite.
pub fn not_negative(text: &str) -> Result<f32, String> {
    match number::<f32>(text)? {
        v if v >= 0.0 && v.is_finite() => Ok(v),
        _ => Err("0 or more is needed".to_owned()),
    }
}

/// More than 0, and finite.
pub fn positive(text: &str) -> Result<f32, String> {
    match number::<f32>(text)? {
        v if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("more than 0 is needed".to_owned()),
    }
}

pub fn finite(text: &str) -> Result<f32, String> {
    match number::<f32>(text)? {
        v if v.is_finite() => Ok(v),
        _ => Err("a finite number is needed".to_owned()),
    }
}

/// `ID=X`: a token and what is added to its logit.
pub fn bias(text: &str) -> Result<(u32, f32), String> {
    let (token, bias) = text.split_once('=').ok_or("ID=X is needed")?;
    let bias = number::<f32>(bias)?;
    if bias.is_nan() { Err("a number is needed after the =".to_owned()) } else { Ok((number(token)?, bias)) }
}

/// All stages in the order that they have by default.
pub const CHAIN: &str = "penalties,dry,top-n-sigma,top-k,typical,top-p,min-p,xtc,temperature";

/// Names of stages separated by commas, each at most once.
pub fn stages(text: &str) -> Result<Vec<akunu::Stage>, String> {
    let mut stages = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let stage =
            akunu::Stage::from_name(name).ok_or_else(|| format!("{} is not one of {CHAIN}", Name::new(name)))?;
        if stages.contains(&stage) {
            return Err(format!("{name} is there twice"));
        }
        stages.push(stage);
    }
    Ok(stages)
}

/// 0 to 1.
pub fn share(text: &str) -> Result<f32, String> {
    match number::<f32>(text)? {
        v if (0.0..=1.0).contains(&v) => Ok(v),
        _ => Err("0 to 1 is needed".to_owned()),
    }
}

/// Token ids separated by commas or spaces; brackets around them do no harm, as in JSON.
pub fn ids(text: &str) -> Result<Vec<u32>, String> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let ids: Result<Vec<u32>, String> = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| format!("{} is not a token id", Name::new(part))))
        .collect();
    match ids {
        Ok(ids) if ids.is_empty() => Err("there are no token ids".to_owned()),
        ids => ids,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_what_people_paste() {
        for text in ["1,2,3", "1 2 3", "[1, 2, 3]", "1\n2\n3\n", " 1,,2 ,3,"] {
            assert_eq!(ids(text), Ok(vec![1, 2, 3]), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_an_id_is_named() {
        for (text, named) in
            [("1,x", "\"x\""), ("-1", "\"-1\""), ("99999999999", "\"99999999999\""), ("1.5", "\"1.5\"")]
        {
            assert!(ids(text).unwrap_err().contains(named), "{text}");
        }
        assert!(ids("").is_err() && ids("[]").is_err());
    }

    #[test]
    fn a_chain_and_a_bias_are_read_or_the_mistake_is_named() {
        assert_eq!(stages("top-k, temperature"), Ok(vec![akunu::Stage::TopK, akunu::Stage::Temperature]));
        assert!(stages("top-k,best").unwrap_err().contains("\"best\""));
        assert!(stages("top-k,top-k").unwrap_err().contains("twice"));
        assert_eq!(bias("7=-2.5"), Ok((7, -2.5)));
        assert_eq!(bias("7=-inf"), Ok((7, f32::NEG_INFINITY)));
        assert!(bias("7").is_err() && bias("x=1").is_err() && bias("7=NaN").is_err());
    }

    #[test]
    fn the_order_shown_is_the_order_there_is() {
        assert_eq!(CHAIN, akunu::Stage::ALL.map(|row| row.0).join(","));
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!((bytes("12"), bytes("2g"), bytes("500M")), (Ok(12), Ok(2_000_000_000), Ok(500_000_000)));
        assert!(bytes("").is_err() && bytes("G").is_err() && bytes("2X").is_err() && bytes("99999999T").is_err());
    }

    #[test]
    fn a_limit_has_a_name_and_a_number() {
        assert_eq!(limit("config-bytes=2M"), Ok(("config-bytes".to_owned(), 2_000_000)));
        assert!(limit("config-bites=2").unwrap_err().contains("config-bytes, "));
        assert!(limit("config-bytes").is_err() && limit("config-bytes=-1").is_err() && limit("=1").is_err());
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert!(count("0").is_err() && count("-1").is_err() && count("1e3").is_err());
        assert!(threads("2000").is_err());
        assert!(not_negative("NaN").is_err() && not_negative("inf").is_err() && not_negative("-0.1").is_err());
        assert!(share("1.01").is_err() && share("NaN").is_err());
        assert!(positive("0").is_err());
        assert_eq!((count("7"), share("0.5"), not_negative("0")), (Ok(7), Ok(0.5), Ok(0.0)));
    }
}
