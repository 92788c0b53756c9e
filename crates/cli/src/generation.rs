//! Generating text for somebody who watches: streamed, timed, and stopped when they ask.

use std::time::{Duration, Instant};

use akunu::{Engine, Finish, GenerateOptions, Outputs, Part, Sequence};
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
    pub ended: Ended,
    pub speeds: Speeds,
}

/// Continues `sequence` after `ids`; `each` gets the text as it comes.
pub fn answer(
    engine: &mut Engine,
    sequence: &mut Sequence,
    ids: &[u32],
    options: GenerateOptions,
    chunk: usize,
    interrupt: &Interrupt,
    mut each: impl FnMut(&str) -> Result<()>,
) -> Result<Answer> {
    let start = Instant::now();
    let interrupted = |speeds| Answer { tokens: Vec::new(), ended: Ended::Interrupted, speeds };
    // All but the last chunk go in one by one, so that Ctrl-C need not wait for a long prompt.
    let (head, tail) = ids.split_at(ids.len().saturating_sub(1) / chunk * chunk);
    if ids.len() + sequence.len() > engine.context() {
        let (tokens, context) = (ids.len() + sequence.len(), engine.context());
        return Err(akunu::Error::ContextFull { tokens, context }.into());
    }
    for (i, tokens) in head.chunks(chunk).enumerate() {
        if interrupt.is_set() {
            let speeds = Speeds { prompt: i * chunk, prefill: start.elapsed(), ..Speeds::default() };
            return Ok(interrupted(speeds));
        }
        engine.step(&mut [Part { sequence: &mut *sequence, tokens, outputs: Outputs::None }])?;
    }
    let mut generation = engine.generate(sequence, tail, options)?;
    let prefill = start.elapsed();
    let start = Instant::now();
    let mut ended = None;
    while ended.is_none() {
        match generation.next() {
            _ if interrupt.is_set() => ended = Some(Ended::Interrupted),
            Some(piece) => each(&piece?.text)?,
            None => ended = Some(Ended::Finished(generation.finish().unwrap_or(Finish::Stop))),
        }
    }
    let decode = start.elapsed();
    each(&generation.rest())?;
    let tokens = generation.generated().to_vec();
    let speeds = Speeds { prompt: ids.len(), prefill, generated: tokens.len(), decode };
    Ok(Answer { tokens, ended: ended.unwrap_or(Ended::Interrupted), speeds })
}
