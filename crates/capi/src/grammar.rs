//! Grammars: the form that a text must have, compiled for a model's vocabulary.

use crate::call::{Failure, call, lock};
use crate::handle;
use crate::memory::{Out, Text};
use crate::model::Model;
use crate::types::*;
use akunu::{Grammar, Matcher};
use std::ffi::c_char;
use std::sync::{Arc, Mutex};

/// A grammar at the beginning of a text, and the model whose tokens it knows.
pub(crate) struct CompiledGrammar {
    model: Arc<Model>,
    matcher: Mutex<Matcher>,
}

impl CompiledGrammar {
    /// A copy for one text of `model`.
    pub fn matcher(&self, model: &Model) -> Result<Matcher, Failure> {
        if !std::ptr::eq(&*self.model, model) {
            return Err(Failure::argument("the grammar was compiled for another model"));
        }
        Ok(lock("grammar", &self.matcher)?.clone())
    }
}

/// Compiles a grammar of kind `AKUNU_GRAMMAR_*` for a model. It may be used for any number of texts, and from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_grammar_compile(
    model: akunu_model,
    kind: u32,
    source: *const c_char,
    length: usize,
    grammar: *mut akunu_grammar,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (source, grammar) = unsafe { (Text::new("the grammar", source, length), Out::new("the handle", grammar)) };
    call(|| {
        grammar.check()?;
        let model = handle::get(model)?;
        let text = || source.str().map(str::to_owned);
        let asked = match kind {
            AKUNU_GRAMMAR_JSON => Grammar::Json,
            AKUNU_GRAMMAR_JSON_SCHEMA => Grammar::JsonSchema(text()?),
            AKUNU_GRAMMAR_REGEX => Grammar::Regex(text()?),
            AKUNU_GRAMMAR_LARK => Grammar::Lark(text()?),
            AKUNU_GRAMMAR_GBNF => Grammar::Gbnf(text()?),
            other => return Err(Failure::argument(format_args!("{other} is no kind of grammar"))),
        };
        let matcher = model.grammars()?.compile(&asked).map_err(|error| Failure::new(AKUNU_ERROR_GRAMMAR, error))?;
        grammar.put(handle::insert(CompiledGrammar { model, matcher: Mutex::new(matcher) })?)
    })
}

/// Frees a grammar.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_grammar_free(grammar: akunu_grammar) -> akunu_status {
    call(|| handle::free(grammar))
}
