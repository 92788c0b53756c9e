//! What a kernel sees of a replay: resolved addresses, the step's rows, its worker's scratch.

use crate::kernels::KernelRow;
use crate::memory::Memory;
use crate::pages::ALIGN;
use crate::pool::Barrier;
use crate::row_groups::{self, RowGroups};
use crate::share::{self, Share, Split};
use akunu_plan::backend::KvPool;
use akunu_plan::op::{KvParams, OpKind, Per};
use akunu_plan::record::{Addr, Record, Region};
use akunu_plan::rules::Chosen;
use akunu_plan::steps::{KV_BLOCK, RowVars, StepHeader, StepLayout};
use akunu_plan::{DrawVars, RuleVars, Rules};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Scratch memory of every worker, in bytes. Kernels that would need more do not serve the shape.
/// Pages nobody touches cost nothing.
pub const SCRATCH_BYTES: usize = 2 << 20;

/// What the backend keeps for a record.
#[doc(hidden)]
pub struct RecordState {
    /// The product that follows it, in this step or the next one; itself where there is none.
    pub next_product: usize,
    /// Attempts to steal a shard of it, by row group of the step.
    steals: [AtomicU64; row_groups::MAX_GROUPS],
}

impl RecordState {
    pub fn all(records: &[Record]) -> Vec<Self> {
        let is_product = |i: &usize| matches!(records[*i].kind(), Some(OpKind::MatMul | OpKind::MatMulGated));
        let n = records.len();
        let next_product = |i| (i + 1..n).chain(0..i).find(is_product).unwrap_or(i);
        (0..n).map(|i| Self { next_product: next_product(i), steals: Default::default() }).collect()
    }
}

/// Everything a kernel may touch, for one submission.
///
/// Made only by the backend, for records that were checked against the memory (`ready.rs`) and step
/// variables that were checked against their layout: so that operands and rows lie inside.
pub struct Context<'a> {
    bases: [*mut u8; Region::COUNT],
    kernels: &'static [KernelRow],
    kv: &'a [KvPool],
    layout: StepLayout,
    header: *mut StepHeader,
    row_vars: *mut RowVars,
    output_rows: *const u32,
    draws: *mut DrawVars,
    rules: *const Rules,
    texts: *mut RuleVars,
    tables: *const u32,
    emitted: *mut u32,
    rows: usize,
    outputs: usize,
    /// Outputs of the whole step, and which row group of it these are.
    abreast: usize,
    row_group: Option<usize>,
    scratch: *mut u8,
    /// Where the workers meet.
    barrier: Arc<Barrier>,
    records: &'a [Record],
    states: &'a [RecordState],
}

// SAFETY: the pointers are shared by the workers of one replay. What one writes and another reads
// is separated by barriers, which the records carry where operands overlap; step variables are
// written by share 0 of `Advance` alone, which has a barrier before it and is the last record of its step.
// Row groups of a step have rows and headers of their own, and `row_groups::Progress` keeps the phases of each apart.
unsafe impl Sync for Context<'_> {}

impl<'a> Context<'a> {
    /// `scratch` has `SCRATCH_BYTES` for every worker. The step header must have been checked.
    pub(crate) fn new(
        memory: &'a mut Memory,
        kernels: &'static [KernelRow],
        scratch: *mut u8,
        (records, states): (&'a [Record], &'a [RecordState]),
        barrier: Arc<Barrier>,
    ) -> Self {
        states.iter().flat_map(|state| &state.steals).for_each(|steals| steals.store(0, Ordering::Relaxed));
        let header = memory.step_vars().header();
        let layout = memory.step_layout();
        let steps = memory.steps().as_mut_ptr().cast::<u8>();
        Self {
            kernels,
            layout,
            header: steps.cast(),
            row_vars: steps.wrapping_add(layout.rows_offset()).cast(),
            output_rows: steps.wrapping_add(layout.outputs_offset()).cast(),
            draws: steps.wrapping_add(layout.draws_offset()).cast(),
            rules: steps.wrapping_add(layout.rules_offset()).cast(),
            texts: steps.wrapping_add(layout.texts_offset()).cast(),
            tables: steps.wrapping_add(layout.tables_offset()).cast(),
            emitted: steps.wrapping_add(layout.emitted_offset()).cast(),
            rows: header.rows as usize,
            outputs: header.outputs as usize,
            abreast: header.outputs as usize,
            row_group: None,
            scratch,
            barrier,
            records,
            states,
            kv: memory.kv_pools(),
            bases: memory.regions().bases,
        }
    }

