//! `/v1/responses`.

mod events;
mod input;
mod store;

pub use store::Store;

use super::chat::{Effort, NamedSchema};
use super::sampling::{Sampling, max_tokens};
use super::tools;
use crate::App;
use crate::answer::{self, Answer, Ask, Conversation, Prompt, Think, Writer};
use crate::http::address::{Asked, At};
use crate::http::body::Fields;
use crate::http::stream::Framing;
use crate::id;
use crate::problem::{Kind, Problem};
use akunu::Grammar;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use events::Writing;
use futures_core::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

/// The fields besides those of sampling.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Create {
    model: Option<String>,
    input: Input,
    instructions: Option<String>,
    /// A response to go on from, of this server since it was started.
    previous_response_id: Option<String>,
    /// Whether later requests may go on from this one.
    store: Option<bool>,
    stream: Option<bool>,
    max_output_tokens: Option<i64>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    text: Option<Text>,
    reasoning: Option<Reasoning>,
    top_logprobs: Option<usize>,
    include: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
    #[expect(dead_code, reason = "only a value that means what is done anyway is read")]
    truncation: Option<Truncation>,
    /// Only `false`.
    background: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Map<String, Value>>),
}

/// The form of the answer's text.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format {
    #[default]
    Text,
    JsonObject,
    JsonSchema(NamedSchema),
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reasoning {
    effort: Option<Effort>,
    /// Thoughts are given whole.
    summary: Option<String>,
    #[serde(skip_serializing)]
    #[allow(dead_code)]
    generate_summary: Option<String>,
}

/// A prompt that is too long is refused.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Truncation {
    Disabled,
}

/// Fields that change nothing in the answer: names for logs, places to keep it, prices, limits of tools that are not here.
pub const HARMLESS: &[&str] = &[
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "client_metadata",
    "max_tool_calls",
    "stream_options",
];

fn take(mut fields: Fields) -> Result<(Create, Sampling), Problem> {
    let both: (Create, Sampling) = (fields.take()?, fields.take()?);
    fields.ignore(HARMLESS);
    if both.0.background.unwrap_or(false) {
        return Err(Problem::field("background", "background is not supported"));
    }
    fields.end()?;
    Ok(both)
}

/// How many tokens the prompt of such a request has.
pub async fn input_tokens(State(app): State<Arc<App>>, fields: Fields) -> Result<Json<Value>, Problem> {
    let (mut create, sampling) = take(fields)?;
    let (items, _) = items(&app, &mut create)?;
    super::input_tokens(&app, ask(&app, create, sampling, &items)?.0).await
}

pub async fn create(State(app): State<Arc<App>>, fields: Fields) -> Result<Response, Problem> {
    let (mut create, sampling) = take(fields)?;
    let (items, bytes) = items(&app, &mut create)?;
    let streams = create.stream.unwrap_or(false);
    let keeps = create.store.unwrap_or(true);
    let (ask, mut head) = ask(&app, create, sampling, &items)?;
    let tools = ask.tools.clone();
    let mut answer = Answer::start(&app, ask).await?;
    head["model"] = answer.model().into();
    let keep = keeps.then_some((items, bytes));
    let mut writing = Writing::new(app, answer.generator().clone(), head, tools, keep);
    if streams {
        return Ok(answer::send(Framing::Events, answer, writing));
    }
    while let Some(next) = poll_fn(|context| Pin::new(&mut answer).poll_next(context)).await {
        let (choice, part) = next?;
        writing.part(choice, part);
    }
    Ok(Json(writing.finish(answer.prompt())).into_response())
}

/// Everything that the model is told, with what came before; and its bytes.
fn items(app: &App, create: &mut Create) -> Result<(Vec<Arc<Value>>, usize), Problem> {
    let limits = &app.options.limits;
    let (mut items, mut bytes) = (Vec::new(), 0);
    if let Some(previous) = &create.previous_response_id {
        let kept = app.responses.get(limits, previous).map_err(|problem| {
            Problem::field("previous_response_id", problem.message).code("previous_response_not_found")
        })?;
        bytes = kept.bytes;
        items = kept.input;
        items.extend(kept.output);
    }
    let given = match std::mem::replace(&mut create.input, Input::Items(Vec::new())) {
        Input::Text(text) => {
            let message = json!({ "role": "user", "content": text });
            message.as_object().cloned().into_iter().collect()
        }
        Input::Items(items) => items,
    };
    if given.is_empty() && items.is_empty() {
        return Err(Problem::field("input", "input must have at least one item"));
    }
    if given.len() + items.len() > limits.messages {
        return Err(Problem::field("input", format!("input must have at most {} items", limits.messages)));
    }
    let refers = given.iter().any(|item| item.get("type").is_some_and(|kind| kind == "item_reference"));
    let known = if refers { app.responses.items(limits) } else { HashMap::new() };
    for (i, item) in given.into_iter().enumerate() {
        let item = input::item(&format!("input[{i}]"), item, &known)?;
        bytes += store::bytes(&item);
        items.push(item);
    }
    Ok((items, bytes))
}

