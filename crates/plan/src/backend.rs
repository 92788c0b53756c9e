//! The seam: what a backend gives the engine, and nothing else crosses it.
//!
//! A [`Backend`] binds programs. [`Backend::load`] takes bound programs, the KV pools and the model files, and gives a
//! [`Loaded`]: it holds what the records address, and runs them. The host writes step variables into a mirror, submits
//! a program, and reads back what it asked for. Nobody outside gets a slice of a backend's memory: the KV cache is read,
//! written and copied by byte ranges.

use crate::bind::{Bound, NoKernel};
use crate::program::{ActivationLayout, Program};
use crate::proof::Unsound;
use crate::record::{BARRIER, Record, Region};
use crate::steps::{StepError, StepLayout, StepVars};
use std::sync::Arc;

/// What a backend runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// `cpu`, `cuda`, `metal`, `reference`.
    pub backend: &'static str,
    /// The device's own name.
    pub device: String,
    /// The kernels in use, such as an instruction-set level, and the highest that the device has.
    pub level: &'static str,
    pub best_level: &'static str,
    /// Host threads that a step keeps busy.
    pub threads: usize,
    /// Bytes of memory that a model could use; `None` where the system does not say.
    pub free_memory: Option<u64>,
}

/// The backend and its kernels: `cpu/avx512`.
impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.backend, self.level)
    }
}

/// What a backend is fastest with. The engine builds its programs accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// How activations that meet weights lie in memory, in programs that decode and in those that prefill.
    pub decode: ActivationLayout,
    pub prefill: ActivationLayout,
    /// Whether programs that prefill may round what they multiply ([`Program::may_round`]).
    pub prefill_rounds: bool,
    /// Row classes of programs that decode, ascending: each program serves up to so many rows.
    pub decode_rows: Vec<usize>,
    /// Rows of a prefill step, where nobody asks for another number.
    pub prefill_chunk: usize,
    /// The longest chain of tokens in one submission.
    pub max_chain: usize,
}

/// A program and its records.
#[derive(Clone, Debug)]
pub struct BoundProgram {
    pub program: Arc<Program>,
    pub bound: Bound,
}

/// A model file: bytes that stay where they are while their owner lives, and that can also be read.
pub trait WeightFile: Send + Sync {
    fn bytes(&self) -> &[u8];

    /// Fills `to` with the bytes from `at` on.
    fn read(&self, at: usize, to: &mut [u8]) -> std::io::Result<()> {
        let bytes = at.checked_add(to.len()).and_then(|end| self.bytes().get(at..end));
        to.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl WeightFile for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The KV blocks of one layer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPool {
    pub block_bytes: usize,
    pub blocks: usize,
}

impl KvPool {
    /// Bytes of all blocks; `None` where no machine could address them.
    pub fn bytes(&self) -> Option<usize> {
        self.block_bytes.checked_mul(self.blocks)
    }
}

/// A copy of bytes inside one KV group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCopy {
    pub from: usize,
    pub to: usize,
    pub bytes: usize,
}

/// What a [`Loaded`] is made of.
pub struct LoadPlan {
    /// Every program that will run. They share constants, step variables and KV cache; their activations share one arena.
    pub programs: Vec<BoundProgram>,
    pub steps: StepLayout,
    /// By KV group.
    pub kv: Vec<KvPool>,
    /// By file index of [`crate::Region::file`].
    pub files: Vec<Arc<dyn WeightFile>>,
}

impl LoadPlan {
    /// Whether records can address all of it, and step variables name all KV groups. Every backend asks this first.
    pub fn check(&self) -> Result<(), LoadError> {
        let limit = |what, asked: usize, most| {
            if asked <= most { Ok(()) } else { Err(LoadError::TooMany { what, asked, most }) }
        };
        limit("KV groups", self.kv.len(), Region::MAX_KV_GROUPS.min(self.steps.groups))?;
        limit("model files", self.files.len(), Region::MAX_FILES)
    }

