//! Models that hear: frames of sound into a sequence, and where its words look.

use crate::engine::Class;
use crate::{Engine, Error, Sequence};
use akunu_arch::Model;
use akunu_plan::{KV_BLOCK, Output, RowVars, Want};

/// What a model of speech runs besides its decoder.
pub(crate) struct Hearing {
    pub encoder: Class,
    pub timing: Class,
}

impl Hearing {
    /// Takes its programs from the end of all that were made.
    pub fn split_off(classes: &mut Vec<Class>) -> Option<Self> {
        classes.iter().any(|c| c.program.input.is_some()).then_some(())?;
        let (timing, encoder) = (classes.pop()?, classes.pop()?);
        Some(Self { encoder, timing })
    }
}

/// Positions that what is heard has; 0 for models that do not hear.
pub(crate) fn positions(model: &Model) -> usize {
    model.encoder.as_ref().map_or(0, |e| e.config.context)
}

/// What a model of speech is built for besides text: result and rows, the encoder first.
pub(crate) fn programs(model: &Model, chunk: usize) -> impl Iterator<Item = (Output, usize)> {
    let heard = positions(model);
    [(Output::Encoded, heard), (Output::Timing, chunk)].into_iter().filter(move |_| heard > 0)
}

/// Frames for every position of the encoder.
const FRAMES_PER_POSITION: usize = 2;

impl Engine {
    /// Positions that what is heard has; 0 for models that do not hear.
    pub fn heard(&self) -> usize {
        positions(&self.model)
    }

    /// Frames a model hears at a time, and bands of a frame.
    pub fn frames(&self) -> (usize, usize) {
        let bands = self.model.encoder.as_ref().map_or(0, |e| e.config.mels);
        (FRAMES_PER_POSITION * self.heard(), bands)
    }

    /// Lets an empty sequence hear `[frames][bands]`; zeros follow where they are fewer than [`Self::frames`]. Its forks
    /// have heard the same.
    pub fn hear(&mut self, sequence: &mut Sequence, frames: &[f32]) -> Result<(), Error> {
        self.encode(sequence, frames, Want::Tokens)
    }

    fn encode(&mut self, sequence: &mut Sequence, frames: &[f32], want: Want<'_>) -> Result<(), Error> {
        let (most, bands) = self.frames();
        let heard = self.heard();
        let Some(encoder) = self.hearing.as_ref().map(|h| h.encoder.clone()) else { return Err(Error::CannotHear) };
        if bands == 0 || !frames.len().is_multiple_of(bands) || frames.len() > most * bands || !sequence.is_empty() {
            return Err(Error::Frames { values: frames.len(), frames: most, bands });
        }
        sequence.reserve_encoded(heard.div_ceil(KV_BLOCK))?;
        let mut vars = self.loaded.steps();
        vars.begin(heard, 0);
        for (position, row) in vars.rows_mut().iter_mut().enumerate() {
            *row = RowVars { position: position as u32, length: heard as u32, ..RowVars::default() };
        }
        for group in 0..encoder.program.kv_groups.len() {
            let table = sequence.table(group);
            vars.table_mut(group, 0)[..table.len()].copy_from_slice(table);
        }
        for frame in 0..most {
            let values = frames.get(frame * bands..(frame + 1) * bands).unwrap_or(&[]);
            self.loaded.write_input(encoder.index, frame, values);
        }
        Ok(self.loaded.submit(encoder.index, 1, want)?)
    }

    /// Hears silence with all workers waiting after every op: the name of each with the nanoseconds it took.
    pub fn time_hearing(&mut self) -> Result<Vec<(String, u64)>, Error> {
        let mut sequence = self.sequence();
        self.hear(&mut sequence, &[])?;
        let Some(hearing) = &self.hearing else { return Err(Error::CannotHear) };
        let times = self.loaded.time_ops(hearing.encoder.index)?;
        let (backend, bound) = (self.loaded.backend(), self.loaded.bound(hearing.encoder.index));
        let names = bound.records.iter().map(|r| backend.kernel_name(r.kernel).to_string());
        Ok(names.zip(times).collect())
    }

    /// What the encoder makes of frames: `[positions][dim]`. Nothing of it stays.
    pub fn encoded(&mut self, frames: &[f32]) -> Result<Vec<f32>, Error> {
        let mut sequence = self.sequence();
        self.encode(&mut sequence, frames, Want::All)?;
        Ok((0..self.heard()).flat_map(|position| self.loaded.output(position)).copied().collect())
    }

    /// Feeds tokens to a sequence that has heard; for each, how much every head that times words looks at every
    /// position: `[heads][heard]`.
    pub fn timing(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<&[f32]>, Error> {
        self.prepare_timing(sequence, tokens)?;
        let Some(hearing) = &self.hearing else { return Err(Error::CannotHear) };
        self.loaded.submit(hearing.timing.index, 1, Want::All)?;
        sequence.set_len(sequence.len() + tokens.len());
        Ok((0..tokens.len()).map(|row| self.loaded.output(row)).collect())
    }
}
