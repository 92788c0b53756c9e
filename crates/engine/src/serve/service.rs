//! A scheduler on a thread of its own, for any number of callers: blocking or async.

use super::metrics::Metrics;
use super::scheduler::{Event, Request, RequestId, Scheduler, Summary};
use crate::engine::made;
use crate::generate::Piece;
use crate::{Engine, Error, SchedulerOptions};
use akunu_text::{Grammar, Grammars, Matcher};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the events of one request wait for whoever asked.
#[derive(Default)]
struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
    /// Nobody will read any more.
    abandoned: AtomicBool,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    end: Option<Result<Summary, Error>>,
    /// `end` was written, and may have been read.
    ended: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one statement: a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        self.arrived.notify_one();
    }
}

/// The side of a mailbox that is written. However it goes away, the reader learns that nothing more comes.
struct Outbox(Arc<Mailbox>);

impl Outbox {
    fn end(&self, end: Result<Summary, Error>) {
        self.0.put(|state| {
            if !state.ended {
                (state.ended, state.end) = (true, Some(end));
            }
        });
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.end(Err(Error::Stopped { why: "the service has ended".into() }));
    }
}

/// What callers want of the thread.
enum Message {
    Submit(Box<Request>, Outbox),
    /// Something that is done between two steps.
    Do(Box<dyn FnOnce(&mut Scheduler) + Send>),
}

/// A running scheduler. Dropping it ends what still runs.
///
/// ```
/// use akunu::{Engine, GenerateOptions, LoadOptions, SchedulerOptions, Service};
///
/// let engine = Engine::embedded(LoadOptions { sequences: 4, ..Default::default() })?;
/// let service = Service::start(engine, SchedulerOptions::default())?;
/// let mut reply = service.submit_text("Once upon a time", GenerateOptions::new().max_tokens(12))?;
/// let text: String = reply.by_ref().map(|piece| piece.map(|p| p.text)).collect::<Result<_, _>>()?;
/// assert!(!text.is_empty());
/// assert_eq!(reply.summary().map(|s| s.generated), Some(12));
/// # Ok::<(), akunu::Error>(())
/// ```
///
/// A [`Reply`] is also a `futures_core::Stream`, for any executor:
///
/// ```
/// use akunu::{Engine, GenerateOptions, LoadOptions, Reply, SchedulerOptions, Service};
/// use futures_core::Stream;
/// use std::{future::poll_fn, pin::Pin};
///
/// /// What `StreamExt` of the crate `futures` calls `next`.
/// async fn next(reply: &mut Reply) -> Option<Result<akunu::Piece, akunu::Error>> {
///     poll_fn(|context| Pin::new(&mut *reply).poll_next(context)).await
/// }
///
/// async fn tell(service: &Service) -> Result<String, akunu::Error> {
///     let mut reply = service.submit_text("Once upon a time", GenerateOptions::new().max_tokens(12))?;
///     let mut text = String::new();
///     while let Some(piece) = next(&mut reply).await {
///         text += &piece?.text;
///     }
///     Ok(text)
/// }
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     use std::task::{Context, Poll, Wake};
/// #     struct Unpark(std::thread::Thread);
/// #     impl Wake for Unpark {
/// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
/// #     }
/// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) { return done }
/// #         std::thread::park();
/// #     }
/// # }
/// let engine = Engine::embedded(LoadOptions { sequences: 4, ..Default::default() })?;
/// let service = Service::start(engine, SchedulerOptions::default())?;
/// assert!(!block_on(tell(&service))?.is_empty());
/// # Ok::<(), akunu::Error>(())
/// ```
pub struct Service {
    /// `None` only while it is dropped.
    messages: Option<Sender<Message>>,
    metrics: Arc<Mutex<Metrics>>,
    tokenizer: Option<akunu_text::Tokenizer>,
    grammars: Arc<OnceLock<Grammars>>,
    vocab: usize,
    path: String,
    thread: Option<JoinHandle<Scheduler>>,
}

impl Service {
    /// Starts the thread that runs the engine.
    pub fn start(engine: Engine, options: SchedulerOptions) -> Result<Service, Error> {
        Self::run(Scheduler::new(engine, options))
    }

