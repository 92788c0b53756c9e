//! A model that writes down speech.

use crate::errors::{Error, exception};
use crate::given::{self, Given};
use crate::held::Held;
use crate::signals::{Signals, interruptible};
use crate::source;
use crate::words::Tokenizer;
use akunu::speech::{self, Decoding, Event, Features, Silence, Source, Task, TranscribeOptions, Transcriber};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A word, in seconds from the start of the recording.
#[pyclass(frozen, get_all, skip_from_py_object, module = "akunu")]
#[derive(Clone)]
pub struct Word {
    /// With the space before it.
    text: String,
    /// Its first sound.
    start: f64,
    /// Its last.
    end: f64,
    /// How likely the model finds it.
    probability: f32,
}

/// A stretch of speech, in seconds from the start of the recording.
#[pyclass(frozen, get_all, skip_from_py_object, module = "akunu")]
#[derive(Clone)]
pub struct Segment {
    /// Its first sound.
    start: f64,
    /// Its last.
    end: f64,
    /// What is said.
    text: String,
    /// Where they were asked for.
    words: Vec<Word>,
    /// The mean over its window's tokens.
    logprob: f32,
    /// The probability that nobody speaks in its window.
    no_speech: f32,
}

impl From<&speech::Segment> for Segment {
    fn from(segment: &speech::Segment) -> Self {
        let word =
            |w: &speech::Word| Word { text: w.text.clone(), start: w.start, end: w.end, probability: w.probability };
        Self {
            start: segment.start,
            end: segment.end,
            text: segment.text.trim().to_owned(),
            words: segment.words.iter().map(word).collect(),
            logprob: segment.log_probability,
            no_speech: segment.no_speech,
        }
    }
}

#[pymethods]
impl Segment {
    fn __repr__(&self) -> String {
        format!("Segment({:.2}, {:.2}, {:?})", self.start, self.end, self.text)
    }
}

/// All that is said in a recording.
#[pyclass(frozen, module = "akunu")]
pub struct Transcript(speech::Transcript);

#[pymethods]
impl Transcript {
    /// The code of its language.
    #[getter]
    fn language(&self) -> &str {
        &self.0.language
    }

    /// The text of all segments.
    #[getter]
    fn text(&self) -> String {
        self.0.text()
    }

    /// In their order.
    #[getter]
    fn segments(&self) -> Vec<Segment> {
        self.0.segments.iter().map(Segment::from).collect()
    }

    /// As SubRip subtitles; a cue for each word where words were timed and are asked for.
    #[pyo3(signature = (words=false))]
    fn srt(&self, words: bool) -> String {
        speech::srt(&self.0.cues(words))
    }

    /// As WebVTT subtitles.
    #[pyo3(signature = (words=false))]
    fn vtt(&self, words: bool) -> String {
        speech::vtt(&self.0.cues(words))
    }

    fn __str__(&self) -> String {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        format!("Transcript({:?}, language={:?})", self.0.text(), self.0.language)
    }
}

/// A file, or the bytes of one.
#[derive(FromPyObject)]
enum Recording {
    Bytes(Vec<u8>),
    Path(PathBuf),
}

/// A model that writes down speech, one recording after the other.
#[pyclass(frozen, module = "akunu._akunu")]
pub struct Scribe(Held<Mutex<Transcriber>>);

fn lock(transcriber: &Mutex<Transcriber>) -> PyResult<MutexGuard<'_, Transcriber>> {
    transcriber.lock().map_err(|_| Error::new_err("an earlier call broke this model: load it again"))
}

fn options(given: &Given<'_>) -> PyResult<TranscribeOptions> {
    let decoding = Decoding::default();
    let keeps = given.take("keep_silence", false)?;
    Ok(TranscribeOptions {
        language: given.option("language")?,
        task: if given.take("translate", false)? { Task::Translate } else { Task::Transcribe },
        decoding: Decoding {
            beams: given.take("beams", decoding.beams)?,
            best_of: given.take("best_of", decoding.best_of)?,
            temperatures: given.take("temperatures", decoding.temperatures)?,
            seed: given.take("seed", decoding.seed)?,
            ..Decoding::default()
        },
        prompt: given.option("prompt")?,
        condition: given.take("condition", true)?,
        timestamps: given.take("timestamps", true)?,
        words: given.take("words", false)?,
        silence: if keeps { Silence::Keep } else { Silence::ByEnergy },
    })
}

#[pymethods]
impl Scribe {
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Given::new(options)?;
        let load = given::load_options(&given)?;
        given.finish()?;
        let transcriber = interruptible(py, move || {
            let file = source::open(path.as_deref(), load.limits)?;
            Transcriber::from_file(file, load).map_err(exception)
        })?;
        Ok(Self(Held::new(Mutex::new(transcriber))))
    }

    /// Transcribes a recording; `on_segment` gets segments as they become final, and may raise.
    fn transcribe(
        &self,
        py: Python<'_>,
        recording: Recording,
        on_segment: Option<Py<PyAny>>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Transcript> {
        let given = Given::new(options)?;
        let options = self::options(&given)?;
        given.finish()?;
        self.0.with(py, |transcriber| {
            let mut transcriber = lock(transcriber)?;
            let (bands, limits) = (transcriber.bands(), transcriber.engine().file().limits());
            let features = match recording {
                Recording::Path(path) => Features::open_within(&path, bands, limits, |_| {}),
                Recording::Bytes(bytes) => {
                    let bytes: Arc<[u8]> = bytes.into();
                    let open = || Source::new_within("the recording", Box::new(Cursor::new(bytes.clone())), limits);
                    Features::read(open, bands, |_| {})
                }
            };
            let mut features = features.map_err(|e| exception(e.into()))?;
            let mut signals = Signals::new();
            let transcript = transcriber.transcribe(&mut features, &options, |event| {
                if let (Event::Segment(segment), Some(call)) = (&event, &on_segment) {
                    let segment = Segment::from(*segment);
                    let called = Python::attach(|py| call.call1(py, (segment,)).map(drop));
                    if signals.keep(called).is_break() {
                        return ControlFlow::Break(());
                    }
                }
                signals.check()
            });
            signals.finish()?;
            transcript.map(Transcript).map_err(exception)
        })
    }

    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> PyResult<Tokenizer> {
        self.0.with(py, |transcriber| {
            let transcriber = lock(transcriber)?;
            Ok(Tokenizer(transcriber.engine().need_tokenizer().map_err(exception)?.clone()))
        })
    }

    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.with(py, |transcriber| Ok(lock(transcriber)?.engine().context()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}
