//! Text generation: an iterator of pieces.

use super::constraint::Constraint;
use super::decoder::Decoder;
use super::{Finish, GenerateOptions, Piece};
use crate::{Draft, Engine, Error, Sequence, StepInput};
use akunu_plan::{DrawVars, KV_BLOCK};
use akunu_text::Encode;
use std::time::Instant;

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
        let ids = self.need_tokenizer()?.encode(prompt, Encode { add_special: true, parse_special: true })?;
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

    /// Continues `text`, of which the sequence holds the beginning: what comes before is known to penalties and drafts.
    pub fn resume<'a>(
        &'a mut self,
        sequence: &'a mut Sequence,
        text: &[u32],
        options: GenerateOptions,
    ) -> Result<Generate<'a>, Error> {
        let held = sequence.len();
        self.begin(sequence, text, held, options, None)
    }

    /// As [`Self::resume`], with the drafts of a smaller model. The text is the same.
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
    pub(crate) fn decoder(&self, tokens: &[u32], mut options: GenerateOptions) -> Result<Decoder, Error> {
        let matcher = match (options.matcher.take(), &options.grammar) {
            (Some(matcher), _) => Some(matcher),
            (None, Some(grammar)) => Some(self.grammars()?.compile(grammar)?),
            (None, None) => None,
        };
        let constraint = matcher.map(Constraint::new);
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

    /// Steps that it took so far: fewer than tokens where drafts were accepted.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Steps so far that verified drafts which exclude each other.
    pub fn branched(&self) -> usize {
        self.branched
    }

    /// One step of rows: a chunk of the prompt, or the last token and drafts after it.
    fn step(&mut self) -> Result<(), Error> {
        let room = self.engine.context() - self.sequence.len();
        let decoding = self.decoder.decoding();
        if let Some(draft) = self.draft.as_mut().filter(|_| decoding && room > 1) {
            let most = (room - 1).min(self.decoder.wanted().saturating_sub(1));
            let (index, decoder) = (self.decoder.chosen() as u64, &mut self.decoder);
            let drafted = draft.draft(decoder.tokens(), index, decoder.sampling(), most)?;
            decoder.set_drafts(drafted);
        }
        let first = self.sequence.len() + 1;
        let prompt = self.decoder.reading();
        let most = if prompt { self.engine.chunk() } else { self.engine.decode_rows().0 };
        let outputs = self.decoder.plan(most.min(room), KV_BLOCK - first % KV_BLOCK);
        self.decoder.look_ahead(self.engine, outputs);
        let (tokens, outputs) = (self.decoder.rows(), self.decoder.outputs(outputs));
        let part = StepInput { sequence: &mut *self.sequence, tokens, outputs, prompt };
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
        let time = begun.elapsed();
        let engine = &*self.engine;
        self.decoder.take(self.sequence, |output| (engine.logits_of(output), engine.chosen()[output]))?;
        self.engine.gather(self.sequence, first, self.decoder.drafts().1);
        self.steps += 1;
        self.branched += usize::from(!self.decoder.drafts().0.is_chain());
        if decoding {
            self.decoder.record_time(time);
            if let Some(draft) = &mut self.draft {
                let (accepted, drafted) = self.decoder.verified;
                draft.learn(accepted, drafted, time);
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
        let n = self.chain.min(room).min(self.decoder.unwatched());
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
