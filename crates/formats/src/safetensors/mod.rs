//! Safetensors: the reader of one file's header, and a small writer.
//!
//! The header is JSON of at most 100 MB; it is read as a stream into entries, so that what is no entry is an error where
//! it stands and never a tree in memory.

mod header;
mod write;

pub use write::write;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use akunu_dtype::DType;
use akunu_limits::Limits;

use crate::error::{Error, Fault, Name};
use crate::map::Bytes;

/// The format's own limit on its header.
const MAX_HEADER: u64 = 100_000_000;
/// The header's length comes first, in eight bytes.
const PREFIX: usize = 8;

/// One tensor of a file.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub dtype: DType,
    /// As in the header: empty for a scalar.
    pub shape: Vec<usize>,
    /// From the start of the file.
    pub offset: usize,
    pub len: usize,
}

/// One safetensors file, validated: the tensors cover its data exactly.
pub struct File {
    path: PathBuf,
    bytes: Bytes,
    entries: Vec<Entry>,
    by_name: HashMap<Box<str>, usize>,
}

/// Whether these can be the first bytes of a safetensors file: a length that the format allows, then an object.
pub(crate) fn is_safetensors(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk::<PREFIX>().map(|b| u64::from_le_bytes(*b));
    match (length, bytes.get(PREFIX)) {
        (Some(length), Some(b'{')) => length > 0,
        _ => false,
    }
}

impl File {
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::read(path, Bytes::map(path)?, &Limits::default())
    }

    pub(crate) fn read(path: &Path, bytes: Bytes, limits: &Limits) -> Result<Self, Error> {
        let fail = |fault| Error::new(path, fault);
        let len = bytes.len() as u64;
        let truncated = |what: &str, needs, offset| fail(Fault::Truncated { what: what.into(), needs, offset, len });
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
            return Err(truncated("the header's length", PREFIX as u64, 0));
        };
        let count = u64::from_le_bytes(*prefix);
        if count > MAX_HEADER {
            let what = "the header's length".into();
            return Err(fail(Fault::Limit { what, found: count, limit: MAX_HEADER }));
        }
        // Fits: at most `MAX_HEADER`.
        let Some((json, data)) = rest.split_at_checked(count as usize) else {
            return Err(truncated("the header", count, PREFIX as u64));
        };
        let mut entries = header::parse(json, limits).map_err(fail)?;
        check(&entries, data.len() as u64, PREFIX as u64 + count).map_err(fail)?;
        let mut by_name = HashMap::with_capacity(entries.len());
        for (index, entry) in entries.iter_mut().enumerate() {
            // Cannot overflow: the entry lies inside the data.
            entry.offset += PREFIX + json.len();
            if by_name.insert(entry.name.as_str().into(), index).is_some() {
                return Err(fail(Fault::Duplicate { what: "tensor", name: Name::new(&entry.name) }));
            }
        }
        Ok(Self { path: path.to_path_buf(), bytes, entries, by_name })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// In the header's order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(self.position(name)?)
    }

    /// The tensor's bytes, little-endian and unaligned.
    pub fn data(&self, entry: &Entry) -> &[u8] {
        self.bytes.get(entry.offset..entry.offset.saturating_add(entry.len)).unwrap_or_default()
    }

    /// The same file; its tensors have `module.` before their names.
    pub(crate) fn below(mut self, module: &str) -> Self {
        self.entries.iter_mut().for_each(|e| e.name = format!("{module}.{}", e.name));
        self.by_name = self.entries.iter().enumerate().map(|(i, e)| (e.name.as_str().into(), i)).collect();
        self
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Each tensor has the bytes its shape needs, and together they cover the data once. `base` is where the data starts.
fn check(entries: &[Entry], data: u64, base: u64) -> Result<(), Fault> {
    for e in entries {
        let name = || Name::new(&e.name);
        let shape = || e.shape.iter().map(|&d| d as u64).collect();
        if e.shape.contains(&0) {
            return Err(Fault::ZeroDimension { name: name(), shape: shape() });
        }
        let needs = e.shape.iter().try_fold(e.dtype.format().bytes as u64, |n, &d| n.checked_mul(d as u64));
        let needs = needs.ok_or_else(|| Fault::TooLarge { name: name(), shape: shape() })?;
        let (offset, found) = (e.offset as u64, e.len as u64);
        if needs != found {
            return Err(Fault::Size { name: name(), found, needs });
        }
        if offset.checked_add(needs).is_none_or(|end| end > data) {
            let (offset, len) = (base.saturating_add(offset), base + data);
            return Err(Fault::OutOfRange { name: name(), needs, offset, len });
        }
    }
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_unstable_by_key(|e| e.offset);
    let mut end = 0;
    let mut last: Option<&Entry> = None;
    for e in order {
        let offset = e.offset as u64;
        if let (true, Some(first)) = (offset < end, last) {
            let (first, second) = (Name::new(&first.name), Name::new(&e.name));
            return Err(Fault::Overlap { first, second, offset: base + offset });
        }
        if offset > end {
            return Err(Fault::Hole { offset: base + end, count: offset - end });
        }
        end = offset + e.len as u64;
        last = Some(e);
    }
    if end < data { Err(Fault::Hole { offset: base + end, count: data - end }) } else { Ok(()) }
}
