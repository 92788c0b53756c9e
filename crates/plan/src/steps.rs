//! Step variables: the only things that change between steps, at declared offsets.
//!
//! One block of memory: `[StepHeader][RowVars × rows][output rows][DrawVars × outputs][Rules][RuleVars × outputs]
//! [block tables][emitted tokens]`.
//! The host writes it before a submission; `Advance` moves it on between the steps of a chain.

mod check;

pub use check::StepError;

use crate::draw::DrawVars;
use crate::op::Per;
use crate::rules::{Chosen, RuleVars, Rules};
use bytemuck::{Pod, Zeroable};

/// Positions in a KV block.
pub const KV_BLOCK: usize = 64;

/// A block-table entry with no block behind it: nothing reads it.
pub const NO_BLOCK: u32 = u32::MAX;
/// An emitted token where logits are not numbers.
pub const NO_TOKEN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct StepHeader {
    /// Rows of this step.
    pub rows: u32,
    /// Rows whose logits are wanted.
    pub outputs: u32,
    /// Steps of the current chain already taken; `Advance` counts it up.
    pub emitted_steps: u32,
    /// Block-table geometry: entries per table, tables per KV group.
    pub table_blocks: u32,
    pub table_sequences: u32,
    /// Byte offsets from the start of the step variables.
    pub rows_offset: u32,
    pub outputs_offset: u32,
    pub tables_offset: u32,
    pub emitted_offset: u32,
    pub draws_offset: u32,
    pub rules_offset: u32,
    pub texts_offset: u32,
    /// 1 where the text of every output has come to the end that its rules know: `Advance` says so, and the steps of the
    /// chain that are left do nothing.
    pub ended: u32,
    pub reserved: [u32; 3],
}

impl StepHeader {
    /// Rows of what is there per row, output or frame.
    pub fn count(&self, per: Per) -> usize {
        match per {
            Per::Row => self.rows as usize,
            Per::Output => self.outputs as usize,
            Per::Frame => 2 * self.rows as usize,
        }
    }
}

/// One row of a step: a token of a sequence at a position.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct RowVars {
    pub token: u32,
    /// Absolute position in its sequence.
    pub position: u32,
    /// Which block table holds its sequence.
    pub sequence: u32,
    /// Positions of its sequence, for rows that see all of them. Where keys and values are rows of the step, the
    /// sequence's rows stand together, in order: position p of the sequence is row `r - position + p`.
    pub length: u32,
    /// Which text of a pair the token belongs to.
    pub segment: u32,
    /// How many places after its position its key and value are stored. Drafts that exclude each other share
    /// positions, not places.
    pub ahead: u32,
    /// The places before its own that it does not see, though it comes after them: bit `i` is the place `i + 1` before.
    /// All of them are in the block of its own place.
    pub hidden: [u32; 2],
}

impl RowVars {
    /// Where its key and value are stored.
    pub fn place(&self) -> usize {
        self.position as usize + self.ahead as usize
    }

    /// `hidden` as one number.
    pub fn hidden_places(&self) -> u64 {
        u64::from(self.hidden[0]) | u64::from(self.hidden[1]) << 32
    }

    /// Whether it does not see an earlier place because it belongs to another branch.
    pub fn hides(&self, place: usize) -> bool {
        let before = self.place().wrapping_sub(place + 1);
        before < 64 && self.hidden_places() >> before & 1 == 1
    }
}

/// Capacities of one step-variable block, and where its parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLayout {
    pub max_rows: usize,
    pub max_outputs: usize,
    pub groups: usize,
    pub sequences: usize,
    pub table_blocks: usize,
    pub max_chain: usize,
}

const HEADER: usize = size_of::<StepHeader>();
const ROW: usize = size_of::<RowVars>();
const DRAW: usize = size_of::<DrawVars>();
const RULES: usize = size_of::<Rules>();
const TEXT: usize = size_of::<RuleVars>();

impl StepLayout {
    pub fn rows_offset(&self) -> usize {
        HEADER
    }

    pub fn outputs_offset(&self) -> usize {
        self.rows_offset() + self.max_rows * ROW
    }

    pub fn draws_offset(&self) -> usize {
        self.outputs_offset() + self.max_outputs * 4
    }

    pub fn rules_offset(&self) -> usize {
        self.draws_offset() + self.max_outputs * DRAW
    }

    pub fn texts_offset(&self) -> usize {
        self.rules_offset() + RULES
    }

    pub fn tables_offset(&self) -> usize {
        self.texts_offset() + self.max_outputs * TEXT
    }

    pub fn emitted_offset(&self) -> usize {
        self.tables_offset() + self.groups * self.sequences * self.table_blocks * 4
    }

    pub fn bytes(&self) -> usize {
        (self.emitted_offset() + self.max_chain * self.max_outputs * 4).next_multiple_of(64)
    }

    pub fn header(&self) -> StepHeader {
        StepHeader {
            table_blocks: self.table_blocks as u32,
            table_sequences: self.sequences as u32,
            rows_offset: self.rows_offset() as u32,
            outputs_offset: self.outputs_offset() as u32,
            tables_offset: self.tables_offset() as u32,
            emitted_offset: self.emitted_offset() as u32,
            draws_offset: self.draws_offset() as u32,
            rules_offset: self.rules_offset() as u32,
            texts_offset: self.texts_offset() as u32,
            ..StepHeader::default()
        }
    }
}

