//! Text generation: an iterator of pieces.

use crate::constraint::{Constraint, Thinking};
use crate::decoder::Decoder;
use crate::sample::{LogProbs, SamplingOptions};
use crate::speculate::{Draft, Speculation};
use crate::{Engine, Error, Part, Sequence};
use akunu_plan::{DrawVars, KV_BLOCK};
use akunu_text::{Encode, Grammar};
use std::time::Instant;

/// What to generate, and how.
///
/// ```
/// use akunu::{GenerateOptions, SamplingOptions};
///
/// let options = GenerateOptions::new()
///     .max_tokens(100)
///     .sampling(SamplingOptions { temperature: 0.8, seed: 1, ..Default::default() })
///     .stop("\n\n")
///     .logprobs(5);
/// assert_eq!(options.stop, ["\n\n"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// 0: until the model ends, or the context is full.
    pub max_tokens: usize,
    pub sampling: SamplingOptions,
    /// Go on after the model's end token.
    pub ignore_eos: bool,
    /// The text ends before the first of these.
    pub stop: Vec<String>,
    /// The text ends before any of these tokens.
    pub stop_tokens: Vec<u32>,
    /// Log-probabilities of every chosen token, and of this many likeliest ones.
    pub logprobs: Option<usize>,
    /// When the context is full, forget the older half of what comes after this many tokens; `None`: end.
    pub context_shift: Option<usize>,
    /// The form that the text must have.
    pub grammar: Option<Grammar>,
    /// Whether the grammar lets the model think first.
    pub thinking: Thinking,
    /// Guess ahead: the same text in fewer steps, where it can be guessed.
    pub speculation: Speculation,
}

impl GenerateOptions {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    #[must_use]
    pub fn sampling(mut self, sampling: SamplingOptions) -> Self {
        self.sampling = sampling;
        self
    }

    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.sampling.temperature = temperature;
        self
    }

    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.sampling.seed = seed;
        self
    }

    #[must_use]
    pub fn ignore_eos(mut self, ignore: bool) -> Self {
        self.ignore_eos = ignore;
        self
    }

    /// Adds a stop string.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Adds a stop token.
    #[must_use]
    pub fn stop_token(mut self, token: u32) -> Self {
        self.stop_tokens.push(token);
        self
    }

    /// When the context is full, forgets the older half of what comes after `keep` tokens, instead of ending.
    #[must_use]
    pub fn context_shift(mut self, keep: usize) -> Self {
        self.context_shift = Some(keep);
        self
    }

    /// The text must have this form.
    #[must_use]
    pub fn grammar(mut self, grammar: Grammar) -> Self {
        self.grammar = Some(grammar);
        self
    }

    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = thinking;
        self
    }

    #[must_use]
    pub fn speculation(mut self, speculation: Speculation) -> Self {
        self.speculation = speculation;
        self
    }

    #[must_use]
    pub fn logprobs(mut self, top: usize) -> Self {
        self.logprobs = Some(top);
        self
    }
}

/// One generated token and the text it completes: whole characters, often none.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub token: u32,
    pub text: String,
    /// Where they were asked for.
    pub logprobs: Option<LogProbs>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model said so, or a stop string or stop token came.
    Stop,
    /// `max_tokens` are there.
    Length,
    /// The context is full.
    Context,
}

/// A generation in progress.
///
/// Tokens that the backend chooses by itself come in chains, without host work between them: short at first, so that
/// the first words appear at once, then longer.
pub struct Generate<'a> {
    engine: &'a mut Engine,
    sequence: &'a mut Sequence,
    decoder: Decoder,
    draft: Option<&'a mut Draft>,
    given: usize,
    chain: usize,
    steps: usize,
    branched: usize,
    shifts: Vec<(usize, usize)>,
}

impl Engine {
    /// Continues a text, in a sequence of its own.
    pub fn generate_text(&mut self, prompt: &str, options: GenerateOptions) -> Result<String, Error> {
        let ids = self.need_tokenizer()?.encode(prompt, Encode { add_special: true, parse_special: true });
        let mut sequence = self.sequence();
        let mut text = String::new();
        let mut generation = self.generate(&mut sequence, &ids, options)?;
        for piece in generation.by_ref() {
            text.push_str(&piece?.text);
        }
        text.push_str(&generation.rest());
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
        self.begin(sequence, tokens, 0, options, None)
    }

    /// Continues `text`, of which the sequence holds the beginning: what comes before is known to penalties and guesses.
    pub fn resume<'a>(
        &'a mut self,
        sequence: &'a mut Sequence,
        text: &[u32],
        options: GenerateOptions,
    ) -> Result<Generate<'a>, Error> {
        let held = sequence.len();
        self.begin(sequence, text, held, options, None)
    }

    /// As [`Self::resume`], with the guesses of a smaller model. The text is the same.
    pub fn resume_drafted<'a>(
        &'a mut self,
        sequence: &'a mut Sequence,
        text: &[u32],
        options: GenerateOptions,
        draft: &'a mut Draft,
    ) -> Result<Generate<'a>, Error> {
        draft.check(self)?;
        let held = sequence.len();
        self.begin(sequence, text, held, options, Some(draft))
    }

    /// A generation after `tokens`, with its grammar compiled.
    pub(crate) fn decoder(&self, tokens: &[u32], options: GenerateOptions) -> Result<Decoder, Error> {
        let constraint = match &options.grammar {
            Some(grammar) => {
                let matcher = self.grammars()?.compile(grammar)?;
                Some(Constraint::new(matcher, options.thinking, self.tokenizer()))
            }
            None => None,
        };
        Ok(Decoder::new(tokens, options, self.tokenizer(), constraint))
    }

    fn begin<'a>(
        &'a mut self,
        sequence: &'a mut Sequence,
        tokens: &[u32],
        held: usize,
        options: GenerateOptions,
        draft: Option<&'a mut Draft>,
    ) -> Result<Generate<'a>, Error> {
        if tokens.len() <= held {
            return Err(Error::EmptyPrompt);
        }
        self.check_room(sequence, tokens.len() - held)?;
        let mut decoder = self.decoder(tokens, options)?;
        decoder.set_fed(held);
        let mut generation = Generate {
            engine: self,
            sequence,
            decoder,
            draft,
            given: 0,
            chain: 1,
            steps: 0,
            branched: 0,
            shifts: Vec::new(),
        };
        while generation.decoder.pieces.is_empty() && generation.decoder.finish().is_none() {
            generation.step()?;
        }
        Ok(generation)
    }
}

