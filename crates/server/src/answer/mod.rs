//! From a request for text to its answers, as they come: the one path that all dialects share.

mod ask;
mod departure;
mod gather;
mod likelihood;
mod tools;

pub use ask::{Ask, Conversation, Piece, Prompt, Row, Think, encode};
pub use gather::{Call, Choice, Gathered};
pub use likelihood::Likelihood;
pub use tools::{Tools, custom_form};

use crate::App;
use crate::http::stream::{self, Frame, Framing};
use crate::models::{Generator, InUse};
use crate::otel::Trace;
use crate::problem::{Kind, Problem};
use akunu::{
    Finish, GenerateOptions, Grammar, LogProbs, Reply, ReplyPart, ReplyReader, Request, Summary, Thinking, Thoughts,
};
use akunu_text::Encode;
use axum::response::Response;
use departure::Places;
use futures_core::Stream;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// Something that an answer goes on with.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Thought(String),
    /// A tool is called; its arguments follow.
    Call {
        index: usize,
        name: String,
    },
    Arguments {
        index: usize,
        text: String,
    },
    /// A token was chosen.
    Token {
        id: u32,
        /// Where they were asked for.
        logprobs: Option<LogProbs>,
    },
    /// Nothing more comes.
    End(Ending),
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub reason: Reason,
    pub generated: usize,
    /// Of those, tokens of thoughts.
    pub thought: usize,
    pub summary: Summary,
    /// The message in which the prompt left what the cache had of it.
    pub left_at: Option<usize>,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The model was done.
    Done,
    /// This stop string came.
    StopString(String),
    /// There was no room for more.
    Length,
    /// Tools are to be called.
    Calls,
}

/// Answers to one request, as they come.
pub struct Answer {
    generator: InUse<Generator>,
    choices: Vec<Stage>,
    stops: Vec<String>,
    /// The prompt, and where its messages begin.
    tokens: Vec<u32>,
    places: Places,
    /// Whose turn it is to be asked first, so that all come forward.
    turn: usize,
    trace: Trace,
    _room: OwnedSemaphorePermit,
}

/// Where one answer stands.
#[derive(Default)]
struct Stage {
    reply: Option<Reply>,
    /// What takes the answer to messages apart.
    reader: Option<ReplyReader>,
    ready: VecDeque<Part>,
    called: bool,
    /// Tokens of its thoughts.
    thought: usize,
}

impl Stage {
    fn read(&mut self, parts: Vec<ReplyPart>) {
        self.thought += usize::from(parts.iter().any(|part| matches!(part, ReplyPart::Thought(_))));
        self.called |= parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        self.ready.extend(parts.into_iter().map(|part| match part {
            ReplyPart::Text(text) => Part::Text(text),
            ReplyPart::Thought(text) => Part::Thought(text),
            ReplyPart::Call { index, name } => Part::Call { index, name },
            ReplyPart::Arguments { index, text } => Part::Arguments { index, text },
        }));
    }

    fn take(&mut self, token: Option<u32>, text: String) {
        match &mut self.reader {
            // A special token may have no text, and mean something.
            Some(reader) => {
                let parts = match token {
                    Some(token) => reader.push(token, &text),
                    None => reader.push_text(&text),
                };
                self.read(parts);
            }
            None if text.is_empty() => {}
            None => self.ready.push_back(Part::Text(text)),
        }
    }

    fn end(&mut self, summary: Summary, stops: &[String], left_at: Option<usize>) {
        self.take(None, summary.rest.clone());
        if let Some(reader) = &mut self.reader {
            let parts = reader.end();
            self.read(parts);
        }
        let reason = match summary.finish {
            Finish::Length | Finish::Context => Reason::Length,
            Finish::StopString(which) => stops.get(which).map_or(Reason::Done, |s| Reason::StopString(s.clone())),
            Finish::Stop if self.called => Reason::Calls,
            Finish::Stop => Reason::Done,
        };
        let (generated, thought) = (summary.generated, self.thought);
        self.ready.push_back(Part::End(Ending { reason, generated, thought, summary, left_at }));
    }
}

