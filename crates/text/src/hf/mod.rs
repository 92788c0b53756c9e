//! Tokenizers from HF's `tokenizer.json` and `tokenizer_config.json`.

mod decoder;
mod file;
mod model;
mod normalizer;
mod pre_tokenizer;
mod processor;

use akunu_limits::{Limits, over};
use serde_json::Value;

use crate::added::{Added, AddedTokens};
use crate::budget::Budget;
use crate::error::{Error, excerpt};
use crate::normalize::normalize;
use crate::roles;
use crate::tokenizer::{Inner, Roles, Tokenizer};
use crate::vocab::{Entry, TokenKind, Vocab, byte_token};

use decoder::Decoder;
use file::{AddedEntry, TokenizerFile};

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const CONFIG: &str = "tokenizer_config.json";

/// The most normalizers, and the most pre-tokenizers, that a file may list: words go through them by recursion.
const MAX_STEPS: usize = 64;

impl Tokenizer {
    /// Builds the tokenizer that `tokenizer.json` describes. `tokenizer_config.json` adds which tokens are BOS and EOS.
    pub fn from_tokenizer_json(json: &[u8], tokenizer_config: Option<&[u8]>) -> Result<Self, Error> {
        Self::from_tokenizer_json_within(json, tokenizer_config, Limits::default())
    }

    /// As [`Self::from_tokenizer_json`], within other limits.
    pub fn from_tokenizer_json_within(
        json: &[u8],
        tokenizer_config: Option<&[u8]>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let file: TokenizerFile<'_> = serde_json::from_slice(json).map_err(|e| invalid(TOKENIZER, &e))?;
        let config: Value = match tokenizer_config {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|e| invalid(CONFIG, &e))?,
            None => Value::Null,
        };
        build(&file, &config, limits).map(Tokenizer::from_inner)
    }
}

fn invalid(file: &'static str, error: &serde_json::Error) -> Error {
    // Data errors quote values, which may be as long as the file.
    Error::InvalidJson { file, reason: excerpt(&error.to_string()) }
}

pub(crate) fn malformed(reason: impl Into<String>) -> Error {
    Error::InvalidJson { file: TOKENIZER, reason: reason.into() }
}

/// The `type` of a component.
pub(crate) fn kind(value: &Value) -> Result<&str, Error> {
    value.get("type").and_then(Value::as_str).ok_or_else(|| malformed("a component has no type"))
}

fn build(file: &TokenizerFile<'_>, config: &Value, limits: Limits) -> Result<Inner, Error> {
    let mut normalizers = Vec::new();
    let mut byte_level = normalizer::read(file.normalizer.as_ref(), &mut normalizers)?;
    let mut steps = Vec::new();
    byte_level |= pre_tokenizer::read(file.pre_tokenizer.as_ref(), &mut steps)?;
    let decoder = Decoder::read(file.decoder.as_ref())?;
    let vocab = vocab(file, &decoder, &limits)?;
    let model = model::build(&file.model, &vocab, byte_level)?;

    let mut roles = read_roles(file, config, &vocab)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    processor::read(file.post_processor.as_ref(), vocab.len(), &mut before, &mut after)?;
    wish(config, "add_bos_token", roles.bos, &mut before, true);
    wish(config, "add_eos_token", roles.eos, &mut after, false);
    let between = processor::between(file.post_processor.as_ref(), vocab.len())?.unwrap_or_else(|| after.clone());

    let budget = Budget::new(file.added_tokens.iter().map(|token| token.content.len()).sum(), &limits);
    let mut raw = Vec::new();
    let mut normalized = Vec::new();
    for token in &file.added_tokens {
        let AddedEntry { id, content, special, lstrip, rstrip, single_word, normalized: after_normalizing } = token;
        let text = if *after_normalizing {
            let text = normalize(&normalizers, content, &budget);
            text.map_err(|spent| spent.on("its added tokens", &limits))?.into_owned()
        } else {
            content.to_string()
        };
        let added = Added {
            id: *id as u32, // Checked in `vocab`.
            text,
            special: *special,
            lstrip: *lstrip,
            rstrip: *rstrip,
            single_word: *single_word,
        };
        if *after_normalizing { normalized.push(added) } else { raw.push(added) }
    }

    let mut vocab = vocab;
    roles.end_of_generation = roles::end_of_generation(&mut vocab, roles.eos.into_iter());
    Ok(Inner {
        vocab,
        added: AddedTokens::new(raw, &limits)?,
        added_normalized: AddedTokens::new(normalized, &limits)?,
        normalizers,
        steps,
        model,
        before,
        between,
        after,
        roles,
        decode: decoder.decode(),
        limits,
    })
}

