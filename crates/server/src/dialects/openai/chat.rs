//! `/v1/chat/completions`.

use super::sampling::{Sampling, choices, max_tokens};
use super::{Count, FINGERPRINT, SoFar, StreamOptions, ending, error, finish_reason, usage_of};
use crate::App;
use crate::answer::{self, Answer, Ask, Choice, Conversation, Likelihood, Part, Prompt, Think, Writer};
use crate::http::body::Fields;
use crate::http::stream::{Frame, Framing};
use crate::id;
use crate::models::{Generator, InUse};
use crate::problem::Problem;
use akunu::Grammar;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The fields besides those of sampling.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Chat {
    model: Option<String>,
    #[schemars(with = "Vec<super::shapes::Message>", length(min = 1))]
    messages: Vec<Map<String, Value>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<i64>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    response_format: Option<ResponseFormat>,
    /// A grammar in GBNF, as llama.cpp's server takes it.
    grammar: Option<String>,
    /// A schema, as llama.cpp's server takes it.
    json_schema: Option<Value>,
    reasoning_effort: Option<Effort>,
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether the prompt ends with the beginning of an answer.
    add_generation_prompt: Option<bool>,
    /// Whether the last message has begun and is gone on with; where nobody says, one of the assistant's is.
    continue_final_message: Option<bool>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    /// Whether to tell the prompt, as llama.cpp's server does.
    verbose: Option<bool>,
    /// The most tokens of thoughts; 0: none.
    thinking_budget: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject { schema: Option<Value> },
    JsonSchema { json_schema: NamedSchema },
}

/// Its name and the rest are for the model's maker.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct NamedSchema {
    pub schema: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl Effort {
    /// Tells it to the chat template.
    pub fn set(self, variables: &mut Map<String, Value>, think: &mut Think) {
        let name = match self {
            Effort::None => {
                *think = Think::Not;
                "none"
            }
            Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Xhigh => "high",
        };
        variables.entry("reasoning_effort").or_insert(name.into());
    }
}

/// Fields that change nothing in the answer: names for logs, places to keep it, prices.
pub const HARMLESS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_prompt",
    "id_slot",
    "timings_per_token",
    "return_progress",
    "verbosity",
];

fn take(mut fields: Fields) -> Result<(Chat, Sampling), Problem> {
    let both = (fields.take()?, fields.take()?);
    fields.ignore(HARMLESS);
    fields.end()?;
    Ok(both)
}

/// How many tokens the prompt of such a request has.
pub async fn input_tokens(State(app): State<Arc<App>>, fields: Fields) -> Result<Json<Value>, Problem> {
    let (chat, sampling) = take(fields)?;
    super::input_tokens(&app, ask(&app, chat, sampling)?).await
}

pub async fn create(State(app): State<Arc<App>>, fields: Fields) -> Result<Response, Problem> {
    let (mut chat, sampling) = take(fields)?;
    let streams = chat.stream.unwrap_or(false);
    let stream_options = chat.stream_options.take().unwrap_or_default();
    let verbose = chat.verbose.unwrap_or(false);
    let ask = ask(&app, chat, sampling)?;
    let answer = Answer::start(&app, ask).await?;
    let head = Head { id: id("chatcmpl-"), created: crate::now(), model: answer.model().to_owned() };
    let prompt = verbose.then(|| json!({ "prompt": answer.prompt_text() }));
    if streams {
        let generator = answer.generator().clone();
        let (with_usage, so_far) = (stream_options.include_usage, stream_options.so_far(answer.prompt()));
        let writer =
            Chunks { head, generator, prompt, with_usage, so_far, count: Count::default(), pending: Vec::new() };
        return Ok(answer::send(Framing::Events, answer, writer));
    }
    let generator = answer.generator().clone();
    let gathered = answer.gather().await?;
    let choices: Vec<Value> = gathered.choices.iter().enumerate().map(|(i, c)| choice(&generator, i, c)).collect();
    let timings = gathered.choices.first().and_then(|c| c.ending.as_ref()).map(answer::timings);
    let mut body = json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": usage_of(&gathered),
        "timings": timings,
    });
    if let Some(prompt) = prompt {
        body[VERBOSE] = prompt;
    }
    Ok(Json(body).into_response())
}

/// What tells the prompt.
const VERBOSE: &str = "__verbose";

