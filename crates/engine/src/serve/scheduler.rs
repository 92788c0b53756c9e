//! Many generations at once: continuous batching over one engine.
//!
//! Every step computes one row for each generation that decodes, and a chunk of the prompts that are still being read.
//! While somebody decodes that chunk is small (see `chunk`), so that a long prompt never holds others up for more than one.
//! When the KV cache runs out, first what is only remembered goes, then the youngest generation waits: it gives its blocks
//! back, and later computes what is missing of them again. Its tokens do not change by that, because a row's result does
//! not depend on how or with whom it is computed.

use super::chunk::ChunkPace;
use super::metrics::Metrics;
use crate::engine::{MAX_OUTPUTS, MAX_SEQUENCES};
use crate::generate::decoder::Decoder;
use crate::generate::{Finish, GenerateOptions, Piece};
use crate::kv::prefix::{Miss, PrefixCache};
use crate::kv::snapshot::Snapshot;
use crate::{Engine, Error, Sequence, StepInput};
use akunu_plan::{DrawVars, KV_BLOCK};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How many, how much at a time, and how much to remember.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerOptions {
    /// Generations that run at once; others wait.
    pub sequences: usize,
    /// Prompt tokens in a step while others decode; `None`: as many as take as long as a step of those who decode, at
    /// least [`crate::LEAST_CHUNK`].
    pub chunk: Option<usize>,
    /// Positions of finished texts to remember; 0: none.
    pub cache: usize,
    /// While prompts are read nobody should wait longer than this for the next token; prompts are read in smaller pieces
    /// where that is needed, though never in smaller ones than [`crate::LEAST_CHUNK`].
    pub max_gap: Duration,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { sequences: 16, chunk: None, cache: 16_384, max_gap: Duration::from_millis(200) }
    }
}

/// A prompt and how to go on after it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// How to go on after it.
    pub options: GenerateOptions,
}

/// Which request an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Why it ended.
    pub finish: Finish,
    /// Text held back until the end.
    pub rest: String,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the prompt that were in the prefix cache.
    pub cached: usize,
    /// Why not all were.
    pub miss: Option<Miss>,
    /// Tokens after it.
    pub generated: usize,
    /// How often it had to give its blocks back.
    pub preempted: usize,
    /// From submission to when it was admitted.
    pub waited: Duration,
    /// From submission to the first token.
    pub first_token: Duration,
    /// From submission to the last.
    pub total: Duration,
}

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A token, and the text that it completes.
    Piece(Piece),
    /// It is over.
    Finished(Summary),
    /// It could not go on; the sentence says why.
    Failed(String),
}

struct Job {
    id: RequestId,
    decoder: Decoder,
    /// Its place in the KV cache, while it runs.
    sequence: Sequence,
    /// Whether it has rows in the step, and how many outputs.
    planned: bool,
    outputs: usize,
    /// Why it cannot go on.
    failed: Option<String>,
    cached: usize,
    miss: Option<Miss>,
    preempted: usize,
    submitted: Instant,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

/// Runs many requests on one engine, step by step.
///
/// ```
/// use akunu::{Engine, Event, GenerateOptions, LoadOptions, Request, Scheduler, SchedulerOptions};
///
/// let engine = Engine::embedded(LoadOptions { sequences: 4, ..Default::default() })?;
/// let mut scheduler = Scheduler::new(engine, SchedulerOptions::default());
/// for start in [1, 2, 3] {
///     scheduler.submit(Request { tokens: vec![start, 77], options: GenerateOptions::new().max_tokens(8) })?;
/// }
/// let mut tokens = 0;
/// while scheduler.step(|_request, event| tokens += usize::from(matches!(event, Event::Piece(_)))) {}
/// assert!(tokens > 0 && tokens <= 24);
/// # Ok::<(), akunu::Error>(())
/// ```
pub struct Scheduler {
    pub(super) engine: Engine,
    /// The engine's, read while its file is surely there.
    fingerprint: [u8; 32],
    options: SchedulerOptions,
    pub(super) cache: PrefixCache,
    waiting: VecDeque<Job>,
    /// In the order of their admission.
    running: Vec<Job>,
    /// How the outputs of the step are chosen.
    draws: Vec<DrawVars>,
    pace: ChunkPace,
    metrics: Metrics,
    next: u64,
}

impl Scheduler {
    /// Over an engine whose KV cache holds so many sequences.
    pub fn new(engine: Engine, options: SchedulerOptions) -> Self {
        let options = SchedulerOptions { sequences: options.sequences.clamp(1, MAX_SEQUENCES), ..options };
        let cache = PrefixCache::new(engine.pools().clone(), engine.windows(), options.cache.div_ceil(KV_BLOCK));
        let (waiting, running) = (VecDeque::new(), Vec::new());
        let (draws, pace) = (Vec::with_capacity(MAX_OUTPUTS), ChunkPace::default());
        let fingerprint = engine.fingerprint();
        Self {
            engine,
            fingerprint,
            options,
            cache,
            waiting,
            running,
            draws,
            pace,
            metrics: Metrics::default(),
            next: 0,
        }
    }