/// Every id with its token. Ids without one are allowed, as vocabularies are padded, but not many more than tokens.
fn vocab(file: &TokenizerFile<'_>, decoder: &Decoder, limits: &Limits) -> Result<Vocab, Error> {
    let base = file.model.vocab.len();
    let count = base + file.added_tokens.len();
    let highest =
        file.model.vocab.ids().chain(file.added_tokens.iter().map(|t| t.id)).max().ok_or(Error::EmptyVocabulary)?;
    if highest >= 2 * count as u64 + (1 << 16) {
        return Err(malformed(format!("it has {count} tokens but an id {highest}")));
    }
    if highest >= limits.tokens.min(1 << 30) {
        return Err(Error::TooManyTokens { count: highest as usize + 1, over: over!(limits, tokens) });
    }
    let mut tokens: Vec<Option<Entry<'_>>> = (0..=highest).map(|_| None).collect();
    let fallback = file.model.byte_fallback;
    for (text, id) in file.model.vocab.entries() {
        let kind = if fallback && byte_token(text).is_some() { TokenKind::Byte } else { TokenKind::Normal };
        if let Some(first) = tokens[id as usize].replace(Entry { text, kind }) {
            return Err(malformed(format!("token {id} is both {:?} and {:?}", excerpt(first.text), excerpt(text))));
        }
    }
    for token in &file.added_tokens {
        let kind = if token.special { TokenKind::Control } else { TokenKind::UserDefined };
        let text = &*token.content;
        if let Some(first) = tokens[token.id as usize].replace(Entry { text, kind })
            && first.text != text
        {
            return Err(malformed(format!(
                "token {} is both {:?} and {:?}",
                token.id,
                excerpt(first.text),
                excerpt(text)
            )));
        }
    }
    let budget = Budget::new(tokens.iter().flatten().map(|entry| entry.text.len()).sum(), limits);
    let holes = tokens.into_iter().map(|t| t.unwrap_or(Entry { text: "", kind: TokenKind::Unused }));
    Vocab::new(holes, limits, |_, entry| {
        decoder.piece(entry, &budget).map_err(|spent| spent.on("its tokens' texts", limits))
    })
}

fn read_roles(file: &TokenizerFile<'_>, config: &Value, vocab: &Vocab) -> Result<Roles, Error> {
    let named = |key: &str| {
        let value = config.get(key)?;
        let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
        vocab.id(text.as_bytes())
    };
    let unknown = match (&file.model.unk_token, file.model.unk_id) {
        (Some(text), _) => vocab.id(text.as_bytes()),
        (None, Some(id)) if (id as usize) < vocab.len() => Some(id as u32),
        (None, Some(id)) => return Err(Error::SpecialIdOutOfRange { what: "unknown", id, count: vocab.len() }),
        (None, None) => named("unk_token"),
    };
    Ok(Roles {
        bos: named("bos_token").or_else(|| named("cls_token")),
        eos: named("eos_token").or_else(|| named("sep_token")),
        unknown,
        pad: named("pad_token"),
        mask: named("mask_token"),
        end_of_generation: Vec::new(),
    })
}

/// `add_bos_token` and `add_eos_token` overrule the post-processor, as they do in transformers.
fn wish(config: &Value, key: &str, id: Option<u32>, around: &mut Vec<u32>, front: bool) {
    let (Some(wanted), Some(id)) = (config.get(key).and_then(Value::as_bool), id) else { return };
    let present = around.contains(&id);
    if wanted && !present {
        around.insert(if front { 0 } else { around.len() }, id);
    } else if !wanted && present {
        around.retain(|&other| other != id);
    }
}
