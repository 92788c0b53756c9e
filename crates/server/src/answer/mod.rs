//! From a request for text to its answers, as they come: the one path that all dialects share.

mod ask;
mod gather;

pub use ask::{Ask, Prompt, Think};
pub use gather::{Call, Choice, Gathered};

use crate::App;
use crate::http::stream::{self, Frame, Framing};
use crate::models::{Generator, InUse};
use crate::problem::{Kind, Problem};
use akunu::{Finish, LogProbs, Reply, Request, Summary, Thinking};
use akunu_text::Encode;
use axum::response::Response;
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
        logprobs: LogProbs,
    },
    /// Nothing more comes.
    End(Ending),
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub reason: Reason,
    pub generated: usize,
    pub summary: Summary,
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
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Whose turn it is to be asked first, so that all come forward.
    turn: usize,
    _place: OwnedSemaphorePermit,
}

struct Stage {
    reply: Option<Reply>,
    ready: VecDeque<Part>,
    called: bool,
}

impl Answer {
    /// Renders, encodes and submits. What cannot be answered at all is refused here.
    pub async fn start(app: &App, ask: Ask) -> Result<Answer, Problem> {
        let generator = app.models.generator(ask.model.as_deref()).await?;
        let Ask { prompt, mut options, choices, form, think, .. } = ask;
        let shared = generator.clone();
        let (tokens, opened) = tokio::task::spawn_blocking(move || prompt_tokens(&shared, prompt, think)).await??;
        let context = generator.context;
        if tokens.len() >= context {
            return Err(akunu::Error::ContextFull { tokens: tokens.len() + 1, context }.into());
        }
        let places = u32::try_from(choices).ok().and_then(|n| generator.queue.clone().try_acquire_many_owned(n).ok());
        let Some(place) = places else {
            return Err(Problem::new(Kind::RateLimited, "too many requests wait already")
                .code("queue_full")
                .retry_after(1));
        };
        options.grammar = form;
        options.thinking = opened;
        let stops = options.stop.clone();
        let prompt = tokens.len();
        let mut stages = Vec::with_capacity(choices);
        for choice in 0..choices {
            let mut options = options.clone();
            options.sampling.seed = options.sampling.seed.wrapping_add(choice as u64);
            let reply = generator.service.submit(Request { tokens: tokens.clone(), options })?;
            stages.push(Stage { reply: Some(reply), ready: VecDeque::new(), called: false });
        }
        Ok(Answer { generator, choices: stages, stops, prompt, turn: 0, _place: place })
    }

    /// The model that answers.
    pub fn generator(&self) -> &InUse<Generator> {
        &self.generator
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
                    if let Some(logprobs) = piece.logprobs {
                        stage.ready.push_back(Part::Token { id: piece.token, logprobs });
                    }
                    if !piece.text.is_empty() {
                        stage.ready.push_back(Part::Text(piece.text));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    stage.reply = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(None) => {
                    let summary = stage.reply.take().and_then(|reply| reply.summary().cloned());
                    let Some(summary) = summary else { return Poll::Ready(None) };
                    if !summary.rest.is_empty() {
                        stage.ready.push_back(Part::Text(summary.rest.clone()));
                    }
                    let reason = match summary.finish {
                        Finish::Length | Finish::Context => Reason::Length,
                        Finish::StopString(which) => {
                            self.stops.get(which).map_or(Reason::Done, |stop| Reason::StopString(stop.clone()))
                        }
                        Finish::Stop if stage.called => Reason::Calls,
                        Finish::Stop => Reason::Done,
                    };
                    stage.ready.push_back(Part::End(Ending { reason, generated: summary.generated, summary }));
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

/// How many tokens the prompt of a request has.
pub async fn count(app: &App, ask: Ask) -> Result<usize, Problem> {
    let generator = app.models.generator(ask.model.as_deref()).await?;
    let (tokens, _) = tokio::task::spawn_blocking(move || prompt_tokens(&generator, ask.prompt, ask.think)).await??;
    Ok(tokens.len())
}

/// The tokens of a prompt, and whether its end has opened a thinking block.
fn prompt_tokens(generator: &Generator, prompt: Prompt, think: Think) -> Result<(Vec<u32>, Thinking), Problem> {
    let tokenizer = generator.tokenizer()?;
    match prompt {
        Prompt::Tokens(tokens) => match tokens.iter().find(|t| **t as usize >= generator.vocab) {
            Some(&token) => Err(akunu::Error::Token { token, vocab: generator.vocab }.into()),
            None if tokens.is_empty() => Err(akunu::Error::EmptyPrompt.into()),
            None => Ok((tokens, Thinking::Not)),
        },
        Prompt::Text(text) => {
            let tokens = tokenizer.encode(&text, Encode { add_special: true, parse_special: true })?;
            if tokens.is_empty() { Err(akunu::Error::EmptyPrompt.into()) } else { Ok((tokens, Thinking::Not)) }
        }
        Prompt::Messages { messages, variables } => {
            let text = generator.render(messages, variables, think)?;
            // The template has written the special tokens already.
            let tokens = tokenizer.encode(&text, Encode { add_special: false, parse_special: true })?;
            let open = text.trim_end().ends_with("<think>");
            Ok((tokens, if open { Thinking::Open } else { Thinking::MayOpen }))
        }
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
                this.writer.end(this.answer.prompt)
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
        "cache_miss": ending.summary.miss.map(|miss| miss.to_string()),
    })
}
