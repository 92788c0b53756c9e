//! Tokenizers from the vocabulary that a GGUF file carries.

use akunu_limits::Limits;

use crate::added::{Added, AddedTokens};
use crate::bpe::{Bpe, MergeTable, Unit};
use crate::byte_level;
use crate::charsmap::Charsmap;
use crate::error::{Error, excerpt};
use crate::normalize::Normalizer;
use crate::pattern::Pattern;
use crate::pre_names::PreTokenizer;
use crate::roles;
use crate::split::{Behavior, Step};
use crate::spm::Spm;
use crate::tokenizer::{Decode, Inner, Model, Roles, Tokenizer};
use crate::unigram::Unigram;
use crate::vocab::{Entry, TokenKind, Vocab, byte_token};
use crate::wordpiece::{WordPiece, clean_up};

/// The `tokenizer.ggml.*` keys of a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct GgufVocab<'a> {
    /// `model`: gpt2, llama, bert, t5, gemma4.
    pub model: &'a str,
    /// `pre`: which splitting rule a gpt2 vocabulary uses.
    pub pre: Option<&'a str>,
    pub tokens: Vec<&'a str>,
    pub scores: Option<Vec<f32>>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub types: Option<Vec<i64>>,
    /// Pairs of tokens with a space between them, best first.
    pub merges: Vec<&'a str>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub eom: Option<u32>,
    pub unknown: Option<u32>,
    pub separator: Option<u32>,
    pub pad: Option<u32>,
    pub cls: Option<u32>,
    pub mask: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_separator: Option<bool>,
    pub add_space_prefix: Option<bool>,
    pub remove_extra_whitespaces: Option<bool>,
    /// `normalizer.lowercase`, for bert.
    pub lowercase: Option<bool>,
    /// `normalizer.strip_accents`, for bert.
    pub strip_accents: Option<bool>,
    pub precompiled_charsmap: Option<Vec<u8>>,
    /// `general.name`: the Phi-3 vocabulary's tokens swallow the space after them, and no other key says so.
    pub name: Option<&'a str>,
}

/// The longest word that BERT's WordPiece looks at, in characters.
const BERT_MAX_WORD: usize = 100;
/// Where the Qwen vocabulary has `<|endoftext|>`. Only that vocabulary composes characters first; others that are
/// split like it do not, and the file does not tell them apart.
const QWEN_END_OF_TEXT: u32 = 151_643;

impl Tokenizer {
    /// Builds the tokenizer of a GGUF file's vocabulary.
    pub fn from_gguf(source: GgufVocab<'_>) -> Result<Self, Error> {
        Self::from_gguf_within(source, Limits::default())
    }

    /// As [`Self::from_gguf`], within other limits.
    pub fn from_gguf_within(source: GgufVocab<'_>, limits: Limits) -> Result<Self, Error> {
        let vocab = source.vocab(&limits)?;
        let parts = match source.model {
            "gpt2" | "gemma4" => source.byte_pair(&vocab)?,
            "llama" => source.sentence_piece(&vocab)?,
            "bert" => source.word_piece()?,
            "t5" => source.unigram(&vocab)?,
            other => return Err(Error::UnknownModel(excerpt(other))),
        };
        source.finish(vocab, parts, limits).map(Tokenizer::from_inner)
    }
}

/// What each kind of model decides; the rest is alike for all.
struct Pipeline {
    model: Model,
    normalizers: Vec<Normalizer>,
    steps: Vec<Step>,
    before: Vec<u32>,
    after: Vec<u32>,
    decode: Decode,
    roles: Roles,
}

