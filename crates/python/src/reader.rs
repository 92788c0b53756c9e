//! A model that reads: vectors and scores.

use crate::errors::{Error, PromptError, WrongModel, exception};
use crate::given::{self, Given};
use crate::held::Held;
use crate::signals::{Signals, interruptible};
use crate::source;
use crate::words::Tokenizer;
use akunu::{Embedder, Reading, Text, TooLong, normalize};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Texts that are sorted by length together, so that few places in a step stay empty.
const WINDOW: usize = 4096;
/// Rows of a step, unless one text has more.
const STEP_ROWS: usize = 512;

/// A model that embeds or ranks texts, one call after the other.
#[pyclass(frozen, module = "akunu._akunu")]
pub struct Reader {
    held: Held<Mutex<Embedder>>,
    width: usize,
    context: usize,
}

fn lock(embedder: &Mutex<Embedder>) -> PyResult<MutexGuard<'_, Embedder>> {
    embedder.lock().map_err(|_| Error::new_err("an earlier call broke this model: load it again"))
}

/// Texts as tokens; an error says which of many it is.
fn texts<T>(items: &[T], text: impl Fn(&T) -> Result<Text, akunu::Error>) -> PyResult<Vec<Text>> {
    let numbered = |(number, item): (usize, &T)| match text(item) {
        Ok(text) if text.tokens.is_empty() => Err(PromptError::new_err(format!(
            "text {number} is empty, and the model has no token that stands for that"
        ))),
        read => read.map_err(|error| {
            let sentence = format!("text {number}: {error}");
            Python::attach(|py| PyErr::from_type(exception(error).get_type(py), sentence))
        }),
    };
    items.iter().enumerate().map(numbered).collect()
}

/// Reads texts, until they are read or Python raises something.
fn read(embedder: &mut Embedder, texts: &[Text], mut each: impl FnMut(usize, &[f32])) -> PyResult<()> {
    let mut signals = Signals::new();
    let each = |text: usize, values: &[f32]| {
        each(text, values);
        signals.check()
    };
    embedder.read_while(texts, each).map_err(exception)?;
    signals.finish()
}

#[pymethods]
impl Reader {
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>, ranks: bool, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Given::new(options)?;
        let mut load = given::load_options(&given)?;
        load.chunk = Some(STEP_ROWS);
        let reading = if ranks { Reading::Scores } else { Reading::Embedding(given::pooling(&given)?) };
        given.finish()?;
        let embedder = interruptible(py, move || {
            let file = source::open(path.as_deref(), load.limits)?;
            Embedder::from_file(file, load, reading).map_err(exception)
        })?;
        let (width, context) = (embedder.width(), embedder.context());
        if ranks && width != 1 {
            return Err(WrongModel::new_err(format!("the model's head gives {width} scores a pair, not one")));
        }
        Ok(Self { held: Held::new(Mutex::new(embedder)), width, context })
    }

    #[getter]
    fn width(&self) -> usize {
        self.width
    }

    #[getter]
    fn context(&self) -> usize {
        self.context
    }

    /// The vectors as f32 numbers, one after the other, written where Python keeps them. `how`: whether they are made as long
    /// as 1, and whether texts that are too long lose their end.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        lines: Vec<String>,
        prefix: &str,
        how: (bool, bool),
        dimensions: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (normalized, truncate) = how;
        if !(1..=self.width).contains(&dimensions) {
            return Err(PyValueError::new_err(format!("dimensions: must be between 1 and {}", self.width)));
        }
        let too_long = if truncate { TooLong::Cut } else { TooLong::Refuse };
        let bytes = dimensions * size_of::<f32>();
        PyByteArray::new_with(py, lines.len() * bytes, |out| {
            self.held.with(py, |embedder| {
                let mut embedder = lock(embedder)?;
                let mut vector = vec![0.0; dimensions];
                for (lines, out) in lines.chunks(WINDOW).zip(out.chunks_mut(WINDOW * bytes)) {
                    let texts = texts(lines, |line| match prefix {
                        "" => embedder.text(line, too_long),
                        _ => embedder.text(&format!("{prefix}{line}"), too_long),
                    })?;
                    read(&mut embedder, &texts, |text, values| {
                        vector.copy_from_slice(&values[..dimensions]);
                        if normalized {
                            normalize(&mut vector);
                        }
                        out[text * bytes..][..bytes].copy_from_slice(bytemuck::cast_slice(&vector));
                    })?;
                }
                Ok(())
            })
        })
    }

    /// How well each document answers the query.
    fn rank(&self, py: Python<'_>, query: &str, documents: Vec<String>, truncate: bool) -> PyResult<Vec<f32>> {
        let too_long = if truncate { TooLong::Cut } else { TooLong::Refuse };
        self.held.with(py, |embedder| {
            let mut embedder = lock(embedder)?;
            let pairs = texts(&documents, |document| embedder.pair(query, document, too_long))?;
            let mut scores = vec![0.0; documents.len()];
            read(&mut embedder, &pairs, |pair, score| scores[pair] = score[0])?;
            Ok(scores)
        })
    }

    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> PyResult<Tokenizer> {
        self.held.with(py, |embedder| Ok(Tokenizer(lock(embedder)?.encoder().tokenizer().map_err(exception)?.clone())))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py)
    }
}