    /// A row group as a step of its own.
    ///
    /// # Safety
    /// Every row has its output, in order, and none looks at another. The arena has room for the activations of all groups, there
    /// is scratch for [`row_groups::SHARES`] shares of each, and `header` lives as long as the context.
    pub(crate) unsafe fn row_group(&self, groups: RowGroups, index: usize, header: *mut StepHeader) -> Self {
        let rows = groups.rows(index);
        let mut bases = self.bases;
        let arena = &mut bases[Region::ARENA.0 as usize];
        *arena = arena.wrapping_add(index * groups.arena);
        Self {
            bases,
            header,
            row_vars: self.row_vars.wrapping_add(rows.start),
            draws: self.draws.wrapping_add(rows.start),
            texts: self.texts.wrapping_add(rows.start),
            emitted: self.emitted.wrapping_add(rows.start),
            rows: rows.len(),
            outputs: rows.len(),
            scratch: self.scratch(index * row_groups::SHARES),
            row_group: Some(index),
            barrier: self.barrier.clone(),
            // Its first output is of its first row again.
            ..*self
        }
    }

    /// The record's row of the kernel table.
    #[inline]
    pub fn kernel(&self, record: &Record) -> &'static KernelRow {
        &self.kernels[record.kernel as usize]
    }

    /// Takes shards of a record that nobody has taken. Every share steals until it fails, once in a step; all steps of a submission
    /// have as many shards.
    #[inline]
    pub fn steal(&self, record: &Record, share: Share, shards: usize) -> impl Iterator<Item = usize> {
        let steals = &self.states[self.index(record)].steals[self.row_group.unwrap_or(0)];
        share::steal(steals, share.count, shards)
    }

    #[inline]
    fn index(&self, record: &Record) -> usize {
        (&raw const *record as usize - self.records.as_ptr() as usize) / size_of::<Record>()
    }

    /// The product that follows a record.
    #[inline]
    pub fn next_product(&self, record: &Record) -> &Record {
        &self.records[self.states[self.index(record)].next_product]
    }

    /// The columns of `total`, of so many bytes each, that the worker of a share multiplies: its own, then shards that it steals.
    #[inline]
    pub fn columns(
        &self,
        record: &Record,
        share: Share,
        (total, bytes): (usize, usize),
    ) -> impl Iterator<Item = Range<usize>> {
        let split = Split::new(share.count, total, record.grain as usize, bytes);
        let shards = split.shards();
        let stolen = (shards > 0).then(|| self.steal(record, share, shards)).into_iter().flatten();
        std::iter::once(split.own(share.index)).chain(stolen.map(move |i| split.shard(i)))
    }

    /// Waits for all shares of a record, inside of it. All of them must come here equally often. Shares of a row group may not, since
    /// one worker may have both.
    #[inline]
    pub fn meet(&self, share: Share) {
        debug_assert!(self.row_group.is_none());
        if share.count > 1 {
            self.barrier.wait();
        }
    }

    /// How many rows the record runs over in this step.
    #[inline]
    pub fn count(&self, record: &Record) -> usize {
        match record.per() {
            Per::Row => self.rows,
            Per::Output => self.outputs,
            Per::Frame => 2 * self.rows,
        }
    }

    /// Null for an operand that is not there.
    #[inline]
    pub fn address(&self, at: Addr) -> *mut u8 {
        self.bases[at.region().0 as usize].wrapping_add(at.offset())
    }

    /// An operand that is one value for all rows: a weight or a vector.
    #[inline]
    pub fn operand(&self, record: &Record, slot: usize) -> *mut u8 {
        self.address(record.args[slot])
    }

    /// Row `row` of an activation operand.
    #[inline]
    pub fn row(&self, record: &Record, slot: usize, row: usize) -> *mut u8 {
        self.operand(record, slot).wrapping_add(row * record.strides[slot] as usize)
    }

    #[inline]
    pub fn row_vars(&self, row: usize) -> RowVars {
        debug_assert!(row < self.rows);
        // SAFETY: the step header was checked: `rows` RowVars lie at `row_vars`.
        unsafe { *self.row_vars.add(row) }
    }

    /// Which row the `output`-th row of logits comes from.
    #[inline]
    pub fn output_row(&self, output: usize) -> usize {
        debug_assert!(output < self.outputs);
        // SAFETY: the step header was checked: `outputs` indices lie at `output_rows`.
        unsafe { *self.output_rows.add(output) as usize }
    }

    /// How the token of the `output`-th row of logits is drawn.
    #[inline]
    pub fn draw_vars(&self, output: usize) -> DrawVars {
        debug_assert!(output < self.outputs);
        // SAFETY: the step header was checked: `outputs` DrawVars lie at `draws`.
        unsafe { *self.draws.add(output) }
    }

    /// What texts with rules obey.
    #[inline]
    pub fn rules(&self) -> &Rules {
        // SAFETY: the step header was checked: one `Rules` lies there, and nobody writes it during a submission.
        unsafe { &*self.rules }
    }

    /// Where the text of the `output`-th row of logits stands.
    #[inline]
    pub fn text(&self, output: usize) -> RuleVars {
        debug_assert!(output < self.outputs);
        // SAFETY: the step header was checked: `outputs` RuleVars lie at `texts`.
        unsafe { *self.texts.add(output) }
    }

    /// Whether all texts have come to their end: what is left of the chain is not wanted.
    #[inline]
    pub fn ended(&self) -> bool {
        // SAFETY: the header is there, and this word of it is changed by `advance` alone, as an atomic too.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).ended) }.load(Ordering::Relaxed) != 0
    }

    /// First byte of the KV block that holds positions `index * KV_BLOCK ..` of a sequence, at
    /// this layer's keys; `None` where the sequence has no block there.
    #[inline]
    pub fn kv_block(&self, kv: &KvParams, base: *mut u8, sequence: u32, index: usize) -> Option<*mut u8> {
        let group = kv.group as usize;
        let (sequence, tables) = (sequence as usize, self.layout.sequences);
        if sequence >= tables || index >= self.layout.table_blocks || group >= self.kv.len() {
            return None;
        }
        // SAFETY: sequence and index were just checked against the layout the tables have.
        let block =
            unsafe { *self.tables.add((group * tables + sequence) * self.layout.table_blocks + index) } as usize;
        // NO_BLOCK is larger than any pool.
        (block < self.kv[group].blocks)
            .then(|| base.wrapping_add(block * kv.block_bytes as usize + kv.layer_offset as usize))
    }

    /// Byte offset of a position inside one head of a block.
    #[inline]
    pub fn kv_row(kv: &KvParams, head: usize, position: usize) -> usize {
        head * kv.head_bytes as usize + position % KV_BLOCK * kv.row_bytes as usize
    }

    /// A share's scratch memory: `SCRATCH_BYTES`, aligned to a cache line.
    #[inline]
    pub fn scratch(&self, share: usize) -> *mut u8 {
        self.scratch.wrapping_add(share * SCRATCH_BYTES)
    }

    /// Takes a token for every output row as the step's choice and moves those rows on.
    ///
    /// # Safety
    /// No other worker uses the step variables of these rows meanwhile.
    // Kernels choose with vectors, whose instructions would be calls in a function of its own.
    #[inline(always)]
    pub(crate) unsafe fn advance(&self, choice: impl Fn(usize) -> Chosen) {
        // SAFETY: the header was checked: its rows and outputs fit the layout, output rows are
        // rows, and `emitted` has room for every step of the submission. Nobody else looks.
        unsafe {
            let step = (*self.header).emitted_steps as usize;
            let rules = self.rules();
            let mut ended = self.outputs > 0;
            for output in 0..self.outputs {
                let chosen = choice(output);
                let token = chosen.token;
                *self.emitted.add(step * self.abreast + output) = chosen.emitted();
                let row = &mut *self.row_vars.add(self.output_row(output));
                row.token = token;
                row.position += 1;
                let draw = &mut *self.draws.add(output);
                draw.index = draw.index.wrapping_add(1);
                let text = &mut *self.texts.add(output);
                if text.on != 0 {
                    text.push(rules, chosen);
                }
                ended &= text.on != 0 && rules.ended(text);
            }
            (*self.header).emitted_steps += 1;
            AtomicU32::from_ptr(&raw mut (*self.header).ended).store(ended.into(), Ordering::Relaxed);
        }
    }
}

const _: () = assert!(SCRATCH_BYTES.is_multiple_of(ALIGN));
