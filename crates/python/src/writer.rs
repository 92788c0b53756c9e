//! A model that writes: many requests at once, from any thread.

use crate::errors::{TemplateError, exception, text_exception};
use crate::given::{self, Given};
use crate::held::Held;
use crate::signals::interruptible;
use crate::source;
use crate::stream::Stream;
use crate::words;
use akunu::{
    ChatTemplate, Encode, Engine, GenerateOptions, LoadOptions, ReplyFormat, ReplyReader, Request, SchedulerOptions,
    Service, Thinking, Thoughts, Tokenizer, Tool, ToolChoice, ToolInput,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// A running model.
pub struct Writing {
    service: Service,
    tokenizer: Option<Tokenizer>,
    /// How messages become a prompt and what replies look like, or why that is not known.
    chat: Result<(ChatTemplate, ReplyFormat), String>,
    path: String,
    context: usize,
}

/// A text, or its tokens.
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

impl Prompt {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Prompt> {
        match (given.extract(), given.extract()) {
            (Ok(text), _) => Ok(Prompt::Text(text)),
            (_, Ok(tokens)) => Ok(Prompt::Tokens(tokens)),
            _ => Err(PyTypeError::new_err("prompt: must be a text, or a list of tokens")),
        }
    }
}

/// What to ask of a model, and how its reply is read.
struct Asked {
    tokens: Vec<u32>,
    options: GenerateOptions,
    reader: Option<ReplyReader>,
}

/// Messages, and what the model may call.
struct Chat {
    messages: Vec<Value>,
    variables: Map<String, Value>,
    shown: Vec<Value>,
    tools: Vec<Tool>,
    choice: ToolChoice,
    parallel: bool,
    thoughts: Option<usize>,
}

impl Chat {
    fn take(given: &Given<'_>, messages: &str) -> PyResult<Chat> {
        let messages = match json("messages", messages)? {
            Value::Array(messages) if messages.iter().all(|m| m["role"].is_string()) => messages,
            _ => return Err(PyTypeError::new_err("messages: each must be a mapping with a role")),
        };
        let mut variables = match given.option::<String>("variables")?.map(|v| json("variables", &v)).transpose()? {
            Some(Value::Object(variables)) => variables,
            _ => Map::new(),
        };
        if let Some(think) = given.option::<bool>("think")? {
            variables.insert("enable_thinking".into(), think.into());
        }
        let shown = match given.option::<String>("tools")?.map(|tools| json("tools", &tools)).transpose()? {
            Some(Value::Array(tools)) => tools,
            _ => Vec::new(),
        };
        let tools: Vec<Tool> = shown.iter().map(tool).collect::<PyResult<_>>()?;
        let choice = match given.option::<String>("tool_choice")?.as_deref() {
            None | Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::None,
            Some("required") if tools.is_empty() => {
                return Err(PyValueError::new_err("tool_choice: there are no tools to call"));
            }
            Some("required") => ToolChoice::Required,
            Some(name) if tools.iter().any(|tool| tool.name == name) => ToolChoice::Named(name.into()),
            Some(name) => return Err(PyValueError::new_err(format!("tool_choice: there is no tool called {name:?}"))),
        };
        let none = choice == ToolChoice::None;
        let (shown, tools) = if none { (Vec::new(), Vec::new()) } else { (shown, tools) };
        let (parallel, thoughts) = (given.take("parallel_tool_calls", true)?, given.option("think_budget")?);
        Ok(Chat { messages, variables, shown, tools, choice, parallel, thoughts })
    }
}

fn json(name: &str, text: &str) -> PyResult<Value> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))
}

/// A tool as OpenAI's API has it: `{"type": "function", "function": {"name", "description", "parameters"}}`.
fn tool(shown: &Value) -> PyResult<Tool> {
    let function = &shown["function"];
    let Some(name) = function["name"].as_str() else {
        return Err(PyValueError::new_err("tools: each must have a function with a name"));
    };
    let parameters = function.get("parameters").cloned().unwrap_or_else(|| serde_json::json!({ "type": "object" }));
    let strict = function["strict"].as_bool().unwrap_or(false);
    Ok(Tool { name: name.into(), parameters: ToolInput::Schema(parameters), strict })
}

impl Writing {
    fn load(
        path: Option<PathBuf>,
        options: LoadOptions,
        scheduler: SchedulerOptions,
        template: Option<String>,
    ) -> PyResult<Writing> {
        let file = source::open(path.as_deref(), options.limits)?;
        let template = match template {
            Some(template) => ChatTemplate::new_within(&template, options.limits),
            None => ChatTemplate::from_model_file(&file),
        };
        let path = file.path().display().to_string();
        // Room for some sequences of full length; those that run beyond it give their blocks back in turn.
        let sequences = scheduler.sequences.min(4);
        let options = LoadOptions { sequences, extra_positions: scheduler.cache, ..options };
        let engine = Engine::from_file(file, options).map_err(exception)?;
        let tokenizer = engine.tokenizer().cloned();
        let chat = match (template, &tokenizer) {
            (Ok(template), Some(tokenizer)) => {
                let format = ReplyFormat::of(&template, tokenizer);
                Ok((template, format))
            }
            (Ok(_), None) => Err(akunu::Error::NoTokenizer { path: path.clone() }.to_string()),
            (Err(error), _) => Err(error.to_string()),
        };
        let context = engine.context();
        let service = Service::start(engine, scheduler).map_err(exception)?;
        Ok(Writing { service, tokenizer, chat, path, context })
    }

