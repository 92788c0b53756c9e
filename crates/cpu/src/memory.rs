//! Memory behind the regions of bound records: the arena, constants, step variables, KV pools and
//! the model files, mapped or copied.
//!
//! One `Memory` serves every bound program of one model: they share constants, KV and steps, and
//! the arena is as large as the largest of them asks for.

use crate::packed::Packs;
use crate::pages::Pages;
use crate::row_groups::RowGroups;
use akunu_plan::backend::{KvPool, LoadError, WeightFile};
use akunu_plan::bind::Bound;
use akunu_plan::record::{Addr, Region};
use akunu_plan::steps::{StepLayout, StepVars};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`Memory`] is made of.
pub struct MemoryPlan<'a> {
    /// Every program that will run in it.
    pub programs: &'a [&'a Bound],
    pub steps: StepLayout,
    /// By KV group.
    pub kv: &'a [KvPool],
    /// By file index of `Region::file`.
    pub files: Vec<Arc<dyn WeightFile>>,
    /// Read the files into memory of our own where that makes them faster to walk through, instead of using their
    /// mappings: see [`Pages::worth_copying`]. Files with weights that programs take packed are read in any case.
    pub copy: bool,
    /// Bytes of activations, where more are wanted than the largest program asks for.
    pub arena: usize,
    /// Groups that the rows of a step may be divided into, each of which has activations of its own: 1, or as many as there are
    /// workers, up to [`crate::row_groups::MAX_GROUPS`]. It is divided where the arena has room for all.
    pub row_groups: usize,
}

/// Base addresses and lengths by region.
pub(crate) struct Regions {
    pub bases: [*mut u8; Region::COUNT],
    pub lens: [usize; Region::COUNT],
}

/// The memory of one model.
pub struct Memory {
    regions: Box<Regions>,
    steps: StepLayout,
    kv: Vec<KvPool>,
    /// Where packed weights begin, with their bytes and those of a row.
    packed: HashMap<Addr, (usize, usize)>,
    /// Tells memories apart, so that a program checked against one is not replayed in another.
    identity: u64,
    /// Row groups that a step may have, and those of the last one.
    max_row_groups: usize,
    row_groups: RowGroups,
    /// Keeps the bytes behind `regions`.
    _pages: Vec<Pages>,
    _files: Vec<Arc<dyn WeightFile>>,
}

