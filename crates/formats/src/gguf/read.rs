//! One GGUF file's header: metadata and tensor infos, checked against the bytes that are there.

use std::path::Path;

use akunu_dtype::DType;
use akunu_limits::Limits;

use super::array::Array;
use super::value::{Field, Kind, Value};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAX_DIMS, MAX_KEY, MAX_KEYS, MAX_NAME, MAX_STRING, Metadata};
use crate::cursor::Cursor;
use crate::error::{Error, Fault, Name};
use crate::map::Bytes;
use crate::model_file::{Span, Tensor, check_tensors};

/// The shortest key and value: a length, no characters, a type, one byte.
const MIN_KEY_VALUE: u64 = 8 + 4 + 1;
/// The shortest tensor info: a name's length, a count, one dimension, a type, an offset.
const MIN_TENSOR_INFO: u64 = 8 + 4 + 8 + 4 + 8;

/// What one file holds.
pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<Tensor>,
}

/// Reads the header of `bytes`, whose magic was seen; its tensors get `file` in their spans.
pub(super) fn read(path: &Path, bytes: &Bytes, file: usize, limits: &Limits) -> Result<Header, Error> {
    let mut cursor = Cursor::new(path, bytes);
    cursor.take(4, &"the magic")?;
    version(&mut cursor)?;
    let tensors = cursor.u64(&"the tensor count")?;
    let keys = cursor.u64(&"the key count")?;
    cursor.room(keys, MIN_KEY_VALUE, &format_args!("metadata of {keys} keys"))?;
    if keys > MAX_KEYS {
        return Err(cursor.fail(Fault::Limit { what: "the number of keys".into(), found: keys, limit: MAX_KEYS }));
    }

    let mut metadata = Metadata::new(path);
    let mut strings_left = MAX_STRING;
    for i in 0..keys {
        let key = cursor.string(MAX_KEY, &format_args!("key {i}"))?;
        let field = field(&mut cursor, bytes, &Name::new(key), &mut strings_left)?;
        metadata.insert(key, field)?;
    }
    let alignment = alignment(&cursor, &metadata)?;

    cursor.room(tensors, MIN_TENSOR_INFO, &format_args!("the list of {tensors} tensors"))?;
    check_tensors(tensors, limits).map_err(|fault| cursor.fail(fault))?;
    let mut list = Vec::with_capacity(tensors as usize);
    for i in 0..tensors {
        list.push(tensor(&mut cursor, i, file, alignment)?);
    }
    // Cannot overflow: a position in memory plus at most 2^30.
    let data_start = cursor.at().next_multiple_of(alignment as usize);
    for tensor in &mut list {
        place(&cursor, tensor, data_start, bytes.len())?;
    }
    check_overlap(&cursor, &list)?;
    Ok(Header { metadata, tensors: list })
}

fn version(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let version = cursor.u32(&"the version")?;
    let what = match version {
        2 | 3 => return Ok(()),
        1 => "GGUF version 1 (convert the model again)".into(),
        // Real versions are small, so one whose low half is empty was written the other way round.
        v if v & 0xffff == 0 && v != 0 => "a big-endian GGUF file".into(),
        v => format!("GGUF version {v}"),
    };
    Err(cursor.fail(Fault::NotSupported(what)))
}

fn field(cursor: &mut Cursor<'_>, source: &Bytes, key: &Name, strings_left: &mut u64) -> Result<Field, Error> {
    let offset = cursor.at() as u64;
    let id = cursor.u32(&format_args!("the type of key {key}"))?;
    let kind = Kind::from_id(id).ok_or_else(|| cursor.fail(Fault::UnknownKind { key: key.clone(), id, offset }))?;
    let what = format_args!("the value of key {key}");
    let value = match kind {
        Kind::String => {
            let string = cursor.string(*strings_left, &what)?;
            *strings_left -= string.len() as u64;
            Value::String(string.to_owned())
        }
        Kind::Array => Value::Array(Array::read(cursor, source, key)?),
        _ => {
            let bytes = cursor.take(kind.bytes(), &what)?;
            kind.decode(bytes).ok_or_else(|| {
                let found = format!("the byte {}", bytes.first().copied().unwrap_or_default());
                cursor.fail(Fault::WrongType { key: key.clone(), expected: "a bool of 0 or 1", found })
            })?
        }
    };
    Ok(Field::new(kind, value))
}

