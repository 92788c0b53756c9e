//! The shape of `tokenizer.json`: big lists are read straight into place, small components stay JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct TokenizerFile<'a> {
    #[serde(borrow, default)]
    pub added_tokens: Vec<AddedEntry<'a>>,
    #[serde(default)]
    pub normalizer: Option<Value>,
    #[serde(default)]
    pub pre_tokenizer: Option<Value>,
    #[serde(default)]
    pub post_processor: Option<Value>,
    #[serde(default)]
    pub decoder: Option<Value>,
    #[serde(borrow)]
    pub model: ModelEntry<'a>,
}

#[derive(Deserialize)]
pub(crate) struct AddedEntry<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub content: Cow<'a, str>,
    #[serde(default)]
    pub special: bool,
    #[serde(default)]
    pub lstrip: bool,
    #[serde(default)]
    pub rstrip: bool,
    #[serde(default)]
    pub single_word: bool,
    #[serde(default)]
    pub normalized: bool,
}

#[derive(Deserialize)]
pub(crate) struct ModelEntry<'a> {
    /// Absent in old files.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(borrow)]
    pub vocab: VocabEntry<'a>,
    #[serde(borrow, default)]
    pub merges: Vec<MergeEntry<'a>>,
    #[serde(default)]
    pub unk_token: Option<String>,
    #[serde(default)]
    pub unk_id: Option<u64>,
    #[serde(default)]
    pub continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub fuse_unk: bool,
    #[serde(default)]
    pub byte_fallback: bool,
    #[serde(default)]
    pub ignore_merges: bool,
    #[serde(default)]
    pub max_input_chars_per_word: Option<usize>,
}

/// BPE and WordPiece map texts to ids; Unigram lists texts with scores.
pub(crate) enum VocabEntry<'a> {
    Ids(Vec<(Cow<'a, str>, u64)>),
    Scores(Vec<(Cow<'a, str>, f64)>),
}

impl VocabEntry<'_> {
    pub fn len(&self) -> usize {
        match self {
            VocabEntry::Ids(list) => list.len(),
            VocabEntry::Scores(list) => list.len(),
        }
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries().map(|(_, id)| id)
    }

    pub fn entries(&self) -> Box<dyn Iterator<Item = (&str, u64)> + '_> {
        match self {
            VocabEntry::Ids(list) => Box::new(list.iter().map(|(text, id)| (&**text, *id))),
            VocabEntry::Scores(list) => Box::new(list.iter().enumerate().map(|(id, (text, _))| (&**text, id as u64))),
        }
    }
}

/// A text that borrows from the file where it has no escapes; `Cow` itself would always copy inside a tuple.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for VocabEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VocabVisitor;
        impl<'de> Visitor<'de> for VocabVisitor {
            type Value = VocabEntry<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tokens or a list of tokens with scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some((text, id)) = map.next_entry::<Text<'de>, u64>()? {
                    list.push((text.0, id));
                }
                Ok(VocabEntry::Ids(list))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some((text, score)) = seq.next_element::<(Text<'de>, f64)>()? {
                    list.push((text.0, score));
                }
                Ok(VocabEntry::Scores(list))
            }
        }
        deserializer.deserialize_any(VocabVisitor)
    }
}

/// Two tokens that merge: `"a b"` in old files, `["a", "b"]` in new ones.
pub(crate) struct MergeEntry<'a> {
    pub left: Cow<'a, str>,
    pub right: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = MergeEntry<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens separated by a space, or a list of two tokens")
            }
            fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                match text.split_once(' ') {
                    Some((left, right)) => Ok(MergeEntry { left: left.into(), right: right.into() }),
                    None => Err(E::custom("a merge is not two tokens separated by a space")),
                }
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text.split_once(' ') {
                    Some((left, right)) => {
                        Ok(MergeEntry { left: left.to_owned().into(), right: right.to_owned().into() })
                    }
                    None => Err(E::custom("a merge is not two tokens separated by a space")),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let pair = (seq.next_element::<Text<'de>>()?, seq.next_element::<Text<'de>>()?);
                match (pair, seq.next_element::<Text<'de>>()?) {
                    ((Some(left), Some(right)), None) => Ok(MergeEntry { left: left.0, right: right.0 }),
                    _ => Err(A::Error::custom("a merge is not a list of two tokens")),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}
