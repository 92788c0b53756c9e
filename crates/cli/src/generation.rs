//! Generating text for somebody who watches: streamed, timed, and stopped when they ask.

use std::time::{Duration, Instant};

use akunu::{Draft, Engine, Finish, GenerateOptions, Outputs, Piece, Sequence, StepInput};
use anyhow::Result;

use crate::interrupt::Interrupt;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Finished(Finish),
    Interrupted,
}

/// How long the parts of an answer took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speeds {
    pub prompt: usize,
    pub prefill: Duration,
    pub generated: usize,
    pub decode: Duration,
}

/// The tokens of `text` that are in a sequence after the shifts, of which it holds `stored`.
pub fn stored(mut text: Vec<u32>, shifts: &[(usize, usize)], stored: usize) -> Vec<u32> {
    for &(keep, drop) in shifts {
        text.drain(keep.min(text.len())..(keep + drop).min(text.len()));
    }
    text.truncate(stored);
    text
}

impl Speeds {
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt, self.prefill)
    }

    /// The first token comes out of the prefill, so that it does not count.
    pub fn decode_rate(&self) -> f64 {
        rate(self.generated.saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

impl std::fmt::Display for Speeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "prefill {} tokens, {:.1} tokens/s", self.prompt, self.prefill_rate())?;
        write!(f, "; decode {} tokens, {:.1} tokens/s", self.generated, self.decode_rate())
    }
}

/// What was generated.
pub struct Answer {
    pub tokens: Vec<u32>,
    /// What went from the sequence meanwhile: so many positions after so many.
    pub shifts: Vec<(usize, usize)>,
    pub ended: Ended,
    pub speeds: Speeds,
}

/// Who computes: a model, and one that drafts for it where there is one.
pub struct Writer {
    pub engine: Engine,
    pub draft: Option<Draft>,
}

/// Continues the text `ids`, of which `sequence` holds the beginning; `each` gets the pieces as they come.
pub fn answer(
    writer: &mut Writer,
    sequence: &mut Sequence,
    ids: &[u32],
    options: GenerateOptions,
    chunk: usize,
    interrupt: &Interrupt,
    mut each: impl FnMut(&Piece) -> Result<()>,
) -> Result<Answer> {
    let Writer { engine, draft } = writer;
    let start = Instant::now();
    let interrupted = |speeds| Answer { tokens: Vec::new(), shifts: Vec::new(), ended: Ended::Interrupted, speeds };
    // All but the last chunk go in one by one, so that Ctrl-C need not wait for a long prompt.
    let new = &ids[sequence.len().min(ids.len())..];
    let head = &new[..new.len().saturating_sub(1) / chunk * chunk];
    if ids.len() > engine.context() {
        let (tokens, context) = (ids.len(), engine.context());
        return Err(akunu::Error::ContextFull { tokens, context }.into());
    }
    let prompt = new.len();
    for (i, tokens) in head.chunks(chunk).enumerate() {
        if interrupt.is_set() {
            let speeds = Speeds { prompt: i * chunk, prefill: start.elapsed(), ..Speeds::default() };
            return Ok(interrupted(speeds));
        }
        engine.step(&mut [StepInput { sequence: &mut *sequence, tokens, outputs: Outputs::None, prompt: true }])?;
    }
    let mut generation = match draft {
        Some(draft) => engine.resume_drafted(sequence, ids, options, draft)?,
        None => engine.resume(sequence, ids, options)?,
    };
    let prefill = start.elapsed();
    let start = Instant::now();
    let mut ended = None;
    while ended.is_none() {
        match generation.next() {
            _ if interrupt.is_set() => ended = Some(Ended::Interrupted),
            Some(piece) => each(&piece?)?,
            None => ended = Some(Ended::Finished(generation.finish().unwrap_or(Finish::Stop))),
        }
    }
    let decode = start.elapsed();
    let tokens = generation.generated().to_vec();
    let shifts = generation.shifts().to_vec();
    let rest = generation.rest();
    if let (Some(&token), false) = (tokens.last(), rest.is_empty()) {
        each(&Piece { token, text: rest, logprobs: None })?;
    }
    let speeds = Speeds { prompt, prefill, generated: tokens.len(), decode };
    Ok(Answer { tokens, shifts, ended: ended.unwrap_or(Ended::Interrupted), speeds })
}
