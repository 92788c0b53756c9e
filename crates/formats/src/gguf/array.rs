//! Arrays of metadata as validated views: a vocabulary of a million strings costs an offset for every 16 of them.

use std::fmt;
use std::sync::Arc;

use super::value::{Kind, Value};
use crate::cursor::Cursor;
use crate::error::{Error, Fault, Name};
use crate::map::Bytes;

/// Strings between two remembered offsets; finding one steps over at most this many.
const STRIDE: usize = 16;

/// The most strings in an array, 30 times the largest vocabulary and its merges: bounds the offsets we remember.
const MAX_STRINGS: u64 = 1 << 24;

/// An array of numbers, bools or strings, in the file's own encoding.
#[derive(Clone)]
pub struct Array {
    kind: Kind,
    len: usize,
    source: Bytes,
    start: usize,
    end: usize,
    /// For strings, where every `STRIDE`th one begins, from `start`.
    index: Arc<[usize]>,
}

impl Array {
    /// Reads the array's element type, count and elements; `source` is what `cursor` reads.
    pub(crate) fn read(cursor: &mut Cursor<'_>, source: &Bytes, key: &Name) -> Result<Self, Error> {
        let offset = cursor.at() as u64;
        let id = cursor.u32(&format_args!("the element type of key {key}"))?;
        let kind = Kind::from_id(id).ok_or_else(|| cursor.fail(Fault::UnknownKind { key: key.clone(), id, offset }))?;
        if kind == Kind::Array {
            return Err(cursor.fail(Fault::NotSupported(format!("an array of arrays in key {key}"))));
        }
        let len = cursor.u64(&format_args!("the length of the array in key {key}"))?;
        let what = format!("the array of {len} {} in key {key}", kind.name());
        cursor.room(len, kind.bytes(), &what)?;

        let start = cursor.at();
        let mut index = Vec::new();
        if kind == Kind::String {
            if len > MAX_STRINGS {
                return Err(cursor.fail(Fault::Limit { what, found: len, limit: MAX_STRINGS }));
            }
            for i in 0..len {
                if i % STRIDE as u64 == 0 {
                    index.push(cursor.at() - start);
                }
                cursor.string(u64::MAX, &format_args!("string {i} of key {key}"))?;
            }
        } else {
            // Fits: there is room for it.
            let bytes = cursor.take(len * kind.bytes(), &what)?;
            if kind == Kind::Bool
                && let Some(i) = bytes.iter().position(|&b| b > 1)
            {
                let (what, found) = (format!("element {i} of key {key}"), format!("the byte {}", bytes[i]));
                return Err(cursor.fail(Fault::BadValue { what, expected: "a bool of 0 or 1", found }));
            }
        }
        let (len, end) = (len as usize, cursor.at());
        Ok(Self { kind, len, source: source.clone(), start, end, index: index.into() })
    }

    /// An array of strings, for [`super::Writer::set`].
    pub fn from_strings<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> Self {
        let (mut bytes, mut index, mut len) = (Vec::new(), Vec::new(), 0);
        for string in strings {
            let string = string.as_ref();
            if len % STRIDE == 0 {
                index.push(bytes.len());
            }
            bytes.extend((string.len() as u64).to_le_bytes());
            bytes.extend(string.as_bytes());
            len += 1;
        }
        Self::owned(Kind::String, len, bytes, index)
    }

    pub fn from_i32s(values: impl IntoIterator<Item = i32>) -> Self {
        Self::from_numbers(Kind::I32, values.into_iter().map(i32::to_le_bytes))
    }

    pub fn from_u32s(values: impl IntoIterator<Item = u32>) -> Self {
        Self::from_numbers(Kind::U32, values.into_iter().map(u32::to_le_bytes))
    }

    pub fn from_f32s(values: impl IntoIterator<Item = f32>) -> Self {
        Self::from_numbers(Kind::F32, values.into_iter().map(f32::to_le_bytes))
    }

    pub fn from_bools(values: impl IntoIterator<Item = bool>) -> Self {
        Self::from_numbers(Kind::Bool, values.into_iter().map(|b| [u8::from(b)]))
    }

    fn from_numbers<const N: usize>(kind: Kind, values: impl Iterator<Item = [u8; N]>) -> Self {
        let bytes: Vec<u8> = values.flatten().collect();
        Self::owned(kind, bytes.len() / N, bytes, Vec::new())
    }

    fn owned(kind: Kind, len: usize, bytes: Vec<u8>, index: Vec<usize>) -> Self {
        let end = bytes.len();
        Self { kind, len, source: Bytes::Owned(bytes.into()), start: 0, end, index: index.into() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The type of its elements.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The elements as they are in the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.source.get(self.start..self.end).unwrap_or_default()
    }

    /// The strings in order; `None` for an array of something else.
    pub fn strings(&self) -> Option<impl ExactSizeIterator<Item = &str> + Clone> {
        let mut rest = self.bytes();
        (self.kind == Kind::String).then(|| (0..self.len).map(move |_| split_string(&mut rest)))
    }

    /// String `i`; `None` past the end and for an array of something else.
    pub fn string(&self, i: usize) -> Option<&str> {
        if self.kind != Kind::String || i >= self.len {
            return None;
        }
        let mut rest = self.bytes().get(*self.index.get(i / STRIDE)?..)?;
        for _ in 0..i % STRIDE {
            split_string(&mut rest);
        }
        Some(split_string(&mut rest))
    }

    /// The integers; `None` for an array of something else, or where one does not fit an `i64`.
    pub fn i64s(&self) -> Option<impl ExactSizeIterator<Item = i64> + Clone + '_> {
        let fits =
            || self.kind != Kind::U64 || self.elements().all(|v| !matches!(v, Value::U64(v) if v > i64::MAX as u64));
        (self.kind.is_integer() && fits()).then(|| {
            self.elements().map(|v| match v {
                Value::U64(v) => v as i64,
                Value::I64(v) => v,
                _ => 0,
            })
        })
    }

    /// The floating-point numbers; `None` for an array of something else.
    pub fn f32s(&self) -> Option<impl ExactSizeIterator<Item = f32> + Clone + '_> {
        matches!(self.kind, Kind::F32 | Kind::F64).then(|| {
            self.elements().map(|v| match v {
                Value::F64(v) => v as f32,
                _ => 0.0,
            })
        })
    }

    /// The bools; `None` for an array of something else.
    pub fn bools(&self) -> Option<impl ExactSizeIterator<Item = bool> + Clone + '_> {
        (self.kind == Kind::Bool).then(|| self.bytes().iter().map(|&b| b != 0))
    }

    /// Elements of a fixed size.
    fn elements(&self) -> impl ExactSizeIterator<Item = Value> + Clone + '_ {
        let kind = self.kind;
        self.bytes().chunks_exact(kind.bytes() as usize).map(move |b| kind.decode(b).unwrap_or(Value::U64(0)))
    }
}

/// The next string of a run that was validated before. A mapping whose file was changed since gives
/// empty strings, never bytes outside it and never a `str` that is not UTF-8.
fn split_string<'a>(rest: &mut &'a [u8]) -> &'a str {
    let Some((len, tail)) = rest.split_first_chunk::<8>() else { return "" };
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let Some((string, tail)) = tail.split_at_checked(len) else {
        *rest = &[];
        return "";
    };
    *rest = tail;
    std::str::from_utf8(string).unwrap_or_default()
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.len == other.len && self.bytes() == other.bytes()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} × {}]", self.len, self.kind.name())
    }
}
