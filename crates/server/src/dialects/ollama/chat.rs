//! `/api/chat` and `/api/generate`.

use super::how::How;
use super::lines::{Lines, Shape};
use crate::App;
use crate::answer::{self, Answer, Ask, Conversation, Piece, Prompt, Tools};
use crate::dialects::openai;
use crate::http::body::Fields;
use crate::http::stream::Framing;
use crate::models::{Generator, InUse, Keep};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Chat {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    tools: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Message {
    role: Role,
    content: Option<String>,
    thinking: Option<String>,
    images: Option<Vec<Value>>,
    tool_calls: Option<Vec<ToolCall>>,
    tool_name: Option<String>,
    tool_call_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ToolCall {
    id: Option<String>,
    function: Function,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Function {
    name: String,
    arguments: Map<String, Value>,
}

pub async fn chat(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Problem> {
    let chat: Chat = fields.take()?;
    let how = How::take(&app, fields)?;
    let tools = openai::tools(&app, &chat.tools.unwrap_or_default(), None, true)?;
    let messages = chat.messages.unwrap_or_default();
    let most = app.options.limits.messages;
    if messages.len() > most {
        return Err(Problem::field("messages", format!("messages must have at most {most} messages")));
    }
    let messages: Vec<Value> =
        messages.into_iter().enumerate().map(|(i, message)| plain(i, message)).collect::<Result<_, _>>()?;
    let loaded = Loaded::new(&app, chat.model, Shape::Chat);
    if messages.is_empty() {
        return loaded.only(&how).await;
    }
    let prompt = |_: &Generator, variables| Prompt::Messages(Conversation::new(messages, variables));
    loaded.answer(how, tools, prompt).await
}

/// A message as templates take it.
fn plain(index: usize, message: Message) -> Result<Value, Problem> {
    refuse_images(&format!("messages[{index}].images"), message.images)?;
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut plain = json!({ "role": role, "content": message.content.unwrap_or_default() });
    let texts =
        [("reasoning_content", message.thinking), ("name", message.tool_name), ("tool_call_id", message.tool_call_id)];
    for (name, text) in texts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            plain[name] = text.into();
        }
    }
    if let Some(calls) = message.tool_calls.filter(|calls| !calls.is_empty()) {
        let calls = calls.into_iter().map(|ToolCall { id, function: Function { name, arguments } }| {
            let mut call = json!({ "type": "function", "function": { "name": name, "arguments": arguments } });
            if let Some(id) = id {
                call["id"] = id.into();
            }
            call
        });
        plain["tool_calls"] = calls.collect();
    }
    Ok(plain)
}

fn refuse_images(field: &str, images: Option<Vec<Value>>) -> Result<(), Problem> {
    match images.is_none_or(|images| images.is_empty()) {
        true => Ok(()),
        false => Err(Problem::field(field, format!("{field}: the model does not take images"))),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Generate {
    model: Option<String>,
    prompt: Option<String>,
    system: Option<String>,
    /// The prompt as it is, without a template.
    raw: Option<bool>,
    images: Option<Vec<Value>>,
}

pub async fn generate(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Problem> {
    let request: Generate = fields.take()?;
    refuse_images("images", request.images)?;
    // Not there, and an empty one asks for nothing.
    for name in ["suffix", "template", "context"] {
        if fields.field::<Value>(name)?.is_some_and(|value| value != "" && value != json!([])) {
            return Err(Problem::field(name, format!("{name} is not supported")));
        }
    }
    let how = How::take(&app, fields)?;
    let raw = request.raw.unwrap_or(false);
    let system = request.system.filter(|system| !system.is_empty());
    if raw && system.is_some() {
        return Err(Problem::field("system", "system: a raw prompt has no place for it"));
    }
    let text = request.prompt.unwrap_or_default();
    let loaded = Loaded::new(&app, request.model, Shape::Generate);
    if text.is_empty() {
        return loaded.only(&how).await;
    }
    let prompt = |generator: &Generator, variables| {
        if raw || generator.template().is_none() && system.is_none() {
            return Prompt::Row(vec![Piece::Text(text)]);
        }
        let system = system.map(|system| json!({ "role": "system", "content": system }));
        let messages = system.into_iter().chain([json!({ "role": "user", "content": text })]).collect();
        Prompt::Messages(Conversation::new(messages, variables))
    };
    loaded.answer(how, Tools::none(), prompt).await
}

/// A model to be loaded, and what is said of it.
struct Loaded<'a> {
    app: &'a App,
    model: Option<String>,
    shape: Shape,
}

impl<'a> Loaded<'a> {
    fn new(app: &'a App, model: Option<String>, shape: Shape) -> Self {
        Self { app, model, shape }
    }

    async fn load(&self, keep: Option<Keep>) -> Result<(InUse<Generator>, Duration), Problem> {
        let began = Instant::now();
        let generator = self.app.models.generator(self.model.as_deref()).await?;
        if let Some(keep) = keep {
            self.app.models.keep(&generator, keep);
        }
        Ok((generator, began.elapsed()))
    }

    /// With nothing to answer: loads it, or lets it go.
    async fn only(&self, how: &How) -> Result<Response, Problem> {
        let (name, reason) = if how.keep == Some(Keep::For(Duration::ZERO)) {
            self.app.models.let_go(self.model.as_deref()).await?;
            (self.model.clone().unwrap_or_default(), "unload")
        } else {
            (self.load(how.keep).await?.0.name.clone(), "load")
        };
        Ok(Json(Lines::new(self.shape, &name, Duration::ZERO).only(reason)).into_response())
    }

    async fn answer(
        self,
        how: How,
        tools: Tools,
        prompt: impl FnOnce(&Generator, Map<String, Value>) -> Prompt,
    ) -> Result<Response, Problem> {
        let (generator, loading) = self.load(how.keep).await?;
        let prompt = prompt(&generator, how.variables);
        let How { options, form, think, .. } = how;
        let ask = Ask { form, think, tools, ..Ask::new(self.model, prompt, options) };
        let answer = Answer::start(self.app, ask).await?;
        let lines = Lines::new(self.shape, answer.model(), loading).of(generator);
        if how.streams {
            return Ok(answer::send(Framing::Lines, answer, lines));
        }
        let gathered = answer.gather().await?;
        Ok(Json(lines.whole(gathered)).into_response())
    }
}
