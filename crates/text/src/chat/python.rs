//! Values as Python writes them: `str()`, `repr()` and `json.dumps()`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::{budget, builtins};

/// `str(value)`.
pub(super) fn str_of(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => {
            budget::spend(text.len())?;
            out.push_str(text);
        }
        None if value.is_undefined() => {}
        None => repr(value, 0, &mut out)?,
    }
    Ok(out)
}

/// `repr(value)`; a namespace may hold itself, so depth is limited here too.
fn repr(value: &Value, level: usize, out: &mut String) -> Result<(), Error> {
    budget::spend_at(level, 16)?;
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            budget::spend(text.len())?;
            repr_string(text, out);
        }
        ValueKind::Number => number(value, out),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&key, level + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, level + 1, out)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&item, level + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Undefined => out.push_str("Undefined"),
        // True, False and None; and what Python has no word for.
        _ => {
            // Writing to a string does not fail.
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn number(value: &Value, out: &mut String) {
    if value.is_integer() {
        // Writing to a string does not fail.
        let _ = write!(out, "{value}");
    } else {
        out.push_str(&float(f64::try_from(value.clone()).unwrap_or(f64::NAN)));
    }
}

/// `repr(float)`: the shortest digits that read back the same, with an exponent outside 1e-4..1e16.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        return format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

fn repr_string(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || c == '\u{ad}' || c == '\u{a0}' => {
                let _ = match c as u32 {
                    code @ 0..=0xff => write!(out, "\\x{code:02x}"),
                    code => write!(out, "\\u{code:04x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// How `json.dumps` is asked to write.
pub(super) struct Dumps {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

/// Wider indents serve no prompt.
const MAX_INDENT: usize = 64;

/// The `tojson` filter of transformers: `json.dumps` that keeps non-ASCII characters and escapes no HTML.
pub(super) fn tojson(value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs) -> Result<String, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(width) if width.is_none() => None,
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(text), _) if text.len() <= MAX_INDENT => Some(text.to_owned()),
            (None, Some(spaces)) if spaces <= MAX_INDENT => Some(" ".repeat(spaces)),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent is not a small number")),
        },
    };
    let separators: Option<Value> = kwargs.get::<Option<Value>>("separators")?.filter(|s| !s.is_none());
    let separator = |index: usize, default: &str| -> Result<String, Error> {
        let Some(pair) = &separators else { return Ok(default.to_owned()) };
        let text = pair.get_item_by_index(index)?;
        text.as_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "tojson: separators are not text"))
    };
    let dumps = Dumps {
        ensure_ascii: ensure_ascii.or(kwargs.get("ensure_ascii")?).unwrap_or(false),
        item: separator(0, if indent.is_some() { "," } else { ", " })?,
        key: separator(1, ": ")?,
        indent,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    dumps.write(value, 0, &mut out)?;
    Ok(out)
}

impl Dumps {
    fn write(&self, value: &Value, level: usize, out: &mut String) -> Result<(), Error> {
        budget::spend_at(level, 16 + self.indent.as_ref().map_or(0, |i| i.len() * level))?;
        match value.kind() {
            ValueKind::String => {
                let text = value.as_str().unwrap_or_default();
                budget::spend(text.len())?;
                self.string(text, out);
            }
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => match value.is_integer() {
                true => number(value, out),
                false => match f64::try_from(value.clone()).unwrap_or(f64::NAN) {
                    f if f.is_nan() => out.push_str("NaN"),
                    f if f.is_infinite() => out.push_str(if f > 0.0 { "Infinity" } else { "-Infinity" }),
                    f => out.push_str(&float(f)),
                },
            },
            ValueKind::Map => {
                budget::read_items(value)?;
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    builtins::pay_for_sorting(&Value::from(keys.clone()))?;
                    keys.sort();
                }
                self.container(&keys, '{', '}', level, out, |key, out| {
                    self.string(&key_text(key)?, out);
                    out.push_str(&self.key);
                    self.write(&value.get_item(key)?, level + 1, out)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                budget::spend(budget::weight(value))?;
                let items: Vec<Value> = value.try_iter()?.collect();
                self.container(&items, '[', ']', level, out, |item, out| self.write(item, level + 1, out))?;
            }
            kind => {
                let message = format!("Object of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn container(
        &self,
        items: &[Value],
        open: char,
        close: char,
        level: usize,
        out: &mut String,
        mut each: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            budget::spend(self.item.len() + self.key.len())?;
            if i > 0 {
                out.push_str(&self.item);
            }
            self.line(level + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.line(level, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, level: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..level).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || self.ensure_ascii && !c.is_ascii() => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A dictionary's key as JSON has it.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        _ => str_of(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_writes_them() {
        for (value, expected) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e300, "1e+300"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn containers_as_python_writes_them() {
        budget::begin(1 << 20, 0);
        let value = Value::from_serialize(serde_json::json!({"b": [1, 2.0, true, null, "it's", "q\"'\n"], "a": {}}));
        let shown = str_of(&value).unwrap();
        assert_eq!(shown, r#"{'b': [1, 2.0, True, None, "it's", 'q"\'\n'], 'a': {}}"#);
    }
}
