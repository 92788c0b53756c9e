//! The extension module `akunu._akunu`: models, replies and vectors as Python's sources in `python/akunu` take them.
//!
//! No lock is waited for and nothing is computed while the interpreter's lock (GIL) is held.

#![forbid(unsafe_code)]
#![cfg(feature = "extension")]

mod bell;
mod errors;
mod given;
mod held;
mod machine;
mod reader;
mod scribe;
mod signals;
mod source;
mod stream;
mod words;
mod writer;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _akunu(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    module.add_class::<bell::Bell>()?;
    module.add_class::<machine::About>()?;
    module.add_class::<machine::DeviceInfo>()?;
    module.add_class::<machine::Estimate>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<scribe::Scribe>()?;
    module.add_class::<scribe::Segment>()?;
    module.add_class::<scribe::Transcript>()?;
    module.add_class::<scribe::Word>()?;
    module.add_class::<stream::Piece>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Timings>()?;
    module.add_class::<stream::ToolCall>()?;
    module.add_class::<words::Tokenizer>()?;
    module.add_class::<writer::Writer>()?;
    module.add_function(wrap_pyfunction!(machine::about, module)?)?;
    module.add_function(wrap_pyfunction!(machine::devices, module)?)?;
    module.add_function(wrap_pyfunction!(machine::estimate, module)?)?;
    module.add_function(wrap_pyfunction!(machine::command_line, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
