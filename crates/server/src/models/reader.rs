//! A model that reads: vectors, scores. Texts of several requests are read in one step: each request gives one in turn, until
//! the step is full.

use super::Entry;
use super::turns::{Request, Turns};
use crate::Options;
use crate::answer::{self, Piece, Row, queue_full};
use crate::problem::{Kind, Problem};
use akunu::{Embedder, LoadOptions, Reading, Text, TextEncoder, TooLong};
use akunu_formats::ModelFile;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, oneshot};

pub struct Reader {
    pub name: String,
    pub width: usize,
    encoder: TextEncoder,
    embedder: Mutex<Embedder>,
    queue: Mutex<Queue>,
    room: Arc<Semaphore>,
}

/// Requests that have come since the last step.
#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    /// Somebody reads.
    working: bool,
    broken: bool,
}

/// What to read.
pub enum Item {
    Row(Row),
    Pair(String, String),
}

/// What came out, in the order of the items.
pub struct Read {
    pub vectors: Vec<Vec<f32>>,
    pub tokens: usize,
}

impl Reader {
    pub fn load(entry: &Entry, file: ModelFile, options: &Options, reading: Reading) -> Result<Self, Problem> {
        // Its own context: vectors of texts have nothing to do with that of conversations.
        let load = LoadOptions { context: None, ..options.load.clone() };
        let embedder = Embedder::from_file(file, load, reading)?;
        Ok(Self {
            name: entry.name.clone(),
            width: embedder.width(),
            encoder: embedder.encoder().clone(),
            embedder: Mutex::new(embedder),
            queue: Mutex::default(),
            room: Arc::new(Semaphore::new(options.limits.queue)),
        })
    }

    /// How many numbers a vector is to have, of what was asked and what there are.
    pub fn dimensions(&self, asked: Option<usize>) -> Result<usize, Problem> {
        match asked.unwrap_or(self.width) {
            width if (1..=self.width).contains(&width) => Ok(width),
            _ => Err(Problem::field("dimensions", format!("dimensions must be between 1 and {}", self.width))),
        }
    }

    /// Reads items, together with those of other requests.
    pub async fn read(self: Arc<Self>, items: Vec<Item>, too_long: TooLong) -> Result<Read, Problem> {
        let _place = self.room.clone().try_acquire_owned().map_err(|_| queue_full())?;
        let reader = self.clone();
        let encode = move || items.iter().map(|item| reader.text(item, too_long)).collect::<Result<Vec<_>, _>>();
        let texts = tokio::task::spawn_blocking(encode).await??;
        let tokens = texts.iter().map(|text| text.tokens.len()).sum();
        if texts.is_empty() {
            return Ok(Read { vectors: Vec::new(), tokens });
        }
        let (done, vectors) = oneshot::channel();
        if self.submit(Request::new(texts, done))? {
            tokio::task::spawn_blocking(move || self.work());
        }
        Ok(Read { vectors: vectors.await.map_err(|_| broken())??, tokens })
    }

    fn text(&self, item: &Item, too_long: TooLong) -> Result<Text, Problem> {
        let text = match item {
            Item::Row(row) => match &row[..] {
                [Piece::Text(text)] => self.encoder.text(text, too_long)?,
                row => answer::encode(self.encoder.tokenizer()?, row)?.into(),
            },
            Item::Pair(a, b) => self.encoder.pair(a, b, too_long)?,
        };
        self.encoder.check(&text)?;
        Ok(text)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody must begin to work.
    fn submit(&self, request: Request) -> Result<bool, Problem> {
        let mut queue = self.queue();
        if queue.broken {
            return Err(broken());
        }
        queue.requests.push(request);
        Ok(!std::mem::replace(&mut queue.working, true))
    }

    /// Reads until there is nothing left.
    fn work(&self) {
        let _broken = BreaksInPanic(self);
        let mut embedder = self.embedder.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut turns, room) = (Turns::default(), embedder.step_tokens());
        while self.admit(&mut turns) {
            turns.step(room, |texts, vectors| embedder.read(texts, |i, vector| vectors[i] = vector.to_vec()));
        }
    }

    /// Takes what has come; false where there is nothing to read, and then nobody works.
    fn admit(&self, turns: &mut Turns) -> bool {
        let queue = &mut *self.queue();
        queue.working = turns.admit(&mut queue.requests);
        queue.working
    }
}

/// After a panic in a step nothing is read any more, and nobody waits for it.
struct BreaksInPanic<'r>(&'r Reader);

impl Drop for BreaksInPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.0.queue();
            queue.broken = true;
            queue.requests.clear();
        }
    }
}

fn broken() -> Problem {
    Problem::new(Kind::Internal, "a request broke this model; it must be loaded again")
}
