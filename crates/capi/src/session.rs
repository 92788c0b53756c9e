//! Sessions: a text's place in a model's KV cache, and the calls that run the model step by step.

use crate::call::{Failure, call, lock};
use crate::memory::{Items, Out, Room};
use crate::model::Model;
use crate::types::*;
use crate::{convert, handle, memory};
use akunu::{Engine, Outputs, Sampler, Sequence, StepInput};
use std::ffi::c_char;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A session of a model.
pub(crate) struct Session {
    /// First, so that its place in the KV cache goes before it is counted out.
    pub state: Mutex<State>,
    pub model: Counted,
}

/// A model that knows of a session more.
pub(crate) struct Counted(Arc<Model>);

impl Counted {
    fn new(model: Arc<Model>) -> Self {
        model.sessions.fetch_add(1, Ordering::AcqRel);
        Self(model)
    }
}

impl std::ops::Deref for Counted {
    type Target = Model;
    fn deref(&self) -> &Model {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a session holds.
pub(crate) struct State {
    /// The first of `tokens`, at least; all of them, but the last of a generation.
    pub sequence: Sequence,
    pub tokens: Vec<u32>,
    /// Of the last generation.
    pub text: String,
    /// After the last token, where a low-level call computed them.
    pub logits: Vec<f32>,
    /// Tokens drawn since the last prefill.
    drawn: u64,
}

impl State {
    fn new(sequence: Sequence) -> Self {
        Self { sequence, tokens: Vec::new(), text: String::new(), logits: Vec::new(), drawn: 0 }
    }

    /// Forgets what is not also the beginning of `whole`, whose last token the sequence lacks then.
    pub fn keep_common(&mut self, whole: &[u32]) {
        let held = self.tokens.iter().zip(whole).take_while(|(a, b)| a == b).count();
        self.tokens.truncate(held);
        self.keep(held.min(whole.len().saturating_sub(1)));
    }

    /// Brings the sequence to at most `len` positions. Where a window has moved on it begins again.
    fn keep(&mut self, len: usize) {
        if self.sequence.len() > len && self.sequence.truncate(len).is_none() {
            self.sequence.clear();
        }
    }

    /// Feeds the tokens that the sequence lacks, and those after them.
    fn prefill(&mut self, engine: &mut Engine, tokens: &[u32]) -> Result<(), Failure> {
        let lacks = [&self.tokens[self.sequence.len().min(self.tokens.len())..], tokens].concat();
        self.logits.clear();
        let logits = engine.prefill(&mut self.sequence, &lacks)?;
        self.logits.extend_from_slice(logits);
        self.tokens.extend_from_slice(tokens);
        self.drawn = 0;
        Ok(())
    }

    fn decode(&mut self, engine: &mut Engine, token: u32) -> Result<(), Failure> {
        if self.sequence.len() < self.tokens.len() {
            let drawn = self.drawn;
            self.prefill(engine, &[])?;
            self.drawn = drawn;
        }
        self.logits.clear();
        let sequence = &mut self.sequence;
        engine.step(&mut [StepInput { sequence, tokens: &[token], outputs: Outputs::Last, prompt: false }])?;
        self.logits.extend_from_slice(engine.logits_of(0));
        self.tokens.push(token);
        Ok(())
    }
}

impl Session {
    /// Runs something on the model and the session, which nobody else uses meanwhile. However it ends, the sequence holds nothing
    /// that the tokens do not say.
    pub fn run<R>(&self, run: impl FnOnce(&mut Engine, &mut State) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut state = lock("session", &self.state)?;
        let state = &mut *state;
        self.model.run(|engine| {
            let done = run(engine, state);
            state.keep(state.tokens.len());
            done
        })
    }
}

/// Makes an empty session. It keeps its model, whose handle may be freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_create(model: akunu_model, session: *mut akunu_session) -> akunu_status {
    // SAFETY: the caller's promise.
    let session = unsafe { Out::new("the session", session) };
    call(|| {
        session.check()?;
        let model = handle::get(model)?;
        let made = model.run(|engine| {
            let state = Mutex::new(State::new(engine.sequence()));
            Ok(Session { state, model: Counted::new(model.clone()) })
        })?;
        session.put(handle::insert(made)?)
    })
}

/// Frees a session and its place in the KV cache.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_session_free(session: akunu_session) -> akunu_status {
    call(|| handle::free(session))
}

