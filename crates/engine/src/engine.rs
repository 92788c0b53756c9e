//! A loaded model: programs bound to kernels, the KV cache, and the steps that run them.

use crate::footprint::Footprint;
use crate::generate::constraint::Masks;
use crate::kv::blocks::Pools;
use crate::kv::sequence::{Copy, Sequence};
use crate::load::{DEFAULT_CONTEXT, LoadOptions, MAX_CONTEXT, Opened};
use crate::speech::encoder::{self, SpeechPrograms};
use crate::step::{Outputs, StepInput};
use crate::{Error, embedded};
use akunu_arch::Model;
use akunu_formats::ModelFile;
use akunu_plan::backend::{Backend, BoundProgram, KvCopy, KvPool, Loaded, Preferences, Want};
use akunu_plan::{Bound, DrawVars, KV_BLOCK, NO_TOKEN, Output, Program, RowVars, StepLayout, StepVars, build};
use akunu_text::{Grammars, Tokenizer};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Sequences a step can have.
pub const MAX_SEQUENCES: usize = 64;
/// Rows of logits a chunk can give. Rows nobody asks for are memory nobody touches.
pub(crate) const MAX_OUTPUTS: usize = 64;

/// One program for up to `max_rows` rows, and its place among those that are loaded.
#[derive(Clone)]
pub(crate) struct Class {
    pub(crate) program: Arc<Program>,
    pub(crate) index: usize,
}

/// A loaded model.
pub struct Engine {
    file: Arc<ModelFile>,
    pub(crate) model: Model,
    tokenizer: Option<Tokenizer>,
    pub(crate) loaded: Box<dyn Loaded>,
    /// Those that decode, by rows, then that of prompts.
    classes: Vec<Class>,
    /// The class of the last step: it knows where the logits are.
    last: usize,
    /// The tokens that the last submission chose, `[step][output]`.
    chosen: Vec<u32>,
    /// The programs a model of speech has besides.
    pub(crate) speech: Option<SpeechPrograms>,
    pools: Pools,
    context: usize,
    max_chain: usize,
    copies: Vec<Copy>,
    /// Rows of the last step that the host reads the logits of.
    wanted: Vec<u32>,
    grammars: Arc<OnceLock<Grammars>>,
    /// Where the workers leave a processor free.
    masks: OnceLock<Option<Masks>>,
}

/// Grammars for a vocabulary, made when the first one is compiled.
pub(crate) fn made<'g>(
    grammars: &'g OnceLock<Grammars>,
    tokenizer: &Tokenizer,
    vocab: usize,
) -> Result<&'g Grammars, Error> {
    match grammars.get() {
        Some(grammars) => Ok(grammars),
        None => {
            let made = Grammars::new(tokenizer, vocab)?;
            Ok(grammars.get_or_init(|| made))
        }
    }
}

/// The programs of rows that decode, by rows, and that of prompts.
fn programs(
    model: &Model,
    file: &ModelFile,
    options: &LoadOptions,
    prefers: &Preferences,
) -> Result<Vec<Program>, Error> {
    let chunk = options.chunk(prefers);
    let decoding = prefers.decode_rows.iter().map(|&rows| (Output::Logits, rows, false));
    let many = [(Output::Logits, chunk)].into_iter().chain(encoder::programs(model, chunk));
    let classes = decoding.chain(many.map(|(output, rows)| (output, rows, true)));
    let built = classes.map(|(output, rows, prompts)| {
        Ok(build(model, file, options.program(prefers, output, (rows, rows.min(MAX_OUTPUTS)), prompts))?)
    });
    built.collect()
}

fn footprint(file: &ModelFile, programs: &[Program], options: &LoadOptions, backend: &dyn Backend) -> Footprint {
    let sequences = options.sequences.clamp(1, MAX_SEQUENCES);
    let programs: Vec<&Program> = programs.iter().collect();
    let prefers = backend.preferences();
    let ahead = options.chunk(&prefers).max(prefers.max_chain);
    Footprint::new(file, &programs, backend, ahead, (sequences, options.extra_positions))
}