// SAFETY: the pointers lead into the blocks and files the `Memory` owns. They are written through
// only with `&mut Memory` in hand (`replay` takes it and hands it to its own workers).
unsafe impl Send for Memory {}
// SAFETY: with `&Memory` bytes are only read.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(plan: MemoryPlan<'_>) -> Result<Self, LoadError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let MemoryPlan { programs, steps, kv, files, copy, arena, row_groups } = plan;
        limit("KV groups", kv.len(), Region::MAX_KV_GROUPS)?;
        limit("model files", files.len(), Region::MAX_FILES)?;
        let constants = programs.first().map_or(&[][..], |p| &p.constants);
        if let Some(other) = programs.iter().position(|p| !same_bits(&p.constants, constants)) {
            return Err(LoadError::OtherConstants(other));
        }
        let mut memory = Self {
            regions: Box::new(Regions { bases: [std::ptr::null_mut(); Region::COUNT], lens: [0; Region::COUNT] }),
            steps,
            kv: kv.to_vec(),
            packed: HashMap::new(),
            identity: NEXT.fetch_add(1, Ordering::Relaxed),
            max_row_groups: row_groups.max(1),
            row_groups: RowGroups::WHOLE,
            _pages: Vec::new(),
            _files: Vec::new(),
        };
        let arena = programs.iter().map(|p| p.arena_bytes).fold(arena, usize::max);
        memory.own(Region::ARENA, "activations", arena)?;
        memory.own(Region::CONSTANTS, "constants", constants.len() * 4)?;
        memory.bytes_mut(Region::CONSTANTS)[..constants.len() * 4].copy_from_slice(bytemuck::cast_slice(constants));
        memory.own(Region::STEPS, "step variables", steps.bytes())?;
        for (group, pool) in kv.iter().enumerate() {
            let bytes = pool.block_bytes as u128 * pool.blocks as u128;
            let len = usize::try_from(bytes).map_err(|_| LoadError::TooLarge { what: "KV cache", bytes })?;
            memory.own(Region::kv(group as u8), "KV cache", len)?;
        }
        for (index, file) in files.into_iter().enumerate() {
            let region = Region::file(index as u8);
            let len = file.bytes().len();
            let packs = Packs::of(programs, region, len)?;
            if copy && Pages::worth_copying(len) || !packs.is_empty() {
                let read = |at: usize, to: &mut [u8]| packs.read(file.as_ref(), at, to);
                memory.hold(region, Pages::filled("weights", len, |at| packs.end(at), read)?);
                memory.packed.extend(packs.matrices(region));
                continue;
            }
            // Never written through: `ready` lets records write only to the arena and to KV pools.
            memory.regions.bases[region.0 as usize] = file.bytes().as_ptr().cast_mut();
            memory.regions.lens[region.0 as usize] = len;
            memory._files.push(file);
        }
        *memory.step_vars().header_mut() = steps.header();
        Ok(memory)
    }

    fn own(&mut self, region: Region, what: &'static str, len: usize) -> Result<(), LoadError> {
        self.hold(region, Pages::zeroed(what, len)?);
        Ok(())
    }

    fn hold(&mut self, region: Region, pages: Pages) {
        self.regions.bases[region.0 as usize] = pages.base();
        self.regions.lens[region.0 as usize] = pages.bytes();
        self._pages.push(pages);
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The bytes of the packed weights at `at`, and those of a row.
    pub(crate) fn packed(&self, at: Addr) -> Option<(usize, usize)> {
        self.packed.get(&at).copied()
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub fn step_layout(&self) -> StepLayout {
        self.steps
    }

    pub fn kv_pools(&self) -> &[KvPool] {
        &self.kv
    }

    /// The step variables as words, header included.
    pub fn steps(&mut self) -> &mut [u32] {
        let words = self.steps.bytes() / 4;
        &mut bytemuck::cast_slice_mut(self.bytes_mut(Region::STEPS))[..words]
    }

    /// The step variables with names. `replay` checks them before it uses them.
    pub fn step_vars(&mut self) -> StepVars<'_> {
        StepVars::new(self.steps())
    }

    /// A region's bytes.
    pub fn bytes(&self, region: Region) -> &[u8] {
        let at = region.0 as usize;
        if self.regions.bases[at].is_null() {
            return &[];
        }
        // SAFETY: base and length are those of a block or file this `Memory` keeps alive, and
        // with `&self` nobody writes.
        unsafe { std::slice::from_raw_parts(self.regions.bases[at], self.regions.lens[at]) }
    }

    /// Bytes of a region of our own; empty for files.
    fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        let at = region.0 as usize;
        if self.regions.bases[at].is_null() || region.0 >= Region::file(0).0 {
            return &mut [];
        }
        // SAFETY: base and length are those of a block this `Memory` owns, and with `&mut self`
        // nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.regions.bases[at], self.regions.lens[at]) }
    }

    /// The bytes of activations from `at` on, to fill a buffer before a single record is replayed.
    /// Empty where `at` is not in the arena or they do not fit.
    pub fn activation_bytes_mut(&mut self, at: Addr, len: usize) -> &mut [u8] {
        if at.region() != Region::ARENA {
            return &mut [];
        }
        at.offset()
            .checked_add(len)
            .and_then(|end| self.bytes_mut(Region::ARENA).get_mut(at.offset()..end))
            .unwrap_or(&mut [])
    }

    /// The bytes of KV group `group`; none where it is not there.
    pub fn kv(&self, group: usize) -> &[u8] {
        if group >= self.kv.len() { &[] } else { self.bytes(Region::kv(group as u8)) }
    }

    /// The bytes of KV group `group`, for copies of blocks between owners.
    pub fn kv_mut(&mut self, group: usize) -> &mut [u8] {
        if group >= self.kv.len() { &mut [] } else { self.bytes_mut(Region::kv(group as u8)) }
    }

    /// `len` f32 values at `at`; `None` where they do not lie inside their region.
    pub fn floats(&self, at: Addr, len: usize) -> Option<&[f32]> {
        let bytes = self.bytes(at.region());
        let end = at.offset().checked_add(len.checked_mul(4)?)?;
        bytemuck::try_cast_slice(bytes.get(at.offset()..end)?).ok()
    }

    pub(crate) fn max_row_groups(&self) -> usize {
        self.max_row_groups
    }

    /// Says how the rows of the step that runs next are divided.
    pub(crate) fn set_row_groups(&mut self, row_groups: RowGroups) {
        self.row_groups = row_groups;
    }

    /// Output row `output` of the logits of the last step, `vocab` values.
    pub fn logits(&self, bound: &Bound, output: usize, vocab: usize) -> Option<&[f32]> {
        let group = (0..self.row_groups.count).rev().find(|&group| self.row_groups.rows(group).start <= output)?;
        let output = output - self.row_groups.rows(group).start;
        let first = bound.logits.offset().checked_add(group * self.row_groups.arena)?;
        let offset = output.checked_mul(bound.logits_stride)?.checked_add(first)?;
        self.floats(Addr::new(bound.logits.region(), offset), vocab)
    }
}

fn limit(what: &'static str, asked: usize, most: usize) -> Result<(), LoadError> {
    if asked <= most { Ok(()) } else { Err(LoadError::TooMany { what, asked, most }) }
}

/// Equality that takes NaN for itself.
fn same_bits(a: &[f32], b: &[f32]) -> bool {
    bytemuck::cast_slice::<f32, u32>(a) == bytemuck::cast_slice::<f32, u32>(b)
}
