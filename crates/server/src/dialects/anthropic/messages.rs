//! `/v1/messages` and `/v1/messages/count_tokens`.

use super::events::Events;
use super::history::{self, Turn};
use super::message::Head;
use crate::App;
use crate::answer::{self, Answer, Ask, Conversation, Prompt, Think, Tools};
use crate::dialects::openai::sampling::{Sampling, max_tokens, stops};
use crate::http::body::Fields;
use crate::http::stream::Framing;
use crate::problem::Problem;
use akunu::{Grammar, ToolChoice as Choice, ToolInput};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the prompt is made of, and the form of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Content {
    model: Option<String>,
    messages: Vec<Turn>,
    /// A text, or blocks of text.
    system: Option<Value>,
    tools: Option<Vec<Tool>>,
    tool_choice: Option<ToolChoice>,
    thinking: Option<Thinking>,
    output_config: Option<OutputConfig>,
    /// An older name of `output_config.format`.
    output_format: Option<OutputFormat>,
}

/// How the answer ends and is sent. How its tokens are chosen is asked as everywhere: with more fields than Anthropic has.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Generation {
    max_tokens: Option<i64>,
    stop_sequences: Option<Vec<String>>,
    stream: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Tool {
    #[serde(rename = "type")]
    kind: Option<String>,
    name: String,
    description: Option<String>,
    input_schema: Option<Map<String, Value>>,
    strict: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ToolChoice {
    Auto {
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    Any {
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    Tool {
        name: String,
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    None,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Thinking {
    Enabled { budget_tokens: usize, display: Option<Display> },
    Adaptive { display: Option<Display> },
    Disabled,
}

/// Whether thoughts are sent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Display {
    Summarized,
    Omitted,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputConfig {
    effort: Option<Effort>,
    format: Option<OutputFormat>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputFormat {
    JsonSchema { schema: Map<String, Value> },
}

/// Fields that change nothing in the answer: who asks, where it is computed, what to keep in a cache that keeps everything.
pub const HARMLESS: &[&str] = &["metadata", "service_tier", "inference_geo", "speed", "cache_control"];

struct Request {
    content: Content,
    generation: Generation,
    sampling: Sampling,
}

fn take(mut fields: Fields) -> Result<Request, Problem> {
    let request = Request { content: fields.take()?, generation: fields.take()?, sampling: fields.take()? };
    fields.ignore(HARMLESS);
    if let Some(context) = fields.field::<Value>("context_management")? {
        check_context_management(&context)?;
    }
    fields.end()?;
    Ok(request)
}

pub async fn create(State(app): State<Arc<App>>, fields: Fields) -> Result<Response, Problem> {
    let request = take(fields)?;
    let streams = request.generation.stream.unwrap_or(false);
    let omits = request.content.thinking.as_ref().is_some_and(Thinking::is_omitted);
    let answer = Answer::start(&app, ask(&app, request)?).await?;
    let head = Head::new(answer.model(), omits);
    if streams {
        let events = Events::new(head, answer.prompt());
        return Ok(answer::send(Framing::Events, answer, events));
    }
    let gathered = answer.gather().await?;
    Ok(Json(head.message(&gathered)).into_response())
}

pub async fn count_tokens(State(app): State<Arc<App>>, fields: Fields) -> Result<Json<Value>, Problem> {
    let tokens = answer::count(&app, ask(&app, take(fields)?)?).await?;
    Ok(Json(json!({ "input_tokens": tokens })))
}

fn ask(app: &App, request: Request) -> Result<Ask, Problem> {
    let Request { content, generation, sampling } = request;
    let Content { model, messages, system, tools, tool_choice, thinking, output_config, output_format } = content;
    let most = app.options.limits.messages;
    if messages.is_empty() || messages.len() > most {
        return Err(Problem::field("messages", format!("messages must have between 1 and {most} messages")));
    }
    let tools = self::tools(tools.unwrap_or_default(), tool_choice)?;
    let (mut options, biases) = sampling.options()?;
    options.max_tokens = max_tokens(app, "max_tokens", generation.max_tokens)?;
    options.stop.extend(stops("stop_sequences", generation.stop_sequences.unwrap_or_default())?);
    let (effort, format) = output_config.map_or((None, None), |config| (config.effort, config.format));
    let mut variables = Map::new();
    if let Some(effort) = effort {
        variables.insert("reasoning_effort".into(), effort.name().into());
    }
    let conversation = Conversation::new(history::plain(system, messages)?, variables);
    Ok(Ask {
        biases,
        form: format
            .or(output_format)
            .map(|OutputFormat::JsonSchema { schema }| Grammar::JsonSchema(Value::Object(schema).to_string())),
        think: match thinking {
            // In this API a model thinks only where it is asked to.
            None | Some(Thinking::Disabled) => Think::Not,
            Some(Thinking::Enabled { budget_tokens, .. }) => Think::Upto(Some(budget_tokens)),
            Some(Thinking::Adaptive { .. }) => Think::Upto(None),
        },
        tools,
        ..Ask::new(model, Prompt::Messages(conversation), options)
    })
}

/// The tools, and whether they are to be called.
fn tools(list: Vec<Tool>, choice: Option<ToolChoice>) -> Result<Tools, Problem> {
    let mut tools = Tools::none();
    for (i, tool) in list.into_iter().enumerate() {
        let field = format!("tools[{i}]");
        if tool.kind.as_deref().is_some_and(|kind| kind != "custom") {
            let sentence =
                format!("{field}.type: tools that Anthropic defines are not here; give one with input_schema");
            return Err(Problem::field(format!("{field}.type"), sentence));
        }
        let Some(schema) = tool.input_schema else {
            return Err(Problem::field(&field, format!("{field}.input_schema is missing")));
        };
        let input = ToolInput::Schema(Value::Object(schema));
        tools.add(&field, &tool.name, tool.description.as_deref(), input, tool.strict.unwrap_or(false))?;
    }
    let alone;
    (tools.choice, alone) = match choice {
        None => (Choice::Auto, false),
        Some(ToolChoice::None) => (Choice::None, false),
        Some(ToolChoice::Auto { disable_parallel_tool_use: alone }) => (Choice::Auto, alone),
        Some(ToolChoice::Any { disable_parallel_tool_use: alone }) => (Choice::Required, alone),
        Some(ToolChoice::Tool { name, disable_parallel_tool_use: alone }) => (Choice::Named(name), alone),
    };
    tools.parallel = !alone;
    tools.check("tool_choice")?;
    Ok(tools)
}

/// Edits of the conversation that a server of Anthropic's makes; only that which leaves everything is done here.
fn check_context_management(context: &Value) -> Result<(), Problem> {
    let keeps_all = |edit: &Value| edit["type"] == "clear_thinking_20251015" && edit["keep"] == "all";
    match context["edits"].as_array().is_none_or(|edits| edits.iter().all(keeps_all)) {
        true => Ok(()),
        false => Err(Problem::field("context_management", "context_management: no edits of messages are supported")),
    }
}

impl Thinking {
    fn is_omitted(&self) -> bool {
        matches!(self, Thinking::Enabled { display, .. } | Thinking::Adaptive { display } if *display == Some(Display::Omitted))
    }
}

impl Effort {
    /// As templates know it.
    fn name(self) -> &'static str {
        match self {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Xhigh | Effort::Max => "high",
        }
    }
}
