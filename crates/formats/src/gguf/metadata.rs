//! The key-value pairs of a GGUF file, with getters that name what they expected.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::array::Array;
use super::value::{Field, Value};
use crate::error::{Error, Fault, Name};

/// Keys and values in file order.
#[derive(Clone, Debug)]
pub struct Metadata {
    path: PathBuf,
    fields: Vec<(Box<str>, Field)>,
    by_key: HashMap<Box<str>, usize>,
}

impl Metadata {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), fields: Vec::new(), by_key: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, key: &str, field: Field) -> Result<(), Error> {
        if self.by_key.insert(key.into(), self.fields.len()).is_some() {
            return Err(Error::new(&self.path, Fault::Duplicate { what: "key", name: Name::new(key) }));
        }
        self.fields.push((key.into(), field));
        Ok(())
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.field(key).map(Field::value)
    }

    /// The value with its type in the file.
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.by_key.get(key).and_then(|&i| self.fields.get(i)).map(|(_, field)| field)
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// In file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.fields().map(|(key, field)| (key, field.value()))
    }

    /// In file order, with their types: what a converter copies.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(key, field)| (&**key, field))
    }

    /// An integer that is not negative, of any width; `None` where the key is absent.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, Error> {
        self.typed(key, "a non-negative integer", |v| match v {
            Value::U64(v) => Some(*v),
            Value::I64(v) => u64::try_from(*v).ok(),
            _ => None,
        })
    }

    /// A floating-point number of either width.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        self.typed(key, "a floating-point number", |v| match v {
            Value::F64(v) => Some(*v as f32),
            _ => None,
        })
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a bool", |v| match v {
            Value::Bool(v) => Some(*v),
            _ => None,
        })
    }

    pub fn str(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "a string", |v| match v {
            Value::String(v) => Some(v.as_str()),
            _ => None,
        })
    }

    pub fn array(&self, key: &str) -> Result<Option<&Array>, Error> {
        self.typed(key, "an array", |v| match v {
            Value::Array(v) => Some(v),
            _ => None,
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| {
            let fault = Fault::WrongType { key: Name::new(key), expected, found: value.describe() };
            Error::new(&self.path, fault)
        })
    }
}
