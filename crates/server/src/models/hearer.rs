//! A model that writes down speech.

use crate::answer::overloaded;
use crate::problem::{Kind, Problem};
use akunu::LoadOptions;
use akunu::speech::{Event, Features, Segment, Source, TranscribeOptions, Transcriber, Transcript};
use akunu_formats::ModelFile;
use bytes::Bytes;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, Semaphore};

/// Requests that may wait and run: each holds its recording.
const WAITING: usize = 16;

pub struct Hearer {
    bands: usize,
    transcriber: Arc<Mutex<Transcriber>>,
    room: Arc<Semaphore>,
}

/// Something that was understood.
pub enum Heard {
    Segment(Segment),
    /// Nothing more comes.
    End(Result<Recording, Problem>),
}

/// All of a recording.
pub struct Recording {
    pub transcript: Transcript,
    pub seconds: f64,
}

impl Hearer {
    pub fn load(file: ModelFile, options: LoadOptions) -> Result<Self, Problem> {
        let transcriber = Transcriber::from_file(file, LoadOptions { context: None, ..options })?;
        Ok(Self {
            bands: transcriber.bands(),
            transcriber: Arc::new(Mutex::new(transcriber)),
            room: Arc::new(Semaphore::new(WAITING)),
        })
    }

    /// What is said in a recording of at most so many seconds, as it is understood; one request after the other. Nobody
    /// listening ends it.
    pub fn transcribe(
        self: Arc<Self>,
        recording: Bytes,
        options: TranscribeOptions,
        most: f64,
    ) -> Result<UnboundedReceiver<Heard>, Problem> {
        let place = self.room.clone().try_acquire_owned().map_err(|_| overloaded())?;
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            let transcriber = tokio::select! {
                transcriber = self.transcriber.clone().lock_owned() => transcriber,
                _ = sender.closed() => return,
            };
            let (bands, said) = (self.bands, sender.clone());
            let work = move || transcribe(transcriber, bands, recording, &options, most, &said);
            let end = tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(panic.into()));
            let _ = sender.send(Heard::End(end));
            // In use until here.
            drop((self, place));
        });
        Ok(receiver)
    }
}

fn transcribe(
    mut transcriber: tokio::sync::OwnedMutexGuard<Transcriber>,
    bands: usize,
    recording: Bytes,
    options: &TranscribeOptions,
    most: f64,
    said: &UnboundedSender<Heard>,
) -> Result<Recording, Problem> {
    let flow = |goes_on: bool| if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let mut too_long = false;
    let read = Features::read(
        || Source::new("the recording", Box::new(Cursor::new(recording.clone()))),
        bands,
        |seconds| {
            too_long = seconds > most;
            flow(!too_long && !said.is_closed())
        },
    );
    if too_long {
        return Err(Problem::field("file", format!("the recording is longer than {most} s")));
    }
    let mut features = read.map_err(akunu::Error::from)?;
    let transcript = transcriber.transcribe(&mut features, options, |event| match event {
        Event::Segment(segment) => flow(said.send(Heard::Segment(segment.clone())).is_ok()),
        _ => flow(!said.is_closed()),
    })?;
    Ok(Recording { transcript, seconds: features.seconds() })
}

/// The end of what is heard.
pub async fn end(mut heard: UnboundedReceiver<Heard>) -> Result<Recording, Problem> {
    while let Some(heard) = heard.recv().await {
        if let Heard::End(end) = heard {
            return end;
        }
    }
    Err(Problem::new(Kind::Internal, "the recording was not transcribed to its end"))
}
