//! One generation, apart from where it runs: which rows it wants next, and what follows from their logits.

use super::constraint::Constraint;
use super::sampling::{Sampler, SamplingOptions, log_probabilities};
use super::speculation::{Speculator, Tree};
use super::stop::StopStrings;
use super::thoughts::Tracker;
use super::{Finish, GenerateOptions, Piece};
use crate::{Engine, Error, LogProbs, Outputs, Sequence};
use akunu_plan::DrawVars;
use akunu_text::{Detokenizer, Tokenizer};
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) struct Decoder {
    options: GenerateOptions,
    sampler: Sampler,
    /// How the backend chooses tokens by itself; `None` where it cannot.
    draw: Option<DrawVars>,
    /// Log-probabilities are those that tokens were drawn by.
    keeps: bool,
    tokenizer: Option<Tokenizer>,
    detokenizer: Option<Detokenizer>,
    stops: StopStrings,
    constraint: Option<Constraint>,
    thoughts: Tracker,
    /// After any of these the generation is finished.
    end: Vec<u32>,
    /// The prompt and what was chosen after it.
    tokens: Vec<u32>,
    prompt: usize,
    /// How many of `tokens` are in the KV cache, or were before the context was full.
    fed: usize,
    /// How many after those that `context_shift` keeps went when the context was full.
    dropped: usize,
    /// What may come after `tokens`: fed with them, kept as far as it is accepted.
    drafts: Tree,
    /// The accepted nodes of it.
    path: Vec<usize>,
    speculator: Option<Speculator>,
    /// Of the last step: drafted tokens that were accepted, and all.
    pub verified: (usize, usize),
    rows: Vec<u32>,
    /// Chosen but not yet given out.
    pub pieces: VecDeque<Piece>,
    finish: Option<Finish>,
}

impl Decoder {
    pub fn new(
        prompt: &[u32],
        options: GenerateOptions,
        tokenizer: Option<&Tokenizer>,
        constraint: Option<Constraint>,
    ) -> Self {
        let mut end = options.stop_tokens.clone();
        if let Some(tokenizer) = tokenizer.filter(|_| !options.ignore_eos) {
            end.extend_from_slice(tokenizer.end_of_generation());
        }
        let sampler = Sampler::new(options.sampling.clone()).with_tokenizer(tokenizer);
        let keeps = options.logprobs.is_some() && options.sampled_logprobs;
        Self {
            draw: options.sampling.on_backend().filter(|_| constraint.is_none() && !keeps),
            sampler: if keeps { sampler.keeping() } else { sampler },
            keeps,
            tokenizer: tokenizer.cloned(),
            detokenizer: tokenizer.map(|t| t.stream_continuation()),
            stops: StopStrings::new(&options.stop),
            constraint,
            thoughts: Tracker::new(options.thinking, &options.thoughts, tokenizer),
            end,
            tokens: prompt.to_vec(),
            prompt: prompt.len(),
            fed: 0,
            dropped: 0,
            drafts: Tree::default(),
            path: Vec::new(),
            speculator: Speculator::new(options.speculation),
            verified: (0, 0),
            rows: Vec::new(),
            pieces: VecDeque::new(),
            finish: None,
            options,
        }
    }

    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    pub fn end(&mut self, finish: Finish) {
        self.finish.get_or_insert(finish);
    }

