//! Rewriting a text before it is split: Unicode forms, case, accents, replacements.

use std::borrow::Cow;
use std::sync::OnceLock;

use unicode_normalization_alignments::char::is_combining_mark;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::budget::{Budget, Spent};
use crate::charsmap::Charsmap;
use crate::pattern::{CharSet, ClassMap, Pattern, Scan};

/// One rewriting step.
pub(crate) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    /// Removes combining marks; follows a decomposition.
    StripAccents,
    /// Every match becomes the text.
    Replace(Pattern, String),
    /// The text goes before anything that is not empty.
    Prepend(String),
    Strip {
        left: bool,
        right: bool,
    },
    Bert {
        clean: bool,
        chinese: bool,
        strip_accents: bool,
        lowercase: bool,
    },
    /// SentencePiece's cleaning of control characters.
    Nmt,
    /// SentencePiece's own table, read as SentencePiece does.
    Charsmap(Charsmap),
    /// The same, read as HF's library does.
    GraphemeCharsmap(Charsmap),
    /// SentencePiece's treatment of spaces around and between words, in GGUF `t5` vocabularies.
    Spaces {
        prefix: bool,
        merge: bool,
    },
}

/// Applies all steps.
pub(crate) fn normalize<'t>(steps: &[Normalizer], text: &'t str, budget: &Budget) -> Result<Cow<'t, str>, Spent> {
    let mut text = Cow::Borrowed(text);
    for step in steps {
        budget.spend(text.len())?;
        if let Some(changed) = step.apply(&text, budget)? {
            text = Cow::Owned(changed);
        }
    }
    Ok(text)
}

impl Normalizer {
    /// The rewritten text; `None` where it stays as it is.
    fn apply(&self, text: &str, budget: &Budget) -> Result<Option<String>, Spent> {
        Ok(match self {
            Normalizer::Nfc if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes => None,
            Normalizer::Nfc => Some(budget.collect(text.nfc().map(|(c, _)| c))?),
            Normalizer::Nfd | Normalizer::Nfkc | Normalizer::Nfkd | Normalizer::StripAccents if text.is_ascii() => None,
            Normalizer::Nfd => Some(budget.collect(text.nfd().map(|(c, _)| c))?),
            Normalizer::Nfkc => Some(budget.collect(text.nfkc().map(|(c, _)| c))?),
            Normalizer::Nfkd => Some(budget.collect(text.nfkd().map(|(c, _)| c))?),
            Normalizer::Lowercase => Some(lowercase(text, budget)?),
            Normalizer::StripAccents => Some(budget.collect(text.chars().filter(|&c| !is_combining_mark(c)))?),
            Normalizer::Replace(pattern, with) => replace(pattern, with, text, budget)?,
            Normalizer::Prepend(_) if text.is_empty() => None,
            Normalizer::Prepend(prefix) => {
                budget.spend(prefix.len() + text.len())?;
                Some(format!("{prefix}{text}"))
            }
            Normalizer::Strip { left, right } => {
                let mut kept = text;
                if *left {
                    kept = kept.trim_start();
                }
                if *right {
                    kept = kept.trim_end();
                }
                (kept.len() < text.len()).then(|| kept.to_owned())
            }
            Normalizer::Bert { clean, chinese, strip_accents, lowercase } => {
                Some(bert(text, *clean, *chinese, *strip_accents, *lowercase, budget)?)
            }
            Normalizer::Nmt => Some(budget.collect(text.chars().filter_map(nmt))?),
            Normalizer::Charsmap(map) => Some(map.apply(text, budget)?),
            Normalizer::GraphemeCharsmap(map) => Some(map.apply_to_graphemes(text, budget)?),
            Normalizer::Spaces { prefix, merge } => {
                let spaced = spaces(text, *prefix, *merge);
                budget.spend(spaced.len())?;
                Some(spaced)
            }
        })
    }
}

