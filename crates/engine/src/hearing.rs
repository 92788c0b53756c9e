//! Models that hear: frames of sound into a sequence, and where its words look.

use crate::engine::Class;
use crate::{Engine, Error, Sequence};
use akunu_arch::Model;
use akunu_plan::{Addr, KV_BLOCK, Output, Region, RowVars};

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
        let (most, bands) = self.frames();
        let heard = self.heard();
        let Some(hearing) = &self.hearing else { return Err(Error::CannotHear) };
        if bands == 0 || !frames.len().is_multiple_of(bands) || frames.len() > most * bands || !sequence.is_empty() {
            return Err(Error::Frames { values: frames.len(), frames: most, bands });
        }
        sequence.reserve_encoded(heard.div_ceil(KV_BLOCK))?;
        let mut vars = self.memory.step_vars();
        vars.begin(heard, 0);
        for (position, row) in vars.rows_mut().iter_mut().enumerate() {
            *row = RowVars { position: position as u32, length: heard as u32, ..RowVars::default() };
        }
        for group in 0..hearing.encoder.program.kv_groups.len() {
            let table = sequence.table(group);
            vars.table_mut(group, 0)[..table.len()].copy_from_slice(table);
        }
        // The builder gives every program over frames its input.
        let Some(input) = hearing.encoder.program.input.map(|id| hearing.encoder.program.buffer(id)) else {
            return Err(Error::CannotHear);
        };
        for frame in 0..most {
            let at = Addr::new(Region::ARENA, input.offset + frame * input.stride());
            let to = self.memory.activation_bytes_mut(at, 4 * bands);
            match frames.get(frame * bands..(frame + 1) * bands) {
                Some(values) => to.copy_from_slice(bytemuck::cast_slice(values)),
                None => to.fill(0),
            }
        }
        self.cpu.replay(&hearing.encoder.ready, &mut self.memory, 1)?;
        Ok(())
    }

    /// Hears silence with all workers waiting after every op: the name of each with the nanoseconds it took.
    pub fn time_hearing(&mut self) -> Result<Vec<(String, u64)>, Error> {
        let mut sequence = self.sequence();
        self.hear(&mut sequence, &[])?;
        let Some(hearing) = &self.hearing else { return Err(Error::CannotHear) };
        let times = self.cpu.replay_timed(&hearing.encoder.ready, &mut self.memory)?;
        let names = hearing.encoder.ready.bound().records.iter().map(|r| akunu_cpu::Cpu::kernel_name(r.kernel));
        Ok(names.map(str::to_string).zip(times).collect())
    }

    /// What the encoder made of the last frames that were heard, position by position; nothing may have run since.
    pub fn encoded(&self, position: usize) -> &[f32] {
        let Some(hearing) = &self.hearing else { return &[] };
        self.memory.logits(hearing.encoder.ready.bound(), position, self.model.config.dim).unwrap_or(&[])
    }

    /// Feeds tokens to a sequence that has heard; for each, how much every head that times words looks at every
    /// position: `[heads][heard]`.
    pub fn timing(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<&[f32]>, Error> {
        self.prepare_timing(sequence, tokens)?;
        let Some(hearing) = &self.hearing else { return Err(Error::CannotHear) };
        self.cpu.replay(&hearing.timing.ready, &mut self.memory, 1)?;
        sequence.set_len(sequence.len() + tokens.len());
        let width = self.model.config.timing_heads.len() * self.heard();
        let bound = hearing.timing.ready.bound();
        Ok((0..tokens.len()).map(|row| self.memory.logits(bound, row, width).unwrap_or(&[])).collect())
    }
}
