//! A model's vocabulary: texts to tokens and back.

use crate::errors::text_exception;
use akunu::Encode;
use pyo3::prelude::*;

#[pyclass(frozen, module = "akunu._akunu")]
pub struct Tokenizer(pub akunu::Tokenizer);

#[pymethods]
impl Tokenizer {
    /// The tokens of a text; `special`: with those around it, and those written in it.
    fn encode(&self, py: Python<'_>, text: &str, special: bool) -> PyResult<Vec<u32>> {
        let options = Encode { add_special: special, parse_special: special };
        py.detach(|| self.0.encode(text, options)).map_err(|error| text_exception(&error))
    }

    fn decode(&self, py: Python<'_>, tokens: Vec<u32>, skip_special: bool) -> String {
        py.detach(|| self.0.decode(&tokens, skip_special))
    }
}
