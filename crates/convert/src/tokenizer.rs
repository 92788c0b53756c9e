//! `tokenizer.json` to the `tokenizer.ggml.*` keys of GGUF.
//!
//! Three kinds can be said in GGUF: byte-level BPE, whose splitting rule GGUF names, BPE that came out of
//! SentencePiece, whose merges become scores, and WordPiece. Before anything is written, both tokenizers are built and compared.

use std::collections::HashMap;

use akunu_formats::ModelFile;
use akunu_formats::gguf::{Array, Writer};
use akunu_text::{
    ChatTemplate, Encode, GPT2_PATTERN, GgufVocab, Ranked, SpeechMarks, TokenKind, Tokenizer, pre_tokenizer_name,
};
use serde_json::Value;

use crate::Error;

/// A vocabulary as GGUF says it.
#[derive(Default)]
pub struct Vocabulary {
    model: &'static str,
    pre: &'static str,
    tokens: Vec<String>,
    types: Vec<i32>,
    /// Empty for byte-level vocabularies.
    scores: Vec<f32>,
    merges: Vec<String>,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    pad: Option<u32>,
    /// Before and after a text, in encoders.
    cls: Option<u32>,
    separator: Option<u32>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    add_bos: bool,
    add_space_prefix: Option<bool>,
    chat_template: Option<String>,
}

/// What both tokenizers must read alike: letters of several scripts, digits, spaces, punctuation, contractions.
const PROBE: &str = "Hello world! It's 12345 o'clock,  I'LL go\n\n\tnaïve café — ÄÖÜ 東京 привет 🚀🦙 \
                     x==y && foo_bar(1.5e-3);   \r\n  'tis …trailing  ";

/// The vocabulary of a safetensors directory, for a model of `vocab` embeddings; `None` where it has none. `framed`: what
/// stands around a text matters, which GGUF must be able to say.
pub fn read(file: &ModelFile, vocab: usize, framed: bool) -> Result<Option<Vocabulary>, Error> {
    let not_supported = |what: &str| Error::NotSupported { path: file.path().into(), what: what.into() };
    let Some(json) = file.side_file("tokenizer.json") else {
        return match file.side_file("tokenizer.model") {
            Some(_) => Err(not_supported("tokenizer.model without tokenizer.json")),
            None => Ok(None),
        };
    };
    let json: Value = serde_json::from_slice(&json?)
        .map_err(|e| akunu_text::Error::InvalidJson { file: "tokenizer.json", reason: e.to_string() })?;
    let tokenizer = Tokenizer::from_model_file(file)?;
    if tokenizer.vocab_size() > vocab {
        return Err(not_supported("a tokenizer with more tokens than the model has embeddings"));
    }
    let model = &json["model"];
    let word_piece = model["type"] == "WordPiece";
    if !word_piece && model["type"] != "BPE" {
        return Err(not_supported(&format!("a tokenizer of type {} in a GGUF file", model["type"])));
    }
    let mut vocabulary = Vocabulary::of(&tokenizer, vocab);
    vocabulary.chat_template = ChatTemplate::from_model_file(file).ok().map(|t| t.source().to_owned());
    if word_piece {
        vocabulary.word_piece(&tokenizer, &json);
    } else if model["byte_fallback"] == true {
        vocabulary.model = "llama";
        vocabulary.pre = "default";
        vocabulary.scores = scores(&vocabulary.tokens, model);
        vocabulary.add_space_prefix = Some(adds_space(&json));
    } else {
        let rule = rule(&json).ok_or_else(|| not_supported("this tokenizer's splitting rule in a GGUF file"))?;
        vocabulary.model = "gpt2";
        vocabulary.pre = rule;
        vocabulary.merges = merges(model).map(|(left, right)| format!("{left} {right}")).collect();
    }
    let written = Tokenizer::from_gguf_within(vocabulary.as_gguf(), file.limits())?;
    let read = |t: &Tokenizer| t.encode(PROBE, Encode { add_special: framed, parse_special: true });
    if read(&written)? != read(&tokenizer)? {
        return Err(not_supported("this tokenizer: in a GGUF file it would read text differently"));
    }
    Ok(Some(vocabulary))
}

