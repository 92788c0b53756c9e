//! Grammars of every kind, and the first tokens of a text that keeps to them.

use std::sync::LazyLock;

use akunu_text::{Error, Grammar, Grammars, Tokenizer};

use crate::{halves, is_a_sentence};

/// A grammar as llama.cpp writes them, and what chooses the tokens.
pub fn gbnf(bytes: &[u8]) {
    run(bytes, Grammar::Gbnf);
}

/// A Lark grammar, and what chooses the tokens.
pub fn lark(bytes: &[u8]) {
    run(bytes, Grammar::Lark);
}

/// A JSON schema, and what chooses the tokens.
pub fn json_schema(bytes: &[u8]) {
    run(bytes, Grammar::JsonSchema);
}

/// A regular expression, and what chooses the tokens.
pub fn regex(bytes: &[u8]) {
    run(bytes, Grammar::Regex);
}

/// Byte-level, with a few merges and special tokens: masks over it cost microseconds.
static GRAMMARS: LazyLock<Grammars> = LazyLock::new(|| {
    let json = include_bytes!("../corpus/tokenizer_json/byte_level.json");
    let tokenizer = Tokenizer::from_tokenizer_json(json, None).expect("it is a seed of ours");
    Grammars::new(&tokenizer, tokenizer.vocab_size()).expect("a small vocabulary fits")
});

fn run(bytes: &[u8], grammar: fn(String) -> Grammar) {
    let (source, choices) = halves(bytes);
    let Ok(source) = std::str::from_utf8(source) else { return };
    if let Err(error) = walk(&grammar(source.to_owned()), choices.unwrap_or(b"0123456789")) {
        is_a_sentence(&error);
    }
}

/// Takes a token for each of at most 16 choices, among those that are allowed.
fn walk(grammar: &Grammar, choices: &[u8]) -> Result<(), Error> {
    let mut matcher = GRAMMARS.compile(grammar)?;
    for choice in choices.iter().take(16) {
        let words = matcher.allowed()?;
        let allowed: Vec<u32> =
            (0..32 * words.len() as u32).filter(|token| words[*token as usize / 32] >> (token % 32) & 1 == 1).collect();
        let Some(&token) = allowed.get(usize::from(*choice) % allowed.len().max(1)) else { return Ok(()) };
        assert!(matcher.allows(token), "the mask has token {token}");
        matcher.accept(token)?;
        matcher.forced();
        matcher.may_end();
        if matcher.is_finished() {
            return Ok(());
        }
    }
    Ok(())
}
