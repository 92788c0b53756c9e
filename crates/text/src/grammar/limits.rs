//! What a grammar may ask for, checked before the library that matches sees it.

use super::Grammar;
use crate::Error;
use akunu_limits::{Limits, over};
use serde_json::Value;
use std::collections::HashSet;

/// Rules of a Lark grammar and different references of a schema: the library recurses along them.
const MOST_RULES: usize = 4096;
/// A multiple of n is matched by as many states, and several at once by as many as their least common multiple.
const MOST_MULTIPLE: u128 = 50_000;

/// Errs where a grammar is too large.
pub fn check(grammar: &Grammar, limits: &Limits) -> Result<(), Error> {
    let text = match grammar {
        Grammar::Json => return Ok(()),
        Grammar::JsonSchema(text) | Grammar::Regex(text) | Grammar::Lark(text) | Grammar::Gbnf(text) => text,
    };
    let over = match grammar {
        // One may be that of all health records.
        Grammar::JsonSchema(_) => over!(limits, schema_bytes),
        _ => over!(limits, grammar_bytes),
    };
    if text.len() as u64 > over.most {
        return Err(Error::GrammarOver { what: format!("it has {} bytes", text.len()), over });
    }
    if let Grammar::Lark(text) = grammar {
        // Every rule begins a line.
        let rules = text.lines().filter(|line| line.contains(':')).count();
        if rules > MOST_RULES {
            return Err(Error::Grammar(format!("it has {rules} rules, and at most {MOST_RULES} can be used")));
        }
    }
    Ok(())
}

/// A schema that is small enough.
pub fn schema(text: &str) -> Result<Value, String> {
    let schema: Value = serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
    let mut references = HashSet::new();
    let mut multiple = 1;
    let mut open = vec![&schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(map) => {
                open.extend(map.values());
                references.extend(map.get("$ref").and_then(Value::as_str));
                if let Some(Value::Number(of)) = map.get("multipleOf") {
                    multiple = common_multiple(multiple, digits(&of.to_string()));
                }
            }
            _ => {}
        }
    }
    if references.len() > MOST_RULES {
        return Err(format!("it has {} different references, and at most {MOST_RULES} can be used", references.len()));
    }
    if multiple > MOST_MULTIPLE {
        return Err(format!(
            "its multipleOf have a least common multiple of {multiple}, and at most {MOST_MULTIPLE} can be used"
        ));
    }
    Ok(schema)
}

/// The digits of a number, without point, exponent and zeros at its ends.
fn digits(number: &str) -> u128 {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_end_matches('0').parse().unwrap_or(1)
}

fn common_multiple(a: u128, b: u128) -> u128 {
    let (mut common, mut rest) = (a, b);
    while rest > 0 {
        (common, rest) = (rest, common % rest);
    }
    (a / common.max(1)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    #[test]
    fn multiples_are_counted_by_their_digits() {
        for (schema, accepted) in [
            (r#"{"multipleOf": 0.01}"#, true),
            (r#"{"allOf": [{"multipleOf": 5}, {"multipleOf": 60}, {"multipleOf": 1e3}, {"multipleOf": 0.25}]}"#, true),
            (r#"{"items": {"multipleOf": 10000019}}"#, false),
            (r#"{"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}"#, false),
            (r#"{"multipleOf": 0}"#, true),
        ] {
            assert_eq!(super::schema(schema).is_ok(), accepted, "{schema}");
        }
    }
}