    fn tokenizer(&self) -> PyResult<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| exception(akunu::Error::NoTokenizer { path: self.path.clone() }))
    }

    fn encode(&self, text: &str, options: Encode) -> PyResult<Vec<u32>> {
        self.tokenizer()?.encode(text, options).map_err(|e| text_exception(&e))
    }

    fn answer(&self, chat: Chat, mut options: GenerateOptions) -> PyResult<Asked> {
        let (template, format) = self.chat.as_ref().map_err(|why| TemplateError::new_err(why.clone()))?;
        let Chat { messages, variables, shown, tools, choice, parallel, thoughts: budget } = chat;
        let goes_on = ReplyFormat::is_begun(&messages);
        let prompt = format.prompt(template, (messages, goes_on), variables, &shown).map_err(|e| text_exception(&e))?;
        let form = options.grammar.take();
        let grammar = format.grammar(&tools, &choice, parallel, form.as_ref());
        options.grammar = grammar.map_err(|e| text_exception(&e))?;
        if let Some(tags) = format.thinking() {
            let open = format.thinks_after(&prompt);
            options.thinking = if open { Thinking::Open } else { Thinking::MayOpen };
            options.thoughts = Thoughts { tags: tags.clone(), budget, ..Thoughts::default() };
        }
        let reader = Some(format.reader(&prompt, &tools));
        // The template has written the special tokens already.
        let tokens = self.encode(&prompt, Encode { add_special: false, parse_special: true })?;
        Ok(Asked { tokens, options, reader })
    }

    fn check(&self, tokens: usize) -> PyResult<()> {
        match tokens {
            0 => Err(exception(akunu::Error::EmptyPrompt)),
            _ if tokens >= self.context => {
                Err(exception(akunu::Error::ContextFull { tokens: tokens + 1, context: self.context }))
            }
            _ => Ok(()),
        }
    }
}

/// A model that writes.
#[pyclass(frozen, module = "akunu._akunu")]
pub struct Writer(Arc<Held<Writing>>);

impl Writer {
    fn start(&self, py: Python<'_>, ask: impl FnOnce(&Writing) -> PyResult<Asked> + Send) -> PyResult<Stream> {
        let (told, reply, reader) = self.0.with(py, |writing| {
            let Asked { tokens, options, reader } = ask(writing)?;
            writing.check(tokens.len())?;
            let told = (tokens.clone(), options.stop.clone());
            let reply = writing.service.submit(Request { tokens, options }).map_err(exception)?;
            Ok((told, reply, reader))
        })?;
        Ok(Stream::new(self.0.clone(), told, reply, reader))
    }
}

#[pymethods]
impl Writer {
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Given::new(options)?;
        let load = given::load_options(&given)?;
        let defaults = SchedulerOptions::default();
        let scheduler = SchedulerOptions {
            sequences: given.take("parallel", defaults.sequences)?,
            cache: given.take("cache", defaults.cache)?,
            ..defaults
        };
        let template = given.option("chat_template")?;
        given.finish()?;
        let writing = interruptible(py, move || Writing::load(path, load, scheduler, template))?;
        Ok(Self(Arc::new(Held::new(writing))))
    }

    /// Continues a text, or tokens.
    fn generate(&self, py: Python<'_>, prompt: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<Stream> {
        let prompt = Prompt::of(prompt)?;
        let given = Given::new(options)?;
        let options = given::generate_options(&given)?;
        given.finish()?;
        self.start(py, |writing| {
            let tokens = match prompt {
                Prompt::Text(text) => writing.encode(&text, Encode { add_special: true, parse_special: true })?,
                Prompt::Tokens(tokens) => tokens,
            };
            Ok(Asked { tokens, options, reader: None })
        })
    }

    /// Answers messages, which are JSON, as `tools` and `variables` among the options are.
    fn chat(&self, py: Python<'_>, messages: &str, options: &Bound<'_, PyDict>) -> PyResult<Stream> {
        let given = Given::new(options)?;
        let chat = Chat::take(&given, messages)?;
        let options = given::generate_options(&given)?;
        given.finish()?;
        self.start(py, |writing| writing.answer(chat, options))
    }

    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> PyResult<words::Tokenizer> {
        self.0.with(py, |writing| Ok(words::Tokenizer(writing.tokenizer()?.clone())))
    }

    fn save_session(&self, py: Python<'_>, path: PathBuf, tokens: Vec<u32>, note: String) -> PyResult<()> {
        self.0.with(py, |writing| writing.service.save_session(&path, tokens, note).map_err(exception))
    }

    /// The tokens and the note of a session file.
    fn load_session(&self, py: Python<'_>, path: PathBuf) -> PyResult<(Vec<u32>, String)> {
        self.0.with(py, |writing| writing.service.load_session(&path).map_err(exception))
    }

    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.with(py, |writing| Ok(writing.context))
    }

    /// Requests that run, and requests that wait.
    #[getter]
    fn load(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        self.0.with(py, |writing| {
            let metrics = writing.service.metrics();
            Ok((metrics.running, metrics.waiting))
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}