    /// Starts the thread that runs a scheduler.
    pub fn run(scheduler: Scheduler) -> Result<Service, Error> {
        let engine = scheduler.engine();
        let (messages, inbox) = mpsc::channel();
        let metrics = Arc::new(Mutex::new(scheduler.metrics()));
        let tokenizer = engine.tokenizer().cloned();
        let (grammars, vocab) = (engine.shared_grammars(), engine.vocab());
        let path = engine.file().path().display().to_string();
        let shared = metrics.clone();
        let thread = std::thread::Builder::new()
            .name("scheduler".into())
            .spawn(move || serve(scheduler, &inbox, &shared))
            .map_err(|e| Error::Stopped { why: e.to_string() })?;
        Ok(Service { messages: Some(messages), metrics, tokenizer, grammars, vocab, path, thread: Some(thread) })
    }

    /// Queues a request. Its grammar is compiled here and now, so that only the caller waits for that. Other errors of the
    /// request itself come out of the reply.
    pub fn submit(&self, mut request: Request) -> Result<Reply, Error> {
        if let (None, Some(grammar)) = (&request.options.matcher, &request.options.grammar) {
            request.options.matcher = Some(self.compile(grammar)?);
        }
        let mailbox = Arc::new(Mailbox::default());
        self.send(Message::Submit(Box::new(request), Outbox(mailbox.clone())))?;
        Ok(Reply { mailbox, summary: None, done: false })
    }

    fn send(&self, message: Message) -> Result<(), Error> {
        let sent = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if sent { Ok(()) } else { Err(thread_ended()) }
    }

    /// Does something between two steps, and waits for what it gives.
    pub(super) fn between_steps<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Scheduler) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (done, result) = mpsc::channel();
        self.send(Message::Do(Box::new(move |scheduler| drop(done.send(task(scheduler))))))?;
        result.recv().unwrap_or_else(|_| Err(thread_ended()))
    }

    /// Queues a text to continue.
    pub fn submit_text(&self, prompt: &str, options: crate::GenerateOptions) -> Result<Reply, Error> {
        let tokenizer = self.need_tokenizer()?;
        let tokens = tokenizer.encode(prompt, akunu_text::Encode { add_special: true, parse_special: true })?;
        self.submit(Request { tokens, options })
    }

    /// Compiles a grammar for [`GenerateOptions::matcher`](crate::GenerateOptions::matcher): on the caller's thread, beside
    /// what runs.
    pub fn compile(&self, grammar: &Grammar) -> Result<Matcher, Error> {
        let tokenizer = self.need_tokenizer()?;
        Ok(made(&self.grammars, tokenizer, self.vocab)?.compile(grammar)?)
    }

    fn need_tokenizer(&self) -> Result<&akunu_text::Tokenizer, Error> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer { path: self.path.clone() })
    }

    /// Ends what still runs; the scheduler, where a fault has not ended it.
    pub fn stop(mut self) -> Option<Scheduler> {
        self.join()
    }

    fn join(&mut self) -> Option<Scheduler> {
        // The thread ends when nobody can send any more.
        self.messages = None;
        self.thread.take()?.join().ok()
    }

    /// As of the last step.
    pub fn metrics(&self) -> Metrics {
        *self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.join();
    }
}

fn thread_ended() -> Error {
    Error::Stopped { why: "its thread has ended".into() }
}

