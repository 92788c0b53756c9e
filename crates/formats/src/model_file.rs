//! `ModelFile`: one or more mapped files, their metadata, and a validated list of tensors.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use akunu_dtype::{DType, Planes};
use akunu_limits::{Limits, over};

use crate::error::{Error, Fault, Name};
use crate::map::{Bytes, read_bounded};
use crate::{directory, ggml, gguf};

/// Bytes that [`ModelFile::read_ahead`] asks for, at most.
const READ_AHEAD: usize = 256 << 20;

/// How the tensors are stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    Gguf,
    /// Whisper's format from before GGUF; its metadata is given GGUF's keys.
    Ggml,
    Safetensors,
}

/// What a model file says about itself.
#[derive(Debug)]
pub enum Metadata {
    Gguf(gguf::Metadata),
    /// The directory's `config.json`; null for a lone safetensors file.
    Json(serde_json::Value),
}

/// A range of bytes in one of a model's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub file: usize,
    pub offset: usize,
    pub len: usize,
}

/// One tensor; its bytes are [`ModelFile::planes`].
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    /// Outermost first, never empty (a scalar is `[1]`), no dimension zero: `[rows, cols]`.
    pub shape: Vec<usize>,
    pub data: Span,
    /// Empty for formats of one plane.
    pub scales: Span,
    /// Empty for formats of one plane.
    pub biases: Span,
}

impl Tensor {
    /// Values in the tensor; validated to fit.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Values in a row: the last dimension.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Everything but the last dimension.
    pub fn rows(&self) -> usize {
        self.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }
}

/// A model's files, mapped and validated.
pub struct ModelFile {
    path: PathBuf,
    container: Container,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    by_name: HashMap<Box<str>, usize>,
    maps: Vec<Bytes>,
    /// Where side files are: the directory of a safetensors model.
    directory: Option<PathBuf>,
    tokens: Vec<Span>,
    limits: Limits,
}

/// Errs where a model has more tensors than it may.
pub(crate) fn check_tensors(found: u64, limits: &Limits) -> Result<(), Fault> {
    if found <= limits.tensors {
        return Ok(());
    }
    Err(Fault::Over { what: "the number of tensors", found, over: over!(limits, tensors) })
}

/// What a reader found, before the checks that all containers share.
pub(crate) struct Contents {
    pub container: Container,
    pub metadata: Metadata,
    pub tensors: Vec<Tensor>,
    pub maps: Vec<Bytes>,
    pub directory: Option<PathBuf>,
    /// A vocabulary outside the metadata.
    pub tokens: Vec<Span>,
}

