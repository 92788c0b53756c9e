//! Generating in a session: pieces to the caller as they come, and what the session holds afterwards.

use crate::call::{Failure, Outcome, call, callback, lock};
use crate::memory::{self, Items, Report, Text};
use crate::session::State;
use crate::types::*;
use crate::{convert, handle, session, text};
use akunu::{Encode, Engine, Finish, GenerateOptions, Piece, ReplyFormat, Thinking};
use std::ffi::{c_char, c_void};
use std::time::{Duration, Instant};

/// The caller's callback for pieces, and the text that they make.
pub(crate) struct Watcher {
    callback: akunu_piece_callback,
    user_data: *mut c_void,
    pub text: String,
    /// Those shown, for their text.
    shown: Vec<u8>,
}

impl Watcher {
    /// # Safety
    /// While this lives the callback may be called with these data.
    pub unsafe fn new(callback: akunu_piece_callback, user_data: *mut c_void) -> Self {
        Self { callback, user_data, text: String::new(), shown: Vec::new() }
    }

    /// Shows a piece; whether to go on.
    pub fn see(&mut self, piece: &Piece) -> bool {
        self.text.push_str(&piece.text);
        let Some(show) = self.callback else { return true };
        self.shown.clear();
        self.shown.extend_from_slice(piece.text.as_bytes());
        self.shown.push(0);
        let top = piece.logprobs.as_ref().map_or(&[][..], |l| &l.top);
        let top: Vec<akunu_logprob> = top.iter().map(|&(token, logprob)| akunu_logprob { token, logprob }).collect();
        let shown = akunu_piece {
            size: size_of::<akunu_piece>() as u32,
            token: piece.token,
            text: self.shown.as_ptr().cast(),
            length: piece.text.len(),
            top: top.as_ptr(),
            top_count: top.len(),
            logprob: piece.logprobs.as_ref().map_or(0.0, |l| l.chosen),
            reserved: 0,
        };
        // SAFETY: the caller's function with the caller's data; what it is shown lives until it returns.
        callback(|| unsafe { show(&raw const shown, self.user_data) }) == 0
    }

    /// Shows the text that was held back until the end.
    pub fn see_rest(&mut self, text: String, token: Option<u32>) -> bool {
        text.is_empty() || self.see(&Piece { token: token.unwrap_or(AKUNU_NO_TOKEN), text, logprobs: None })
    }
}

pub(crate) fn finish(finish: Finish) -> (u32, u32) {
    match finish {
        Finish::Stop => (AKUNU_FINISH_END, 0),
        Finish::StopString(index) => (AKUNU_FINISH_STOP_STRING, index as u32),
        Finish::Length => (AKUNU_FINISH_LENGTH, 0),
        Finish::Context => (AKUNU_FINISH_CONTEXT, 0),
    }
}