fn ask(app: &App, chat: Chat, sampling: Sampling) -> Result<Ask, Problem> {
    if chat.messages.is_empty() {
        return Err(Problem::field("messages", "messages must have at least one message"));
    }
    let most = app.options.limits.messages;
    if chat.messages.len() > most {
        return Err(Problem::field("messages", format!("messages must have at most {most} messages")));
    }
    let variables = chat.chat_template_kwargs.unwrap_or_default();
    let ends = (chat.add_generation_prompt, chat.continue_final_message);
    let mut conversation = conversation(chat.messages, variables, ends)?;
    let (field, tokens) = match chat.max_completion_tokens {
        Some(n) => ("max_completion_tokens", Some(n)),
        None => ("max_tokens", chat.max_tokens),
    };
    let (mut options, biases) = sampling.options()?;
    options.max_tokens = max_tokens(app, field, tokens)?;
    options.logprobs = logprobs(chat.logprobs, chat.top_logprobs)?;
    let form = match chat.response_format {
        None | Some(ResponseFormat::Text) => match (chat.grammar, chat.json_schema) {
            (Some(text), _) => Some(Grammar::Gbnf(text)),
            (None, schema) => schema.map(|schema| Grammar::JsonSchema(schema.to_string())),
        },
        Some(ResponseFormat::JsonObject { schema: None }) => Some(Grammar::Json),
        Some(ResponseFormat::JsonObject { schema: Some(schema) })
        | Some(ResponseFormat::JsonSchema { json_schema: NamedSchema { schema: Some(schema), .. } }) => {
            Some(Grammar::JsonSchema(schema.to_string()))
        }
        Some(ResponseFormat::JsonSchema { .. }) => {
            return Err(Problem::field("response_format.json_schema.schema", "the schema is missing"));
        }
    };
    let mut think = Think::Usual;
    if let Some(effort) = chat.reasoning_effort {
        effort.set(&mut conversation.variables, &mut think);
    }
    match chat.thinking_budget {
        None => {}
        Some(0) => think = Think::Not,
        Some(n) if n > 0 => think = Think::Upto(Some(n as usize)),
        Some(_) => return Err(Problem::field("thinking_budget", "thinking_budget must not be negative")),
    }
    let list = chat.tools.unwrap_or_default();
    let tools = super::tools(app, &list, chat.tool_choice.as_ref(), chat.parallel_tool_calls.unwrap_or(true))?;
    let choices = choices(app, chat.n)?;
    let prompt = Prompt::Messages(conversation);
    Ok(Ask { biases, choices, form, think, tools, ..Ask::new(chat.model, prompt, options) })
}

/// How many of the likeliest tokens to tell, where any are asked for.
pub fn logprobs(asked: Option<bool>, top: Option<usize>) -> Result<Option<usize>, Problem> {
    match (asked.unwrap_or(false), top.unwrap_or(0)) {
        (true, top @ 0..=20) => Ok(Some(top)),
        (false, 0) => Ok(None),
        (false, _) => Err(Problem::field("top_logprobs", "top_logprobs needs logprobs to be true")),
        (true, _) => Err(Problem::field("top_logprobs", "top_logprobs must be between 0 and 20")),
    }
}

/// Messages, and how the prompt of them ends: whether with the beginning of an answer, whether inside the last message.
pub fn conversation(
    messages: Vec<Map<String, Value>>,
    mut variables: Map<String, Value>,
    ends: (Option<bool>, Option<bool>),
) -> Result<Conversation, Problem> {
    let (begins, goes_on) = ends;
    if begins == Some(true) && goes_on == Some(true) {
        let sentence =
            "continue_final_message: an answer cannot be gone on with where add_generation_prompt begins another";
        return Err(Problem::field("continue_final_message", sentence));
    }
    let messages: Vec<Value> =
        messages.into_iter().enumerate().map(|(i, message)| plain(i, message)).collect::<Result<_, _>>()?;
    let begun = |m: &Value| m["role"] == "assistant" && m.get("tool_calls").is_none();
    if let [.., before, last] = &messages[..]
        && goes_on != Some(false)
        && begun(before)
        && begun(last)
    {
        let sentence = "messages must not end with two of the assistant: only one can be gone on with";
        return Err(Problem::field("messages", sentence));
    }
    if let Some(begins) = begins {
        variables.insert("add_generation_prompt".into(), begins.into());
    }
    Ok(Conversation { messages, variables, goes_on })
}

/// A message as templates take it: parts of text in a row; what is neither is refused.
fn plain(index: usize, message: Map<String, Value>) -> Result<Value, Problem> {
    plain_at(&format!("messages[{index}]"), message)
}

