//! Loading: the options, and what is read from a file before anything is built.

use crate::{Device, Error};
use akunu_arch::Model;
use akunu_dtype::DType;
use akunu_formats::ModelFile;
use akunu_limits::Limits;
use akunu_plan::backend::{Backend, BoundProgram, KvPool, LoadPlan, Loaded};
use akunu_plan::program::ActivationLayout;
use akunu_plan::{BuildOptions, Output, Preferences, StepLayout, WeightFile};
use akunu_text::Tokenizer;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// Sees how much of the weights is read, and may end the loading.
///
/// ```
/// use akunu::{Engine, Error, LoadOptions, Progress};
/// use std::ops::ControlFlow;
///
/// let progress = Progress::new(|_done, _total| ControlFlow::Break(()));
/// let options = LoadOptions { progress: Some(progress), ..LoadOptions::default() };
/// assert!(matches!(Engine::embedded(options), Err(Error::LoadStopped)));
/// ```
#[derive(Clone)]
pub struct Progress(Arc<See>);

type See = dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync;

impl Progress {
    /// `see` gets the bytes that are read and how many there are, first at 0 and last at all of them; from any thread, and from
    /// several at once. After it has asked to end, it may be asked again.
    pub fn new(see: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// Opens a backend that this crate does not know.
#[doc(hidden)]
#[derive(Clone)]
pub struct OwnBackend(pub Arc<dyn Fn() -> Box<dyn Backend> + Send + Sync>);

impl fmt::Debug for OwnBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnBackend")
    }
}

/// What quantized weights are multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Rounded to eight bits with a scale a block: fast.
    #[default]
    Int8,
    /// Slower, exact: for comparing engines.
    F32,
}

/// How to load a model, and on what.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What it runs on.
    pub device: Device,
    /// `None`: as many as this process may use.
    pub threads: Option<usize>,
    /// One of [`Device::levels`]; `None`: the best the machine has, or what `AKUNU_CPU` says.
    pub level: Option<String>,
    /// Number format of the KV cache: `F32`, `F16` or `Q8_0`.
    pub kv: DType,
    /// What quantized weights are multiplied with.
    pub activations: Activations,
    /// Positions a sequence can have; `None`: the model's own, up to [`DEFAULT_CONTEXT`].
    pub context: Option<usize>,
    /// Rows of a prefill step; `None`: as many as the backend is fastest with.
    pub chunk: Option<usize>,
    /// Sequences the KV cache has room for at full length.
    pub sequences: usize,
    /// Positions it has room for beyond those: for the prefix cache.
    pub extra_positions: usize,
    /// Bytes that it may need; `None`: what the machine has free.
    pub memory: Option<u64>,
    /// Use the weights where the file is mapped, instead of copying them to where they are read faster: starts at once,
    /// shares memory with other processes that use the file, and generates slower.
    pub mapped: bool,
    /// Round rope frequencies and the embedding's scale to the file's float type: for comparing with a PyTorch module that
    /// is cast as a whole.
    pub round_constants: bool,
    /// Sees how far it is, and may end it.
    pub progress: Option<Progress>,
    /// A backend of the caller's own, instead of the device's.
    #[doc(hidden)]
    pub backend: Option<OwnBackend>,
    /// What the file, its vocabulary and its template may cost, and texts and sessions that the model reads.
    pub limits: Limits,
}

/// The longest context there can be: positions are 32 bits.
pub const MAX_CONTEXT: usize = i32::MAX as usize;

/// The context of a model that was made for a longer one, where nobody asks for more.
pub const DEFAULT_CONTEXT: usize = 8192;

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            device: Device::Auto,
            threads: None,
            level: None,
            kv: DType::F16,
            activations: Activations::default(),
            context: None,
            chunk: None,
            sequences: 1,
            extra_positions: 0,
            memory: None,
            mapped: false,
            round_constants: false,
            progress: None,
            backend: None,
            limits: Limits::default(),
        }
    }
}

impl LoadOptions {
    /// The program for up to so many rows that decode, or that prefill: those are many, and kernels for many rows may round.
    #[doc(hidden)]
    pub fn program(&self, prefers: &Preferences, output: Output, rows: (usize, usize), prefill: bool) -> BuildOptions {
        let (max_rows, max_outputs) = rows;
        let activations = match self.activations {
            Activations::F32 => ActivationLayout::F32,
            Activations::Int8 if prefill => prefers.prefill,
            Activations::Int8 => prefers.decode,
        };
        let may_round = prefill && self.activations == Activations::Int8 && prefers.prefill_rounds;
        BuildOptions { max_rows, max_outputs, activations, may_round, kv: self.kv, output }
    }

    pub(crate) fn chunk(&self, prefers: &Preferences) -> usize {
        self.chunk.unwrap_or(prefers.prefill_chunk).clamp(1, 4096)
    }
}

/// A model file, and what every reader of it needs.
pub(crate) struct Opened {
    pub file: Arc<ModelFile>,
    pub model: Model,
    vocabulary: Vocabulary,
    tally: Arc<Tally>,
}

