//! Which tokens may come next. Matching is `llguidance`'s; here it learns our vocabularies.

use super::{Grammar, STYLE, WHITE_SPACE, gbnf, limits};
use crate::error::line;
use crate::{Encode, Error, Tokenizer, guard};
use akunu_limits::{Limits, Over, over};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{Matcher as Inner, ParserFactory};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Tokens longer than this are never part of a constrained text: the trie's nodes count their depth in 10 bits.
const LONGEST_TOKEN: usize = 512;
/// The trie counts nodes in 22 bits.
const MOST_BYTES: usize = 4_000_000;
/// The trie goes past all tokens of the same bytes to add another.
const MOST_ALIKE: usize = 1000;

/// Compiles grammars for one vocabulary.
pub struct Grammars {
    factory: ParserFactory,
    limits: Limits,
}

struct Vocabulary {
    trie: TokTrie,
    tokenizer: Tokenizer,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        if let Ok(text) = std::str::from_utf8(bytes)
            && let Ok(ids) = self.tokenizer.encode(text, Encode { add_special: false, parse_special: false })
        {
            // Some vocabularies put a space before a text: then what came out is not what went in.
            if ids.iter().flat_map(|id| self.tokenizer.token_bytes(*id)).eq(bytes) {
                return ids;
            }
        }
        self.trie.greedy_tokenize(bytes)
    }
}

impl Grammars {
    /// For the tokens of a model whose logits have `vocab` values, within the tokenizer's limits.
    pub fn new(tokenizer: &Tokenizer, vocab: usize) -> Result<Self, Error> {
        let ends: Vec<u32> =
            tokenizer.end_of_generation().iter().copied().filter(|id| (*id as usize) < vocab).collect();
        let mut words: Vec<Vec<u8>> = (0..vocab as u32)
            .map(|id| {
                let bytes = tokenizer.token_bytes(id);
                let word = match tokenizer.is_special(id) {
                    // Never a part of text, only by name.
                    true => {
                        [&[TokTrie::SPECIAL_TOKEN_MARKER], tokenizer.token_text(id).unwrap_or("").as_bytes()].concat()
                    }
                    false => bytes.to_vec(),
                };
                if word.len() > LONGEST_TOKEN { Vec::new() } else { word }
            })
            .collect();
        let bytes: usize = words.iter().map(Vec::len).sum();
        if bytes > MOST_BYTES {
            let reason = format!("the vocabulary has {bytes} bytes, and at most {MOST_BYTES} can be constrained");
            return Err(Error::Grammar(reason));
        }
        let mut alike: HashMap<&[u8], usize> = HashMap::with_capacity(words.len());
        for word in words.iter().filter(|word| !word.is_empty()) {
            let same = alike.entry(word).or_default();
            *same += 1;
            if *same > MOST_ALIKE {
                let reason = format!("more than {MOST_ALIKE} tokens of the vocabulary are the same bytes");
                return Err(Error::Grammar(reason));
            }
        }
        // A vocabulary without an end gets one that no model chooses.
        if ends.is_empty() {
            words.push(b"\xff<end>".to_vec());
        }
        let info = TokRxInfo::new(words.len() as u32, ends.first().copied().unwrap_or(words.len() as u32 - 1));
        let factory = guard::on_large_stack(|| {
            let mut trie = TokTrie::from(&info, &words);
            if !ends.is_empty() {
                trie = trie.with_eos_tokens(&ends);
            }
            let env: TokEnv = Arc::new(Vocabulary { trie, tokenizer: tokenizer.clone() });
            let caps = InferenceCapabilities { ff_tokens: true, ..Default::default() };
            let slices = llguidance::earley::SlicedBiasComputer::general_slices();
            ParserFactory::new(&env, caps, &slices).map_err(|e| failed(&e.to_string(), &tokenizer.limits()))
        });
        let mut factory =
            factory.unwrap_or_else(|| Err(Error::Grammar("its vocabulary does not fit into a trie".to_owned())))?;
        factory.quiet();
        // Half of what there is, because the library adds to counts.
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX).min(usize::MAX / 2);
        let limits = tokenizer.limits();
        let within = factory.limits_mut();
        within.verbose_errors = false;
        within.initial_lexer_fuel = limits.grammar_compile_steps;
        within.step_lexer_fuel = limits.grammar_token_steps;
        // An item of the parser costs about four steps of the lexer.
        within.step_max_items = count(limits.grammar_token_steps / 4);
        within.max_lexer_states = count(limits.grammar_states);
        Ok(Self { factory, limits })
    }

    pub fn compile(&self, grammar: &Grammar) -> Result<Matcher, Error> {
        guard::on_large_stack(|| self.compile_here(grammar)).unwrap_or_else(|| Err(Error::Grammar(NO_SENSE.to_owned())))
    }

    fn compile_here(&self, grammar: &Grammar) -> Result<Matcher, Error> {
        limits::check(grammar, &self.limits)?;
        let grammar = match grammar {
            Grammar::Json => json(serde_json::json!({ "type": "object" })),
            Grammar::JsonSchema(text) => json(limits::schema(text).map_err(Error::Grammar)?),
            Grammar::Regex(text) => TopLevelGrammar::from_regex(text),
            Grammar::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Grammar::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text).map_err(Error::Grammar)?),
        };
        let inner = Inner::new(self.factory.create_parser(grammar));
        match inner.get_error() {
            Some(error) => Err(failed(&error, &self.limits)),
            None => Ok(Matcher { inner, mask: None, limits: self.limits }),
        }
    }
}