/// Continues `whole`, of which the session holds the beginning.
fn generate(
    engine: &mut Engine,
    state: &mut State,
    mut whole: Vec<u32>,
    options: GenerateOptions,
    draft: akunu_draft,
    watcher: &mut Watcher,
) -> Result<akunu_result, Failure> {
    let draft = if draft.id == 0 { None } else { Some(handle::get(draft)?) };
    let mut draft = draft.as_ref().map(|draft| lock("draft", &draft.0)).transpose()?;
    let (begun, reused, prompt) = (Instant::now(), state.sequence.len(), whole.len());
    state.logits.clear();
    let mut generation = match &mut draft {
        Some(draft) => engine.resume_drafted(&mut state.sequence, &whole, options, draft)?,
        None => engine.resume(&mut state.sequence, &whole, options)?,
    };
    let mut first_token = Duration::ZERO;
    let mut stopped = false;
    while !stopped && let Some(piece) = generation.next() {
        if first_token.is_zero() {
            first_token = begun.elapsed();
        }
        stopped = !watcher.see(&piece?);
    }
    let (reason, rest) = (generation.finish(), generation.rest());
    let (generated, shifts) = (generation.generated().to_vec(), generation.shifts().to_vec());
    stopped = stopped || !watcher.see_rest(rest, generated.last().copied());
    whole.extend_from_slice(&generated);
    for (keep, drop) in shifts {
        whole.drain(keep.min(whole.len())..(keep + drop).min(whole.len()));
    }
    state.tokens = whole;
    let (finish, stop_index) = match reason {
        Some(reason) if !stopped => finish(reason),
        _ => (AKUNU_FINISH_STOPPED, 0),
    };
    Ok(akunu_result {
        size: 0,
        finish,
        stop_index,
        prompt_tokens: prompt as u32,
        reused_tokens: reused as u32,
        generated_tokens: generated.len() as u32,
        first_token_seconds: first_token.as_secs_f64(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// What the three ways to generate have in common.
struct Run {
    options: akunu_generate_options,
    watcher: Watcher,
    report: Report<akunu_result>,
}

impl Run {
    /// # Safety
    /// The pointers are null or lead to what the header says.
    unsafe fn new(
        options: *const akunu_generate_options,
        on_piece: akunu_piece_callback,
        user_data: *mut c_void,
        result: *mut akunu_result,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let (options, watcher, report) = unsafe {
            let options = memory::read("the generate options", options)?;
            (options, Watcher::new(on_piece, user_data), Report::new("the result", result))
        };
        report.check()?;
        Ok(Self { options, watcher, report })
    }

    /// Generates after the text that `whole` makes of what the session holds.
    fn run(
        mut self,
        session: &session::Session,
        whole: impl FnOnce(&State, &mut GenerateOptions) -> Result<Vec<u32>, Failure>,
    ) -> Outcome {
        let mut options = convert::generate(&self.options, &session.model)?;
        let result = session.run(|engine, state| {
            let whole = whole(state, &mut options)?;
            state.keep_common(&whole);
            let result = generate(engine, state, whole, options, self.options.draft, &mut self.watcher);
            // Of a generation that failed, the session has what was shown.
            state.text = std::mem::take(&mut self.watcher.text);
            result
        })?;
        self.report.put(&result)?;
        Ok(if result.finish == AKUNU_FINISH_STOPPED { AKUNU_STOPPED } else { AKUNU_OK })
    }
}

/// Fills options with the defaults; `size` is that of the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_generate_options_default(
    options: *mut akunu_generate_options,
    size: usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    call(|| unsafe { memory::write_defaults(options, size) })
}

/// Continues what the session holds with a text, and that with what the model writes. An empty session begins with the tokens that
/// the model wants there. `options`, `on_piece` and `result` may be NULL; `akunu_session_text` has the text afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_generate(
    session: akunu_session,
    text: *const c_char,
    length: usize,
    options: *const akunu_generate_options,
    on_piece: akunu_piece_callback,
    user_data: *mut c_void,
    result: *mut akunu_result,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (text, run) =
            unsafe { (Text::new("the text", text, length), Run::new(options, on_piece, user_data, result)?) };
        let session = handle::get(session)?;
        run.run(&session, |state, _| {
            let encode = Encode { add_special: state.tokens.is_empty(), parse_special: false };
            Ok([&state.tokens[..], &session.model.tokens(text.str()?, encode)?].concat())
        })
    })
}

/// The same after tokens, which are taken as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_generate_tokens(
    session: akunu_session,
    tokens: *const u32,
    count: usize,
    options: *const akunu_generate_options,
    on_piece: akunu_piece_callback,
    user_data: *mut c_void,
    result: *mut akunu_result,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (tokens, run) =
            unsafe { (Items::new("the tokens", tokens, count), Run::new(options, on_piece, user_data, result)?) };
        run.run(&*handle::get(session)?, |state, _| Ok([&state.tokens[..], tokens.slice()?].concat()))
    })
}

/// Answers messages in the model's own format. Give the whole conversation every time: what the session holds of it already is not
/// computed again. A grammar holds from where the model's thoughts end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_session_chat(
    session: akunu_session,
    messages: *const akunu_message,
    count: usize,
    options: *const akunu_generate_options,
    on_piece: akunu_piece_callback,
    user_data: *mut c_void,
    result: *mut akunu_result,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (messages, run) =
            unsafe { (Items::new("the messages", messages, count), Run::new(options, on_piece, user_data, result)?) };
        let session = handle::get(session)?;
        let model = &session.model;
        let prompt = model.prompt(&text::conversation(&messages)?)?;
        run.run(&session, |_, options| {
            let format = ReplyFormat::of(model.template()?, model.tokenizer()?);
            if let Some(tags) = format.thinking() {
                let open = format.thinks_after(&prompt);
                options.thinking = if open { Thinking::Open } else { Thinking::MayOpen };
                options.thoughts.tags = tags.clone();
            }
            model.tokens(&prompt, Encode { add_special: false, parse_special: true })
        })
    })
}