impl GgufVocab<'_> {
    fn vocab(&self, limits: &Limits) -> Result<Vocab, Error> {
        let count = self.tokens.len();
        for (what, length) in [
            ("the list of scores", self.scores.as_ref().map(Vec::len)),
            ("the list of token types", self.types.as_ref().map(Vec::len)),
        ] {
            if let Some(got) = length.filter(|&got| got != count) {
                return Err(Error::LengthMismatch { what, got, expected: count });
            }
        }
        if let Some(types) = &self.types
            && let Some(id) = types.iter().position(|t| !(0..=6).contains(t))
        {
            return Err(Error::InvalidTokenType { id: id as u32, value: types[id] });
        }
        let kind = |id: usize| match self.types.as_ref().map_or(1, |types| types[id]) {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        };
        let byte_level = self.model == "gpt2" && !self.is_character_bpe();
        let entries = self.tokens.iter().enumerate().map(|(id, &text)| Entry { text, kind: kind(id) });
        Vocab::new(entries, limits, |id, entry| match entry.kind {
            TokenKind::Byte => match byte_token(entry.text) {
                Some(byte) => Ok(vec![byte]),
                None => Err(Error::InvalidByteToken { id, text: excerpt(entry.text) }),
            },
            TokenKind::Normal | TokenKind::Unused if byte_level => {
                Ok(byte_level::decode(entry.text).unwrap_or_else(|| entry.text.as_bytes().to_vec()))
            }
            TokenKind::Normal | TokenKind::Unused => {
                let text = entry.text.replace('▁', " ");
                Ok(if self.model == "bert" { clean_up(&text) } else { text }.into_bytes())
            }
            // In BERT every token that is not inside a word stands apart.
            _ if self.model == "bert" => Ok(format!(" {}", entry.text).into_bytes()),
            _ => Ok(entry.text.as_bytes().to_vec()),
        })
    }

    fn is_character_bpe(&self) -> bool {
        self.model == "gemma4" || matches!(self.pre, Some("gemma4" | "granite-embed-multi-311m" | "sarvam-moe"))
    }

    /// `id` where it is a token.
    fn checked(&self, what: &'static str, id: Option<u32>) -> Result<Option<u32>, Error> {
        match id {
            Some(id) if id as usize >= self.tokens.len() => {
                Err(Error::SpecialIdOutOfRange { what, id: u64::from(id), count: self.tokens.len() })
            }
            id => Ok(id),
        }
    }

    /// The id the file gives, else the one that this kind of model has by convention, if it is a token.
    fn or_default(&self, what: &'static str, id: Option<u32>, default: u32) -> Result<Option<u32>, Error> {
        Ok(self.checked(what, id)?.or(Some(default).filter(|&id| (id as usize) < self.tokens.len())))
    }

    fn byte_pair(&self, vocab: &Vocab) -> Result<Pipeline, Error> {
        let pre = PreTokenizer::named(if self.model == "gemma4" { Some("gemma4") } else { self.pre })?;
        let mut merges = Vec::with_capacity(self.merges.len());
        for (index, merge) in self.merges.iter().enumerate() {
            // A token may itself be a space, so the separator is looked for after the first character.
            let first = merge.chars().next().map_or(0, char::len_utf8);
            match merge[first..].split_once(' ') {
                Some((left, right)) if !right.is_empty() => merges.push((&merge[..first + left.len()], right)),
                _ => return Err(Error::InvalidMerge { index, text: excerpt(merge) }),
            }
        }
        let table = MergeTable::new(vocab, merges.into_iter())?;
        let unit = if pre.characters {
            Unit::Chars {
                bytes: Bpe::fallback_symbols(vocab),
                unknown: self.checked("unknown", self.unknown)?,
                fuse_unknown: true,
            }
        } else {
            Unit::Bytes(Bpe::byte_symbols(vocab))
        };
        let qwen = self.pre == Some("qwen2") && vocab.text(QWEN_END_OF_TEXT) == Some("<|endoftext|>");
        let mut normalizers = Vec::new();
        if pre.nfc || qwen {
            normalizers.push(Normalizer::Nfc);
        }
        if pre.characters {
            normalizers.push(Normalizer::Replace(Pattern::new(" ")?, "▁".to_owned()));
        }
        let bos = self.checked("BOS", self.bos)?;
        let eos = self.checked("EOS", self.eos)?;
        // Gemma 4 files say they add none, and mean to.
        let forced = self.is_character_bpe() && pre.add_bos;
        let (before, after) = self.around(bos, eos, pre.add_bos, false, forced)?;
        let model = Model::Bpe(Bpe::new(vocab, table, unit, pre.ignore_merges));
        let roles = Roles { bos, eos, unknown: self.checked("unknown", self.unknown)?, ..Roles::default() };
        Ok(Pipeline { model, normalizers, steps: pre.steps, before, after, decode: Decode::default(), roles })
    }

    fn sentence_piece(&self, vocab: &Vocab) -> Result<Pipeline, Error> {
        let Some(scores) = &self.scores else {
            return Err(Error::LengthMismatch { what: "the list of scores", got: 0, expected: vocab.len() });
        };
        let bos = self.or_default("BOS", self.bos, 1)?;
        let eos = self.or_default("EOS", self.eos, 2)?;
        let unknown = self.or_default("unknown", self.unknown, 0)?;
        let model = Model::Spm(Spm::new(vocab, scores, unknown)?);
        let prefix = self.add_space_prefix.unwrap_or(true);
        let mut normalizers = Vec::new();
        if prefix {
            normalizers.push(Normalizer::Prepend(" ".to_owned()));
        }
        normalizers.push(Normalizer::Replace(Pattern::new(" ")?, "▁".to_owned()));
        let (before, after) = self.around(bos, eos, true, false, false)?;
        let decode = Decode { strip_leading_space: prefix };
        let roles = Roles { bos, eos, unknown, ..Roles::default() };
        Ok(Pipeline { model, normalizers, steps: Vec::new(), before, after, decode, roles })
    }

    fn word_piece(&self) -> Result<Pipeline, Error> {
        let missing = |what| move |id: Option<u32>| id.ok_or(Error::MissingSpecial(what));
        let cls = self.or_default("CLS", self.cls.or(self.bos), 101).and_then(missing("CLS"))?;
        let separator = self.or_default("SEP", self.separator.or(self.eos), 102).and_then(missing("SEP"))?;
        let unknown = self.or_default("unknown", self.unknown, 100).and_then(missing("unknown"))?;
        let lowercase = self.lowercase.unwrap_or(true);
        let strip_accents = self.strip_accents.unwrap_or(lowercase);
        let longest = self.tokens.iter().map(|t| t.len()).max().unwrap_or(0);
        let model =
            WordPiece { start: "▁".into(), inside: String::new(), unknown, max_chars: BERT_MAX_WORD, longest };
        Ok(Pipeline {
            model: Model::WordPiece(model),
            normalizers: vec![Normalizer::Bert { clean: true, chinese: true, strip_accents, lowercase }],
            steps: bert_steps()?,
            before: vec![cls],
            after: vec![separator],
            decode: Decode { strip_leading_space: true },
            roles: Roles { bos: Some(cls), eos: Some(separator), unknown: Some(unknown), ..Roles::default() },
        })
    }

    fn unigram(&self, vocab: &Vocab) -> Result<Pipeline, Error> {
        let Some(scores) = &self.scores else {
            return Err(Error::LengthMismatch { what: "the list of scores", got: 0, expected: vocab.len() });
        };
        let bos = self.checked("BOS", self.bos)?;
        let eos = self.or_default("EOS", self.eos, 1)?;
        let unknown = self.or_default("unknown", self.unknown, 2)?.ok_or(Error::MissingSpecial("unknown"))?;
        // User-defined tokens win over any way to spell them.
        let score = |(id, &score)| if vocab.kind(id as u32) == TokenKind::UserDefined { 0.0 } else { f64::from(score) };
        let scores = scores.iter().enumerate().map(score).collect();
        let model = Model::Unigram(Unigram::new(vocab, scores, unknown, None)?);
        let prefix = self.add_space_prefix.unwrap_or(true);
        let mut normalizers = Vec::new();
        if let Some(blob) = &self.precompiled_charsmap {
            normalizers.push(Normalizer::Charsmap(Charsmap::new(blob)?));
        }
        normalizers.push(Normalizer::Spaces { prefix, merge: self.remove_extra_whitespaces.unwrap_or(false) });
        let (before, after) = self.around(bos, eos, false, true, false)?;
        let decode = Decode { strip_leading_space: prefix };
        let roles = Roles { bos, eos, unknown: Some(unknown), ..Roles::default() };
        Ok(Pipeline { model, normalizers, steps: Vec::new(), before, after, decode, roles })
    }

    /// The tokens before and after a text. A default that lacks its token is dropped, a wish of the file is an error.
    fn around(
        &self,
        bos: Option<u32>,
        eos: Option<u32>,
        bos_default: bool,
        eos_default: bool,
        force_bos: bool,
    ) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let wanted = |what, wish: Option<bool>, default: bool, id: Option<u32>| match (wish, id) {
            (Some(true), None) => Err(Error::MissingSpecial(what)),
            (wish, id) if wish.unwrap_or(default) => Ok(id),
            _ => Ok(None),
        };
        let before = if force_bos { bos } else { wanted("BOS", self.add_bos, bos_default, bos)? };
        let after = wanted("EOS", self.add_eos, eos_default, eos)?;
        let roberta = matches!(self.pre, Some("jina-v1-en" | "jina-v2-code" | "roberta-bpe"));
        let separator = self.checked("SEP", self.separator)?;
        let separator = separator.filter(|_| after.is_none() && self.add_separator.unwrap_or(roberta));
        Ok((before.into_iter().collect(), after.into_iter().chain(separator).collect()))
    }

    fn finish(&self, mut vocab: Vocab, parts: Pipeline, limits: Limits) -> Result<Inner, Error> {
        let mut roles = parts.roles;
        roles.pad = self.checked("PAD", self.pad)?;
        roles.mask = self.checked("MASK", self.mask)?;
        let ends = [roles.eos, self.checked("EOT", self.eot)?, self.checked("EOM", self.eom)?];
        roles.end_of_generation = roles::end_of_generation(&mut vocab, ends.into_iter().flatten());
        let phi3 = self.name.is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.contains("phi-3") || name.contains("phi3")
        });
        // XLM-RoBERTa has two tokens between the texts of a pair.
        let apart = self.checked("SEP", self.separator)?;
        let apart =
            apart.filter(|_| roles.eos.is_some_and(|eos| parts.after == [eos]) && self.add_separator == Some(true));
        let mut added = Vec::new();
        for (id, &text) in self.tokens.iter().enumerate() {
            let kind = vocab.kind(id as u32);
            if text.is_empty() || !(kind.is_special() || kind == TokenKind::UserDefined) {
                continue;
            }
            let rstrip = phi3 && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>");
            let special = kind.is_special();
            let lstrip = text == "<mask>" || text == "[MASK]" && self.pre == Some("modern-bert");
            added.push(Added { id: id as u32, text: text.to_owned(), special, lstrip, rstrip, single_word: false });
        }
        // Runs of spaces are tokens; a run that has a literal `▁` in it is one only after spaces are written so.
        let spaces = |token: &&Added| self.model == "llama" && !token.special && token.text.bytes().all(|b| b == b' ');
        let runs =
            added.iter().filter(spaces).map(|token| Added { text: token.text.replace(' ', "▁"), ..token.clone() });
        let runs: Vec<Added> = runs.filter(|token| token.text.len() > '▁'.len_utf8()).collect();
        Ok(Inner {
            vocab,
            added: AddedTokens::new(added, &limits)?,
            added_normalized: AddedTokens::new(runs, &limits)?,
            normalizers: parts.normalizers,
            steps: parts.steps,
            model: parts.model,
            before: parts.before,
            between: parts.after.iter().copied().chain(apart).collect(),
            after: parts.after,
            roles,
            decode: parts.decode,
            limits,
        })
    }
}

/// Punctuation as HF's library knows it: its tables are of Unicode 8.
pub(crate) const BERT_PUNCTUATION: &str = r"[!-/:-@\[-`{-~[\p{P}&&\p{Age=8.0}]]";

/// BERT's words: what white space separates, every punctuation mark on its own.
pub(crate) fn bert_steps() -> Result<Vec<Step>, Error> {
    Ok(vec![
        Step::Split { pattern: Pattern::new(r"\s+")?, behavior: Behavior::Removed, invert: false },
        Step::pattern(BERT_PUNCTUATION)?,
    ])
}