impl Opened {
    pub fn read(file: ModelFile, options: &LoadOptions) -> Result<Self, Error> {
        let file = Arc::new(file.within(options.limits));
        let total = (0..file.files()).map(|i| file.bytes(i).len() as u64).sum();
        let tally = Arc::new(Tally { progress: options.progress.clone(), total, ..Tally::default() });
        tally.add(0).map_err(|Ended| Error::LoadStopped)?;
        let vocabulary = Vocabulary::read(file.clone(), !options.mapped)?;
        let mut model = Model::read(&file)?;
        if options.round_constants {
            model.round_constants(&file);
        }
        Ok(Self { file, model, vocabulary, tally })
    }

    /// Makes a model that writes one that ranks, where its vocabulary has the answers as tokens.
    pub fn answer_yes_or_no(&mut self) -> Result<(), Error> {
        let answers = match Tokenizer::from_model_file(&self.file) {
            Ok(tokenizer) => tokenizer.id_of("yes").zip(tokenizer.id_of("no")),
            Err(akunu_text::Error::NoTokenizer(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some((yes, no)) = answers {
            self.model.answer(yes as usize, Some(no as usize));
        }
        Ok(())
    }

    /// What is kept of it, once everything is built.
    pub fn parts(self) -> Result<(Arc<ModelFile>, Model, Option<Tokenizer>), Error> {
        Ok((self.file, self.model, self.vocabulary.tokenizer()?))
    }

    /// Loads bound programs with these weights.
    pub fn load(
        &self,
        backend: Box<dyn Backend>,
        programs: Vec<BoundProgram>,
        steps: StepLayout,
        kv: Vec<KvPool>,
    ) -> Result<Box<dyn Loaded>, Error> {
        let view = |index| FileView { file: self.file.clone(), index, tally: self.tally.clone() };
        let files = (0..self.file.files()).map(|index| Arc::new(view(index)) as Arc<dyn WeightFile>).collect();
        let loaded = backend.load(LoadPlan { programs, steps, kv, files });
        if self.tally.ended.load(Ordering::Relaxed) {
            return Err(Error::LoadStopped);
        }
        let loaded = loaded?;
        self.tally.all().map_err(|Ended| Error::LoadStopped)?;
        Ok(loaded)
    }
}

type Read = Result<Tokenizer, akunu_text::Error>;

/// A tokenizer that a thread reads. Large vocabularies take longer to read than programs to build, and nothing that is built
/// needs them.
struct Vocabulary(Option<JoinHandle<Read>>);

impl Vocabulary {
    /// With `ahead`, the disk is asked for the beginning of the weights before.
    fn read(file: Arc<ModelFile>, ahead: bool) -> Result<Self, Error> {
        let read = move || {
            if ahead {
                file.read_ahead();
            }
            Tokenizer::from_model_file(&file)
        };
        let thread = thread::Builder::new().name("akunu-vocabulary".into());
        Ok(Self(Some(thread.spawn(read).map_err(Error::Thread)?)))
    }

    /// What was read; `None` where the file has no tokenizer.
    fn tokenizer(mut self) -> Result<Option<Tokenizer>, Error> {
        let read = self.0.take().map(JoinHandle::join).transpose();
        match read.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            None | Some(Err(akunu_text::Error::NoTokenizer(_))) => Ok(None),
            Some(tokenizer) => Ok(Some(tokenizer?)),
        }
    }
}

impl Drop for Vocabulary {
    /// Where nobody asks for it any more: the file is not held beyond this.
    fn drop(&mut self) {
        self.0.take().map(JoinHandle::join);
    }
}

/// How much of the weights was read.
#[derive(Default)]
struct Tally {
    progress: Option<Progress>,
    total: u64,
    read: AtomicU64,
    ended: AtomicBool,
}

/// Whoever saw the progress wants no more.
struct Ended;

impl Tally {
    fn see(&self, read: u64) -> Result<(), Ended> {
        let Some(Progress(see)) = &self.progress else { return Ok(()) };
        if self.ended.load(Ordering::Relaxed) || see(read.min(self.total), self.total).is_break() {
            self.ended.store(true, Ordering::Relaxed);
            return Err(Ended);
        }
        Ok(())
    }

    fn add(&self, bytes: usize) -> Result<(), Ended> {
        self.see(self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64)
    }

    /// What is not read stays in the mapping.
    fn all(&self) -> Result<(), Ended> {
        self.see(self.total)
    }
}

/// One file of a model, kept alive by whoever reads it.
struct FileView {
    file: Arc<ModelFile>,
    index: usize,
    tally: Arc<Tally>,
}

impl WeightFile for FileView {
    fn bytes(&self) -> &[u8] {
        self.file.bytes(self.index)
    }

    fn read(&self, at: usize, to: &mut [u8]) -> std::io::Result<()> {
        self.file.read(self.index, at, to)?;
        self.tally.add(to.len()).map_err(|Ended| std::io::ErrorKind::Interrupted.into())
    }
}
