//! Whisper's ggml files (`ggml-*.bin`): eleven numbers, mel filters, a vocabulary, then tensors one after the other.
//!
//! The format has no keys: the numbers are given the names they would have in a GGUF file, so that whoever reads a
//! configuration reads this one too. The filters are skipped: they follow from the number of bands.

use std::path::Path;

use akunu_dtype::DType;
use akunu_limits::Limits;

use crate::cursor::Cursor;
use crate::error::{Error, Fault, Name};
use crate::gguf::{Field, Metadata as Keys, byte_size};
use crate::map::Bytes;
use crate::model_file::{Container, Contents, Metadata, Span, Tensor, check_tensors};

/// "ggml" as a little-endian word.
const MAGIC: &[u8; 4] = b"lmgg";
const ARCHITECTURE: &str = "whisper";
/// The numbers of the header in file order, by the keys that GGUF's specification has for them; the type of the file, which
/// every tensor says itself, follows.
const NUMBERS: [&str; 10] = [
    "vocab_size",
    "encoder.context_length",
    "encoder.embedding_length",
    "encoder.attention.head_count",
    "encoder.block_count",
    "decoder.context_length",
    "decoder.embedding_length",
    "decoder.attention.head_count",
    "decoder.block_count",
    "encoder.mels_count",
];
/// No number of the header is larger: real ones end at 51,866.
const MAX_NUMBER: u32 = 1 << 20;
const MAX_TOKENS: u64 = 1 << 20;
const MAX_NAME: u64 = 1024;
const MAX_DIMS: u32 = 4;
/// The shortest tensor: counts of dimensions and letters, a type, one dimension, no name, one byte.
const MIN_TENSOR: usize = 17;

pub(crate) fn is_ggml(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

pub(crate) fn open(path: &Path, bytes: Bytes, limits: &Limits) -> Result<Contents, Error> {
    let mut cursor = Cursor::new(path, &bytes);
    cursor.take(4, &"the magic")?;
    let metadata = numbers(path, &mut cursor)?;
    filters(&mut cursor)?;
    let tokens = vocabulary(&mut cursor)?;
    let mut tensors = Vec::new();
    while cursor.remaining() > 0 {
        check_tensors(tensors.len() as u64 + 1, limits).map_err(|fault| cursor.fail(fault))?;
        tensors.push(tensor(&mut cursor, tensors.len())?);
    }
    let metadata = Metadata::Gguf(metadata);
    Ok(Contents { container: Container::Ggml, metadata, tensors, maps: vec![bytes], directory: None, tokens })
}

fn numbers(path: &Path, cursor: &mut Cursor<'_>) -> Result<Keys, Error> {
    let mut keys = Keys::new(path);
    keys.insert("general.architecture", ARCHITECTURE.into())?;
    let mut add = |key: &str, field: Field| keys.insert(&format!("{ARCHITECTURE}.{key}"), field);
    let mut widths = [0; NUMBERS.len()];
    let mut number = |name: &str| {
        let value = cursor.u32(&format_args!("{name:?} in the header"))?;
        if value > MAX_NUMBER {
            let what = "a ggml file from before GGUF that is not a Whisper model".into();
            return Err(cursor.fail(Fault::NotSupported(what)));
        }
        Ok(value)
    };
    for (name, width) in NUMBERS.iter().zip(&mut widths) {
        *width = number(name)?;
        add(name, (*width).into())?;
    }
    number("file_type")?;
    // What the format leaves out because all its models have it.
    let [_, _, encoder_width, _, _, _, width, ..] = widths;
    add("encoder.feed_forward_length", (4 * encoder_width).into())?;
    add("decoder.feed_forward_length", (4 * width).into())?;
    add("attention.layer_norm_epsilon", 1e-5f32.into())?;
    Ok(keys)
}

fn filters(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let bands = cursor.u32(&"the number of mel bands")?;
    let bins = cursor.u32(&"the number of mel bins")?;
    let count = u64::from(bands) * u64::from(bins);
    cursor.take(count.saturating_mul(4), &"the mel filters")?;
    Ok(())
}

/// The bytes of every token, by id.
fn vocabulary(cursor: &mut Cursor<'_>) -> Result<Vec<Span>, Error> {
    let count = u64::from(cursor.u32(&"the number of tokens")?);
    cursor.room(count, 4, &format_args!("a vocabulary of {count} tokens"))?;
    if count > MAX_TOKENS {
        let what = "the number of tokens".into();
        return Err(cursor.fail(Fault::Limit { what, found: count, limit: MAX_TOKENS }));
    }
    let mut tokens = Vec::with_capacity(count as usize);
    for i in 0..count {
        let len = cursor.u32(&format_args!("the length of token {i}"))?;
        let offset = cursor.at();
        cursor.take(len.into(), &format_args!("token {i}"))?;
        tokens.push(Span { file: 0, offset, len: len as usize });
    }
    Ok(tokens)
}

fn tensor(cursor: &mut Cursor<'_>, index: usize) -> Result<Tensor, Error> {
    cursor.room(1, MIN_TENSOR as u64, &format_args!("tensor {index}"))?;
    let dims = cursor.u32(&format_args!("the dimension count of tensor {index}"))?;
    let letters = u64::from(cursor.u32(&format_args!("the length of the name of tensor {index}"))?);
    let id = cursor.u32(&format_args!("the type of tensor {index}"))?;
    let unnamed = || Name::new(&format!("number {index}"));
    if !(1..=MAX_DIMS).contains(&dims) {
        return Err(cursor.fail(Fault::Rank { name: unnamed(), dims: dims.into(), allowed: "1 to 4" }));
    }
    let mut shape = Vec::with_capacity(dims as usize);
    for _ in 0..dims {
        shape.push(u64::from(cursor.u32(&format_args!("the dimensions of tensor {index}"))?));
    }
    // Innermost first, as in GGUF.
    shape.reverse();
    if letters > MAX_NAME {
        let what = format!("the length of the name of tensor {index}");
        return Err(cursor.fail(Fault::Limit { what, found: letters, limit: MAX_NAME }));
    }
    let (at, what) = (cursor.at() as u64, format!("the name of tensor {index}"));
    let name = std::str::from_utf8(cursor.take(letters, &what)?);
    let name = name.map_err(|_| cursor.fail(Fault::NotUtf8 { what, offset: at }))?;
    // The biases of convolutions are written as columns: a column is a vector.
    if let [_, 1] = shape[..] {
        shape.pop();
    }
    let Some(dtype) = DType::from_gguf(id) else {
        return Err(cursor.fail(Fault::UnknownFormat { name: Name::new(name), format: format!("id {id}") }));
    };
    let (shape, len) = byte_size(name, dtype, &shape).map_err(|fault| cursor.fail(fault))?;
    let offset = cursor.at();
    cursor.take(len as u64, &format_args!("tensor {}", Name::new(name)))?;
    let data = Span { file: 0, offset, len };
    Ok(Tensor { name: name.to_owned(), dtype, shape, data, scales: Span::default(), biases: Span::default() })
}