/// A safe view of one step-variable block for the host and for slow executors.
pub struct StepVars<'a> {
    words: &'a mut [u32],
}

impl<'a> StepVars<'a> {
    /// `words` must be a block laid out by [`StepLayout`], header included.
    pub fn new(words: &'a mut [u32]) -> Self {
        Self { words }
    }

    pub fn header(&self) -> StepHeader {
        *bytemuck::from_bytes(bytemuck::cast_slice(&self.words[..HEADER / 4]))
    }

    pub fn header_mut(&mut self) -> &mut StepHeader {
        bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(&mut self.words[..HEADER / 4]))
    }

    /// Begins a submission of so many rows and outputs, whose tokens are the likeliest.
    pub fn begin(&mut self, rows: usize, outputs: usize) {
        let header = self.header_mut();
        (header.rows, header.outputs) = (rows as u32, outputs as u32);
        (header.emitted_steps, header.ended) = (0, 0);
        self.draws_mut().fill(DrawVars::default());
        self.texts_mut().fill(RuleVars::default());
    }

    /// `count` variables from a byte offset.
    fn part<T: Pod>(&self, offset: u32, count: u32) -> &[T] {
        let at = offset as usize / 4;
        bytemuck::cast_slice(&self.words[at..at + count as usize * size_of::<T>() / 4])
    }

    fn part_mut<T: Pod>(&mut self, offset: u32, count: u32) -> &mut [T] {
        let at = offset as usize / 4;
        bytemuck::cast_slice_mut(&mut self.words[at..at + count as usize * size_of::<T>() / 4])
    }

    pub fn rows(&self) -> &[RowVars] {
        let h = self.header();
        self.part(h.rows_offset, h.rows)
    }

    pub fn rows_mut(&mut self) -> &mut [RowVars] {
        let h = self.header();
        self.part_mut(h.rows_offset, h.rows)
    }

    pub fn outputs(&self) -> &[u32] {
        let h = self.header();
        self.part(h.outputs_offset, h.outputs)
    }

    pub fn outputs_mut(&mut self) -> &mut [u32] {
        let h = self.header();
        self.part_mut(h.outputs_offset, h.outputs)
    }

    pub fn draws(&self) -> &[DrawVars] {
        let h = self.header();
        self.part(h.draws_offset, h.outputs)
    }

    pub fn draws_mut(&mut self) -> &mut [DrawVars] {
        let h = self.header();
        self.part_mut(h.draws_offset, h.outputs)
    }

    pub fn rules(&self) -> &Rules {
        &self.part(self.header().rules_offset, 1)[0]
    }

    pub fn rules_mut(&mut self) -> &mut Rules {
        &mut self.part_mut(self.header().rules_offset, 1)[0]
    }

    /// Where the text of every output stands.
    pub fn texts(&self) -> &[RuleVars] {
        let h = self.header();
        self.part(h.texts_offset, h.outputs)
    }

    pub fn texts_mut(&mut self) -> &mut [RuleVars] {
        let h = self.header();
        self.part_mut(h.texts_offset, h.outputs)
    }

    pub fn table(&self, group: usize, sequence: usize) -> &[u32] {
        let h = self.header();
        let at =
            h.tables_offset as usize / 4 + (group * h.table_sequences as usize + sequence) * h.table_blocks as usize;
        &self.words[at..at + h.table_blocks as usize]
    }

    pub fn table_mut(&mut self, group: usize, sequence: usize) -> &mut [u32] {
        let h = self.header();
        let at =
            h.tables_offset as usize / 4 + (group * h.table_sequences as usize + sequence) * h.table_blocks as usize;
        &mut self.words[at..at + h.table_blocks as usize]
    }

    /// The tokens chosen so far in the chain, `[step][output]`.
    pub fn into_emitted(self) -> &'a [u32] {
        let h = self.header();
        let at = h.emitted_offset as usize / 4;
        &self.words[at..at + (h.emitted_steps * h.outputs) as usize]
    }

    /// Takes a token for every output row as the step's choice and moves the rows on: what the `Advance` op means.
    pub fn advance(&mut self, chosen: &[Chosen]) {
        let h = self.header();
        let at = h.emitted_offset as usize / 4 + (h.emitted_steps * h.outputs) as usize;
        let rules = *self.rules();
        for (o, &chosen) in chosen.iter().enumerate() {
            let token = chosen.token;
            self.words[at + o] = chosen.emitted();
            let row = self.outputs()[o] as usize;
            let row = &mut self.rows_mut()[row];
            row.token = token;
            row.position += 1;
            let draw = &mut self.draws_mut()[o];
            draw.index = draw.index.wrapping_add(1);
            let text = &mut self.texts_mut()[o];
            if text.on != 0 {
                text.push(&rules, chosen);
            }
        }
        let ended = !chosen.is_empty() && self.texts().iter().all(|text| text.on != 0 && rules.ended(text));
        let header = self.header_mut();
        header.emitted_steps += 1;
        header.ended = ended.into();
    }
}
