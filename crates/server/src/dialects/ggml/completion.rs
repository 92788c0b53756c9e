//! `/completion`.

use crate::App;
use crate::answer::{self, Answer, Ask, Ending, Likelihood, Part, Prompt, Reason, Row, Writer};
use crate::dialects::openai::sampling::{Sampling, max_tokens};
use crate::dialects::prompts::Prompts;
use crate::http::body::Fields;
use crate::http::stream::{Frame, Framing};
use crate::models::{Generator, InUse};
use crate::number::number;
use crate::problem::Problem;
use akunu::{GenerateOptions, Grammar, LogProbs};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Completion {
    model: Option<String>,
    prompt: Prompts,
    stream: Option<bool>,
    n_predict: Option<i64>,
    #[schemars(range(max = 1000))]
    n_probs: Option<usize>,
    /// Probabilities that tokens were drawn by, instead of the model's own.
    post_sampling_probs: Option<bool>,
    grammar: Option<String>,
    json_schema: Option<Value>,
    /// Streams have tokens in any case.
    return_tokens: Option<bool>,
    /// Only these fields of the answer; `/` goes into a field.
    response_fields: Option<Vec<String>>,
}

/// Fields that change nothing in the answer here.
pub const HARMLESS: &[&str] =
    &["cache_prompt", "id_slot", "timings_per_token", "return_progress", "t_max_predict_ms", "backend_sampling"];
const MOST_LIKELIEST: usize = 1000;

