//! A streaming GGUF writer: declare metadata and tensors, then write each tensor's bytes in the order declared.
//!
//! ```no_run
//! # fn main() -> Result<(), akunu_formats::Error> {
//! # let dtype = akunu_dtype::DType::from_name("F32").unwrap();
//! let mut writer = akunu_formats::gguf::Writer::create("out.gguf".as_ref(), false)?;
//! writer.set("general.architecture", "llama")?;
//! writer.tensor("output_norm.weight", dtype, &[2])?;
//! let mut tensors = writer.begin()?;
//! tensors.write_tensor(&[0; 8])?;
//! tensors.finish()
//! # }
//! ```

use std::collections::HashSet;
use std::path::Path;

use akunu_dtype::DType;

use super::metadata::Metadata;
use super::read::byte_size;
use super::value::{Field, Value};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_DIMS, MAX_KEY, MAX_NAME};
use crate::error::{Error, Fault, Name};
use crate::output::Output;

/// The header of a GGUF file to be: metadata and tensor infos.
pub struct Writer {
    out: Output,
    metadata: Metadata,
    tensors: Vec<Declared>,
    names: HashSet<String>,
}

struct Declared {
    name: String,
    type_id: u32,
    shape: Vec<usize>,
    bytes: u64,
}

impl Writer {
    /// Starts a file that will be at `path` when it is finished. An existing one is replaced only if `overwrite`.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Error> {
        let out = Output::create(path, overwrite)?;
        let metadata = Metadata::new(path);
        Ok(Self { out, metadata, tensors: Vec::new(), names: HashSet::new() })
    }

    fn fail(&self, fault: Fault) -> Error {
        Error::new(self.out.path(), fault)
    }

    /// Adds a key. Numbers keep their Rust type; a [`Value`] is written in 32 bits where it fits.
    pub fn set(&mut self, key: &str, value: impl Into<Field>) -> Result<&mut Self, Error> {
        if key.len() as u64 > MAX_KEY {
            let (found, limit) = (key.len() as u64, MAX_KEY);
            return Err(self.fail(Fault::Limit { what: "the length of a key".into(), found, limit }));
        }
        self.metadata.insert(key, value.into())?;
        Ok(self)
    }

    /// Declares the next tensor; `shape` is outermost first.
    pub fn tensor(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<&mut Self, Error> {
        let printed = || Name::new(name);
        let Some(type_id) = dtype.format().gguf_id else {
            let format = format!("{dtype} in GGUF");
            return Err(self.fail(Fault::UnknownFormat { name: printed(), format }));
        };
        if shape.is_empty() || shape.len() > MAX_DIMS as usize {
            let dims = shape.len() as u64;
            return Err(self.fail(Fault::Rank { name: printed(), dims, allowed: "1 to 4" }));
        }
        if name.len() as u64 > MAX_NAME {
            let (found, limit) = (name.len() as u64, MAX_NAME);
            return Err(self.fail(Fault::Limit { what: "the length of a tensor's name".into(), found, limit }));
        }
        let wide: Vec<u64> = shape.iter().map(|&d| d as u64).collect();
        let (shape, bytes) = byte_size(name, dtype, &wide).map_err(|fault| self.fail(fault))?;
        if !self.names.insert(name.to_owned()) {
            return Err(self.fail(Fault::Duplicate { what: "tensor", name: printed() }));
        }
        self.tensors.push(Declared { name: name.to_owned(), type_id, shape, bytes: bytes as u64 });
        Ok(self)
    }

    /// Writes the header; the tensors' bytes follow.
    pub fn begin(mut self) -> Result<TensorWriter, Error> {
        let alignment = match self.metadata.get(ALIGNMENT_KEY) {
            None => DEFAULT_ALIGNMENT,
            Some(&Value::U64(v)) if v.is_power_of_two() && (8..=1 << 30).contains(&v) => v,
            Some(other) => {
                let (key, found) = (Name::new(ALIGNMENT_KEY), other.describe());
                return Err(self.fail(Fault::WrongType { key, expected: "a power of two from 8 to 2^30", found }));
            }
        };
        let mut header = Vec::new();
        header.extend(MAGIC);
        header.extend(3u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, field) in self.metadata.fields() {
            put_string(&mut header, key);
            field.write_to(&mut header);
        }
        let mut offset = 0u64;
        for t in &self.tensors {
            put_string(&mut header, &t.name);
            header.extend((t.shape.len() as u32).to_le_bytes());
            t.shape.iter().rev().for_each(|&d| header.extend((d as u64).to_le_bytes()));
            header.extend(t.type_id.to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset = offset.saturating_add(t.bytes).checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        }
        self.out.write(&header)?;
        let mut tensors = TensorWriter { out: self.out, tensors: self.tensors, alignment, next: 0, filled: 0 };
        let end = header.len() as u64;
        tensors.pad(end.next_multiple_of(alignment) - end)?;
        Ok(tensors)
    }
}

fn put_string(out: &mut Vec<u8>, string: &str) {
    out.extend((string.len() as u64).to_le_bytes());
    out.extend(string.as_bytes());
}

/// The data of a GGUF file to be. Dropped before [`TensorWriter::finish`], it leaves no file.
pub struct TensorWriter {
    out: Output,
    tensors: Vec<Declared>,
    alignment: u64,
    /// The tensor being written and how many of its bytes are.
    next: usize,
    filled: u64,
}

impl TensorWriter {
    fn fail(&self, fault: Fault) -> Error {
        Error::new(self.out.path(), fault)
    }

    /// The whole of the next tensor.
    pub fn write_tensor(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let before = self.next;
        if let Some(t) = self.tensors.get(before)
            && (self.filled != 0 || t.bytes != bytes.len() as u64)
        {
            let (name, declared) = (Name::new(&t.name), t.bytes);
            return Err(self.fail(Fault::Written { name, declared, found: self.filled + bytes.len() as u64 }));
        }
        self.write(bytes)
    }

    /// Some more bytes of the next tensor; it is complete when all its declared bytes are there.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(t) = self.tensors.get(self.next) else {
            let declared = self.tensors.len();
            return Err(self.fail(Fault::WrittenTensors { declared, found: declared + 1 }));
        };
        let (declared, filled) = (t.bytes, self.filled + bytes.len() as u64);
        if filled > declared {
            return Err(self.fail(Fault::Written { name: Name::new(&t.name), declared, found: filled }));
        }
        self.out.write(bytes)?;
        self.filled = filled;
        if filled == declared {
            let padding = declared.next_multiple_of(self.alignment) - declared;
            self.pad(padding)?;
            self.next += 1;
            self.filled = 0;
        }
        Ok(())
    }

    fn pad(&mut self, mut count: u64) -> Result<(), Error> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while count > 0 {
            let step = count.min(ZEROS.len() as u64);
            self.out.write(&ZEROS[..step as usize])?;
            count -= step;
        }
        Ok(())
    }

    /// Gives the file its name, if every tensor is complete.
    pub fn finish(self) -> Result<(), Error> {
        if let Some(t) = self.tensors.get(self.next) {
            let (name, declared, found) = (Name::new(&t.name), t.bytes, self.filled);
            return Err(self.fail(if found > 0 {
                Fault::Written { name, declared, found }
            } else {
                Fault::WrittenTensors { declared: self.tensors.len(), found: self.next }
            }));
        }
        self.out.finish()
    }
}