    /// The prompt and what was chosen after it.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn prompt(&self) -> usize {
        self.prompt
    }

    /// Tokens that are not in the KV cache yet.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.fed
    }

    /// Whether the prompt is not yet in the KV cache.
    pub fn reading(&self) -> bool {
        self.fed < self.prompt
    }

    /// Whether it feeds the token it chose last, and could draft what follows.
    pub fn decoding(&self) -> bool {
        self.pending() == 1 && !self.reading()
    }

    /// Takes the first `fed` tokens as being in the KV cache.
    pub fn set_fed(&mut self, fed: usize) {
        self.fed = fed.min(self.tokens.len());
        self.pass_dropped();
    }

    /// What went when the context was full is not fed again.
    fn pass_dropped(&mut self) {
        if self.dropped > 0 && self.fed == self.remaining().0.len() {
            self.fed += self.dropped;
        }
    }

    /// Tokens that may still be chosen before `max_tokens` are there.
    pub fn wanted(&self) -> usize {
        match self.options.max_tokens {
            0 => usize::MAX,
            max => max.saturating_sub(self.chosen()),
        }
    }

    /// Tokens that may be chosen before somebody has to look.
    pub fn unwatched(&self) -> usize {
        self.wanted().min(self.thoughts.unwatched())
    }

    /// What may go where the context is full of `len` positions: so many after so many. `None`: it ends there.
    pub fn shift(&self, len: usize) -> Option<(usize, usize)> {
        let keep = self.options.context_shift?;
        let movable = len.saturating_sub(keep);
        // Two positions at least, so that something goes and something stays.
        (movable >= 2).then_some((keep, movable / 2))
    }

    /// So many of the tokens that may go are no longer there.
    pub fn drop_tokens(&mut self, dropped: usize) {
        self.dropped += dropped;
    }

    /// The tokens at the beginning that are still there, and how many there are in all.
    pub fn remaining(&self) -> (&[u32], usize) {
        let kept = match self.dropped {
            0 => self.tokens.len(),
            _ => self.options.context_shift.unwrap_or(0),
        };
        (&self.tokens[..kept], self.tokens.len() - self.dropped)
    }

    pub fn sampling(&self) -> &SamplingOptions {
        &self.options.sampling
    }

    /// Tokens chosen so far.
    pub fn chosen(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// How the backend chooses the next tokens by itself, one after the other; `None` where each needs a look.
    pub fn chains(&self) -> Option<DrawVars> {
        let blind = self.speculator.is_none() && self.options.logprobs.is_none();
        let blind = blind && self.decoding() && self.unwatched() > 0;
        self.draw.filter(|_| blind).map(|draw| self.draw_ahead(draw, 0))
    }

    fn draw_ahead(&self, draw: DrawVars, tokens: usize) -> DrawVars {
        DrawVars { index: self.sampler.index() as u32 + tokens as u32, ..draw }
    }

    /// How the backend chooses for each of the planned step's outputs.
    pub fn draws(&self, outputs: usize) -> impl Iterator<Item = DrawVars> {
        let draw = self.draw.unwrap_or_default();
        let ahead = move |output: usize| output.checked_sub(1).map_or(0, |node| self.drafts.depth(node) + 1);
        (0..outputs).map(move |output| self.draw_ahead(draw, ahead(output)))
    }

    /// The drafts for the coming step, only.
    pub fn set_drafts(&mut self, drafts: &[u32]) {
        self.drafts.clear();
        self.drafts.add(drafts);
    }

    /// The drafts of the planned step, and their accepted nodes, once it is taken.
    pub fn drafts(&self) -> (&Tree, &[usize]) {
        (&self.drafts, &self.path)
    }

    /// Chooses the rows of the next step, `most` at most; how many at their end give logits. They are the prompt's or come
    /// after it, not both. Drafts may have branches as far as they have `places`.
    pub fn plan(&mut self, most: usize, places: usize) -> usize {
        let kept = self.remaining().0.len();
        let end = if self.fed < kept { kept } else { self.tokens.len() };
        let end = if self.reading() { end.min(self.prompt) } else { end };
        let pending = (end - self.fed).min(most);
        self.rows.clear();
        self.rows.extend_from_slice(&self.tokens[self.fed..self.fed + pending]);
        let decoding = self.decoding();
        if !decoding {
            self.drafts.clear();
        }
        if pending < self.pending() {
            return 0;
        }
        let room = (most - pending).min(self.wanted().saturating_sub(1));
        if let Some(speculator) = self.speculator.as_mut().filter(|_| decoding) {
            speculator.draft(&self.tokens, room, places, &mut self.drafts);
        }
        self.drafts.truncate(room);
        self.rows.extend_from_slice(self.drafts.tokens());
        1 + self.drafts.len()
    }

    /// The planned step's outputs: where the backend chooses, nobody reads logits but for their probabilities.
    pub fn outputs(&self, count: usize) -> Outputs {
        let reads = self.draw.is_none() || self.options.logprobs.is_some();
        if reads { Outputs::Tail(count) } else { Outputs::Tokens(count) }
    }

    /// Has what the grammar allows computed while the planned step runs, where that step gives logits.
    pub fn look_ahead(&mut self, engine: &Engine, outputs: usize) {
        if let Some(constraint) = self.constraint.as_mut().filter(|_| outputs > 0 && self.thoughts.binds())
            && let Some(masks) = engine.masks()
        {
            constraint.look_ahead(masks);
        }
    }

    /// The rows that `plan` chose.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Takes the planned step's logits and what the backend chose from them, and the sequence back to what is accepted.
    pub fn take<'l>(
        &mut self,
        sequence: &mut Sequence,
        outputs: impl Fn(usize) -> (&'l [f32], u32),
    ) -> Result<(), Error> {
        let before = sequence.len() - self.rows.len();
        let pending = self.rows.len() - self.drafts.len();
        let complete = pending == self.pending();
        let (first, known) = (self.fed, self.tokens.len());
        self.fed += pending;
        self.path.clear();
        while complete && self.finish.is_none() {
            let (logits, chosen) = outputs(self.path.last().map_or(0, |node| node + 1));
            self.choose(logits, chosen)?;
            // Accepted tokens have their rows in the KV cache already.
            while let Some(&token) = self.tokens.get(known + self.path.len())
                && let Some(node) = self.drafts.child(self.path.last().copied(), token)
            {
                self.path.push(node);
                self.fed += 1;
            }
            if known + self.path.len() < self.tokens.len() {
                break;
            }
        }
        self.verified = (self.path.len(), self.drafts.len());
        if let Some(speculator) = self.speculator.as_mut().filter(|_| complete && pending == 1) {
            speculator.learn(&self.tokens[known..]);
        }
        // Never `None`: a window has not moved on since the step began.
        let _ = sequence.truncate(before + self.fed - first);
        self.pass_dropped();
        Ok(())
    }

    /// The planned step took this long, for this generation alone.
    pub fn record_time(&mut self, time: Duration) {
        if let Some(speculator) = &mut self.speculator {
            speculator.record_step(self.rows.len(), time);
        }
    }

    /// Takes tokens that the backend chose one after the other.
    pub fn take_chain(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.sampler.skip(1);
            self.accept(token, None);
        }
    }

    /// Chooses the next token, or takes the backend's choice, and takes those that a grammar forces after it.
    fn choose(&mut self, logits: &[f32], chosen: u32) -> Result<(), Error> {
        let closes = self.thoughts.forced();
        let token = if let Some(forced) = closes {
            self.sampler.skip(1);
            forced
        } else if self.draw.is_some() || self.is_likeliest_allowed(chosen)? {
            self.sampler.skip(1);
            chosen
        } else {
            let allowed = self.constraint.as_mut().map_or(Ok(None), |c| c.allowed(&self.thoughts))?;
            self.sampler.sample_allowed(logits, &self.tokens, allowed)
        };
        let bound = self.thoughts.binds();
        let logprobs = self.options.logprobs.map(|n| match closes {
            // There was nothing to draw from.
            Some(_) if self.keeps => LogProbs { chosen: 0.0, top: vec![(token, 0.0)] },
            None if self.keeps => self.sampler.sampled(token, n),
            _ => log_probabilities(logits, token, n),
        });
        self.accept(token, logprobs);
        // A token that opens or closes a thinking block is not part of what the grammar binds.
        let bound = bound && self.thoughts.binds() && self.finish.is_none();
        let Some(constraint) = self.constraint.as_mut().filter(|_| bound) else { return Ok(()) };
        constraint.accept(token)?;
        // Where log-probabilities are wanted, forced tokens need logits like any other.
        let may_force = self.options.logprobs.is_none() && !self.thoughts.is_closing();
        let forced = if may_force { constraint.forced()? } else { Vec::new() };
        let finished = constraint.is_finished();
        forced.into_iter().for_each(|token| self.accept(token, None));
        if finished {
            self.end(Finish::Stop);
        }
        Ok(())
    }

    /// Whether the likeliest token, which the backend found, is what a grammar leaves: then no mask is needed.
    fn is_likeliest_allowed(&mut self, likeliest: u32) -> Result<bool, Error> {
        match &mut self.constraint {
            Some(constraint) if self.options.sampling.is_plain_greedy() && !self.keeps => {
                constraint.allows(likeliest, &self.thoughts)
            }
            _ => Ok(false),
        }
    }

    /// Adds a token that was chosen.
    pub fn accept(&mut self, token: u32, logprobs: Option<LogProbs>) {
        if self.finish.is_some() {
            return;
        }
        if self.end.contains(&token) {
            self.finish = Some(Finish::Stop);
            return;
        }
        self.tokens.push(token);
        let text = self.detokenizer.as_mut().map(|d| d.push(token)).unwrap_or_default();
        self.thoughts.accept(token, &text);
        let (mut shown, stopped) = self.stops.push(&text);
        if self.tokenizer.as_ref().is_some_and(|t| t.is_special(token)) {
            // No stop string goes on beyond it: text keeps its place among such tokens.
            shown += &self.stops.flush();
        }
        self.pieces.push_back(Piece { token, text: shown, logprobs });
        if let Some(which) = stopped {
            self.finish = Some(Finish::StopString(which));
        } else if self.wanted() == 0 {
            self.finish = Some(Finish::Length);
        }
    }

    /// Text held back at the end: half a character, or what might have become a stop string.
    pub fn rest(&mut self) -> String {
        let text = self.detokenizer.as_mut().map(Detokenizer::flush).unwrap_or_default();
        match self.stops.push(&text) {
            (shown, Some(_)) => shown,
            (shown, None) => shown + &self.stops.flush(),
        }
    }
}
