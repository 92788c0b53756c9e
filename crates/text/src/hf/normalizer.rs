//! The `normalizer` of tokenizer.json.

use serde_json::Value;

use crate::charsmap::Charsmap;
use crate::error::{Error, excerpt};
use crate::hf::pre_tokenizer::pattern;
use crate::hf::{MAX_STEPS, kind, malformed};
use crate::normalize::Normalizer;

/// Appends the steps; returns whether one of them writes bytes as characters.
pub(super) fn read(value: Option<&Value>, steps: &mut Vec<Normalizer>) -> Result<bool, Error> {
    let Some(value) = value.filter(|v| !v.is_null()) else { return Ok(false) };
    if steps.len() >= MAX_STEPS {
        return Err(Error::Unsupported(format!("more than {MAX_STEPS} normalizers")));
    }
    let flag = |key: &str, default: bool| value.get(key).and_then(Value::as_bool).unwrap_or(default);
    let text = |key: &str| {
        value.get(key).and_then(Value::as_str).ok_or_else(|| malformed(format!("a normalizer has no {key}")))
    };
    steps.push(match kind(value)? {
        "Sequence" => {
            let mut byte_level = false;
            for part in value.get("normalizers").and_then(Value::as_array).into_iter().flatten() {
                byte_level |= read(Some(part), steps)?;
            }
            return Ok(byte_level);
        }
        "ByteLevel" => return Ok(true),
        "NFC" => Normalizer::Nfc,
        "NFD" => Normalizer::Nfd,
        "NFKC" => Normalizer::Nfkc,
        "NFKD" => Normalizer::Nfkd,
        "Nmt" => Normalizer::Nmt,
        "Lowercase" => Normalizer::Lowercase,
        "StripAccents" => Normalizer::StripAccents,
        "Strip" => Normalizer::Strip { left: flag("strip_left", true), right: flag("strip_right", true) },
        "Prepend" => Normalizer::Prepend(text("prepend")?.to_owned()),
        "Replace" => Normalizer::Replace(pattern(value)?, text("content")?.to_owned()),
        "BertNormalizer" => {
            let lowercase = flag("lowercase", true);
            Normalizer::Bert {
                clean: flag("clean_text", true),
                chinese: flag("handle_chinese_chars", true),
                strip_accents: flag("strip_accents", lowercase),
                lowercase,
            }
        }
        "Precompiled" => {
            let blob =
                base64(text("precompiled_charsmap")?).ok_or_else(|| malformed("a character map is not base64"))?;
            Normalizer::GraphemeCharsmap(Charsmap::new(&blob)?)
        }
        other => return Err(Error::Unsupported(format!("the normalizer {:?}", excerpt(other)))),
    });
    Ok(false)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    let mut bits = 0u32;
    let mut count = 0;
    for byte in digits.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_known_texts() {
        for (text, expected) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmE=", "fooba")] {
            assert_eq!(base64(text).as_deref(), Some(expected.as_bytes()), "{text}");
        }
        assert_eq!(base64("Zg=?"), None);
    }
}