/// The vocabulary of a model of speech that ranks its tokens and does not name those that are no words.
pub fn of_speech(file: &ModelFile, vocab: usize) -> Result<Vocabulary, Error> {
    let not_supported = |what: &str| Error::NotSupported { path: file.path().into(), what: what.into() };
    let ranked = Ranked::new(file.tokens())?.within(file.limits());
    let marks = SpeechMarks::of_size(vocab).ok_or_else(|| not_supported(&format!("a vocabulary of {vocab} tokens")))?;
    let (mut tokens, merges) = ranked.as_byte_pairs();
    tokens.truncate(marks.end as usize);
    let mut types: Vec<i32> = tokens.iter().map(|t| if t.is_empty() { 5 } else { 1 }).collect();
    for (id, token) in tokens.iter_mut().enumerate().filter(|(_, t)| t.is_empty()) {
        *token = format!("[PAD{id}]");
    }
    for id in tokens.len()..vocab {
        tokens.push(marks.mark(id as u32).unwrap_or_else(|| format!("[PAD{id}]")));
        types.push(3);
    }
    let end = Some(marks.end);
    let vocabulary =
        Vocabulary { model: "gpt2", pre: "gpt-2", tokens, types, merges, bos: end, eos: end, ..Vocabulary::default() };
    if Tokenizer::from_gguf_within(vocabulary.as_gguf(), file.limits())?.encode(PROBE, Encode::default())?
        != ranked.encode(PROBE)?
    {
        return Err(not_supported("this vocabulary: in a GGUF file it would read text differently"));
    }
    Ok(vocabulary)
}

/// Pairs of tokens, best first; either list of pairs or of strings with a space between.
fn merges(model: &Value) -> impl Iterator<Item = (&str, &str)> {
    model["merges"].as_array().into_iter().flatten().filter_map(|merge| match merge {
        Value::String(text) => text.split_once(' '),
        pair => Some((pair[0].as_str()?, pair[1].as_str()?)),
    })
}

/// SentencePiece's scores: the earlier a merge makes a piece, the higher. What no merge makes is a character.
fn scores(tokens: &[String], model: &Value) -> Vec<f32> {
    let mut ranks: HashMap<String, usize> = HashMap::new();
    for (rank, (left, right)) in merges(model).enumerate() {
        ranks.entry(format!("{left}{right}")).or_insert(rank);
    }
    tokens.iter().map(|t| ranks.get(t).map_or(0.0, |&rank| -1.0 - rank as f32)).collect()
}

/// Steps of a `Sequence`, or the one step there is.
fn steps<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match value.get("type").and_then(Value::as_str) {
        None => Vec::new(),
        Some("Sequence") => value[list].as_array().into_iter().flatten().collect(),
        Some(_) => vec![value],
    }
}

/// GGUF's name of the way a byte-level tokenizer splits text.
fn rule(json: &Value) -> Option<&'static str> {
    let mut patterns = Vec::new();
    let mut byte_level = false;
    for step in steps(&json["pre_tokenizer"], "pretokenizers") {
        match step["type"].as_str()? {
            "Split" if step["behavior"] == "Isolated" => patterns.push(step["pattern"]["Regex"].as_str()?),
            "Digits" if step["individual_digits"] == true => patterns.push(r"\p{N}"),
            "ByteLevel" if step["add_prefix_space"] != true => {
                byte_level = true;
                if step["use_regex"] != false {
                    patterns.push(GPT2_PATTERN);
                }
            }
            _ => return None,
        }
    }
    let normalizers = steps(&json["normalizer"], "normalizers");
    let nfc = normalizers.iter().any(|n| n["type"] == "NFC");
    let ignore_merges = json["model"]["ignore_merges"] == true;
    pre_tokenizer_name(&patterns, ignore_merges, nfc).filter(|_| byte_level)
}

/// Whether a space is put before the text.
fn adds_space(json: &Value) -> bool {
    let prepends = steps(&json["normalizer"], "normalizers").iter().any(|n| n["type"] == "Prepend");
    let metaspace =
        |p: &&Value| p["type"] == "Metaspace" && p["prepend_scheme"] != "never" && p["add_prefix_space"] != false;
    prepends || steps(&json["pre_tokenizer"], "pretokenizers").iter().any(metaspace)
}

