//! The `model` of tokenizer.json.

use crate::bpe::{Bpe, MergeTable, Unit};
use crate::error::{Error, excerpt};
use crate::hf::file::{ModelEntry, VocabEntry};
use crate::hf::malformed;
use crate::tokenizer::Model;
use crate::unigram::Unigram;
use crate::vocab::Vocab;
use crate::wordpiece::WordPiece;

pub(super) fn build(entry: &ModelEntry<'_>, vocab: &Vocab, byte_level: bool) -> Result<Model, Error> {
    // Old files name no type: scores mean Unigram, merges BPE.
    let kind = match (&entry.kind, &entry.vocab) {
        (Some(kind), _) => kind.as_str(),
        (None, VocabEntry::Scores(_)) => "Unigram",
        (None, _) if entry.merges.is_empty() => "WordPiece",
        (None, _) => "BPE",
    };
    let unknown = entry.unk_token.as_ref().and_then(|text| vocab.id(text.as_bytes()));
    match (kind, &entry.vocab) {
        ("BPE", VocabEntry::Ids(_)) => {
            for (what, value) in [
                ("continuing_subword_prefix", &entry.continuing_subword_prefix),
                ("end_of_word_suffix", &entry.end_of_word_suffix),
            ] {
                if let Some(value) = value.as_ref().filter(|v| !v.is_empty()) {
                    return Err(Error::Unsupported(format!("BPE with the {what} {:?}", excerpt(value))));
                }
            }
            let merges = MergeTable::new(vocab, entry.merges.iter().map(|m| (&*m.left, &*m.right)))?;
            let unit = if byte_level {
                Unit::Bytes(Bpe::byte_symbols(vocab))
            } else {
                let bytes = if entry.byte_fallback { Bpe::fallback_symbols(vocab) } else { None };
                Unit::Chars { bytes, unknown, fuse_unknown: entry.fuse_unk }
            };
            Ok(Model::Bpe(Bpe::new(vocab, merges, unit, entry.ignore_merges)))
        }
        ("WordPiece", VocabEntry::Ids(list)) => Ok(Model::WordPiece(WordPiece {
            start: String::new(),
            inside: entry.continuing_subword_prefix.clone().unwrap_or_else(|| "##".to_owned()),
            unknown: unknown.ok_or(Error::MissingSpecial("unknown"))?,
            max_chars: entry.max_input_chars_per_word.unwrap_or(100),
            longest: list.iter().map(|(text, _)| text.len()).max().unwrap_or(0),
        })),
        ("Unigram", VocabEntry::Scores(list)) => {
            let mut scores: Vec<f64> = list.iter().map(|&(_, score)| score).collect();
            scores.resize(vocab.len(), 0.0);
            let unknown = entry.unk_id.and_then(|id| u32::try_from(id).ok()).ok_or(Error::MissingSpecial("unknown"))?;
            if unknown as usize >= vocab.len() {
                return Err(Error::SpecialIdOutOfRange { what: "unknown", id: u64::from(unknown), count: vocab.len() });
            }
            let bytes = if entry.byte_fallback { Bpe::fallback_symbols(vocab) } else { None };
            Ok(Model::Unigram(Unigram::new(vocab, scores, unknown, bytes)?))
        }
        ("BPE" | "WordPiece" | "Unigram", _) => Err(malformed(format!("its vocabulary is not one of {kind}"))),
        (other, _) => Err(Error::Unsupported(format!("the model {:?}", excerpt(other)))),
    }
}