impl Engine {
    /// What a model would need, without loading it, and the bytes that its device has free.
    pub fn footprint(file: &ModelFile, options: &LoadOptions) -> Result<(Footprint, Option<u64>), Error> {
        let model = Model::read(file)?;
        let backend = options.device.open(options)?;
        let programs = programs(&model, file, options, &backend.preferences())?;
        Ok((footprint(file, &programs, options, &*backend), backend.info().free_memory))
    }

    /// Loads a GGUF file, a safetensors file, or an HF or MLX directory.
    pub fn load(path: &Path, options: LoadOptions) -> Result<Engine, Error> {
        Self::from_file(ModelFile::open_within(path, options.limits)?, options)
    }

    /// The model inside the binary.
    pub fn embedded(options: LoadOptions) -> Result<Engine, Error> {
        Self::from_file(embedded::open()?, options)
    }

    /// Loads an opened file.
    pub fn from_file(file: ModelFile, options: LoadOptions) -> Result<Engine, Error> {
        let backend = options.device.open(&options)?;
        let prefers = backend.preferences();
        let mut opened = Opened::read(file, &options)?;
        let context = options.context.unwrap_or(opened.model.config.context.min(DEFAULT_CONTEXT)).max(1);
        if context > MAX_CONTEXT {
            return Err(Error::ContextTooLong { context, most: MAX_CONTEXT });
        }
        opened.model.for_context(context);
        let Opened { file, model, .. } = &opened;

        let programs = programs(model, file, &options, &prefers)?;
        let footprint = footprint(file, &programs, &options, &*backend);
        footprint.check(context, options.memory.or_else(|| backend.info().free_memory))?;
        let largest = programs.iter().map(|p| p.max_rows).max().unwrap_or(1);
        let bind = |program| Ok(BoundProgram { bound: backend.bind(&program)?, program: Arc::new(program) });
        let programs: Vec<BoundProgram> = programs.into_iter().map(bind).collect::<Result<_, Error>>()?;
        let groups = &programs[0].program.kv_groups;
        let steps = StepLayout {
            max_rows: largest.max(MAX_SEQUENCES),
            max_outputs: MAX_OUTPUTS,
            groups: groups.len(),
            sequences: MAX_SEQUENCES,
            table_blocks: (context.div_ceil(KV_BLOCK) + 1).max(encoder::positions(model).div_ceil(KV_BLOCK)),
            max_chain: prefers.max_chain,
        };
        let kv: Vec<KvPool> = groups
            .iter()
            .zip(footprint.blocks(context))
            .map(|(group, blocks)| KvPool { block_bytes: group.block_bytes, blocks })
            .collect();
        let pools = Pools::new(kv.iter().map(|p| p.blocks));
        let class = |(index, bound): (usize, &BoundProgram)| Class { program: bound.program.clone(), index };
        let mut classes = programs.iter().enumerate().map(class).collect();
        let speech = SpeechPrograms::split_off(&mut classes);
        let loaded = opened.load(backend, programs, steps, kv)?;
        let (file, model, tokenizer) = opened.parts()?;
        Ok(Engine {
            file,
            model,
            tokenizer,
            loaded,
            classes,
            last: 0,
            chosen: Vec::new(),
            speech,
            pools,
            context,
            max_chain: prefers.max_chain,
            copies: Vec::new(),
            wanted: Vec::new(),
            grammars: Arc::default(),
            masks: OnceLock::new(),
        })
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// The architecture and the configuration that the file gave.
    #[doc(hidden)]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// `None` where the file has none.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The tokenizer, or the error that says there is none.
    pub fn need_tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer { path: self.file.path().display().to_string() })
    }

    /// What compiles grammars for this model's vocabulary.
    pub fn grammars(&self) -> Result<&Grammars, Error> {
        made(&self.grammars, self.need_tokenizer()?, self.vocab())
    }

    /// Where [`Self::grammars`] are once they are made.
    pub(crate) fn shared_grammars(&self) -> Arc<OnceLock<Grammars>> {
        self.grammars.clone()
    }

    /// The thread that computes masks while steps run. There is none where the workers need every processor: they would
    /// wait for it.
    pub(crate) fn masks(&self) -> Option<&Masks> {
        let free = || std::thread::available_parallelism().is_ok_and(|all| all.get() > self.backend().info().threads);
        self.masks.get_or_init(|| if free() { Masks::start().ok() } else { None }).as_ref()
    }

    /// Positions a sequence can have.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Tokens in the vocabulary: logits of a row.
    pub fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    /// What the model runs on.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn Backend {
        self.loaded.backend()
    }

    /// The program of one-row steps.
    #[doc(hidden)]
    pub fn decode_program(&self) -> &Program {
        &self.classes[0].program
    }

    /// The program of the last step.
    #[doc(hidden)]
    pub fn last_program(&self) -> &Program {
        &self.classes[self.last].program
    }

    /// Its records.
    #[doc(hidden)]
    pub fn last_bound(&self) -> &Bound {
        self.loaded.bound(self.last)
    }

    /// Bytes a second at which the device reads the weights, doing nothing else.
    pub fn read_bandwidth(&mut self) -> f64 {
        self.loaded.bandwidth()
    }

    /// An empty sequence in this engine's KV cache.
    pub fn sequence(&self) -> Sequence {
        let encoded = self.classes[0].program.kv_groups.iter().position(|g| g.encoded.is_some());
        Sequence::new(self.pools.clone(), self.windows()).with_encoder(encoded)
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    /// By KV group.
    pub(crate) fn windows(&self) -> Vec<Option<usize>> {
        self.classes[0].program.kv_groups.iter().map(|g| g.window).collect()
    }

    /// Feeds tokens to a sequence, chunk by chunk; the logits of the last one.
    pub fn prefill(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<&[f32], Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.check_room(sequence, tokens.len())?;
        let chunk = self.chunk();
        let last = (tokens.len() - 1) / chunk;
        for (i, tokens) in tokens.chunks(chunk).enumerate() {
            let outputs = if i == last { Outputs::Last } else { Outputs::None };
            self.step(&mut [StepInput { sequence, tokens, outputs, prompt: true }])?;
        }
        Ok(self.logits_of(0))
    }

    /// The logits of every position of `tokens`, in a sequence of their own.
    pub fn logits(&mut self, tokens: &[u32], each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        self.logits_in(&mut self.sequence(), tokens, each)
    }

    /// The logits of every position of `tokens` that go on in a sequence.
    pub fn logits_in(
        &mut self,
        sequence: &mut Sequence,
        tokens: &[u32],
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        self.check_room(sequence, tokens.len())?;
        let rows = self.chunk().min(MAX_OUTPUTS);
        for tokens in tokens.chunks(rows) {
            let start = sequence.len();
            self.step(&mut [StepInput { sequence: &mut *sequence, tokens, outputs: Outputs::All, prompt: true }])?;
            (0..tokens.len()).for_each(|i| each(start + i, self.logits_of(i)));
        }
        Ok(())
    }

    /// Feeds `token` and continues greedily: `n` tokens (up to the longest chain) in one replay.
    pub fn greedy(&mut self, sequence: &mut Sequence, token: u32, n: usize) -> Result<&[u32], Error> {
        self.chain(sequence, token, n, DrawVars::default())
    }

    /// Feeds `token` and continues as `draw` says: `n` tokens (up to the longest chain) in one replay.
    pub(crate) fn chain(
        &mut self,
        sequence: &mut Sequence,
        token: u32,
        n: usize,
        draw: DrawVars,
    ) -> Result<&[u32], Error> {
        let n = n.clamp(1, self.max_chain);
        self.check_room(sequence, n)?;
        let part = StepInput { sequence, tokens: &[token], outputs: Outputs::Tokens(1), prompt: false };
        self.step_with(&mut [part], n, |vars| vars.draws_mut().fill(draw))?;
        Ok(self.chosen())
    }

    /// Takes one step with all workers waiting after every op of its program: the nanoseconds each took.
    pub fn time_ops(&mut self, parts: &mut [StepInput<'_>]) -> Result<Vec<u64>, Error> {
        self.prepare(parts, 1)?;
        let times = self.loaded.time_ops(self.last)?;
        for part in parts {
            part.sequence.set_len(part.sequence.len() + part.tokens.len());
        }
        Ok(times)
    }

    /// One step over any number of sequences; up to `MAX_OUTPUTS` rows of logits come out, in order.
    pub fn step(&mut self, parts: &mut [StepInput<'_>]) -> Result<(), Error> {
        self.step_with(parts, 1, |_| {})
    }

    /// Replays `steps` steps, or as many as it takes until all texts have ended, whose variables `change` sees before they
    /// run. Every later step feeds each output row the token that was chosen for it.
    pub(crate) fn step_with(
        &mut self,
        parts: &mut [StepInput<'_>],
        steps: usize,
        change: impl FnOnce(&mut StepVars<'_>),
    ) -> Result<(), Error> {
        self.prepare(parts, steps)?;
        change(&mut self.loaded.steps());
        let outputs: usize = parts.iter().map(StepInput::outputs).sum();
        let want = match self.wanted.len() {
            0 => Want::Tokens,
            wanted if wanted == outputs => Want::All,
            _ => Want::Rows(&self.wanted),
        };
        self.loaded.submit(self.last, steps, want)?;
        let vars = self.loaded.steps();
        let taken = vars.header().emitted_steps as usize;
        self.chosen.clear();
        self.chosen.extend_from_slice(vars.into_emitted());
        for part in parts {
            part.sequence.set_len(part.sequence.len() + part.tokens.len() + taken - 1);
        }
        if self.chosen.contains(&NO_TOKEN) {
            return Err(Error::NotFinite);
        }
        Ok(())
    }

    /// Logits of an output row of the last step; empty where nobody was to read them.
    pub fn logits_of(&self, output: usize) -> &[f32] {
        self.loaded.output(output)
    }

    /// What the backend chose for every output row of the last submission, `[step][output]`.
    pub fn chosen(&self) -> &[u32] {
        &self.chosen
    }

    /// Where the text of an output row of the last submission stands, and how its next token would be drawn.
    #[cfg(feature = "audio")]
    pub(crate) fn standing(&mut self, output: usize) -> (akunu_plan::RuleVars, DrawVars) {
        let vars = self.loaded.steps();
        (vars.texts()[output], vars.draws()[output])
    }

    /// Rows of the largest step that decodes, and of the largest that is no batch yet.
    pub(crate) fn decode_rows(&self) -> (usize, usize) {
        let rows = |class: usize| self.classes[class].program.max_rows;
        let largest = self.classes.len() - 2;
        (rows(largest), rows(largest.saturating_sub(1)))
    }

    /// The longest chain of tokens in one submission.
    pub(crate) fn max_chain(&self) -> usize {
        self.max_chain
    }

    /// Rows of a prefill step.
    pub fn chunk(&self) -> usize {
        self.classes[self.classes.len() - 1].program.max_rows
    }

    pub(crate) fn check_room(&self, sequence: &Sequence, tokens: usize) -> Result<(), Error> {
        match sequence.len() + tokens {
            total if total > self.context => Err(Error::ContextFull { tokens: total, context: self.context }),
            _ => Ok(()),
        }
    }

    /// Chooses the program, makes room in the KV cache and writes the step variables.
    fn prepare(&mut self, parts: &mut [StepInput<'_>], steps: usize) -> Result<(), Error> {
        let vocab = self.model.config.vocab;
        let rows: usize = parts.iter().map(|p| p.tokens.len()).sum();
        let outputs = parts.iter().map(StepInput::outputs).sum();
        debug_assert!(parts.windows(2).all(|p| p[0].prompt == p[1].prompt), "prompts and decoding in one step");
        self.last = self.class_for(rows, outputs, parts)?;
        for part in parts.iter() {
            debug_assert!(part.sequence.belongs_to(&self.pools), "a sequence of another engine");
            if let Some(&token) = part.tokens.iter().find(|t| **t as usize >= vocab) {
                return Err(Error::Token { token, vocab });
            }
            self.check_room(part.sequence, part.tokens.len() + steps - 1)?;
            if self.speech.is_some() && !part.sequence.has_encoded() {
                return Err(Error::NoAudio);
            }
        }
        let copies = &mut self.copies;
        let reserved = parts.iter_mut().try_for_each(|p| p.sequence.reserve(p.tokens.len() + steps - 1, copies));
        // Also where room ran out: a block that was replaced must have its contents.
        self.copy_blocks();
        reserved?;
        self.write_steps(parts, rows, outputs);
        Ok(())
    }

    /// As [`Self::prepare`], for the program that times words.
    pub(crate) fn prepare_timing(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<(), Error> {
        self.prepare(&mut [StepInput { sequence, tokens, outputs: Outputs::None, prompt: true }], 1)
    }

    fn class_for(&self, rows: usize, outputs: usize, parts: &[StepInput<'_>]) -> Result<usize, Error> {
        let prompts = self.classes.len() - 1;
        let classes = if parts.first().is_some_and(|p| p.prompt) { prompts..prompts + 1 } else { 0..prompts };
        let max_rows = self.classes[classes.end - 1].program.max_rows;
        let fits = |c: &Class| rows <= c.program.max_rows && outputs <= c.program.max_outputs;
        let class = classes.into_iter().find(|&c| fits(&self.classes[c]) && parts.len() <= MAX_SEQUENCES);
        class.ok_or(Error::StepTooLarge { rows, outputs, max_rows, max_outputs: MAX_OUTPUTS })
    }

    fn write_steps(&mut self, parts: &[StepInput<'_>], rows: usize, outputs: usize) {
        let groups = self.classes[0].program.kv_groups.len();
        let encoded = self.encoder_positions() as u32;
        let mut vars = self.loaded.steps();
        vars.begin(rows, outputs);
        self.wanted.clear();
        let (mut row, mut output) = (0, 0);
        for (slot, part) in parts.iter().enumerate() {
            for group in 0..groups {
                let table = part.sequence.table(group);
                vars.table_mut(group, slot)[..table.len()].copy_from_slice(table);
            }
            let first = part.sequence.len();
            for (i, &token) in part.tokens.iter().enumerate() {
                vars.rows_mut()[row + i] = RowVars {
                    token,
                    position: (first + i) as u32,
                    sequence: slot as u32,
                    length: encoded,
                    ..RowVars::default()
                };
            }
            row += part.tokens.len();
            let wanted = part.outputs();
            (0..wanted).for_each(|i| vars.outputs_mut()[output + i] = (row - wanted + i) as u32);
            if !matches!(part.outputs, Outputs::Tokens(_)) {
                self.wanted.extend(output as u32..(output + wanted) as u32);
            }
            output += wanted;
        }
    }

    fn copy_blocks(&mut self) {
        for (group, kv) in self.classes[0].program.kv_groups.iter().enumerate() {
            let bytes = kv.block_bytes;
            let of_group = self.copies.iter().filter(|copy| copy.0 == group);
            let copy = |from: u32, to: u32| KvCopy { from: from as usize * bytes, to: to as usize * bytes, bytes };
            let copies: Vec<KvCopy> = of_group.map(|&(_, from, to)| copy(from, to)).collect();
            if !copies.is_empty() {
                self.loaded.kv_copy(group, &copies);
            }
        }
        self.copies.clear();
    }
}
