//! A smaller model of the same vocabulary that drafts for a larger one.

use super::MAX_DRAFT;
use super::pace::Pace;
use crate::generate::sampling::{Sampler, SamplingOptions};
use crate::{Engine, Error, Sequence};
use akunu_plan::DrawVars;
use std::time::{Duration, Instant};

/// Tokens without a draft after which one is tried again.
const PATIENCE: usize = 48;

/// A draft model with its place in the text.
///
/// ```
/// use akunu::{Draft, Engine, GenerateOptions, LoadOptions};
///
/// let mut engine = Engine::embedded(LoadOptions::default())?;
/// let mut draft = Draft::new(Engine::embedded(LoadOptions::default())?);
/// let mut sequence = engine.sequence();
/// let options = GenerateOptions::new().max_tokens(20);
/// let pieces = engine.resume_drafted(&mut sequence, &[1, 2, 3], options, &mut draft)?;
/// assert!(pieces.count() <= 20);
/// # Ok::<(), akunu::Error>(())
/// ```
pub struct Draft {
    engine: Engine,
    sequence: Sequence,
    /// What is in `sequence`.
    tokens: Vec<u32>,
    draft: Vec<u32>,
    pace: Pace,
    /// Tokens since the last draft.
    silent: usize,
    /// Tokens drafted since the start, and those that were accepted.
    pub drafted: u64,
    /// Of those, tokens that the larger model chose too.
    pub accepted: u64,
}

impl Draft {
    /// With an empty sequence of its own.
    pub fn new(engine: Engine) -> Self {
        let sequence = engine.sequence();
        let (tokens, draft, pace) = (Vec::new(), Vec::new(), Pace::default());
        Self { engine, sequence, tokens, draft, pace, silent: 0, drafted: 0, accepted: 0 }
    }

    /// Whether its tokens mean what the tokens of `target` mean.
    pub(crate) fn check(&self, target: &Engine) -> Result<(), Error> {
        let (ours, theirs) = (self.engine.vocab(), target.vocab());
        if ours > theirs {
            return Err(Error::OtherVocabulary { what: format!("{ours} tokens instead of {theirs}") });
        }
        if let (Some(a), Some(b)) = (self.engine.tokenizer(), target.tokenizer())
            && let Some(id) = (0..ours as u32).find(|id| a.token_bytes(*id) != b.token_bytes(*id))
        {
            return Err(Error::OtherVocabulary { what: format!("another token {id}") });
        }
        Ok(())
    }

    /// Drafts what follows `tokens`, of which the next is the `index`-th chosen; as much as is worth verifying.
    pub(crate) fn draft(
        &mut self,
        tokens: &[u32],
        index: u64,
        sampling: &SamplingOptions,
        most: usize,
    ) -> Result<&[u32], Error> {
        self.draft.clear();
        let room = self.engine.context().saturating_sub(tokens.len());
        let most = most.min(MAX_DRAFT).min(room);
        let mut n = self.pace.best(0, most);
        if n == 0 && self.silent >= PATIENCE {
            n = most.min(2);
        }
        if n == 0 {
            self.silent += 1;
            return Ok(&[]);
        }
        self.silent = 0;
        let begun = Instant::now();
        let last = self.follow(tokens)?;
        if let Some(draw) = sampling.on_backend() {
            let draw = DrawVars { index: index as u32, ..draw };
            self.draft.extend_from_slice(self.engine.chain(&mut self.sequence, last, n, draw)?);
        } else {
            // With the same draws the two models agree as often as they can.
            let mut sampler = Sampler::new(sampling.clone()).starting_at(index);
            let mut text = tokens.to_vec();
            for _ in 0..n {
                let last = text[text.len() - 1];
                let logits = self.engine.prefill(&mut self.sequence, &[last])?;
                let token = sampler.sample(logits, &text);
                text.push(token);
                self.draft.push(token);
            }
        }
        self.tokens.push(last);
        self.tokens.extend_from_slice(&self.draft[..self.draft.len() - 1]);
        self.pace.record_drafting(begun.elapsed() / n as u32);
        Ok(&self.draft)
    }

    /// Brings the sequence to all but the last of `tokens`; the last.
    fn follow(&mut self, tokens: &[u32]) -> Result<u32, Error> {
        let (&last, head) = tokens.split_last().ok_or(Error::EmptyPrompt)?;
        let common = self.tokens.iter().zip(head).take_while(|(a, b)| a == b).count();
        let common = match self.sequence.truncate(common) {
            Some(()) => common,
            // A window has dropped what would be needed.
            None => {
                self.sequence = self.engine.sequence();
                0
            }
        };
        self.tokens.truncate(common);
        if common < head.len() {
            self.engine.prefill(&mut self.sequence, &head[common..])?;
            self.tokens.extend_from_slice(&head[common..]);
        }
        Ok(last)
    }

    /// `accepted` of `drafted` tokens were; the step that verified them took this long.
    pub(crate) fn learn(&mut self, accepted: usize, drafted: usize, time: Duration) {
        self.pace.record_verified(0, accepted, drafted);
        self.pace.record_step(drafted + 1, time);
        self.drafted += drafted as u64;
        self.accepted += accepted as u64;
    }
}
