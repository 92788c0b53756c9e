//! A model that writes down speech.

use super::Entry;
use crate::Options;
use crate::answer::queue_full;
use crate::http::bodies::Held;
use crate::problem::{Kind, Problem};
use akunu::speech::{Event, Features, Segment, Source, TranscribeOptions, Transcriber, Transcript};
use akunu::{Limits, LoadOptions};
use akunu_formats::ModelFile;
use bytes::Bytes;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};

/// Requests that may wait and run: each holds its recording.
const WAITING: usize = 16;

pub struct Scribe {
    limits: Limits,
    transcriber: Arc<Mutex<Transcriber>>,
    room: Arc<Semaphore>,
}

/// Something that was understood.
pub enum Said {
    Segment(Segment),
    /// Nothing more comes.
    End(Result<Recording, Problem>),
}

/// All of a recording.
pub struct Recording {
    pub transcript: Transcript,
    pub seconds: f64,
}

impl Scribe {
    pub fn load(_: &Entry, file: ModelFile, options: &Options) -> Result<Self, Problem> {
        let load = LoadOptions { context: None, ..options.load.clone() };
        Ok(Self {
            limits: options.load.limits,
            transcriber: Arc::new(Mutex::new(Transcriber::from_file(file, load)?)),
            room: Arc::new(Semaphore::new(WAITING)),
        })
    }

    /// What is said in a recording, as it is understood; one request after the other. Nobody listening ends it.
    pub fn transcribe(
        self: Arc<Self>,
        (recording, held): (Bytes, Held),
        options: TranscribeOptions,
    ) -> Result<UnboundedReceiver<Said>, Problem> {
        let place = self.room.clone().try_acquire_owned().map_err(|_| queue_full())?;
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            let transcriber = tokio::select! {
                transcriber = self.transcriber.clone().lock_owned() => transcriber,
                _ = sender.closed() => return,
            };
            let (limits, said) = (self.limits, sender.clone());
            let work = move || transcribe(transcriber, recording, limits, &options, &said);
            let end = tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(panic.into()));
            let _ = sender.send(Said::End(end));
            // In use until here.
            drop((self, place, held));
        });
        Ok(receiver)
    }
}

fn transcribe(
    mut transcriber: OwnedMutexGuard<Transcriber>,
    recording: Bytes,
    limits: Limits,
    options: &TranscribeOptions,
    said: &UnboundedSender<Said>,
) -> Result<Recording, Problem> {
    let flow = |goes_on: bool| if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let open = || Source::new_within("the recording", Box::new(Cursor::new(recording.clone())), limits);
    let mut features = Features::read(open, transcriber.bands(), |_| {}).map_err(akunu::Error::from)?;
    let transcript = transcriber.transcribe(&mut features, options, |event| match event {
        Event::Segment(segment) => flow(said.send(Said::Segment(segment.clone())).is_ok()),
        _ => flow(!said.is_closed()),
    })?;
    Ok(Recording { transcript, seconds: features.seconds() })
}

/// The end of what is said.
pub async fn end(mut said: UnboundedReceiver<Said>) -> Result<Recording, Problem> {
    while let Some(said) = said.recv().await {
        if let Said::End(end) = said {
            return end;
        }
    }
    Err(Problem::new(Kind::Internal, "the recording was not transcribed to its end"))
}
