//! Text generation: an iterator of pieces.

use crate::engine::MAX_CHAIN;
use crate::sample::{Sampler, SamplingOptions, argmax};
use crate::{Engine, Error, Sequence};
use akunu_text::{Detokenizer, Encode};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// 0: until the model ends, or the context is full.
    pub max_tokens: usize,
    pub sampling: SamplingOptions,
    /// Go on after the model's end token.
    pub ignore_eos: bool,
}

/// One generated token and the text it completes: whole characters, often none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub token: u32,
    pub text: String,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model said so.
    Stop,
    /// `max_tokens` are there.
    Length,
    /// The context is full.
    Context,
}

/// A generation in progress.
///
/// Greedy tokens come in chains, computed without host work between them: short at first, so that
/// the first words appear at once, then longer.
pub struct Generate<'a> {
    engine: &'a mut Engine,
    sequence: &'a mut Sequence,
    options: GenerateOptions,
    sampler: Sampler,
    detokenizer: Option<Detokenizer>,
    end: Vec<u32>,
    /// Tokens so far: what the penalty looks at; the last is not in the KV cache yet.
    tokens: Vec<u32>,
    prompt: usize,
    /// Chosen but not yet given out.
    ready: VecDeque<u32>,
    chain: usize,
    finish: Option<Finish>,
}

impl Engine {
    /// Continues a text, in a sequence of its own.
    pub fn generate_text(&mut self, prompt: &str, options: GenerateOptions) -> Result<String, Error> {
        let ids = self.need_tokenizer()?.encode(prompt, Encode { add_special: true, parse_special: true });
        let mut sequence = self.sequence();
        let mut text = String::new();
        for piece in self.generate(&mut sequence, &ids, options)? {
            text.push_str(&piece?.text);
        }
        Ok(text)
    }

    /// Continues a sequence after `tokens`. The tokens given out end up in the sequence too, all
    /// but the last.
    pub fn generate<'a>(
        &'a mut self,
        sequence: &'a mut Sequence,
        tokens: &[u32],
        options: GenerateOptions,
    ) -> Result<Generate<'a>, Error> {
        let mut sampler = Sampler::new(options.sampling.clone());
        let logits = self.prefill(sequence, tokens)?;
        let first = match options.sampling.is_plain_greedy() {
            true => argmax(logits),
            false => sampler.sample(logits, tokens),
        };
        let tokenizer = self.tokenizer();
        Ok(Generate {
            detokenizer: tokenizer.map(|t| t.stream_continuation()),
            end: tokenizer.map(|t| t.end_of_generation().to_vec()).unwrap_or_default(),
            engine: self,
            sequence,
            options,
            sampler,
            tokens: tokens.to_vec(),
            prompt: tokens.len(),
            ready: VecDeque::from([first]),
            chain: 1,
            finish: None,
        })
    }
}

impl Generate<'_> {
    /// Why it ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Tokens given out so far.
    pub fn generated(&self) -> &[u32] {
        &self.tokens[self.prompt..]
    }

    /// Text held back because it ended inside a character.
    pub fn rest(&mut self) -> String {
        self.detokenizer.as_mut().map(Detokenizer::flush).unwrap_or_default()
    }

    /// Computes the next token, or the next chain of them.
    fn compute(&mut self) -> Result<(), Error> {
        let Some(&last) = self.tokens.last() else { return Ok(()) };
        if !self.options.sampling.is_plain_greedy() {
            let logits = self.engine.prefill(self.sequence, &[last])?;
            self.ready.push_back(self.sampler.sample(logits, &self.tokens));
            return Ok(());
        }
        let room = self.engine.context() - self.sequence.len();
        let wanted = match self.options.max_tokens {
            0 => usize::MAX,
            max => max - self.generated().len(),
        };
        let chain = self.chain.min(room).min(wanted);
        self.chain = (self.chain * 2).min(MAX_CHAIN / 4);
        let base = self.sequence.len();
        self.ready.extend(self.engine.greedy(self.sequence, last, chain)?);
        // What the chain computed past the model's end is not part of the text.
        if !self.options.ignore_eos
            && let Some(at) = self.ready.iter().position(|t| self.end.contains(t))
        {
            self.ready.truncate(at + 1);
            // `None` only where a window has moved on: then the sequence keeps what it has.
            let _ = self.sequence.truncate(base + at + 1);
        }
        Ok(())
    }
}

impl Iterator for Generate<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finish.is_some() {
            return None;
        }
        if self.options.max_tokens > 0 && self.generated().len() >= self.options.max_tokens {
            self.finish = Some(Finish::Length);
            return None;
        }
        if self.ready.is_empty() {
            if self.sequence.len() >= self.engine.context() {
                self.finish = Some(Finish::Context);
                return None;
            }
            if let Err(error) = self.compute() {
                self.finish = Some(Finish::Context);
                return Some(Err(error));
            }
        }
        let token = self.ready.pop_front()?;
        if !self.options.ignore_eos && self.end.contains(&token) {
            self.finish = Some(Finish::Stop);
            return None;
        }
        self.tokens.push(token);
        let text = self.detokenizer.as_mut().map(|d| d.push(token)).unwrap_or_default();
        Some(Ok(Piece { token, text }))
    }
}
