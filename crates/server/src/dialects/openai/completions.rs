//! `/v1/completions`.

use super::sampling::{Sampling, choices, max_tokens};
use super::{Count, FINGERPRINT, SoFar, StreamOptions, ending, error, finish_reason, usage, usage_of};
use crate::App;
use crate::answer::{self, Answer, Ask, Part, Piece, Prompt, Writer};
use crate::dialects::prompts::Prompts;
use crate::http::body::Fields;
use crate::http::stream::{Frame, Framing};
use crate::id;
use crate::models::{Generator, InUse};
use crate::number::number;
use crate::problem::Problem;
use akunu::{Grammar, LogProbs};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Completion {
    model: Option<String>,
    prompt: Prompts,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<i64>,
    max_tokens: Option<i64>,
    logprobs: Option<usize>,
    echo: Option<bool>,
    /// A grammar in GBNF, as llama.cpp's server takes it.
    grammar: Option<String>,
    /// A schema, as llama.cpp's server takes it.
    json_schema: Option<Value>,
}

pub const HARMLESS: &[&str] = &["user", "metadata", "cache_prompt"];
/// What OpenAI's API says where nobody says.
const USUAL_TOKENS: i64 = 16;

pub async fn create(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Problem> {
    let completion: Completion = fields.take()?;
    let sampling: Sampling = fields.take()?;
    fields.ignore(HARMLESS);
    // Not there, and only its usual value means what is there.
    for (name, usual) in [("best_of", json!(1)), ("suffix", json!(""))] {
        if fields.field::<Value>(name)?.is_some_and(|value| value != usual) {
            return Err(Problem::field(name, format!("{name} is not supported")));
        }
    }
    fields.end()?;
    let streams = completion.stream.unwrap_or(false);
    let prompts = completion.prompt.to_go_on_from(&app, streams)?;
    if completion.logprobs.is_some_and(|n| n > 20) {
        return Err(Problem::field("logprobs", "logprobs must be between 0 and 20"));
    }
    let (mut options, biases) = sampling.options()?;
    options.max_tokens = max_tokens(&app, "max_tokens", completion.max_tokens.or(Some(USUAL_TOKENS)))?;
    options.logprobs = completion.logprobs;
    let form = match (completion.grammar, completion.json_schema) {
        (Some(text), _) => Some(Grammar::Gbnf(text)),
        (None, Some(schema)) => Some(Grammar::JsonSchema(schema.to_string())),
        (None, None) => None,
    };
    let echo = completion.echo.unwrap_or(false);
    let choices = choices(&app, completion.n)?;
    let mut answers = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let echoed = match &prompt[..] {
            _ if !echo => String::new(),
            [Piece::Text(text)] => text.clone(),
            _ => return Err(Problem::field("echo", "echo needs a prompt of text")),
        };
        let (biases, form) = (biases.clone(), form.clone());
        let ask = Ask::new(completion.model.clone(), Prompt::Row(prompt), options.clone());
        let ask = Ask { biases, choices, form, ..ask };
        answers.push((echoed, Answer::start(&app, ask).await?));
    }
    let model = answers.first().map_or_else(String::new, |(_, answer)| answer.model().to_owned());
    let head = Head { id: id("cmpl-"), created: crate::now(), model };
    if streams && let Some((echoed, answer)) = answers.pop() {
        let stream_options = completion.stream_options.unwrap_or_default();
        let (with_usage, so_far) = (stream_options.include_usage, stream_options.so_far(answer.prompt()));
        let generator = answer.generator().clone();
        let chunks =
            Chunks { head, generator, with_usage, so_far, count: Count::default(), pending: Vec::new(), echoed };
        return Ok(answer::send(Framing::Events, answer, chunks));
    }
    let (mut written, mut prompt, mut cached, mut generated) = (Vec::new(), 0, 0, 0);
    let mut timings = None;
    for (echoed, answer) in answers {
        let generator = answer.generator().clone();
        let gathered = answer.gather().await?;
        for choice in &gathered.choices {
            let tokens: Vec<_> = choice.likelihoods().collect();
            let logprobs = (!tokens.is_empty()).then(|| logprobs(&generator, &tokens, echoed.len()));
            let reason = choice.ending.as_ref().map(|e| finish_reason(&e.reason));
            timings = timings.or(choice.ending.as_ref().map(answer::timings));
            let text = format!("{echoed}{}", choice.text);
            let index = written.len();
            written.push(json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": reason }));
        }
        let of = usage_of(&gathered);
        let add = |name: &str| of[name].as_u64().unwrap_or(0) as usize;
        prompt += add("prompt_tokens");
        generated += add("completion_tokens");
        cached += gathered.cached();
    }
    let mut body = head.body(written.into());
    body["usage"] = usage(prompt, cached, generated, 0);
    body["timings"] = timings.into();
    Ok(axum::Json(body).into_response())
}

struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn body(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        })
    }
}