fn alignment(cursor: &Cursor<'_>, metadata: &Metadata) -> Result<u64, Error> {
    let alignment = metadata.u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    // GGUF wants a multiple of 8; every writer's is a power of two, and an alignment over 1 GiB is a mistake.
    if alignment.is_power_of_two() && (8..=1 << 30).contains(&alignment) {
        return Ok(alignment);
    }
    let (key, found) = (Name::new(ALIGNMENT_KEY), alignment.to_string());
    Err(cursor.fail(Fault::WrongType { key, expected: "a power of two from 8 to 2^30", found }))
}

/// One tensor info; its span is still relative to the start of the data.
fn tensor(cursor: &mut Cursor<'_>, index: u64, file: usize, alignment: u64) -> Result<Tensor, Error> {
    let name = cursor.string(MAX_NAME, &format_args!("the name of tensor {index}"))?;
    let printed = Name::new(name);
    let dims = cursor.u32(&format_args!("the dimension count of tensor {printed}"))?;
    if !(1..=MAX_DIMS).contains(&dims) {
        return Err(cursor.fail(Fault::Rank { name: printed, dims: dims.into(), allowed: "1 to 4" }));
    }
    let mut shape = Vec::with_capacity(dims as usize);
    for _ in 0..dims {
        shape.push(cursor.u64(&format_args!("the dimensions of tensor {printed}"))?);
    }
    // GGUF writes the innermost dimension first.
    shape.reverse();
    let id = cursor.u32(&format_args!("the type of tensor {printed}"))?;
    let offset = cursor.u64(&format_args!("the offset of tensor {printed}"))?;

    let Some(dtype) = DType::from_gguf(id) else {
        return Err(cursor.fail(Fault::UnknownFormat { name: printed, format: format!("id {id}") }));
    };
    let (shape, len) = byte_size(name, dtype, &shape).map_err(|fault| cursor.fail(fault))?;
    if !offset.is_multiple_of(alignment) {
        return Err(cursor.fail(Fault::Misaligned { name: printed, offset, alignment }));
    }
    // An offset that does not fit is out of every file's range.
    let data = Span { file, offset: usize::try_from(offset).unwrap_or(usize::MAX), len };
    Ok(Tensor { name: name.to_owned(), dtype, shape, data, scales: Span::default(), biases: Span::default() })
}

/// Moves a tensor's span to where it is in the file, if it is there.
fn place(cursor: &Cursor<'_>, tensor: &mut Tensor, data_start: usize, file_len: usize) -> Result<(), Error> {
    let Span { offset, len, .. } = tensor.data;
    let start = data_start.saturating_add(offset);
    if start.checked_add(len).is_none_or(|end| end > file_len) {
        return Err(cursor.fail(Fault::OutOfRange {
            name: Name::new(&tensor.name),
            needs: len as u64,
            offset: start as u64,
            len: file_len as u64,
        }));
    }
    tensor.data.offset = start;
    Ok(())
}

/// The shape in `usize` and the bytes of a one-plane tensor of it.
pub(crate) fn byte_size(name: &str, dtype: DType, shape: &[u64]) -> Result<(Vec<usize>, usize), Fault> {
    let printed = || Name::new(name);
    if shape.contains(&0) {
        return Err(Fault::ZeroDimension { name: printed(), shape: shape.to_vec() });
    }
    let too_large = || Fault::TooLarge { name: printed(), shape: shape.to_vec() };
    let sizes: Vec<usize> =
        shape.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| too_large())?;
    let cols = sizes.last().copied().unwrap_or(1);
    let elements = sizes.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
    let format = dtype.format();
    if !cols.is_multiple_of(format.block) {
        let (cols, format, block) = (cols as u64, format.name, format.block);
        return Err(Fault::PartialBlock { name: printed(), cols, format, block });
    }
    let bytes = dtype.row_bytes(cols).and_then(|row| row.checked_mul(elements / cols)).ok_or_else(too_large)?;
    Ok((sizes, bytes))
}

fn check_overlap(cursor: &Cursor<'_>, tensors: &[Tensor]) -> Result<(), Error> {
    let mut order: Vec<&Tensor> = tensors.iter().collect();
    order.sort_unstable_by_key(|t| t.data.offset);
    for pair in order.windows(2) {
        let [first, second] = pair else { continue };
        if first.data.offset + first.data.len > second.data.offset {
            let offset = second.data.offset as u64;
            let (first, second) = (Name::new(&first.name), Name::new(&second.name));
            return Err(cursor.fail(Fault::Overlap { first, second, offset }));
        }
    }
    Ok(())
}
