//! Text to tokens and back, and conversations to prompts. None of it runs the model, and callbacks may call all of it.

use crate::call::{Failure, Outcome, call};
use crate::convert::check_flags;
use crate::handle;
use crate::memory::{Items, Out, Room, Text};
use crate::model::Model;
use crate::types::*;
use akunu::Encode;
use serde_json::{Value, json};
use std::ffi::c_char;

pub(crate) fn encode(flags: u32) -> Result<Encode, Failure> {
    check_flags("the tokenizer", flags, AKUNU_ADD_SPECIAL | AKUNU_PARSE_SPECIAL)?;
    Ok(Encode { add_special: flags & AKUNU_ADD_SPECIAL > 0, parse_special: flags & AKUNU_PARSE_SPECIAL > 0 })
}

impl Model {
    pub fn tokens(&self, text: &str, encode: Encode) -> Result<Vec<u32>, Failure> {
        Ok(self.tokenizer()?.encode(text, encode).map_err(akunu::Error::from)?)
    }

    /// The prompt that the template makes of `messages` and what else it asks for.
    pub fn prompt(&self, input: &Value) -> Result<String, Failure> {
        let (template, tokenizer) = (self.template()?, self.tokenizer()?);
        let prompt = template.render(input, tokenizer.bos_text(), tokenizer.eos_text());
        prompt.map_err(|error| Failure::new(AKUNU_ERROR_TEMPLATE, error))
    }
}

/// Messages as templates take them, with room for an answer after them.
pub(crate) fn conversation(messages: &Items<akunu_message>) -> Result<Value, Failure> {
    let message = |message: &akunu_message| {
        // SAFETY: the header asks for a NUL at the end of a message's texts.
        let (role, content) = unsafe {
            let role = Text::new("a message's role", message.role, AKUNU_NUL_TERMINATED);
            (role, Text::new("a message's content", message.content, AKUNU_NUL_TERMINATED))
        };
        Ok(json!({ "role": role.str()?, "content": content.str()? }))
    };
    let messages: Vec<Value> = messages.slice()?.iter().map(message).collect::<Result<_, Failure>>()?;
    Ok(json!({ "messages": messages, "add_generation_prompt": true }))
}

/// The tokens of a text. `flags` are `AKUNU_ADD_SPECIAL` and `AKUNU_PARSE_SPECIAL`, added. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_tokenize(
    model: akunu_model,
    text: *const c_char,
    length: usize,
    flags: u32,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (text, tokens) =
        unsafe { (Text::new("the text", text, length), Room::new("the tokens", tokens, capacity, count)) };
    call(|| tokens.put(&handle::get(model)?.tokens(text.str()?, encode(flags)?)?))
}

/// The text of tokens, with a NUL after it that its length does not count. `flags` may be `AKUNU_TOKEN_SPECIAL`, to keep special
/// tokens. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_detokenize(
    model: akunu_model,
    tokens: *const u32,
    count: usize,
    flags: u32,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (tokens, text) =
        unsafe { (Items::new("the tokens", tokens, count), Room::new("the text", text, capacity, length)) };
    call(|| {
        check_flags("the tokenizer", flags, AKUNU_TOKEN_SPECIAL)?;
        let model = handle::get(model)?;
        text.put_text(&model.tokenizer()?.decode(tokens.slice()?, flags == 0))
    })
}

/// What a token is: `AKUNU_TOKEN_END` and `AKUNU_TOKEN_SPECIAL`, added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_token_describe(model: akunu_model, token: u32, flags: *mut u32) -> akunu_status {
    // SAFETY: the caller's promise.
    let flags = unsafe { Out::new("the flags", flags) };
    call(|| {
        let model = handle::get(model)?;
        let (tokenizer, vocab) = (model.tokenizer()?, model.vocab());
        if token as usize >= vocab {
            return Err(akunu::Error::Token { token, vocab }.into());
        }
        let end = if tokenizer.end_of_generation().contains(&token) { AKUNU_TOKEN_END } else { 0 };
        let special = if tokenizer.is_special(token) { AKUNU_TOKEN_SPECIAL } else { 0 };
        flags.put(end | special)
    })
}

/// The prompt that asks for an answer to messages, in the model's own format. Tokenize it with `AKUNU_PARSE_SPECIAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_chat_prompt(
    model: akunu_model,
    messages: *const akunu_message,
    count: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (messages, text) =
        unsafe { (Items::new("the messages", messages, count), Room::new("the text", text, capacity, length)) };
    call(|| prompt(model, &conversation(&messages)?, &text))
}

/// The same of a JSON object with `messages`, `tools`, `add_generation_prompt` and whatever else the template takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_chat_prompt_json(
    model: akunu_model,
    json: *const c_char,
    json_length: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (json, text) =
        unsafe { (Text::new("the JSON", json, json_length), Room::new("the text", text, capacity, length)) };
    call(|| {
        let input = serde_json::from_str(json.str()?);
        prompt(model, &input.map_err(|error| Failure::argument(format_args!("the JSON: {error}")))?, &text)
    })
}

fn prompt(model: akunu_model, input: &Value, text: &Room<c_char>) -> Outcome {
    text.put_text(&handle::get(model)?.prompt(input)?)
}
