//! The tokenizer: text to token ids and back.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use akunu_limits::Limits;

use crate::added::{AddedTokens, Fragment};
use crate::bpe::Bpe;
use crate::budget::{Budget, Spent};
use crate::error::Error;
use crate::merge::Symbols;
use crate::normalize::{Normalizer, normalize};
use crate::split::{Step, split};
use crate::spm::Spm;
use crate::stream::Detokenizer;
use crate::unigram::Unigram;
use crate::vocab::{TokenKind, Vocab};
use crate::wordpiece::WordPiece;

/// How [`Tokenizer::encode`] treats special tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encode {
    /// Put the tokens that the vocabulary wants around a text (BOS, EOS, CLS, SEP).
    pub add_special: bool,
    /// Read special tokens written in the text as such; off, their text is ordinary text. Chat prompts need it on,
    /// text from a user wants it off.
    pub parse_special: bool,
}

/// How a word becomes tokens.
pub(crate) enum Model {
    Bpe(Bpe),
    Spm(Spm),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

/// How tokens become text, beyond putting their bytes in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decode {
    /// Encoding puts a space before the text: take it away again.
    pub strip_leading_space: bool,
}

/// The tokens with a role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub pad: Option<u32>,
    pub mask: Option<u32>,
    /// After any of these a model has nothing more to say.
    pub end_of_generation: Vec<u32>,
}

pub(crate) struct Inner {
    pub vocab: Vocab,
    /// Found in the text as given.
    pub added: AddedTokens,
    /// Found in the normalized text.
    pub added_normalized: AddedTokens,
    pub normalizers: Vec<Normalizer>,
    pub steps: Vec<Step>,
    pub model: Model,
    pub before: Vec<u32>,
    /// Between the texts of a pair.
    pub between: Vec<u32>,
    pub after: Vec<u32>,
    pub roles: Roles,
    pub decode: Decode,
    pub limits: Limits,
}

/// A vocabulary and the rules that turn text into its tokens. Cloning shares it.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

/// Words longer than this are cut: to encode one takes about 40 bytes of memory for each byte of it.
const MAX_WORD_BYTES: usize = 8 << 20;
/// Steps of the budget that encoding words costs for each byte of them.
const WORD_STEPS: usize = 2;

impl Tokenizer {
    pub(crate) fn from_inner(inner: Inner) -> Self {
        Tokenizer { inner: Arc::new(inner) }
    }

    /// The token ids of `text`. Fails where the tokenizer's rules make far too much work of it, which a hostile file's may.
    pub fn encode(&self, text: &str, options: Encode) -> Result<Vec<u32>, Error> {
        let budget = Budget::new(text.len(), &self.inner.limits);
        let inner = &*self.inner;
        let mut out = Vec::with_capacity(text.len() / 4 + 2);
        let mut symbols = Symbols::default();
        if options.add_special {
            out.extend_from_slice(&inner.before);
        }
        let mut first = true;
        let encoded = inner.added.split(text, options.parse_special, |fragment| {
            let start = std::mem::replace(&mut first, false);
            match fragment {
                Fragment::Token(id) => {
                    out.push(id);
                    Ok(())
                }
                Fragment::Text(raw) => {
                    inner.encode_text(raw, start, options.parse_special, &budget, &mut symbols, &mut out)
                }
            }
        });
        encoded.map_err(|spent| spent.on("this text", &inner.limits))?;
        if options.add_special {
            out.extend_from_slice(&inner.after);
        }
        Ok(out)
    }