fn replace(pattern: &Pattern, with: &str, text: &str, budget: &Budget) -> Result<Option<String>, Spent> {
    budget.spend(text.len())?;
    let mut scan = Scan::new(text, budget);
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    while at < text.len() {
        match pattern.match_at(at, &mut scan)? {
            Some(end) => {
                budget.spend(at - kept + with.len())?;
                out.push_str(&text[kept..at]);
                out.push_str(with);
                kept = end;
                at = end;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    Ok((kept > 0).then(|| {
        out.push_str(&text[kept..]);
        out
    }))
}

fn lowercase(text: &str, budget: &Budget) -> Result<String, Spent> {
    let mut lower = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => lower.push(c.to_ascii_lowercase()),
            // Three bytes from two at most.
            false => lower.extend(c.to_lowercase()),
        }
    }
    budget.spend(lower.len())?;
    Ok(lower)
}

/// Which properties of a character BERT's rules ask for, by the tables of HF's library: Unicode 8.
struct BertClasses(ClassMap);

impl BertClasses {
    fn get() -> &'static BertClasses {
        static CLASSES: OnceLock<BertClasses> = OnceLock::new();
        CLASSES.get_or_init(|| {
            let sets = [r"[[\p{Cc}\p{Cf}\p{Co}]&&\p{Age=8.0}]", r"[\p{Mn}&&\p{Age=8.0}]"]
                .map(|class| CharSet::parse(class, false).ok());
            let sets: Vec<CharSet> = sets.into_iter().flatten().collect();
            // Cannot fail: two fixed classes. Without them nothing is dropped.
            BertClasses(ClassMap::new(&sets).unwrap_or_else(|_| ClassMap::trivial()))
        })
    }

    fn is_control(&self, c: char) -> bool {
        !matches!(c, '\t' | '\n' | '\r') && self.0.in_set(self.0.class_of(c) as usize, 0)
    }

    fn is_mark(&self, c: char) -> bool {
        self.0.in_set(self.0.class_of(c) as usize, 1)
    }
}

fn is_chinese(c: char) -> bool {
    matches!(c as u32, 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

fn bert(
    text: &str,
    clean: bool,
    chinese: bool,
    strip_accents: bool,
    lowercase: bool,
    budget: &Budget,
) -> Result<String, Spent> {
    let classes = BertClasses::get();
    let mut spaced = String::with_capacity(text.len());
    for c in text.chars() {
        if clean && (c == '\0' || c == '\u{fffd}' || classes.is_control(c)) {
            continue;
        }
        if clean && c.is_whitespace() {
            spaced.push(' ');
        } else if chinese && is_chinese(c) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    if strip_accents && !spaced.is_ascii() {
        spaced = budget.collect(spaced.nfd().map(|(c, _)| c).filter(|&c| !classes.is_mark(c)))?;
    }
    if lowercase {
        return self::lowercase(&spaced, budget);
    }
    budget.spend(spaced.len())?;
    Ok(spaced)
}

/// Drops control characters, makes spaces of the other invisible ones.
fn nmt(c: char) -> Option<char> {
    match c as u32 {
        0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f | 0x8f | 0x9f => None,
        0x09 | 0x0a | 0x0c | 0x0d | 0x1680 | 0x200b..=0x200f | 0x2028 | 0x2029 | 0x2581 | 0xfeff | 0xfffd => Some(' '),
        _ => Some(c),
    }
}

fn spaces(text: &str, prefix: bool, merge: bool) -> String {
    let mut out = String::with_capacity(text.len() + 3);
    let mut in_word = false;
    let mut prefixed = false;
    for c in text.chars() {
        if c != ' ' {
            if !in_word && (merge || prefix && !prefixed) {
                out.push('▁');
                prefixed = true;
            }
            in_word = true;
            out.push(c);
        } else {
            in_word = false;
            if !merge {
                out.push('▁');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;

    #[test]
    fn steps_do_what_they_are_called() {
        let replace = |pattern, with: &str| Normalizer::Replace(Pattern::new(pattern).unwrap(), with.to_owned());
        let bert = Normalizer::Bert { clean: true, chinese: true, strip_accents: true, lowercase: true };
        for (step, text, expected) in [
            (Normalizer::Nfc, "e\u{301}", "é"),
            (Normalizer::Nfd, "é", "e\u{301}"),
            (Normalizer::Nfkc, "ﬁ①", "fi1"),
            (Normalizer::Lowercase, "ÄΣİ", "äσi\u{307}"),
            (Normalizer::StripAccents, "e\u{301}a", "ea"),
            (replace(" ", "▁"), "a b ", "a▁b▁"),
            (replace(" {2,}", " "), "a   b c", "a b c"),
            (Normalizer::Prepend("▁".into()), "a", "▁a"),
            (Normalizer::Prepend("▁".into()), "", ""),
            (Normalizer::Strip { left: true, right: false }, " a ", "a "),
            (bert, "Ça\tva 中国\0\u{200b}!", "ca va  中  国 !"),
            (Normalizer::Spaces { prefix: true, merge: true }, "  a  b ", "▁a▁b"),
            (Normalizer::Spaces { prefix: true, merge: false }, "a  b ", "▁a▁▁b▁"),
        ] {
            assert_eq!(
                normalize(&[step], text, &Budget::new(text.len(), &Limits::default())).unwrap(),
                expected,
                "{text:?}"
            );
        }
    }
}
