//! A small safetensors writer, for results that other tools read.

use std::path::Path;

use akunu_dtype::DType;
use serde_json::{Map, Value, json};

use super::{Entry, check};
use crate::error::{Error, Fault, Name};
use crate::output::Output;

/// Writes tensors of `(name, dtype, shape, bytes)`. An existing file is replaced when the new one is complete.
pub fn write(path: &Path, tensors: &[(&str, DType, &[usize], &[u8])]) -> Result<(), Error> {
    let fail = |fault| Error::new(path, fault);
    let mut header = Map::new();
    let mut entries = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for &(name, dtype, shape, bytes) in tensors {
        let unknown =
            || fail(Fault::UnknownFormat { name: Name::new(name), format: format!("{dtype} in safetensors") });
        let element = dtype.format().safetensors.ok_or_else(unknown)?;
        let end = offset + bytes.len();
        let info = json!({ "dtype": element, "shape": shape, "data_offsets": [offset, end] });
        if header.insert(name.to_owned(), info).is_some() {
            return Err(fail(Fault::Duplicate { what: "tensor", name: Name::new(name) }));
        }
        entries.push(Entry { name: name.to_owned(), dtype, shape: shape.to_vec(), offset, len: bytes.len() });
        offset = end;
    }
    check(&entries, offset as u64, 0).map_err(fail)?;
    let mut json = Value::Object(header).to_string().into_bytes();
    // Spaces align the data, so that readers may map it as numbers.
    json.resize(json.len().next_multiple_of(8), b' ');

    let mut out = Output::create(path, true)?;
    out.write(&(json.len() as u64).to_le_bytes())?;
    out.write(&json)?;
    for (_, _, _, bytes) in tensors {
        out.write(bytes)?;
    }
    out.finish()
}
