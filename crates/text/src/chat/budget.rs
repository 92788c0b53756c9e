//! What one rendering may use: bytes of text made or looked at, and depth of values. Steps and recursion are the engine's to
//! count.
//!
//! One number per rendering: whatever touches n bytes or n items of a value takes that from it first. It is the thread's,
//! which renders one template at a time.

use std::cell::Cell;
use std::fmt;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// The filter that pays for the memory of an operand.
pub(super) const COUNT: &str = "__count";
/// The filter that pays for looking at everything in a value.
pub(super) const READ: &str = "__read";
/// The filter that a subscript becomes.
pub(super) const ITEM: &str = "__item";
/// The filter for what `in` searches.
pub(super) const SEARCH: &str = "__search";
/// The filter for what `for` goes over.
pub(super) const WALK: &str = "__walk";
/// The filter that `loop.cycle` becomes.
pub(super) const CYCLE: &str = "__cycle";
/// The filter that writes the operands of `~` as text.
pub(super) const TEXT: &str = "__text";
/// The filter that `*` becomes.
pub(super) const REPEAT: &str = "__repeat";
/// The filter that lets only numbers pass.
pub(super) const NUMBER: &str = "__number";
/// The filter that values go through on their way into a variable or a list.
pub(super) const KEEP: &str = "__keep";
/// The filter that escapes what is added to a text marked `|safe`.
pub(super) const MARKUP: &str = "__markup";
/// The function that announces literal text.
pub(super) const TICK: &str = "__tick";

/// Bytes that a rendering may use for every byte of input, beyond what any may.
const BYTES_PER_INPUT_BYTE: u64 = 64;
/// What an item of a list or dictionary costs to have, and to look at.
const HOLD: usize = 16;
const VISIT: usize = 16;
/// Dropping or printing a value recurses once per level.
const MAX_DEPTH: usize = 200;
/// How many values pass between two looks at how deep values have become.
const KEEP_EVERY: u64 = 8;

pub(super) const TOO_MUCH_TEXT: &str = "it makes too much text";
pub(super) const TOO_DEEP: &str = "it nests values too deeply";

/// A reason that stops a template, carried inside the engine's error.
#[derive(Debug)]
pub(super) struct Stopped(pub &'static str);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Stopped {}

pub(super) fn stopped(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why).with_source(Stopped(why))
}

thread_local! {
    /// What the rendering on this thread may still use.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static KEPT: Cell<u64> = const { Cell::new(0) };
}

/// Begins a rendering on this thread that may use `any` bytes, and more over an input of so many.
pub(super) fn begin(any: u64, input_bytes: usize) {
    LEFT.set(any.saturating_add(BYTES_PER_INPUT_BYTE.saturating_mul(input_bytes as u64)));
    KEPT.set(0);
}

/// Takes `bytes` from what is left.
pub(super) fn spend(bytes: usize) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes as u64) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(stopped(TOO_MUCH_TEXT)),
    }
}

/// As [`spend`], at a depth of values that may be too much.
pub(super) fn spend_at(level: usize, bytes: usize) -> Result<(), Error> {
    if level > MAX_DEPTH { Err(stopped(TOO_DEEP)) } else { spend(bytes) }
}

/// Pays for looking at a text of so many bytes, which is faster than making it.
pub(super) fn look(bytes: usize) -> Result<(), Error> {
    spend(bytes / 4 + 1)
}

/// How much memory a value may stand for, roughly.
pub(super) fn weight(value: &Value) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => value.len().unwrap_or(0).saturating_mul(HOLD),
        _ => HOLD,
    }
}