    /// What it runs.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends every request.
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// What finished texts left in the KV cache, up to so many bytes of what was used last.
    pub fn snapshot(&self, most: u64) -> Snapshot {
        Snapshot::take(&self.engine, self.fingerprint, &self.cache, most)
    }

    /// Puts back what a scheduler over the same model remembered; how many positions that were, 0 where it is another one.
    pub fn restore(&mut self, snapshot: &Snapshot) -> usize {
        snapshot.restore(&mut self.engine, self.fingerprint, &mut self.cache)
    }

    /// Queues a request. What could not run at all is refused here.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        let Request { tokens, options } = request;
        let vocab = self.engine.vocab();
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if let Some(&token) = tokens.iter().find(|t| **t as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        let sequence = self.engine.sequence();
        self.engine.check_room(&sequence, tokens.len())?;
        let decoder = self.engine.decoder(&tokens, options)?;
        let id = RequestId(self.next);
        self.next += 1;
        self.metrics.submitted += 1;
        self.waiting.push_back(Job {
            id,
            decoder,
            sequence,
            planned: false,
            outputs: 0,
            failed: None,
            cached: 0,
            miss: None,
            preempted: 0,
            submitted: Instant::now(),
            admitted: None,
            first_token: None,
            last_token: None,
        });
        Ok(id)
    }

    /// Ends a request at once; its blocks are free for others. False where it is not there any more.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let before = self.waiting.len() + self.running.len();
        self.waiting.retain(|job| job.id != id);
        self.running.retain(|job| job.id != id);
        let gone = before > self.waiting.len() + self.running.len();
        self.metrics.cancelled += u64::from(gone);
        gone
    }

    /// Whether a request waits or runs.
    pub fn has(&self, id: RequestId) -> bool {
        self.waiting.iter().chain(&self.running).any(|job| job.id == id)
    }