    /// Bytes of the model files.
    pub fn weight_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes().len() as u64).sum()
    }
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("programs that share memory must have the same constants; program {0} has others than the first")]
    OtherConstants(usize),
    #[error("{what}: at most {most}, not {asked}")]
    TooMany { what: &'static str, asked: usize, most: usize },
    #[error("{what}: {bytes} bytes were asked for, more than this machine can address")]
    TooLarge { what: &'static str, bytes: u128 },
    #[error("{what}: this machine could not give {bytes} bytes of memory")]
    OutOfMemory { what: &'static str, bytes: usize },
    #[error("the weights could not be read: {0}")]
    Unreadable(String),
    #[error("weights that overlap at byte {0} of their file cannot be packed")]
    Overlapping(usize),
    #[error("the device could not take the model: {0}")]
    Device(String),
    #[error(transparent)]
    Unsound(#[from] Unsound),
}

/// Why a submission was refused. Nothing was run, but for what a device did before it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Steps(#[from] StepError),
    #[error("the program was checked for another memory")]
    OtherMemory,
    #[error("program {index} of {programs} was submitted")]
    NoProgram { index: usize, programs: usize },
    #[error("record {index} of {records} was asked for")]
    NoRecord { index: usize, records: usize },
    #[error("the device failed: {0}")]
    Device(String),
}

/// Which outputs of a submission the host will read. The tokens that the backend chose are there in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    Tokens,
    /// The rows of these outputs of the last step.
    Rows(&'a [u32]),
    All,
}

impl Want<'_> {
    pub fn has(self, output: usize) -> bool {
        match self {
            Want::Tokens => false,
            Want::Rows(rows) => rows.contains(&(output as u32)),
            Want::All => true,
        }
    }
}

/// A device with its kernels.
pub trait Backend: Send + Sync {
    fn info(&self) -> Info;

    fn preferences(&self) -> Preferences;

    /// Chooses a kernel and a weight layout for every op, and writes the records.
    fn bind(&self, program: &Program) -> Result<Bound, NoKernel>;

    /// A kernel's name, by the index records carry.
    fn kernel_name(&self, kernel: u32) -> &str;

    /// Dispatches that a record becomes in a step of so many rows, and how many of them wait for what is before them.
    fn dispatches(&self, record: &Record, _rows: usize) -> (usize, usize) {
        (1, usize::from(record.flags & BARRIER != 0))
    }

    /// Bytes of activations that programs need when they are loaded together, with weights of so many bytes.
    fn arena_bytes(&self, programs: &[&Program], weight_bytes: u64) -> usize;

    /// Takes hold of all memory, and proves that every record stays inside it.
    fn load(self: Box<Self>, plan: LoadPlan) -> Result<Box<dyn Loaded>, LoadError>;
}

/// A model in a backend's memory: programs that can be submitted, in the order of their [`LoadPlan`].
pub trait Loaded: Send {
    fn backend(&self) -> &dyn Backend;

    fn bound(&self, program: usize) -> &Bound;

    /// The host's mirror of the step variables. A submission reads what the host wrote there, and leaves there what the
    /// steps made of it: positions, the tokens that were chosen, where rules stand.
    fn steps(&mut self) -> StepVars<'_>;

    /// Runs a program `steps` times with nothing in between, or until all texts have ended. `Advance` moves the step
    /// variables on between steps. [`crate::Proof::check_steps`] is asked first.
    fn submit(&mut self, program: usize, steps: usize, want: Want<'_>) -> Result<(), SubmitError>;

    /// Output row `output` of the last submission, as wide as its program's result. Empty where it does not exist; it may
    /// be where it was not wanted.
    fn output(&self, output: usize) -> &[f32];

    /// The first rows of the input of a program that starts from frames instead of tokens, `[rows][width]`; the rest
    /// becomes zeros. More values than the input has are left out.
    fn write_input(&mut self, program: usize, values: &[f32]);

    /// Bytes of a KV group from byte `at` on. Like the next two, it panics where they do not lie inside the group.
    fn kv_read(&self, group: usize, at: usize, to: &mut [u8]);

    fn kv_write(&mut self, group: usize, at: usize, from: &[u8]);

    /// Copies inside a KV group, one after the other; no copy's source and destination overlap.
    fn kv_copy(&mut self, group: usize, copies: &[KvCopy]);

    /// One step with all workers waiting after every record: the nanoseconds each took. It gives no outputs.
    fn time_ops(&mut self, program: usize) -> Result<Vec<u64>, SubmitError>;

    /// Bytes a second at which this device reads the weights, doing nothing else: what products with one row are bound by.
    fn bandwidth(&mut self) -> f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_no_more_than_records_and_step_variables_can() {
        let plan = |groups: usize, pools: usize, files: usize| {
            let steps = StepLayout { max_rows: 1, max_outputs: 1, groups, sequences: 1, table_blocks: 1, max_chain: 1 };
            let pool = KvPool { block_bytes: 64, blocks: 1 };
            let file = || Arc::new(Vec::new()) as Arc<dyn WeightFile>;
            let files = (0..files).map(|_| file()).collect();
            LoadPlan { programs: Vec::new(), steps, kv: vec![pool; pools], files }.check()
        };
        assert!(plan(8, 8, 240).is_ok());
        for (groups, pools, files, named) in
            [(9, 9, 0, "KV groups"), (1, 2, 0, "KV groups"), (0, 0, 241, "model files")]
        {
            let error = plan(groups, pools, files).unwrap_err().to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
