//! The text inside `{"input": "…"}`, as it comes.

use std::char::{REPLACEMENT_CHARACTER, decode_utf16};

#[derive(Default)]
pub struct Unwrap {
    /// Quotation marks that delimit strings: the third opens the value, the fourth ends it.
    marks: usize,
    escape: Option<String>,
    /// The first half of a character.
    surrogate: Option<u16>,
}

impl Unwrap {
    pub fn read(&mut self, c: char, out: &mut String) {
        if let Some(escape) = &mut self.escape {
            escape.push(c);
            if !escape.starts_with('u') || escape.len() >= 5 {
                let escape = self.escape.take().unwrap_or_default();
                if self.marks == 3 {
                    self.escaped(&escape, out);
                }
            }
            return;
        }
        match c {
            '\\' if self.marks % 2 == 1 => self.escape = Some(String::new()),
            '"' => self.marks += 1,
            _ if self.marks == 3 => {
                self.lone(out);
                out.push(c);
            }
            _ => {}
        }
    }

    fn escaped(&mut self, escape: &str, out: &mut String) {
        let c = match escape.as_bytes() {
            [b'u', digits @ ..] => {
                let digits = std::str::from_utf8(digits).ok();
                let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd);
                if let Some(first) = self.surrogate.take() {
                    let decoded = decode_utf16([first, unit]).map(|c| c.unwrap_or(REPLACEMENT_CHARACTER));
                    return out.extend(decoded);
                }
                if (0xd800..0xdc00).contains(&unit) {
                    self.surrogate = Some(unit);
                    return;
                }
                char::from_u32(unit.into()).unwrap_or(REPLACEMENT_CHARACTER)
            }
            b"n" => '\n',
            b"t" => '\t',
            b"r" => '\r',
            b"b" => '\u{8}',
            b"f" => '\u{c}',
            _ => escape.chars().next().unwrap_or_default(),
        };
        self.lone(out);
        out.push(c);
    }

    /// Half a character without the other half.
    fn lone(&mut self, out: &mut String) {
        if self.surrogate.take().is_some() {
            out.push(REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_what_a_reader_of_json_gives() {
        for text in ["", "plain", "a \"quoted\" \\ line\nand\ttab", "é🚀\u{1}", "\u{7f}/"] {
            for json in [
                serde_json::json!({ "input": text }).to_string(),
                format!(
                    "{{\"input\" : \"{}\"}}",
                    text.encode_utf16().map(|u| format!("\\u{u:04x}")).collect::<String>()
                ),
            ] {
                let mut unwrap = Unwrap::default();
                let mut out = String::new();
                json.chars().for_each(|c| unwrap.read(c, &mut out));
                assert_eq!(out, text, "{json}");
            }
        }
    }
}