/// The same; `place` is where the request has it.
pub fn plain_at(place: &str, mut message: Map<String, Value>) -> Result<Value, Problem> {
    let at = |field: &str| format!("{place}.{field}");
    let Some(role) = message.get("role").and_then(Value::as_str) else {
        return Err(Problem::field(at("role"), format!("{} is missing", at("role"))));
    };
    // A newer name of the same.
    if role == "developer" {
        message.insert("role".into(), "system".into());
    }
    let calls = message.contains_key("tool_calls");
    match message.get_mut("content") {
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for (i, part) in parts.iter().enumerate() {
                let kind = if part["type"].is_null() { "text" } else { part["type"].as_str().unwrap_or_default() };
                match (kind, part["text"].as_str()) {
                    ("text" | "input_text" | "output_text", Some(part)) => text += part,
                    ("refusal", _) => text += part["refusal"].as_str().unwrap_or_default(),
                    _ => {
                        let field = at(&format!("content[{i}]"));
                        let kind = crate::http::body::short(kind);
                        return Err(Problem::field(
                            &field,
                            format!("{field}: the model does not take parts of type {kind:?}"),
                        ));
                    }
                }
            }
            message.insert("content".into(), text.into());
        }
        Some(Value::String(_) | Value::Null) => {}
        None if calls => {}
        None => return Err(Problem::field(at("content"), format!("{} is missing", at("content")))),
        Some(_) => {
            return Err(Problem::field(at("content"), format!("{} must be a text or a list of parts", at("content"))));
        }
    }
    Ok(Value::Object(message))
}

struct Head {
    id: String,
    created: u64,
    model: String,
}

fn choice(generator: &Generator, index: usize, choice: &Choice) -> Value {
    let mut message = json!({ "role": "assistant", "content": choice.text, "refusal": null });
    if !choice.thought.is_empty() {
        message["reasoning_content"] = choice.thought.as_str().into();
    }
    if !choice.calls.is_empty() {
        if choice.text.is_empty() {
            message["content"] = Value::Null;
        }
        let calls = choice.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": id("call_"), "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    let logprobs: Vec<Value> =
        choice.likelihoods().map(|(id, of)| Likelihood::Logarithms.write(generator, id, of)).collect();
    let logprobs = (!logprobs.is_empty()).then(|| json!({ "content": logprobs, "refusal": null }));
    json!({
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": choice.ending.as_ref().map(|e| finish_reason(&e.reason)),
    })
}

/// The answer as chunks.
struct Chunks {
    head: Head,
    generator: InUse<Generator>,
    /// To be told with the first chunk.
    prompt: Option<Value>,
    with_usage: bool,
    so_far: Option<SoFar>,
    count: Count,
    /// Log-probabilities of tokens, by choice, until text comes to send them with.
    pending: Vec<(usize, Value)>,
}

impl Chunks {
    fn chunk(&mut self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if let Some(so_far) = &self.so_far {
            chunk["usage"] = so_far.usage();
        }
        if let Some(prompt) = self.prompt.take() {
            chunk[VERBOSE] = prompt;
        }
        chunk
    }

    fn delta(&mut self, choice: usize, delta: Value, finish: Option<&str>) -> Vec<Frame> {
        let mine: Vec<Value> = self.pending.extract_if(.., |(c, _)| *c == choice).map(|(_, value)| value).collect();
        let logprobs = (!mine.is_empty()).then(|| json!({ "content": mine, "refusal": null }));
        let choice = json!({ "index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
        vec![Frame::Data(self.chunk(json!([choice])))]
    }
}

impl Writer for Chunks {
    fn begin(&mut self, choices: usize) -> Vec<Frame> {
        (0..choices).flat_map(|i| self.delta(i, json!({ "role": "assistant", "content": null }), None)).collect()
    }

    fn part(&mut self, choice: usize, part: Part) -> Vec<Frame> {
        match part {
            Part::Text(text) => self.delta(choice, json!({ "content": text }), None),
            Part::Thought(text) => self.delta(choice, json!({ "reasoning_content": text }), None),
            Part::Call { index, name } => {
                let function = json!({ "name": name, "arguments": "" });
                let call = json!({ "index": index, "id": id("call_"), "type": "function", "function": function });
                self.delta(choice, json!({ "tool_calls": [call] }), None)
            }
            Part::Arguments { index, text } => {
                let call = json!({ "index": index, "function": { "arguments": text } });
                self.delta(choice, json!({ "tool_calls": [call] }), None)
            }
            Part::Token { id, logprobs } => {
                self.so_far.iter_mut().for_each(|so_far| so_far.generated += 1);
                let write = |of| (choice, Likelihood::Logarithms.write(&self.generator, id, &of));
                self.pending.extend(logprobs.map(write));
                Vec::new()
            }
            Part::End(ending) => {
                let frames = self.delta(choice, json!({}), Some(finish_reason(&ending.reason)));
                self.count.add(ending);
                frames
            }
        }
    }

    fn end(&mut self, prompt: usize) -> Vec<Frame> {
        ending(self.with_usage.then(|| self.chunk(json!([]))), prompt, &self.count)
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Data(error(problem))]
    }
}
