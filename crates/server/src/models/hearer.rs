//! A model that writes down speech.

use super::Entry;
use crate::Options;
use crate::problem::{Kind, Problem};
use akunu::speech::{Features, Source, TranscribeOptions, Transcriber, Transcript};
use akunu::{Limits, LoadOptions};
use akunu_formats::ModelFile;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub struct Hearer {
    pub name: String,
    limits: Limits,
    transcriber: Mutex<Transcriber>,
}

/// Ends a transcription that nobody waits for any more.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Hearer {
    pub fn load(entry: &Entry, file: ModelFile, options: &Options) -> Result<Self, Problem> {
        Ok(Self {
            name: entry.name.clone(),
            limits: options.load.limits,
            transcriber: Mutex::new(Transcriber::from_file(
                file,
                LoadOptions { context: None, ..options.load.clone() },
            )?),
        })
    }

    /// What is said in a recording, and how many seconds it has; one request after the other.
    pub async fn transcribe(
        self: Arc<Self>,
        recording: bytes::Bytes,
        options: TranscribeOptions,
    ) -> Result<(Transcript, f64), Problem> {
        let abandoned = Arc::new(AtomicBool::new(false));
        let _guard = Abandon(abandoned.clone());
        tokio::task::spawn_blocking(move || {
            let broken =
                |_| Problem::new(Kind::Internal, "an earlier request broke this model; it must be loaded again");
            let mut transcriber = self.transcriber.lock().map_err(broken)?;
            let bands = transcriber.bands();
            let open = || Source::new_within("the recording", Box::new(Cursor::new(recording.clone())), self.limits);
            let mut features = Features::read(open, bands, |_| {}).map_err(akunu::Error::from)?;
            let seconds = features.seconds();
            let transcript = transcriber.transcribe(&mut features, &options, |_| {
                if abandoned.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok((transcript, seconds))
        })
        .await?
    }
}
