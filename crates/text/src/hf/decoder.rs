//! The `decoder` of tokenizer.json, folded into the bytes that each token stands for.

use serde_json::Value;

use crate::budget::{Budget, Spent};
use crate::byte_level;
use crate::error::{Error, excerpt};
use crate::hf::{kind, malformed};
use crate::tokenizer::Decode;
use crate::vocab::{Entry, TokenKind};
use crate::wordpiece::clean_up;

#[derive(Default)]
pub(super) struct Decoder {
    byte_level: bool,
    byte_fallback: bool,
    replacements: Vec<(String, String)>,
    strip_leading_space: bool,
    /// A token without this prefix starts a word, and so has a space before it.
    continuing: Option<String>,
    clean_up: bool,
}

impl Decoder {
    pub fn read(value: Option<&Value>) -> Result<Self, Error> {
        let mut decoder = Decoder::default();
        match value.filter(|v| !v.is_null()) {
            Some(value) => decoder.add(value)?,
            // Without a decoder tokens are words.
            None => {
                decoder.continuing = Some(String::new());
                decoder.strip_leading_space = true;
            }
        }
        Ok(decoder)
    }

    fn add(&mut self, value: &Value) -> Result<(), Error> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        match kind(value)? {
            "Sequence" => {
                for part in value.get("decoders").and_then(Value::as_array).into_iter().flatten() {
                    self.add(part)?;
                }
            }
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => {}
            "Replace" => {
                let from = text(value.get("pattern").and_then(|p| p.get("String")));
                match (from, text(value.get("content"))) {
                    (Some(from), Some(to)) if !from.is_empty() => self.replacements.push((from, to)),
                    _ => return Err(Error::Unsupported("a decoder that replaces by pattern".to_owned())),
                }
            }
            "Strip" => {
                let spaces = value.get("content").and_then(Value::as_str) == Some(" ");
                let number = |key| value.get(key).and_then(Value::as_u64).unwrap_or(0);
                match (number("start"), number("stop")) {
                    (0, 0) => {}
                    (1, 0) if spaces => self.strip_leading_space = true,
                    _ => {
                        return Err(Error::Unsupported("a decoder that strips more than one leading space".to_owned()));
                    }
                }
            }
            "Metaspace" => {
                let replacement = text(value.get("replacement")).unwrap_or_else(|| "▁".to_owned());
                if replacement.is_empty() {
                    return Err(malformed("Metaspace's replacement is empty"));
                }
                self.replacements.push((replacement, " ".to_owned()));
                let scheme = value.get("prepend_scheme").and_then(Value::as_str);
                let legacy = value.get("add_prefix_space").and_then(Value::as_bool).unwrap_or(true);
                self.strip_leading_space = scheme.map_or(legacy, |scheme| scheme != "never");
            }
            "WordPiece" => {
                self.continuing = Some(text(value.get("prefix")).unwrap_or_else(|| "##".to_owned()));
                self.clean_up = value.get("cleanup").and_then(Value::as_bool).unwrap_or(true);
                self.strip_leading_space = true;
            }
            other => return Err(Error::Unsupported(format!("the decoder {:?}", excerpt(other)))),
        }
        Ok(())
    }

    /// The bytes that a token stands for.
    pub fn piece(&self, entry: &Entry<'_>, budget: &Budget) -> Result<Vec<u8>, Spent> {
        if entry.text.is_empty() {
            return Ok(Vec::new());
        }
        let added = matches!(entry.kind, TokenKind::Control | TokenKind::UserDefined);
        if self.byte_level
            && !added
            && let Some(bytes) = byte_level::decode(entry.text)
        {
            return Ok(bytes);
        }
        if self.byte_fallback
            && entry.kind == TokenKind::Byte
            && let Some(byte) = crate::vocab::byte_token(entry.text)
        {
            return Ok(vec![byte]);
        }
        let mut text = entry.text.to_owned();
        for (from, to) in &self.replacements {
            budget.spend(1 + text.len())?;
            if from.len() > text.len() {
                continue; // To prepare the search would cost all of `from`.
            }
            budget.spend(text.matches(from).count() * to.len())?;
            text = text.replace(from, to);
        }
        if let Some(prefix) = &self.continuing {
            text = match text.strip_prefix(prefix.as_str()).filter(|_| !prefix.is_empty()) {
                Some(inside) => inside.to_owned(),
                None => format!(" {text}"),
            };
        }
        Ok(if self.clean_up { clean_up(&text) } else { text }.into_bytes())
    }

    pub fn decode(&self) -> Decode {
        Decode { strip_leading_space: self.strip_leading_space }
    }
}