    /// Requests that are not finished.
    pub fn unfinished(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Counters since the start.
    pub fn metrics(&self) -> Metrics {
        let (blocks, free) = self.engine.pools().with(|p| {
            let largest = p.iter().max_by_key(|p| p.blocks());
            largest.map_or((0, 0), |p| (p.blocks(), p.free()))
        });
        Metrics {
            running: self.running.len(),
            waiting: self.waiting.len(),
            blocks,
            blocks_used: blocks - free,
            blocks_cached: self.cache.len(),
            ..self.metrics
        }
    }

    /// Computes one step for everybody who runs; `each` learns what came of it. False when nothing is left to do.
    pub fn step(&mut self, mut each: impl FnMut(RequestId, Event)) -> bool {
        self.admit();
        let begun = Instant::now();
        // A step decodes or reads prompts: what a row gives must not depend on what others do.
        let decoding = self.running.iter().any(|job| !job.decoder.reading());
        let mut rows = self.run(|s| s.plan_decoding(), &mut each);
        let decoded = begun.elapsed();
        if rows > 0 {
            self.pace.decoded(decoded);
        }
        let read = self.run(|s| s.plan_reading(decoding), &mut each);
        rows += read;
        if rows == 0 {
            return !self.waiting.is_empty();
        }
        let took = begun.elapsed();
        if read > 0 && decoding {
            self.pace.read(read, took - decoded);
        }
        self.metrics.steps += 1;
        self.metrics.rows += rows as u64;
        self.metrics.computing += took;
        self.metrics.longest_step = self.metrics.longest_step.max(took);
        self.unfinished() > 0
    }

    /// Plans and computes until there is room for what was planned; how many rows that was.
    fn run(&mut self, plan: impl Fn(&mut Self) -> usize, each: &mut impl FnMut(RequestId, Event)) -> usize {
        loop {
            self.running.iter_mut().for_each(|job| job.planned = false);
            let rows = plan(self);
            if rows == 0 {
                return 0;
            }
            let begun = Instant::now();
            match self.run_planned() {
                Ok(()) => {
                    if let [job] = &mut self.running[..] {
                        job.decoder.record_time(begun.elapsed());
                    }
                    self.take(each);
                    return rows;
                }
                Err(Error::KvFull { .. }) if self.make_room() => {}
                Err(error) => self.fail_planned(&error.to_string(), each),
            }
        }
    }

    /// Lets waiting requests in, first come, first served, as long as their prompts have room.
    fn admit(&mut self) {
        while self.running.len() < self.options.sequences
            && let Some(mut job) = self.waiting.pop_front()
        {
            let (beginning, length) = job.decoder.remaining();
            if !self.running.is_empty() && !self.has_room(length) {
                return self.waiting.push_front(job);
            }
            let first = job.admitted.is_none();
            let (sequence, miss) = self.cache.attach(beginning, self.engine.sequence());
            job.sequence = sequence;
            job.miss = if first { miss } else { job.miss };
            job.decoder.set_fed(job.sequence.len());
            if first {
                job.admitted = Some(Instant::now());
                job.cached = job.sequence.len();
                self.metrics.prompt_tokens += job.decoder.prompt() as u64;
                self.metrics.cached_tokens += job.cached as u64;
            }
            self.running.push(job);
        }
    }

    /// Whether every pool has, or could have, the blocks for a text of this length and a little more.
    fn has_room(&self, tokens: usize) -> bool {
        let wanted = |window: Option<usize>| {
            let positions = window.map_or(tokens, |w| tokens.min(w + self.engine.chunk()));
            positions / KV_BLOCK + 2
        };
        let cached = self.cache.len();
        self.engine.pools().with(|pools| {
            pools.iter().zip(self.engine.windows()).all(|(pool, window)| pool.free() + cached >= wanted(window))
        })
    }

    /// Gives everybody who decodes rows of the coming step; how many in all.
    fn plan_decoding(&mut self) -> usize {
        let (mut rows, mut outputs) = (0, 0);
        let context = self.engine.context();
        // Drafts only as long as all that is decoded stays a small batch.
        let (batch, small_batch) = self.engine.decode_rows();
        let spare = small_batch.saturating_sub(self.running.len()) / self.running.len().max(1);
        for job in self.running.iter_mut().filter(|job| !job.decoder.reading()) {
            let room = (context - job.sequence.len()).min(batch - rows);
            let drafts = spare.min(MAX_OUTPUTS.saturating_sub(outputs + 1));
            let most = room.min(job.decoder.pending() + drafts);
            if most > 0 && outputs < MAX_OUTPUTS {
                rows += Self::plan_job(job, most);
                outputs += job.outputs;
            }
        }
        rows
    }

    /// Gives everybody who reads a prompt a part of the coming chunk, a small one where `others` wait; how many rows in all.
    fn plan_reading(&mut self, others: bool) -> usize {
        let most = self.engine.chunk();
        let mut left = match others {
            false => most,
            true => self.options.chunk.map_or(self.pace.rows(most, self.options.max_gap), |chunk| chunk.clamp(1, most)),
        };
        let (mut rows, mut outputs) = (0, 0);
        let mut readers = self.running.iter().filter(|job| job.decoder.reading()).count();
        for job in self.running.iter_mut().filter(|job| job.decoder.reading()) {
            // The first ones get more where it does not divide.
            let part = left.div_ceil(readers);
            readers -= 1;
            if part > 0 && outputs < MAX_OUTPUTS {
                let got = Self::plan_job(job, part);
                left -= got;
                rows += got;
                outputs += job.outputs;
            }
        }
        rows
    }

    fn plan_job(job: &mut Job, most: usize) -> usize {
        job.outputs = job.decoder.plan(most, 0);
        job.planned = true;
        job.decoder.rows().len()
    }

    fn run_planned(&mut self) -> Result<(), Error> {
        self.draws.clear();
        let mut parts = Vec::with_capacity(self.running.len());
        for job in self.running.iter_mut().filter(|job| job.planned) {
            let Job { sequence, decoder, outputs, .. } = job;
            decoder.look_ahead(&self.engine, *outputs);
            let prompt = decoder.reading();
            self.draws.extend(decoder.draws(*outputs));
            parts.push(StepInput { sequence, tokens: decoder.rows(), outputs: decoder.outputs(*outputs), prompt });
        }
        self.engine.step_with(&mut parts, 1, |vars| vars.draws_mut().copy_from_slice(&self.draws))
    }

    /// Takes the results of the step to those who wait for them.
    fn take(&mut self, each: &mut impl FnMut(RequestId, Event)) {
        let mut first = 0;
        for job in self.running.iter_mut().filter(|job| job.planned) {
            let engine = &self.engine;
            let output = |output| (engine.logits_of(first + output), engine.chosen()[first + output]);
            // What a request asks for runs here: a fault in it is that request's alone.
            let taken = catch_unwind(AssertUnwindSafe(|| job.decoder.take(&mut job.sequence, output)));
            first += job.outputs;
            job.failed = match taken {
                Ok(taken) => taken.err().map(|error| error.to_string()),
                Err(_) => Some("a fault in the engine ended it".to_owned()),
            };
            if !job.decoder.pieces.is_empty() {
                let now = Instant::now();
                match job.last_token.replace(now) {
                    Some(last) => self.metrics.gap.record(now - last),
                    None => self.metrics.first_token.record(now - job.submitted),
                }
                job.first_token.get_or_insert(now);
            }
            for piece in job.decoder.pieces.drain(..) {
                self.metrics.generated_tokens += 1;
                each(job.id, Event::Piece(piece));
            }
            let ended = job.decoder.finish().is_some();
            self.cache.insert(job.decoder.remaining().0, &job.sequence, ended);
            if !ended && job.sequence.len() >= engine.context() {
                Self::shift(&mut self.engine, job);
            }
        }
        let mut finished = |metrics: &mut Metrics, job: &mut Job| {
            if let Some(why) = job.failed.take() {
                metrics.failed += 1;
                each(job.id, Event::Failed(why));
                return true;
            }
            let Some(finish) = job.decoder.finish() else { return false };
            metrics.finished += 1;
            let since = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| at - job.submitted);
            let summary = Summary {
                finish,
                rest: job.decoder.rest(),
                prompt: job.decoder.prompt(),
                cached: job.cached,
                miss: job.miss,
                generated: job.decoder.tokens().len() - job.decoder.prompt(),
                preempted: job.preempted,
                waited: since(job.admitted),
                first_token: since(job.first_token),
                total: job.submitted.elapsed(),
            };
            each(job.id, Event::Finished(summary));
            true
        };
        self.running.retain_mut(|job| !finished(&mut self.metrics, job));
    }