pub async fn create(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Problem> {
    let request: Completion = fields.take()?;
    let sampling: Sampling = fields.take()?;
    fields.ignore(HARMLESS);
    fields.end()?;
    let streams = request.stream.unwrap_or(false);
    let rows = request.prompt.to_go_on_from(&app, streams)?;
    let (mut options, biases) = sampling.options()?;
    options.max_tokens = max_tokens(&app, "n_predict", request.n_predict)?;
    options.logprobs = match request.n_probs.unwrap_or(0) {
        0 => None,
        n if n <= MOST_LIKELIEST => Some(n),
        _ => return Err(Problem::field("n_probs", format!("n_probs must be at most {MOST_LIKELIEST}"))),
    };
    options.sampled_logprobs = request.post_sampling_probs.unwrap_or(false);
    let form = match (request.grammar.as_deref().filter(|g| !g.is_empty()), &request.json_schema) {
        (Some(text), _) => Some(Grammar::Gbnf(text.to_owned())),
        (None, Some(schema)) => Some(Grammar::JsonSchema(schema.to_string())),
        (None, None) => None,
    };
    let start = async |index: usize, row: Row| {
        let ask = Ask::new(request.model.clone(), Prompt::Row(row), options.clone());
        let answer = Answer::start(&app, Ask { biases: biases.clone(), form: form.clone(), ..ask }).await?;
        let pieces = Pieces::new(index, &answer, &request, settings(&request, &options));
        Ok::<_, Problem>((answer, pieces))
    };
    let mut begun = Vec::with_capacity(rows.len());
    for (index, row) in rows.into_iter().enumerate() {
        begun.push(start(index, row).await?);
    }
    if streams && let Some((answer, pieces)) = begun.pop() {
        return Ok(answer::send(Framing::Events, answer, pieces));
    }
    let mut bodies = Vec::with_capacity(begun.len());
    for (answer, pieces) in begun {
        let gathered = answer.gather().await?;
        bodies.extend(gathered.choices.into_iter().next().map(|choice| pieces.whole(choice)));
    }
    let body = if bodies.len() == 1 { bodies.swap_remove(0) } else { bodies.into() };
    Ok(Json(body).into_response())
}

/// How the answer was made, as far as there is something to choose.
fn settings(request: &Completion, options: &GenerateOptions) -> Value {
    let sampling = &options.sampling;
    let predicted = request.n_predict.unwrap_or(-1);
    json!({
        "n_predict": predicted,
        "max_tokens": predicted,
        "seed": sampling.seed,
        "temperature": number(sampling.temperature),
        "top_k": sampling.top_k,
        "top_p": number(sampling.top_p),
        "min_p": number(sampling.min_p),
        "typical_p": number(sampling.typical_p),
        "repeat_last_n": i64::try_from(sampling.repeat_last).unwrap_or(-1),
        "repeat_penalty": number(sampling.repeat_penalty),
        "presence_penalty": number(sampling.presence_penalty),
        "frequency_penalty": number(sampling.frequency_penalty),
        // A stage that is not here, as llama.cpp writes it where it does nothing.
        "adaptive_target": -1.0,
        "adaptive_decay": 0.0,
        "ignore_eos": options.ignore_eos,
        "stop": options.stop,
        "stream": request.stream.unwrap_or(false),
        "n_probs": request.n_probs.unwrap_or(0),
        "post_sampling_probs": options.sampled_logprobs,
    })
}

/// An answer in pieces, and what its end has besides.
struct Pieces {
    index: usize,
    generator: InUse<Generator>,
    settings: Value,
    prompt: String,
    /// Which fields its end has; none: all.
    fields: Vec<String>,
    returns_tokens: bool,
    likelihood: Likelihood,
    /// What has come and was not sent yet: tokens until there is text, text until there are tokens.
    tokens: Vec<u32>,
    likelihoods: Vec<Value>,
    text: String,
    has_new_line: bool,
}

impl Pieces {
    fn new(index: usize, answer: &Answer, request: &Completion, settings: Value) -> Self {
        let sampled = request.post_sampling_probs.unwrap_or(false);
        Self {
            index,
            generator: answer.generator().clone(),
            settings,
            prompt: answer.prompt_text(),
            fields: request.response_fields.clone().unwrap_or_default(),
            returns_tokens: request.return_tokens.unwrap_or(false),
            likelihood: if sampled { Likelihood::Sampled } else { Likelihood::WithIds },
            tokens: Vec::new(),
            likelihoods: Vec::new(),
            text: String::new(),
            has_new_line: false,
        }
    }

    fn take(&mut self, id: u32, logprobs: Option<LogProbs>) {
        self.tokens.push(id);
        self.likelihoods.extend(logprobs.map(|of| self.likelihood.write(&self.generator, id, &of)));
    }

    /// What has come since the last time.
    fn piece(&mut self, stop: bool) -> Value {
        let (text, tokens) = (std::mem::take(&mut self.text), std::mem::take(&mut self.tokens));
        self.has_new_line |= text.contains('\n');
        let mut piece = json!({ "index": self.index, "content": text, "tokens": tokens, "stop": stop });
        if !self.likelihoods.is_empty() {
            piece["completion_probabilities"] = std::mem::take(&mut self.likelihoods).into();
        }
        piece
    }

    fn end(&mut self, ending: &Ending) -> Value {
        let (kind, word) = match &ending.reason {
            Reason::StopString(word) => ("word", word.as_str()),
            Reason::Length => ("limit", ""),
            Reason::Done | Reason::Calls => ("eos", ""),
        };
        let mut end = self.piece(true);
        let about = json!({
            "model": self.generator.name,
            "tokens_predicted": ending.generated,
            "tokens_evaluated": ending.summary.prompt,
            "tokens_cached": ending.summary.cached,
            "generation_settings": self.settings,
            "prompt": self.prompt,
            "has_new_line": self.has_new_line,
            "truncated": false,
            "stop_type": kind,
            "stopping_word": word,
            "timings": answer::timings(ending),
        });
        if let (Some(end), Value::Object(about)) = (end.as_object_mut(), about) {
            end.extend(about);
        }
        picked(end, &self.fields)
    }

    /// All of it in one.
    fn whole(mut self, choice: answer::Choice) -> Value {
        let Some(ending) = &choice.ending else { return json!({}) };
        for (id, of) in choice.likelihoods() {
            self.likelihoods.push(self.likelihood.write(&self.generator, id, of));
        }
        if self.returns_tokens {
            self.tokens = choice.tokens.clone();
        }
        self.text = choice.text.clone();
        self.end(ending)
    }
}

/// Some fields of an object, under the paths that they were asked by; all where none was.
fn picked(of: Value, paths: &[String]) -> Value {
    if paths.is_empty() {
        return of;
    }
    let mut found = Map::new();
    for path in paths {
        let field = path.split('/').try_fold(&of, |at, name| at.get(name));
        if let Some(field) = field {
            found.insert(path.clone(), field.clone());
        }
    }
    found.into()
}

impl Writer for Pieces {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        Vec::new()
    }

    fn part(&mut self, _: usize, part: Part) -> Vec<Frame> {
        match part {
            Part::Token { id, logprobs } => self.take(id, logprobs),
            Part::Text(text) | Part::Thought(text) => self.text += &text,
            Part::End(ending) => return vec![Frame::Data(self.end(&ending))],
            Part::Call { .. } | Part::Arguments { .. } => {}
        }
        let is_piece = !self.tokens.is_empty() && !self.text.is_empty();
        is_piece.then(|| Frame::Data(self.piece(false))).into_iter().collect()
    }

    fn end(&mut self, _: usize) -> Vec<Frame> {
        Vec::new()
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Data(crate::dialects::openai::error(problem))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_picked_by_their_paths() {
        let of = json!({ "content": "a", "settings": { "seed": 7 }, "more": 1 });
        let paths = ["content", "settings/seed", "settings/none", "content/x"].map(String::from);
        assert_eq!(picked(of.clone(), &paths), json!({ "content": "a", "settings/seed": 7 }));
        assert_eq!(picked(of.clone(), &[]), of);
    }
}