    /// The text of `ids`. Bytes that are not UTF-8 become U+FFFD, ids outside the vocabulary nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut stream = self.stream().keep_special(!skip_special);
        let mut text = String::new();
        for &id in ids {
            stream.push_to(id, &mut text);
        }
        stream.flush_to(&mut text);
        text
    }

    /// Turns ids into text one at a time, from the start of a text. Special tokens are skipped.
    pub fn stream(&self) -> Detokenizer {
        Detokenizer::new(self.inner.clone(), true)
    }

    /// As [`Self::stream`], for ids that go on after a text: a space in front of the first word is kept.
    pub fn stream_continuation(&self) -> Detokenizer {
        Detokenizer::new(self.inner.clone(), false)
    }

    /// `text` cut at the tokens that are found before anything else happens to it: each part, and its id where it is such a
    /// token.
    pub(crate) fn cut_at_added(&self, text: &str, mut each: impl FnMut(&str, Option<u32>)) {
        // Never `Err`: what it calls has no budget.
        let _ = self.inner.added.split(text, true, |fragment| match fragment {
            Fragment::Token(id) => {
                each(self.token_text(id).unwrap_or_default(), Some(id));
                Ok(())
            }
            Fragment::Text(text) => self.inner.added_normalized.split(text, true, |fragment| {
                match fragment {
                    Fragment::Token(id) => each(self.token_text(id).unwrap_or_default(), Some(id)),
                    Fragment::Text(text) => each(text, None),
                }
                Ok(())
            }),
        });
    }

    /// The limits within which it was read and encodes.
    pub fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// How many ids there are: every id is below it.
    pub fn vocab_size(&self) -> usize {
        self.inner.vocab.len()
    }

    /// The token as the vocabulary writes it; `None` outside the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.inner.vocab.text(id)
    }

    /// The bytes the token stands for, which need not be whole characters; empty outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.inner.vocab.piece(id)
    }

    /// The id of the token that the vocabulary writes as `text`.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.inner.vocab.id(text.as_bytes())
    }

    pub fn kind(&self, id: u32) -> TokenKind {
        self.inner.vocab.kind(id)
    }

    /// Whether the token marks structure and is not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.kind(id).is_special()
    }

    pub fn bos(&self) -> Option<u32> {
        self.inner.roles.bos
    }

    pub fn eos(&self) -> Option<u32> {
        self.inner.roles.eos
    }

    /// What chat templates write for the beginning of a text; empty where there is no such token.
    pub fn bos_text(&self) -> &str {
        self.bos().and_then(|id| self.token_text(id)).unwrap_or("")
    }

    /// What chat templates write for the end of a text; empty where there is no such token.
    pub fn eos_text(&self) -> &str {
        self.eos().and_then(|id| self.token_text(id)).unwrap_or("")
    }

    pub fn unknown(&self) -> Option<u32> {
        self.inner.roles.unknown
    }

    pub fn pad(&self) -> Option<u32> {
        self.inner.roles.pad
    }

    pub fn mask(&self) -> Option<u32> {
        self.inner.roles.mask
    }

    /// The tokens that `encode` with `add_special` puts before and after a text.
    pub fn frame(&self) -> (&[u32], &[u32]) {
        (&self.inner.before, &self.inner.after)
    }

    /// The tokens between the texts of a pair, which otherwise has around it what [`Self::frame`] gives.
    pub fn between(&self) -> &[u32] {
        &self.inner.between
    }

    /// Whether `encode` with `add_special` starts with [`Self::bos`].
    pub fn adds_bos(&self) -> bool {
        self.bos().is_some_and(|bos| self.inner.before.first() == Some(&bos))
    }

    /// The tokens after which generation stops: EOS, and the ends of turns that the vocabulary has.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.inner.roles.end_of_generation
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

impl Inner {
    fn encode_text(
        &self,
        raw: &str,
        first: bool,
        parse_special: bool,
        budget: &Budget,
        symbols: &mut Symbols,
        out: &mut Vec<u32>,
    ) -> Result<(), Spent> {
        let text: Cow<'_, str> = normalize(&self.normalizers, raw, budget)?;
        let mut start = first;
        self.added_normalized.split(&text, parse_special, |fragment| {
            let start = std::mem::replace(&mut start, false);
            match fragment {
                Fragment::Token(id) => {
                    out.push(id);
                    Ok(())
                }
                Fragment::Text(piece) => {
                    budget.spend(WORD_STEPS * piece.len())?;
                    split(&self.steps, piece, start, budget, &mut |word| self.encode_word(word, budget, symbols, out))
                }
            }
        })
    }

    #[inline]
    fn encode_word(&self, word: &str, budget: &Budget, symbols: &mut Symbols, out: &mut Vec<u32>) -> Result<(), Spent> {
        if word.len() > MAX_WORD_BYTES {
            return self.encode_long_word(word, budget, symbols, out);
        }
        match &self.model {
            Model::Bpe(model) => model.encode(&self.vocab, word, symbols, out),
            Model::Spm(model) => model.encode(&self.vocab, word, symbols, out),
            Model::WordPiece(model) => model.encode(&self.vocab, word, budget, out)?,
            Model::Unigram(model) => model.encode(&self.vocab, word, budget, out)?,
        }
        Ok(())
    }

    #[cold]
    fn encode_long_word(
        &self,
        mut word: &str,
        budget: &Budget,
        symbols: &mut Symbols,
        out: &mut Vec<u32>,
    ) -> Result<(), Spent> {
        while !word.is_empty() {
            let (head, tail) = word.split_at(word.floor_char_boundary(MAX_WORD_BYTES));
            self.encode_word(head, budget, symbols, out)?;
            word = tail;
        }
        Ok(())
    }
}
