//! `/v1/audio/transcriptions` and `/v1/audio/translations`.

use super::error;
use crate::App;
use crate::http::form::Form;
use crate::http::stream::{self, Frame, Framing};
use crate::models::{Recording, Said, said_to_the_end};
use crate::problem::Problem;
use akunu::speech::{Decoding, LANGUAGES, Segment, Task, TranscribeOptions, srt, vtt};
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;

/// The fields besides the file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Transcription {
    model: Option<String>,
    /// A code or an English name; where it is not there, the model finds it out.
    language: Option<String>,
    /// What was said before, or words to expect.
    prompt: Option<String>,
    response_format: Option<Format>,
    /// For `verbose_json`.
    #[serde(rename = "timestamp_granularities[]")]
    timestamp_granularities: Option<Vec<Granularity>>,
    temperature: Option<f32>,
    stream: Option<bool>,
    /// Silence always decides where a recording is cut.
    #[expect(dead_code, reason = "only a value that means what is done anyway is read")]
    chunking_strategy: Option<Chunking>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Text,
    Srt,
    Vtt,
    VerboseJson,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Granularity {
    Word,
    Segment,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Chunking {
    Auto,
}

pub async fn transcriptions(app: State<Arc<App>>, form: Form) -> Result<Response, Problem> {
    create(app, form, Task::Transcribe).await
}

pub async fn translations(app: State<Arc<App>>, form: Form) -> Result<Response, Problem> {
    create(app, form, Task::Translate).await
}

async fn create(State(app): State<Arc<App>>, form: Form, task: Task) -> Result<Response, Problem> {
    let Form { mut fields, file, held } = form;
    for name in ["temperature", "stream"] {
        fields.as_json(name);
    }
    let asked: Transcription = fields.take()?;
    fields.end()?;
    let format = asked.response_format.unwrap_or_default();
    let times = asked.timestamp_granularities.unwrap_or_default();
    if !times.is_empty() && format != Format::VerboseJson {
        let sentence = "timestamp_granularities[] needs response_format to be verbose_json";
        return Err(Problem::field("timestamp_granularities[]", sentence));
    }
    let streams = asked.stream.unwrap_or(false);
    if streams && !matches!(format, Format::Json | Format::Text) {
        return Err(Problem::field("stream", "stream needs response_format to be json or text"));
    }
    let scribe = app.models.scribe(asked.model.as_deref()).await?;
    let options = TranscribeOptions {
        language: asked.language.filter(|language| !language.is_empty()),
        task,
        decoding: Decoding { temperatures: temperatures(asked.temperature.unwrap_or(0.0))?, ..Decoding::default() },
        prompt: asked.prompt.filter(|prompt| !prompt.trim().is_empty()),
        words: times.contains(&Granularity::Word),
        ..TranscribeOptions::default()
    };
    let mut said = scribe.transcribe((file, held), options)?;
    if streams {
        // What is wrong with the recording shows before anything is said, and has a status of its own.
        let first = said.recv().await;
        if let Some(Said::End(Err(problem))) = first {
            return Err(problem);
        }
        return Ok(stream::response(Framing::Events, Deltas { first, said, ended: false }));
    }
    let Recording { transcript, seconds } = said_to_the_end(said).await?;
    let as_text = |text: String| ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response();
    Ok(match format {
        Format::Text => as_text(format!("{}\n", transcript.text())),
        Format::Srt => as_text(srt(&transcript.cues(false))),
        Format::Vtt => as_text(vtt(&transcript.cues(false))),
        Format::Json => Json(json!({ "text": transcript.text(), "usage": usage(seconds) })).into_response(),
        Format::VerboseJson => {
            let language =
                LANGUAGES.iter().find(|(code, _)| *code == transcript.language).map_or("", |(_, name)| *name);
            let mut body = json!({
                "task": if task == Task::Translate { "translate" } else { "transcribe" },
                "language": language,
                "duration": seconds,
                "text": transcript.text(),
            });
            if times.is_empty() || times.contains(&Granularity::Segment) {
                body["segments"] = transcript.segments.iter().enumerate().map(|(id, s)| segment(id, s)).collect();
            }
            if times.contains(&Granularity::Word) {
                let words = transcript.segments.iter().flat_map(|s| &s.words);
                body["words"] = words
                    .map(|w| json!({ "word": w.text.trim(), "start": time(w.start), "end": time(w.end) }))
                    .collect();
            }
            body["usage"] = usage(seconds);
            Json(body).into_response()
        }
    })
}

/// The one asked for, then higher ones while the result is not good enough.
fn temperatures(first: f32) -> Result<Vec<f32>, Problem> {
    if !(0.0..=1.0).contains(&first) {
        return Err(Problem::field("temperature", "temperature must be between 0 and 1"));
    }
    let higher = Decoding::default().temperatures.into_iter().filter(|t| *t > first);
    Ok([first].into_iter().chain(higher).collect())
}

/// Three digits are more than the times have.
fn time(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn usage(seconds: f64) -> Value {
    json!({ "type": "duration", "seconds": seconds.ceil() as u64 })
}

fn segment(id: usize, segment: &Segment) -> Value {
    json!({
        "id": id,
        // In frames of 10 ms.
        "seek": (segment.start * 100.0) as u64,
        "start": time(segment.start),
        "end": time(segment.end),
        "text": segment.text,
        "tokens": segment.tokens,
        "temperature": crate::number::number(segment.temperature),
        "avg_logprob": segment.log_probability,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech,
    })
}

/// What is said, as events.
struct Deltas {
    first: Option<Said>,
    said: UnboundedReceiver<Said>,
    ended: bool,
}

impl Stream for Deltas {
    type Item = Vec<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<Frame>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => match self.said.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
        };
        self.ended = !matches!(next, Some(Said::Segment(_)));
        let Some(said) = next else { return Poll::Ready(None) };
        let event = match said {
            Said::Segment(segment) => json!({ "type": "transcript.text.delta", "delta": segment.text }),
            Said::End(Ok(Recording { transcript, seconds })) => {
                json!({ "type": "transcript.text.done", "text": transcript.text(), "usage": usage(seconds) })
            }
            Said::End(Err(problem)) => error(&problem),
        };
        Poll::Ready(Some(vec![Frame::Data(event)]))
    }
}