impl Generate<'_> {
    /// Why it ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.decoder.finish().filter(|_| self.decoder.pieces.is_empty())
    }

    /// Tokens given out so far.
    pub fn generated(&self) -> &[u32] {
        &self.decoder.tokens()[self.decoder.prompt()..][..self.given]
    }

    /// Text held back at the end: half a character, or what might have become a stop string.
    pub fn rest(&mut self) -> String {
        self.decoder.rest()
    }

    /// What went from the sequence when the context was full: so many positions after so many.
    pub fn shifts(&self) -> &[(usize, usize)] {
        &self.shifts
    }

    /// Steps that it took so far: fewer than tokens where guesses were right.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Steps so far that verified guesses which exclude each other.
    pub fn branched(&self) -> usize {
        self.branched
    }

    /// One step of rows: a chunk of the prompt, or the last token and guesses after it.
    fn step(&mut self) -> Result<(), Error> {
        let room = self.engine.context() - self.sequence.len();
        let decoding = self.decoder.decoding();
        if let Some(draft) = self.draft.as_mut().filter(|_| decoding && room > 1) {
            let most = (room - 1).min(self.decoder.wanted().saturating_sub(1));
            let (index, decoder) = (self.decoder.chosen() as u64, &mut self.decoder);
            let guesses = draft.guess(decoder.tokens(), index, decoder.sampling(), most)?;
            decoder.set_drafts(guesses);
        }
        let first = self.sequence.len() + 1;
        let prompt = self.decoder.reading();
        let most = if prompt { self.engine.chunk() } else { self.engine.decode_rows().0 };
        let outputs = self.decoder.plan(most.min(room), KV_BLOCK - first % KV_BLOCK);
        self.decoder.look_ahead(self.engine, outputs);
        let (tokens, outputs) = (self.decoder.rows(), self.decoder.outputs(outputs));
        let part = Part { sequence: &mut *self.sequence, tokens, outputs, prompt };
        let begun = Instant::now();
        let (tree, _) = self.decoder.drafts();
        self.engine.step_with(&mut [part], 1, |vars| {
            if !tree.is_chain() {
                tree.place(first, &mut vars.rows_mut()[1..]);
            }
            let draws = vars.draws_mut();
            let outputs = draws.len();
            draws.iter_mut().zip(self.decoder.draws(outputs)).for_each(|(to, draw)| *to = draw);
        })?;
        let took = begun.elapsed();
        let engine = &*self.engine;
        self.decoder.take(self.sequence, |output| (engine.logits_of(output), engine.chosen()[output]))?;
        self.engine.gather(self.sequence, first, self.decoder.drafts().1);
        self.steps += 1;
        self.branched += usize::from(!self.decoder.drafts().0.is_chain());
        if decoding {
            self.decoder.took(took);
            if let Some(draft) = &mut self.draft {
                let (right, tried) = self.decoder.guessed;
                draft.learn(right, tried, took);
            }
        }
        Ok(())
    }

    /// Makes room in a full context, where that is wanted and possible.
    fn shift(&mut self) -> Result<(), Option<Error>> {
        let (keep, drop) = self.decoder.shift(self.sequence.len()).ok_or(None)?;
        self.engine.shift(self.sequence, keep, drop).map_err(Some)?;
        self.shifts.push((keep, drop));
        Ok(())
    }

    /// Tokens that the backend chooses by itself.
    fn run_chain(&mut self, draw: DrawVars) -> Result<(), Error> {
        let Some(&last) = self.decoder.tokens().last() else { return Ok(()) };
        let room = self.engine.context() - self.sequence.len();
        let n = self.chain.min(room).min(self.decoder.wanted());
        self.chain = (self.chain * 2).min(self.engine.max_chain() / 4).max(1);
        let before = self.sequence.len();
        let known = self.decoder.tokens().len();
        self.decoder.take_chain(self.engine.chain(self.sequence, last, n, draw)?);
        // What the chain computed past the end is not part of the text: all but the last token are fed.
        let accepted = self.decoder.tokens().len() - known;
        let stored = if accepted < n { accepted + 1 } else { n };
        self.decoder.set_fed(known - 1 + stored);
        self.steps += n;
        // `None` only where a window has moved on: then the sequence keeps what it has.
        let _ = self.sequence.truncate(before + stored);
        Ok(())
    }
}

impl Iterator for Generate<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.pieces.is_empty() && self.decoder.finish().is_none() {
            if self.sequence.len() >= self.engine.context()
                && let Err(error) = self.shift()
            {
                self.decoder.end(Finish::Context);
                return error.map(Err);
            }
            let computed = match self.decoder.chains().filter(|_| self.draft.is_none()) {
                Some(draw) => self.run_chain(draw),
                None => self.step(),
            };
            if let Err(error) = computed {
                self.decoder.end(Finish::Context);
                return Some(Err(error));
            }
        }
        let piece = self.decoder.pieces.pop_front()?;
        self.given += 1;
        Some(Ok(piece))
    }
}