/// The request in the form that all dialects share, and the response without what comes with the answer.
fn ask(app: &App, create: Create, sampling: Sampling, items: &[Arc<Value>]) -> Result<(Ask, Value), Problem> {
    let messages = input::messages(create.instructions.as_deref(), items)?;
    let (mut options, biases) = sampling.options()?;
    options.max_tokens = max_tokens(app, "max_output_tokens", create.max_output_tokens)?;
    let include = create.include.unwrap_or_default();
    options.logprobs = match create.top_logprobs {
        Some(top) if top > 20 => {
            return Err(Problem::field("top_logprobs", "top_logprobs must be between 0 and 20"));
        }
        Some(top) if top > 0 => Some(top),
        _ => include.iter().any(|what| what == "message.output_text.logprobs").then_some(0),
    };
    let text = create.text.unwrap_or_default();
    let form = match &text.format {
        Format::Text => None,
        Format::JsonObject => Some(Grammar::Json),
        Format::JsonSchema(NamedSchema { schema: Some(schema), .. }) => Some(Grammar::JsonSchema(schema.to_string())),
        Format::JsonSchema(_) => return Err(Problem::field("text.format.schema", "the schema is missing")),
    };
    let reasoning = create.reasoning.unwrap_or_default();
    let (mut variables, mut think) = (Map::new(), Think::Usual);
    if let Some(effort) = reasoning.effort {
        effort.set(&mut variables, &mut think);
    }
    let list = create.tools.unwrap_or_default();
    let parallel = create.parallel_tool_calls.unwrap_or(true);
    let tools = tools(app, &list, create.tool_choice.as_ref(), parallel)?;
    let head = json!({
        "id": id("resp_"),
        "object": "response",
        "created_at": crate::now(),
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": create.instructions,
        "max_output_tokens": create.max_output_tokens,
        "metadata": create.metadata.unwrap_or_default(),
        "model": null,
        "output": [],
        "parallel_tool_calls": parallel,
        "previous_response_id": create.previous_response_id,
        "reasoning": reasoning,
        "store": create.store.unwrap_or(true),
        "temperature": crate::number::number(options.sampling.temperature),
        "text": text,
        "tool_choice": create.tool_choice.unwrap_or("auto".into()),
        "tools": list,
        "top_logprobs": create.top_logprobs.unwrap_or(0),
        "top_p": crate::number::number(options.sampling.top_p),
        "truncation": "disabled",
        "usage": null,
    });
    let prompt = Prompt::Messages(Conversation::new(messages, variables));
    Ok((Ask { biases, form, think, tools, ..Ask::new(create.model, prompt, options) }, head))
}

/// What a request for a response that is kept may say.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Kept {
    /// Only `false`.
    #[schemars(extend("enum" = [false]))]
    stream: Option<bool>,
}

pub async fn get(State(app): State<Arc<App>>, At(id): At, Asked(how): Asked<Kept>) -> Result<Json<Value>, Problem> {
    if how.stream.unwrap_or(false) {
        return Err(Problem::field("stream", "stream: a response that is kept is complete, and not streamed"));
    }
    Ok(Json(app.responses.get(&app.options.limits, &id)?.response))
}

pub async fn delete(State(app): State<Arc<App>>, At(id): At) -> Result<Json<Value>, Problem> {
    app.responses.remove(&app.options.limits, &id)?;
    Ok(Json(json!({ "id": id, "object": "response", "deleted": true })))
}

/// Which items to list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Page {
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
    order: Option<Order>,
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    #[default]
    Desc,
}

const USUAL_PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;

pub async fn input_items(
    State(app): State<Arc<App>>,
    At(id): At,
    Asked(page): Asked<Page>,
) -> Result<Json<Value>, Problem> {
    let mut items = app.responses.get(&app.options.limits, &id)?.input;
    let limit = page.limit.unwrap_or(USUAL_PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("limit", format!("limit must be between 1 and {LARGEST_PAGE}")));
    }
    if page.order.unwrap_or_default() == Order::Desc {
        items.reverse();
    }
    if let Some(after) = page.after {
        let at = items.iter().position(|item| item["id"] == after.as_str());
        let at = at.ok_or_else(|| Problem::new(Kind::NotFound, "after: there is no such item"))?;
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let of = |item: Option<&Arc<Value>>| item.map(|item| item["id"].clone());
    Ok(Json(json!({
        "object": "list",
        "data": items.iter().map(|item| &**item).collect::<Vec<_>>(),
        "first_id": of(items.first()),
        "last_id": of(items.last()),
        "has_more": has_more,
    })))
}