impl Vocabulary {
    /// Tokens and roles; the ids that the tokenizer leaves out become unused tokens.
    fn of(tokenizer: &Tokenizer, vocab: usize) -> Self {
        let ids = 0..vocab as u32;
        let text = |id| tokenizer.token_text(id).filter(|_| (id as usize) < tokenizer.vocab_size());
        let kind = |id| match text(id).map(|_| tokenizer.kind(id)) {
            Some(TokenKind::Normal) => 1,
            Some(TokenKind::Unknown) => 2,
            Some(TokenKind::Control) => 3,
            Some(TokenKind::UserDefined) => 4,
            Some(TokenKind::Byte) => 6,
            Some(TokenKind::Unused) | None => 5,
        };
        Self {
            tokens: ids.clone().map(|id| text(id).map_or_else(|| format!("[PAD{id}]"), str::to_owned)).collect(),
            types: ids.map(kind).collect(),
            bos: tokenizer.bos(),
            eos: tokenizer.eos(),
            unknown: tokenizer.unknown(),
            pad: tokenizer.pad(),
            add_bos: tokenizer.adds_bos(),
            ..Self::default()
        }
    }

    /// GGUF marks where words begin, `tokenizer.json` where they go on.
    fn word_piece(&mut self, tokenizer: &Tokenizer, json: &Value) {
        self.model = "bert";
        self.pre = "default";
        for (token, _) in self.tokens.iter_mut().zip(&self.types).filter(|(_, kind)| **kind == 1) {
            *token = token.strip_prefix("##").map_or_else(|| format!("▁{token}"), str::to_owned);
        }
        let (before, after) = tokenizer.frame();
        (self.cls, self.separator) = (before.first().copied(), after.first().copied());
        self.bos = self.bos.or(self.cls);
        self.eos = self.eos.or(self.separator);
        self.lowercase = json["normalizer"]["lowercase"].as_bool();
        self.strip_accents = json["normalizer"]["strip_accents"].as_bool();
    }

    fn as_gguf(&self) -> GgufVocab<'_> {
        GgufVocab {
            model: self.model,
            pre: Some(self.pre),
            tokens: self.tokens.iter().map(String::as_str).collect(),
            scores: (!self.scores.is_empty()).then(|| self.scores.clone()),
            types: Some(self.types.iter().map(|&t| t.into()).collect()),
            merges: self.merges.iter().map(String::as_str).collect(),
            bos: self.bos,
            eos: self.eos,
            unknown: self.unknown,
            pad: self.pad,
            cls: self.cls,
            separator: self.separator,
            lowercase: self.lowercase,
            strip_accents: self.strip_accents,
            add_bos: Some(self.add_bos),
            add_space_prefix: self.add_space_prefix,
            ..GgufVocab::default()
        }
    }

    pub fn write(&self, writer: &mut Writer) -> Result<(), Error> {
        writer.set("tokenizer.ggml.model", self.model)?;
        writer.set("tokenizer.ggml.pre", self.pre)?;
        writer.set("tokenizer.ggml.tokens", Array::from_strings(&self.tokens))?;
        writer.set("tokenizer.ggml.token_type", Array::from_i32s(self.types.iter().copied()))?;
        if !self.scores.is_empty() {
            writer.set("tokenizer.ggml.scores", Array::from_f32s(self.scores.iter().copied()))?;
        }
        if !self.merges.is_empty() {
            writer.set("tokenizer.ggml.merges", Array::from_strings(&self.merges))?;
        }
        for (key, id) in [
            ("tokenizer.ggml.bos_token_id", self.bos),
            ("tokenizer.ggml.eos_token_id", self.eos),
            ("tokenizer.ggml.unknown_token_id", self.unknown),
            ("tokenizer.ggml.padding_token_id", self.pad),
            ("tokenizer.ggml.cls_token_id", self.cls),
            // The misspelling is the key's name.
            ("tokenizer.ggml.seperator_token_id", self.separator),
        ] {
            if let Some(id) = id {
                writer.set(key, id)?;
            }
        }
        writer.set("tokenizer.ggml.add_bos_token", self.add_bos)?;
        for (key, value) in [
            ("tokenizer.ggml.normalizer.lowercase", self.lowercase),
            ("tokenizer.ggml.normalizer.strip_accents", self.strip_accents),
        ] {
            if let Some(value) = value {
                writer.set(key, value)?;
            }
        }
        if let Some(prefix) = self.add_space_prefix {
            writer.set("tokenizer.ggml.add_space_prefix", prefix)?;
        }
        if let Some(template) = &self.chat_template {
            writer.set("tokenizer.chat_template", template.as_str())?;
        }
        Ok(())
    }
}