/// The thread: takes in what is submitted, steps, hands out what came of it.
fn serve(mut scheduler: Scheduler, inbox: &Receiver<Message>, metrics: &Mutex<Metrics>) -> Scheduler {
    let mut readers: HashMap<RequestId, Outbox> = HashMap::new();
    let mut events: Vec<(RequestId, Event)> = Vec::new();
    'serving: loop {
        loop {
            let message = match scheduler.unfinished() {
                0 => inbox.recv().map_err(|_| TryRecvError::Disconnected),
                _ => inbox.try_recv(),
            };
            match message {
                Ok(Message::Submit(request, outbox)) => match scheduler.submit(*request) {
                    Ok(id) => drop(readers.insert(id, outbox)),
                    Err(error) => outbox.end(Err(error)),
                },
                // Whoever waits for it learns that it gave nothing.
                Ok(Message::Do(task)) => drop(catch_unwind(AssertUnwindSafe(|| task(&mut scheduler)))),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => break 'serving,
            }
        }
        readers.retain(|id, outbox| {
            let abandoned = outbox.0.abandoned.load(Ordering::Relaxed);
            if abandoned {
                scheduler.cancel(*id);
            }
            !abandoned
        });
        let stepped = catch_unwind(AssertUnwindSafe(|| scheduler.step(|id, event| events.push((id, event)))));
        if stepped.is_err() {
            scheduler.fail_all("a fault in the engine ended it", |id, event| events.push((id, event)));
        }
        // Before anybody can see what came of the step.
        *metrics.lock().unwrap_or_else(PoisonError::into_inner) = scheduler.metrics();
        for (id, event) in events.drain(..) {
            let Some(outbox) = readers.get(&id) else { continue };
            match event {
                Event::Piece(piece) => outbox.0.put(|state| state.pieces.push_back(piece)),
                Event::Finished(summary) => outbox.end(Ok(summary)),
                Event::Failed(why) => outbox.end(Err(Error::Stopped { why })),
            }
        }
        readers.retain(|id, _| scheduler.has(*id));
    }
    scheduler
}

/// The answer to a request, as it comes: an iterator that waits, and an async stream. Dropping it cancels the request.
pub struct Reply {
    mailbox: Arc<Mailbox>,
    summary: Option<Summary>,
    done: bool,
}

impl Reply {
    /// How it ended, once it has.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// As the iterator's `next`, waiting no longer than `time`: pending where nothing has come by then.
    ///
    /// ```
    /// use akunu::{Engine, GenerateOptions, LoadOptions, SchedulerOptions, Service};
    /// use std::{task::Poll, time::Duration};
    ///
    /// let service = Service::start(Engine::embedded(LoadOptions::default())?, SchedulerOptions::default())?;
    /// let mut reply = service.submit_text("Once upon a time", GenerateOptions::new().ignore_eos(true).context_shift(1))?;
    /// while reply.next_within(Duration::from_millis(1)).is_pending() {}
    /// reply.canceller().cancel();
    /// let end = std::iter::from_fn(|| reply.next()).last();
    /// assert!(end.is_some_and(|end| end.is_err()));
    /// assert!(matches!(reply.next_within(Duration::ZERO), Poll::Ready(None)));
    /// # Ok::<(), akunu::Error>(())
    /// ```
    pub fn next_within(&mut self, time: Duration) -> Poll<Option<Result<Piece, Error>>> {
        let begun = Instant::now();
        let mailbox = self.mailbox.clone();
        let mut state = mailbox.lock();
        loop {
            if let Some(taken) = self.available(&mut state) {
                return Poll::Ready(taken);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Poll::Pending;
            }
            state = mailbox.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What cancels the request from elsewhere, while somebody waits for its next piece: that is an error then.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.mailbox.clone())
    }

    /// What there is now: a piece, the end, or nothing yet.
    fn available(&mut self, state: &mut State) -> Option<Option<Result<Piece, Error>>> {
        if self.done {
            return Some(None);
        }
        if let Some(piece) = state.pieces.pop_front() {
            return Some(Some(Ok(piece)));
        }
        match state.end.take()? {
            Ok(summary) => {
                self.done = true;
                self.summary = Some(summary);
                Some(None)
            }
            Err(error) => {
                self.done = true;
                Some(Some(Err(error)))
            }
        }
    }
}

/// Cancels a request: see [`Reply::canceller`].
pub struct Canceller(Arc<Mailbox>);

impl Canceller {
    /// Cancels it after the step that runs; one that has ended stays as it is.
    pub fn cancel(&self) {
        self.0.abandoned.store(true, Ordering::Relaxed);
    }
}

impl Iterator for Reply {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mailbox = self.mailbox.clone();
        let mut state = mailbox.lock();
        loop {
            if let Some(taken) = self.available(&mut state) {
                return taken;
            }
            state = mailbox.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl futures_core::Stream for Reply {
    type Item = Result<Piece, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mailbox = self.mailbox.clone();
        let mut state = mailbox.lock();
        match self.available(&mut state) {
            Some(taken) => Poll::Ready(taken),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.mailbox.abandoned.store(true, Ordering::Relaxed);
    }
}
