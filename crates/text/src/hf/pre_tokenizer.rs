//! The `pre_tokenizer` of tokenizer.json.

use serde_json::Value;

use crate::error::{Error, excerpt};
use crate::gguf::{BERT_PUNCTUATION, bert_steps};
use crate::hf::{MAX_STEPS, kind, malformed};
use crate::pattern::Pattern;
use crate::pre_names::GPT2;
use crate::split::{Behavior, Prepend, Step};

/// Appends the steps; returns whether the last of them writes bytes as characters.
pub(super) fn read(value: Option<&Value>, steps: &mut Vec<Step>) -> Result<bool, Error> {
    let Some(value) = value.filter(|v| !v.is_null()) else { return Ok(false) };
    if steps.len() >= MAX_STEPS {
        return Err(Error::Unsupported(format!("more than {MAX_STEPS} pre-tokenizers")));
    }
    let flag = |key: &str, default: bool| value.get(key).and_then(Value::as_bool).unwrap_or(default);
    match kind(value)? {
        "Sequence" => {
            let parts = value.get("pretokenizers").and_then(Value::as_array).map_or(&[][..], |v| v);
            let mut byte_level = false;
            for part in parts {
                if byte_level {
                    return Err(Error::Unsupported("a pre-tokenizer after ByteLevel".to_owned()));
                }
                byte_level = read(Some(part), steps)?;
            }
            return Ok(byte_level);
        }
        "ByteLevel" => {
            if flag("add_prefix_space", true) {
                steps.push(Step::PrefixSpace);
            }
            if flag("use_regex", true) {
                steps.push(Step::pattern(GPT2)?);
            }
            return Ok(true);
        }
        "Split" => {
            let known = value.get("pattern").and_then(|p| p.get("Regex")).and_then(Value::as_str);
            let behavior = behavior(value)?;
            match known {
                // Look-ahead of any length: a hand-written step does it.
                Some(r"\d{1,3}(?=(?:\d{3})*\b)") => steps.push(Step::DigitGroups { whole_number: true }),
                Some(r"(?=(\d{3})+(?!\d))") => steps.push(Step::DigitGroups { whole_number: false }),
                Some(r"\s+$") if behavior == Behavior::Isolated => steps.push(Step::TrailingSpace),
                _ => steps.push(Step::Split { pattern: pattern(value)?, behavior, invert: flag("invert", false) }),
            }
        }
        "CharDelimiterSplit" => {
            let delimiter = value.get("delimiter").and_then(Value::as_str).unwrap_or_default();
            let pattern = Pattern::new(&escape(delimiter))?;
            steps.push(Step::Split { pattern, behavior: Behavior::Removed, invert: false });
        }
        "Whitespace" => {
            let pattern = Pattern::new(r"\w+|[^\w\s]+")?;
            steps.push(Step::Split { pattern, behavior: Behavior::Removed, invert: true });
        }
        "WhitespaceSplit" => {
            let pattern = Pattern::new(r"\s+")?;
            steps.push(Step::Split { pattern, behavior: Behavior::Removed, invert: false });
        }
        "BertPreTokenizer" => steps.extend(bert_steps()?),
        "Digits" => {
            let pattern = Pattern::new(if flag("individual_digits", false) { r"\p{N}" } else { r"\p{N}+" })?;
            steps.push(Step::Split { pattern, behavior: Behavior::Isolated, invert: false });
        }
        "Punctuation" => {
            let pattern = Pattern::new(BERT_PUNCTUATION)?;
            let behavior = if value.get("behavior").is_some() { behavior(value)? } else { Behavior::Isolated };
            steps.push(Step::Split { pattern, behavior, invert: false });
        }
        "Metaspace" => {
            let replacement = value.get("replacement").and_then(Value::as_str).unwrap_or("▁");
            let mut chars = replacement.chars();
            let (Some(replacement), None) = (chars.next(), chars.next()) else {
                return Err(malformed("Metaspace's replacement is not one character"));
            };
            let prepend = match value.get("prepend_scheme").and_then(Value::as_str) {
                Some("always") => Prepend::Always,
                Some("first") => Prepend::First,
                Some("never") => Prepend::Never,
                Some(other) => return Err(Error::Unsupported(format!("the prepend_scheme {:?}", excerpt(other)))),
                None if flag("add_prefix_space", true) => Prepend::Always,
                None => Prepend::Never,
            };
            steps.push(Step::Metaspace { replacement, prepend, split: flag("split", true) });
        }
        other => return Err(Error::Unsupported(format!("the pre-tokenizer {:?}", excerpt(other)))),
    }
    Ok(false)
}

fn behavior(value: &Value) -> Result<Behavior, Error> {
    match value.get("behavior").and_then(Value::as_str) {
        Some("Removed") => Ok(Behavior::Removed),
        Some("Isolated") => Ok(Behavior::Isolated),
        Some("Contiguous") => Ok(Behavior::Contiguous),
        Some("MergedWithPrevious") => Ok(Behavior::MergedWithPrevious),
        Some("MergedWithNext") => Ok(Behavior::MergedWithNext),
        other => Err(malformed(format!("a split has the behavior {:?}", excerpt(other.unwrap_or("none"))))),
    }
}

/// The `pattern` of a component: `{"String": …}` or `{"Regex": …}`.
pub(super) fn pattern(value: &Value) -> Result<Pattern, Error> {
    let pattern = value.get("pattern").ok_or_else(|| malformed("a component has no pattern"))?;
    let text = |key| pattern.get(key).and_then(Value::as_str);
    match (text("String"), text("Regex")) {
        (Some(text), _) => Pattern::new(&escape(text)),
        (None, Some(regex)) => Pattern::new(regex),
        (None, None) => Err(malformed("a pattern is neither String nor Regex")),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
