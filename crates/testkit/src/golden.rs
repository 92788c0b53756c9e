//! What an independent oracle computed, from a safetensors file.

use std::path::Path;

use akunu_dtype::DType;
use akunu_formats::safetensors::{Entry, File};

/// The tensors of a golden file.
pub struct Golden {
    file: File,
}

/// Loads a golden file.
pub fn load(path: &Path) -> Golden {
    Golden { file: File::open(path).unwrap_or_else(|e| panic!("{e}")) }
}

impl Golden {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.file.entries().iter().map(|e| e.name.as_str())
    }

    pub fn has(&self, name: &str) -> bool {
        self.file.entry(name).is_some()
    }

    pub fn shape(&self, name: &str) -> &[usize] {
        &self.entry(name).shape
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.numbers(name, DType::F32, f32::from_le_bytes)
    }

    pub fn i32(&self, name: &str) -> Vec<i32> {
        self.numbers(name, DType::I32, i32::from_le_bytes)
    }

    /// The bytes of a `U8` tensor, or of any other.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.file.data(self.entry(name))
    }

    fn entry(&self, name: &str) -> &Entry {
        self.file.entry(name).unwrap_or_else(|| panic!("{}: no tensor {name}", self.file.path().display()))
    }

    fn numbers<T>(&self, name: &str, dtype: DType, read: fn([u8; 4]) -> T) -> Vec<T> {
        let entry = self.entry(name);
        let path = self.file.path().display();
        assert_eq!(entry.dtype, dtype, "{path}: the type of tensor {name}");
        self.file.data(entry).as_chunks::<4>().0.iter().map(|&b| read(b)).collect()
    }
}
