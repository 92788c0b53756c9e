//! The tokens of a vocabulary: their texts as written in the file, the bytes they stand for, and their kinds.

use akunu_limits::{Limits, over};

use crate::error::{Error, excerpt};
use crate::hash::{Arena, TextTable};

/// The longest text a token may have, in bytes.
pub(crate) const MAX_TOKEN_BYTES: usize = 1 << 16;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for what the vocabulary cannot say.
    Unknown,
    /// Marks structure, such as the start of the text; never ordinary text.
    Control,
    /// Text that is always one token.
    UserDefined,
    /// An id that has no token.
    Unused,
    /// A single byte, written `<0x00>` to `<0xFF>`.
    Byte,
}

impl TokenKind {
    /// Whether the token is left out where special tokens are skipped.
    pub fn is_special(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown)
    }
}

/// One token as the file has it.
pub(crate) struct Entry<'a> {
    pub text: &'a str,
    pub kind: TokenKind,
}

pub(crate) struct Vocab {
    /// `[id]`: the token as the file writes it; empty for an id without a token.
    texts: Arena,
    by_text: TextTable,
    /// `[id]`: the bytes the token stands for.
    pieces: Arena,
    kinds: Vec<TokenKind>,
}

impl Vocab {
    /// `piece` gives the bytes that a token stands for.
    pub fn new<'a>(
        entries: impl ExactSizeIterator<Item = Entry<'a>>,
        limits: &Limits,
        mut piece: impl FnMut(u32, &Entry<'a>) -> Result<Vec<u8>, Error>,
    ) -> Result<Self, Error> {
        let count = entries.len();
        if count == 0 {
            return Err(Error::EmptyVocabulary);
        }
        // Ids have 32 bits, of which tries use two for more.
        if count as u64 > limits.tokens.min(1 << 30) {
            return Err(Error::TooManyTokens { count, over: over!(limits, tokens) });
        }
        let mut vocab = Vocab {
            texts: Arena::with_capacity(count),
            by_text: TextTable::with_capacity(count),
            pieces: Arena::with_capacity(count),
            kinds: Vec::with_capacity(count),
        };
        for (id, entry) in entries.enumerate() {
            let id = id as u32;
            if entry.text.len() > MAX_TOKEN_BYTES {
                return Err(Error::TokenTooLong { id, bytes: entry.text.len(), max: MAX_TOKEN_BYTES });
            }
            vocab.texts.push(entry.text.as_bytes());
            if !entry.text.is_empty()
                && let Some(first) = vocab.by_text.insert(&vocab.texts, id)
            {
                return Err(Error::DuplicateToken { first, second: id, text: excerpt(entry.text) });
            }
            vocab.pieces.push(&piece(id, &entry)?);
            vocab.kinds.push(entry.kind);
        }
        Ok(vocab)
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn text(&self, id: u32) -> Option<&str> {
        if id as usize >= self.len() {
            return None;
        }
        // The arena is filled from `&str` only.
        std::str::from_utf8(self.texts.get(id as usize)).ok()
    }

    #[inline]
    pub fn id(&self, text: &[u8]) -> Option<u32> {
        self.by_text.get(&self.texts, text)
    }

    /// The bytes `id` stands for; none for an id outside the vocabulary.
    #[inline]
    pub fn piece(&self, id: u32) -> &[u8] {
        if (id as usize) < self.len() { self.pieces.get(id as usize) } else { &[] }
    }

    pub fn texts(&self) -> &Arena {
        &self.texts
    }

    pub fn pieces(&self) -> &Arena {
        &self.pieces
    }

    pub fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    pub fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(slot) = self.kinds.get_mut(id as usize) {
            *slot = kind;
        }
    }
}

/// The byte that a token text of the form `<0x41>` names.
pub(crate) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if hex { u8::from_str_radix(digits, 16).ok() } else { None }
}