/// In the form of this older API: lists side by side.
fn logprobs(generator: &Generator, tokens: &[(u32, &LogProbs)], mut offset: usize) -> Value {
    let (mut texts, mut chosen, mut top, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (token, of) in tokens {
        let text = generator.token_text(*token);
        offsets.push(offset);
        offset += text.len();
        texts.push(text);
        chosen.push(number(of.chosen));
        let likeliest = of.top.iter().map(|(token, p)| (generator.token_text(*token), number(*p)));
        top.push(Value::Object(likeliest.collect()));
    }
    json!({ "tokens": texts, "token_logprobs": chosen, "top_logprobs": top, "text_offset": offsets })
}

struct Chunks {
    head: Head,
    generator: InUse<Generator>,
    with_usage: bool,
    so_far: Option<SoFar>,
    count: Count,
    pending: Vec<(usize, (u32, LogProbs))>,
    echoed: String,
}

impl Chunks {
    fn chunk(&mut self, choice: usize, text: &str, finish: Option<&str>) -> Vec<Frame> {
        let mine: Vec<_> = self.pending.extract_if(.., |(c, _)| *c == choice).map(|(_, token)| token).collect();
        let mine: Vec<_> = mine.iter().map(|(token, of)| (*token, of)).collect();
        let logprobs = (!mine.is_empty()).then(|| logprobs(&self.generator, &mine, 0));
        let choice = json!({ "index": choice, "text": text, "logprobs": logprobs, "finish_reason": finish });
        let mut chunk = self.head.body(json!([choice]));
        if let Some(so_far) = &self.so_far {
            chunk["usage"] = so_far.usage();
        }
        vec![Frame::Data(chunk)]
    }
}

impl Writer for Chunks {
    fn begin(&mut self, choices: usize) -> Vec<Frame> {
        let echoed = std::mem::take(&mut self.echoed);
        match echoed.is_empty() {
            true => Vec::new(),
            false => (0..choices).flat_map(|i| self.chunk(i, &echoed, None)).collect(),
        }
    }

    fn part(&mut self, choice: usize, part: Part) -> Vec<Frame> {
        match part {
            Part::Text(text) | Part::Thought(text) => self.chunk(choice, &text, None),
            Part::Token { id, logprobs } => {
                self.so_far.iter_mut().for_each(|so_far| so_far.generated += 1);
                self.pending.extend(logprobs.map(|of| (choice, (id, of))));
                Vec::new()
            }
            Part::End(ending) => {
                let frames = self.chunk(choice, "", Some(finish_reason(&ending.reason)));
                self.count.add(ending);
                frames
            }
            Part::Call { .. } | Part::Arguments { .. } => Vec::new(),
        }
    }

    fn end(&mut self, prompt: usize) -> Vec<Frame> {
        ending(self.with_usage.then(|| self.head.body(json!([]))), prompt, &self.count)
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Data(error(problem))]
    }
}