impl Answer {
    /// Renders, encodes, compiles and submits. What cannot be answered at all is refused here.
    pub async fn start(app: &App, ask: Ask) -> Result<Answer, Problem> {
        let generator = app.models.generator(ask.model.as_deref()).await?;
        let (stops, choices) = (ask.options.stop.clone(), ask.choices);
        let shared = generator.clone();
        let Prepared { tokens, options, mut readers, places } =
            tokio::task::spawn_blocking(move || Prepared::new(&shared, ask)).await??;
        let context = generator.context;
        if tokens.len() >= context {
            return Err(akunu::Error::ContextFull { tokens: tokens.len() + 1, context }.into());
        }
        let room = u32::try_from(choices).ok().and_then(|n| generator.queue.clone().try_acquire_many_owned(n).ok());
        let room = room.ok_or_else(queue_full)?;
        let mut stages = Vec::with_capacity(choices);
        for choice in 0..choices {
            let mut options = options.clone();
            options.sampling.seed = options.sampling.seed.wrapping_add(choice as u64);
            let reply = generator.service.submit(Request { tokens: tokens.clone(), options })?;
            stages.push(Stage { reply: Some(reply), reader: readers.pop(), ..Stage::default() });
        }
        Ok(Answer { generator, choices: stages, stops, tokens, places, turn: 0, trace: Trace::current(), _room: room })
    }

    /// The model that answers.
    pub fn generator(&self) -> &InUse<Generator> {
        &self.generator
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> usize {
        self.tokens.len()
    }

    /// The prompt as a text, special tokens included.
    pub fn prompt_text(&self) -> String {
        self.generator.tokenizer().map_or_else(|_| String::new(), |tokenizer| tokenizer.decode(&self.tokens, false))
    }

    /// What that model is called here.
    pub fn model(&self) -> &str {
        &self.generator.name
    }

    fn poll_choice(&mut self, choice: usize, context: &mut Context<'_>) -> Poll<Option<Result<Part, Problem>>> {
        let stage = &mut self.choices[choice];
        loop {
            if let Some(part) = stage.ready.pop_front() {
                return Poll::Ready(Some(Ok(part)));
            }
            let Some(reply) = &mut stage.reply else { return Poll::Ready(None) };
            match Pin::new(reply).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => {
                    stage.ready.push_back(Part::Token { id: piece.token, logprobs: piece.logprobs });
                    stage.take(Some(piece.token), piece.text);
                }
                Poll::Ready(Some(Err(error))) => {
                    stage.reply = None;
                    self.trace.fault();
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(None) => {
                    let summary = stage.reply.take().and_then(|reply| reply.summary().cloned());
                    let Some(summary) = summary else { return Poll::Ready(None) };
                    self.trace.answered(&self.generator.name, &summary);
                    let miss = summary.miss.and_then(|miss| miss.at());
                    let left_at = miss.and_then(|at| self.places.message(&self.generator, &self.tokens, at));
                    stage.end(summary, &self.stops, left_at);
                }
            }
        }
    }
}

impl Stream for Answer {
    type Item = Result<(usize, Part), Problem>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (count, turn) = (self.choices.len(), self.turn);
        let mut waiting = false;
        for choice in (0..count).map(|i| (turn + i) % count) {
            match self.poll_choice(choice, context) {
                Poll::Ready(Some(part)) => {
                    self.turn = choice + 1;
                    return Poll::Ready(Some(part.map(|part| (choice, part))));
                }
                Poll::Ready(None) => {}
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(None) }
    }
}

/// How many tokens the messages of a request become.
pub async fn count(app: &App, ask: Ask) -> Result<usize, Problem> {
    let generator = app.models.generator(ask.model.as_deref()).await?;
    let counted = move || {
        let Prompt::Messages(conversation) = ask.prompt else {
            return Err(Problem::new(Kind::Internal, "only messages are counted"));
        };
        let prompt = generator.prompt(conversation, ask.think, &ask.tools)?;
        Ok(generator.tokenizer()?.encode(&prompt, FROM_TEMPLATE)?.len())
    };
    tokio::task::spawn_blocking(counted).await?
}

/// The template has written the special tokens already.
const FROM_TEMPLATE: Encode = Encode { add_special: false, parse_special: true };

/// What is submitted.
struct Prepared {
    tokens: Vec<u32>,
    options: GenerateOptions,
    /// One for each choice, where messages are answered.
    readers: Vec<ReplyReader>,
    places: Places,
}

impl Prepared {
    fn new(generator: &Generator, ask: Ask) -> Result<Prepared, Problem> {
        let Ask { prompt, mut options, biases, choices, form, think, tools, .. } = ask;
        let tokenizer = generator.tokenizer()?;
        for (text, bias) in biases {
            let tokens = tokenizer.encode(&text, Encode { add_special: false, parse_special: false })?;
            options.sampling.logit_bias.extend(tokens.into_iter().map(|token| (token, bias)));
        }
        let form = match form {
            // What is no JSON is said where it is compiled.
            Some(Grammar::JsonSchema(text)) => Some(Grammar::JsonSchema(
                serde_json::from_str(&text).map_or(text, |schema| akunu_text::closed_schema(schema).to_string()),
            )),
            form => form,
        };
        let (mut readers, mut places) = (Vec::new(), Places::default());
        let tokens = match prompt {
            Prompt::Row(row) => {
                let tokens = encode(tokenizer, &row)?;
                if let Some(&token) = tokens.iter().find(|t| **t as usize >= generator.vocab) {
                    return Err(akunu::Error::Token { token, vocab: generator.vocab }.into());
                }
                options.grammar = form;
                tokens
            }
            Prompt::Messages(conversation) => {
                let messages = conversation.messages.clone();
                let prompt = generator.prompt(conversation, think, &tools)?;
                places = Places::find(&prompt, &messages);
                let format = generator.format()?;
                let offered = if tools.are_offered() { &tools.list[..] } else { &[] };
                options.grammar = format.grammar(offered, &tools.choice, tools.parallel, form.as_ref())?;
                if let Some(tags) = format.thinking() {
                    let open = format.thinks_after(&prompt);
                    options.thinking = if open { Thinking::Open } else { Thinking::MayOpen };
                    let budget = if let Think::Upto(budget) = think { budget } else { None };
                    options.thoughts = Thoughts { tags: tags.clone(), budget, ..Thoughts::default() };
                }
                readers.extend((0..choices).map(|_| format.reader(&prompt, offered)));
                tokenizer.encode(&prompt, FROM_TEMPLATE)?
            }
        };
        if tokens.is_empty() {
            return Err(akunu::Error::EmptyPrompt.into());
        }
        // Once for all choices, and not on the thread that computes.
        if let Some(grammar) = options.grammar.take() {
            options.matcher = Some(generator.service.compile(&grammar)?);
        }
        Ok(Prepared { tokens, options, readers, places })
    }
}

/// How a dialect writes an answer that comes piece by piece.
pub trait Writer: Send + Unpin + 'static {
    /// Before anything has come.
    fn begin(&mut self, choices: usize) -> Vec<Frame>;
    fn part(&mut self, choice: usize, part: Part) -> Vec<Frame>;
    /// After all choices have ended.
    fn end(&mut self, prompt: usize) -> Vec<Frame>;
    /// Where it cannot go on.
    fn fault(&mut self, problem: &Problem) -> Vec<Frame>;
}