/// Pays for looking at everything in a value, as comparing, sorting, hashing and writing do; a namespace may hold itself.
pub(super) fn read_all(value: &Value) -> Result<(), Error> {
    fn read(value: &Value, level: usize) -> Result<(), Error> {
        spend_at(level, VISIT)?;
        match value.kind() {
            ValueKind::String => look(value.as_str().map_or(0, str::len))?,
            ValueKind::Map => {
                for key in value.try_iter()? {
                    read(&value.get_item(&key)?, level + 1)?;
                    read(&key, level + 1)?;
                }
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    read(&item, level + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    read(value, 0)
}

/// Pays for looking at a value's items, or at the bytes of a text.
pub(super) fn read_items(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => look(value.as_str().map_or(0, str::len)),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => spend(value.len().unwrap_or(0).saturating_mul(VISIT)),
        _ => Ok(()),
    }
}

pub(super) fn count(value: Value) -> Result<Value, Error> {
    spend(weight(&value))?;
    Ok(value)
}

/// `value` as a list if it would otherwise be computed anew whenever somebody looks: such views of views have no end.
pub(super) fn settle(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        spend(HOLD)?;
        items.push(item);
    }
    Ok(Value::from(items))
}

pub(super) fn read(value: Value) -> Result<Value, Error> {
    read_all(&value)?;
    Ok(value)
}

/// `value[key]`: texts and views are counted through.
pub(super) fn item(value: &Value, key: &Value) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::String | ValueKind::Iterable) {
        read_items(value)?;
    }
    read_all(key)?;
    value.get_item(key)
}

/// The right side of `in`: of a dictionary only the key is looked up.
pub(super) fn search(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Map {
        read_all(&value)?;
    }
    Ok(value)
}

/// What a loop goes over: the characters of a text are counted before the first.
pub(super) fn walk(value: Value) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::String | ValueKind::Map) {
        read_items(&value)?;
    }
    Ok(value)
}

fn is_numeric(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

fn unsupported(left: &Value, right: &Value) -> Error {
    let message = format!("a {} cannot be multiplied by a {}", left.kind(), right.kind());
    Error::new(ErrorKind::InvalidOperation, message)
}

pub(super) fn number(value: Value) -> Result<Value, Error> {
    if is_numeric(&value) { Ok(value) } else { Err(unsupported(&value, &Value::from(1))) }
}

/// `left * right`: numbers, or a text or list repeated.
pub(super) fn repeat(left: Value, right: Value) -> Result<Value, Error> {
    if is_numeric(&left) && is_numeric(&right) {
        let float = |value: &Value| value.kind() == ValueKind::Number && !value.is_integer();
        if float(&left) || float(&right) {
            return Ok(Value::from(f64::try_from(left)? * f64::try_from(right)?));
        }
        let product = i128::try_from(left.clone())?.checked_mul(i128::try_from(right.clone())?);
        let product = product.ok_or_else(|| unsupported(&left, &right))?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    let (repeated, times) = if is_numeric(&left) { (&right, &left) } else { (&left, &right) };
    let times = i64::try_from(times.clone()).map_err(|_| unsupported(&left, &right))?;
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    spend(weight(repeated).saturating_mul(times))?;
    match repeated.kind() {
        ValueKind::String => Ok(Value::from(repeated.as_str().unwrap_or_default().repeat(times))),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = repeated.try_iter()?.collect();
            let count = items.len().saturating_mul(times);
            Ok(Value::from(items.into_iter().cycle().take(count).collect::<Vec<_>>()))
        }
        _ => Err(unsupported(&left, &right)),
    }
}

pub(super) fn tick(bytes: usize) -> Result<String, Error> {
    spend(bytes)?;
    Ok(String::new())
}

pub(super) fn kept(value: Value) -> Result<Value, Error> {
    keep(&value)?;
    Ok(value)
}

/// What goes into a variable or a list must not be too deep; it grows by less between two looks than a stack can take.
pub(super) fn keep(value: &Value) -> Result<(), Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
        KEPT.set(KEPT.get() + 1);
        if KEPT.get() % KEEP_EVERY == 1 {
            check_depth(value, MAX_DEPTH)?;
        }
    }
    Ok(())
}

/// Errs where `value` has more than `levels` levels.
pub(super) fn check_depth(value: &Value, levels: usize) -> Result<(), Error> {
    let Some(below) = levels.checked_sub(1) else { return Err(stopped(TOO_DEEP)) };
    spend(VISIT / 2)?;
    match value.kind() {
        ValueKind::Map => {
            for key in value.try_iter()? {
                check_depth(&value.get_item(&key)?, below)?;
            }
        }
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                check_depth(&item, below)?;
            }
        }
        _ => {}
    }
    Ok(())
}