/// Makes a session with the same past, which both share until they go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_fork(session: akunu_session, fork: *mut akunu_session) -> akunu_status {
    // SAFETY: the caller's promise.
    let fork = unsafe { Out::new("the session", fork) };
    call(|| {
        fork.check()?;
        let session = handle::get(session)?;
        let state = lock("session", &session.state)?;
        let forked = State {
            sequence: state.sequence.fork(),
            tokens: state.tokens.clone(),
            text: state.text.clone(),
            logits: state.logits.clone(),
            drawn: state.drawn,
        };
        let model = Counted::new(session.model.0.clone());
        fork.put(handle::insert(Session { state: Mutex::new(forked), model })?)
    })
}

/// Forgets everything.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_session_reset(session: akunu_session) -> akunu_status {
    akunu_session_rewind(session, 0)
}

/// Forgets all tokens after the first `length`.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_session_rewind(session: akunu_session, length: usize) -> akunu_status {
    call(|| {
        let session = handle::get(session)?;
        let mut state = lock("session", &session.state)?;
        if length > state.tokens.len() {
            let held = state.tokens.len();
            return Err(Failure::argument(format_args!("the session holds {held} tokens, not {length}")));
        }
        state.tokens.truncate(length);
        state.keep(length);
        state.logits.clear();
        state.drawn = 0;
        Ok(AKUNU_OK)
    })
}

/// The text of the last generation, with a NUL after it that its length does not count. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_text(
    session: akunu_session,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let text = unsafe { Room::new("the text", text, capacity, length) };
    call(|| text.put_text(&lock("session", &handle::get(session)?.state)?.text))
}

/// The tokens that the session holds, prompts and answers. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_tokens(
    session: akunu_session,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let tokens = unsafe { Room::new("the tokens", tokens, capacity, count) };
    call(|| tokens.put(&lock("session", &handle::get(session)?.state)?.tokens))
}

/// Feeds tokens of a prompt, many at once. The logits after the last are there then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_prefill(
    session: akunu_session,
    tokens: *const u32,
    count: usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let tokens = unsafe { Items::new("the tokens", tokens, count) };
    call(|| {
        let tokens = tokens.slice()?.to_vec();
        handle::get(session)?.run(|engine, state| state.prefill(engine, &tokens))?;
        Ok(AKUNU_OK)
    })
}

/// Feeds one token: a step of decoding. The logits after it are there then.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_session_decode(session: akunu_session, token: u32) -> akunu_status {
    call(|| {
        handle::get(session)?.run(|engine, state| state.decode(engine, token))?;
        Ok(AKUNU_OK)
    })
}

fn no_logits() -> Failure {
    Failure::argument("there are no logits: call akunu_session_prefill or akunu_session_decode before")
}

/// The logits after the last token that was fed. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_logits(
    session: akunu_session,
    logits: *mut f32,
    capacity: usize,
    count: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let room = unsafe { Room::new("the logits", logits, capacity, count) };
    call(|| {
        let session = handle::get(session)?;
        let state = lock("session", &session.state)?;
        if state.logits.is_empty() { Err(no_logits()) } else { room.put(&state.logits) }
    })
}

/// Chooses a token from these logits as `akunu_session_generate` would: with the same options, tokens that are sampled and decoded
/// are those that it gives. It does not feed the token. A grammar and what ends a text do not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_sample(
    session: akunu_session,
    options: *const akunu_generate_options,
    token: *mut u32,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, token) =
            unsafe { (memory::read("the generate options", options)?, Out::new("the token", token)) };
        token.check()?;
        let session = handle::get(session)?;
        let mut state = lock("session", &session.state)?;
        if state.logits.is_empty() {
            return Err(no_logits());
        }
        let sampler = Sampler::new(convert::sampling(&options)?).with_tokenizer(session.model.tokenizer().ok());
        let chosen = sampler.starting_at(state.drawn).sample(&state.logits, &state.tokens);
        state.drawn += 1;
        token.put(chosen)
    })
}