impl ModelFile {
    /// Opens a GGUF file (the first part of a split one opens all), a Whisper ggml file, a safetensors file, or a directory
    /// with `config.json` and safetensors. The content decides, not the name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_within(path, Limits::default())
    }

    /// As [`Self::open`], within other limits, which also hold for what is read from it later.
    pub fn open_within(path: &Path, limits: Limits) -> Result<Self, Error> {
        let metadata = fs::metadata(path).map_err(|e| Error::new(path, Fault::Open(e)))?;
        if metadata.is_dir() {
            return Self::assemble(path, directory::open(path, &limits)?, limits);
        }
        let bytes = Bytes::map(path)?;
        let contents = if gguf::is_gguf(path, &bytes)? {
            gguf::open(path, bytes, &limits)?
        } else if ggml::is_ggml(&bytes) {
            ggml::open(path, bytes, &limits)?
        } else if crate::safetensors::is_safetensors(&bytes) {
            directory::open_file(path, bytes, &limits)?
        } else {
            return Err(Error::new(path, Fault::UnknownContainer));
        };
        Self::assemble(path, contents, limits)
    }

    /// A GGUF file inside the binary; `name` stands for its path in messages.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Self, Error> {
        let path = Path::new(name);
        let bytes = Bytes::Static(bytes);
        if !gguf::is_gguf(path, &bytes)? {
            return Err(Error::new(path, Fault::UnknownContainer));
        }
        let limits = Limits::default();
        Self::assemble(path, gguf::open_single(path, bytes, &limits)?, limits)
    }

    fn assemble(path: &Path, contents: Contents, limits: Limits) -> Result<Self, Error> {
        let Contents { container, metadata, tensors, maps, directory, tokens } = contents;
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (index, tensor) in tensors.iter().enumerate() {
            if by_name.insert(tensor.name.as_str().into(), index).is_some() {
                let fault = Fault::Duplicate { what: "tensor", name: Name::new(&tensor.name) };
                return Err(Error::new(path, fault));
            }
        }
        Ok(Self { path: path.to_path_buf(), container, metadata, tensors, by_name, maps, directory, tokens, limits })
    }

    /// The limits within which its tokenizer, template and other side files are read.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The same file; what is read from it later is read within `limits`.
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn container(&self) -> Container {
        self.container
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// In file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).and_then(|&i| self.tensors.get(i))
    }

    /// The bytes of a whole tensor. They may start at any address: safetensors does not align.
    ///
    /// A tensor of another `ModelFile` gives meaningless or empty planes, never bytes outside the mappings.
    pub fn planes(&self, tensor: &Tensor) -> Planes<'_> {
        Planes { data: self.span(tensor.data), scales: self.span(tensor.scales), biases: self.span(tensor.biases) }
    }

    fn span(&self, span: Span) -> &[u8] {
        let end = span.offset.saturating_add(span.len);
        self.maps.get(span.file).and_then(|m| m.get(span.offset..end)).unwrap_or_default()
    }

    /// The bytes of every token by id, where the container has a vocabulary outside its metadata; else none.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.tokens.iter().map(|span| self.span(*span))
    }

    /// How many files are mapped.
    pub fn files(&self) -> usize {
        self.maps.len()
    }

    /// The mapping that [`Span::file`] means; empty past [`Self::files`].
    pub fn bytes(&self, file: usize) -> &[u8] {
        self.maps.get(file).map_or(&[], |m| m)
    }

    /// Asks the system to read from the disk now what it can read while programs are built: vectors, which programs are built
    /// with, and then the first bytes of the mapped files.
    pub fn read_ahead(&self) {
        let vectors = self.tensors.iter().filter(|t| t.shape.len() == 1).map(|t| t.data);
        let files = self.maps.iter().enumerate().map(|(file, map)| Span { file, offset: 0, len: map.len() });
        let mut left = READ_AHEAD;
        for Span { file, offset, len } in vectors.chain(files) {
            let len = len.min(left);
            left -= len;
            if let Some(map) = self.maps.get(file) {
                map.read_ahead(offset..offset.saturating_add(len));
            }
        }
    }

    /// Fills `to` with the bytes from `at` on of a mapped file, without touching the mapping where the system allows it.
    pub fn read(&self, file: usize, at: usize, to: &mut [u8]) -> std::io::Result<()> {
        self.maps.get(file).ok_or(std::io::ErrorKind::NotFound)?.read(at, to)
    }

    /// A file beside the weights of a safetensors model, such as `tokenizer.json`; `None` for GGUF or where there is none.
    pub fn side_file(&self, name: &str) -> Option<Result<Vec<u8>, Error>> {
        let path = self.directory.as_ref()?.join(name);
        // A file beside the model, or in a folder beside it.
        if name.matches('/').count() > 1 || !name.split('/').all(directory::is_plain_name) {
            let expected = "a plain file name";
            let fault = Fault::BadValue { what: "the file".into(), expected, found: Name::new(name).to_string() };
            return Some(Err(Error::new(&self.path, fault)));
        }
        match fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            _ => Some(read_bounded(&path, over!(self.limits, side_file_bytes))),
        }
    }
}

impl std::fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelFile")
            .field("path", &self.path)
            .field("container", &self.container)
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