    /// Makes room in a full context, where that is wanted; else the generation ends.
    fn shift(engine: &mut Engine, job: &mut Job) {
        let Some((keep, drop)) = job.decoder.shift(job.sequence.len()) else {
            return job.decoder.end(Finish::Context);
        };
        job.decoder.drop_tokens(drop);
        if engine.shift(&mut job.sequence, keep, drop).is_err() {
            // No block was free to move into: what stays is computed again.
            job.decoder.set_fed(0);
        }
    }

    /// Frees some blocks: of the cache, or of the youngest generation. False where one generation has all there are.
    fn make_room(&mut self) -> bool {
        if self.cache.evict() {
            return true;
        }
        if self.running.len() < 2 {
            return false;
        }
        let Some(mut job) = self.running.pop() else { return false };
        // Remembered, so that only as much of it goes as others need.
        self.cache.insert(job.decoder.remaining().0, &job.sequence, false);
        job.sequence = self.engine.sequence();
        job.decoder.set_fed(0);
        job.preempted += 1;
        self.metrics.preempted += 1;
        self.waiting.push_front(job);
        true
    }

    /// Ends every request with the same sentence.
    pub(crate) fn fail_all(&mut self, sentence: &str, mut each: impl FnMut(RequestId, Event)) {
        for job in self.waiting.drain(..).chain(self.running.drain(..)) {
            self.metrics.failed += 1;
            each(job.id, Event::Failed(sentence.to_owned()));
        }
    }

    fn fail_planned(&mut self, sentence: &str, each: &mut impl FnMut(RequestId, Event)) {
        let failed = self.running.extract_if(.., |job| job.planned).collect::<Vec<_>>();
        for job in failed {
            self.metrics.failed += 1;
            each(job.id, Event::Failed(sentence.to_owned()));
        }
    }
}