/// Sends an answer as it comes.
pub fn send<W: Writer>(framing: Framing, answer: Answer, writer: W) -> Response {
    stream::response(framing, Written { answer, writer, at: At::Beginning })
}

#[derive(PartialEq)]
enum At {
    Beginning,
    Middle,
    Over,
}

struct Written<W> {
    answer: Answer,
    writer: W,
    at: At,
}

impl<W: Writer> Stream for Written<W> {
    type Item = Vec<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<Frame>>> {
        let this = &mut *self;
        match this.at {
            At::Over => return Poll::Ready(None),
            At::Beginning => {
                this.at = At::Middle;
                return Poll::Ready(Some(this.writer.begin(this.answer.choices.len())));
            }
            At::Middle => {}
        }
        let Poll::Ready(next) = Pin::new(&mut this.answer).poll_next(context) else { return Poll::Pending };
        Poll::Ready(Some(match next {
            Some(Ok((choice, part))) => this.writer.part(choice, part),
            Some(Err(problem)) => {
                this.at = At::Over;
                this.writer.fault(&problem)
            }
            None => {
                this.at = At::Over;
                this.writer.end(this.answer.prompt())
            }
        }))
    }
}

/// How long the parts of an answer took, as llama.cpp's server says it.
pub fn timings(ending: &Ending) -> Value {
    let Summary { prompt, cached, generated, first_token, waited, total, .. } = ending.summary;
    let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    let (read, wrote) = (first_token.saturating_sub(waited), total.saturating_sub(first_token));
    let rate = |n: usize, ms: f64| if ms > 0.0 { n as f64 / ms * 1e3 } else { 0.0 };
    json!({
        "cache_n": cached,
        "prompt_n": prompt - cached,
        "prompt_ms": ms(read),
        "prompt_per_second": rate(prompt - cached, ms(read)),
        "predicted_n": generated,
        "predicted_ms": ms(wrote),
        "predicted_per_second": rate(generated.saturating_sub(1), ms(wrote)),
        "waited_ms": ms(waited),
        "cache_miss": ending.summary.miss.map(|miss| json!({
            "why": miss.to_string(),
            "token": miss.at(),
            "message": ending.left_at,
        })),
    })
}

/// Too many wait already.
pub fn queue_full() -> Problem {
    Problem::new(Kind::RateLimited, "too many requests wait already").code("queue_full").retry_after(1)
}