const NO_SENSE: &str = "the library that matches it could not make sense of it";

fn json(schema: serde_json::Value) -> TopLevelGrammar {
    TopLevelGrammar::from_json_schema(styled(schema))
}

/// A schema that says how it is to be written.
pub fn styled(mut schema: serde_json::Value) -> serde_json::Value {
    if let Some(object) = schema.as_object_mut().filter(|o| !o.contains_key(STYLE)) {
        object.insert(STYLE.to_owned(), serde_json::json!({ "whitespace_pattern": WHITE_SPACE }));
    }
    schema
}

/// What the library says where a grammar is over a limit of ours.
fn over(text: &str, limits: &Limits) -> Option<Over> {
    let says = |sentences: &[&str]| sentences.iter().any(|sentence| text.contains(sentence));
    if says(&["(grammar) too big", "fuel exhausted", "lexer precomputation failed"]) {
        return Some(over!(limits, grammar_compile_steps));
    }
    if says(&["too many expressions", "Too many items"]) {
        return Some(over!(limits, grammar_token_steps));
    }
    says(&["too many states"]).then(|| over!(limits, grammar_states))
}

/// An error of the library's.
fn failed(text: &str, limits: &Limits) -> Error {
    match over(text, limits) {
        Some(over) => Error::GrammarOver { what: "matching it takes too much work".to_owned(), over },
        None => Error::Grammar(sentence(text)),
    }
}

/// The first line of an error, and the reason where a drawing of the place comes between.
fn sentence(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("is not valid");
    if first.starts_with("panic") {
        // It counts symbols in 16 bits.
        let many = first.contains("symbols.len()");
        return if many { "it has too many parts" } else { NO_SENSE }.to_owned();
    }
    if first.contains("NoExtensionBias") {
        return "no token of the vocabulary can go on with it".to_owned();
    }
    let sentence = match lines.find_map(|line| line.strip_prefix("error: ")) {
        Some(reason) => format!("{first} {reason}"),
        None => first.to_owned(),
    };
    line(&sentence, LONGEST_SENTENCE)
}

/// Characters of an error that are shown.
const LONGEST_SENTENCE: usize = 300;

/// A text on its way through a grammar. A copy goes its own way from there, and knows what the other has computed.
#[derive(Clone)]
pub struct Matcher {
    inner: Inner,
    mask: Option<SimpleVob>,
    limits: Limits,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").finish_non_exhaustive()
    }
}

impl Matcher {
    /// A bit for every token that may come next. Where the grammar is complete, only the end may.
    pub fn allowed(&mut self) -> Result<&[u32], Error> {
        if self.mask.is_none() {
            let mask = self.inner.compute_mask_or_eos().map_err(|e| failed(&e.to_string(), &self.limits))?;
            self.mask = Some(mask);
        }
        Ok(self.mask.as_ref().map(SimpleVob::as_slice).unwrap_or_default())
    }

    /// Whether a token may come next: [`Self::allowed`] has its bit, without computing all the others.
    pub fn allows(&mut self, token: u32) -> bool {
        if let Some(mask) = &self.mask {
            return mask.as_slice().get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
        }
        match self.inner.compute_ff_tokens().first() {
            Some(&forced) => token == forced,
            None => self.inner.validate_tokens(&[token]).is_ok_and(|valid| valid == 1),
        }
    }

    /// Goes on with a token that was allowed.
    pub fn accept(&mut self, token: u32) -> Result<(), Error> {
        self.mask = None;
        self.inner.consume_token(token).map_err(|e| failed(&e.to_string(), &self.limits))
    }

    /// Tokens that must come now: there is no other way. They are accepted.
    pub fn forced(&mut self) -> Vec<u32> {
        let tokens = self.inner.consume_ff_tokens();
        if !tokens.is_empty() {
            self.mask = None;
        }
        tokens
    }

    /// Whether nothing more can come.
    pub fn is_finished(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Whether the text could end here.
    pub fn may_end(&mut self) -> bool {
        self.inner.is_accepting().unwrap_or(false)
    }
}
