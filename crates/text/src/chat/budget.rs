//! What one rendering may use: bytes of text and depth of values. Steps and recursion are the engine's to count.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Object, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// The filter that counts what an operation made or uses.
pub(super) const COUNT: &str = "__count";
/// The same with everything inside.
pub(super) const COUNT_ALL: &str = "__count_all";
/// The filter that writes the operands of `~` as text.
pub(super) const TEXT: &str = "__text";
/// The filter that `*` becomes.
pub(super) const REPEAT: &str = "__repeat";
/// The filter that lets only numbers pass.
pub(super) const NUMBER: &str = "__number";
/// The filter that values go through on their way into a variable.
pub(super) const KEEP: &str = "__keep";
/// The filter that escapes what is added to a text marked `|safe`.
pub(super) const MARKUP: &str = "__markup";
/// The function that announces literal text.
pub(super) const TICK: &str = "__tick";
/// The variable that holds the budget.
pub(super) const BUDGET: &str = "__budget";

/// Bytes that any rendering may use, and how many more for every byte of input.
const BASE_BYTES: u64 = 64 << 20;
const BYTES_PER_INPUT_BYTE: u64 = 64;
/// Dropping or printing a value recurses once per level.
const MAX_DEPTH: usize = 200;
/// How many assignments pass between two looks at how deep values have become.
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

#[derive(Debug)]
pub(super) struct Budget {
    bytes_left: AtomicU64,
    kept: AtomicU64,
}

impl Object for Budget {}

impl Budget {
    pub fn new(input_bytes: usize) -> Arc<Budget> {
        let bytes = BASE_BYTES.saturating_add(BYTES_PER_INPUT_BYTE.saturating_mul(input_bytes as u64));
        Arc::new(Budget { bytes_left: AtomicU64::new(bytes), kept: AtomicU64::new(0) })
    }

    /// As [`Self::spend`], at a depth of values that may be too much.
    pub fn spend_at(&self, level: usize, bytes: usize) -> Result<(), Error> {
        if level > MAX_DEPTH { Err(stopped(TOO_DEEP)) } else { self.spend(bytes) }
    }

    /// Takes `bytes` from what is left.
    pub fn spend(&self, bytes: usize) -> Result<(), Error> {
        let take = |left: u64| left.checked_sub(bytes as u64);
        match self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(stopped(TOO_MUCH_TEXT)),
        }
    }
}

/// The budget of the rendering that `state` belongs to.
pub(super) fn of(state: &State<'_, '_>) -> Result<Arc<Budget>, Error> {
    let found = state.lookup(BUDGET).and_then(|value| value.downcast_object::<Budget>());
    found.ok_or_else(|| stopped("it replaced a variable that it must not touch"))
}

/// How much memory a value may stand for, roughly.
pub(super) fn weight(value: &Value) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => value.len().unwrap_or(0).saturating_mul(16),
        _ => 16,
    }
}

pub(super) fn count(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    of(state)?.spend(weight(&value))?;
    Ok(value)
}

pub(super) fn count_all(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let budget = of(state)?;
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        for item in value.try_iter()? {
            budget.spend(16 + weight(&item))?;
        }
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
pub(super) fn repeat(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
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
    of(state)?.spend(weight(repeated).saturating_mul(times))?;
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

pub(super) fn tick(state: &State<'_, '_>, bytes: usize) -> Result<String, Error> {
    of(state)?.spend(bytes)?;
    Ok(String::new())
}

pub(super) fn keep(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let container = matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable);
    if container {
        let budget = of(state)?;
        if budget.kept.fetch_add(1, Ordering::Relaxed).is_multiple_of(KEEP_EVERY) {
            check_depth(&value, MAX_DEPTH, &budget)?;
        }
    }
    Ok(value)
}

/// Errs where `value` has more than `levels` levels.
pub(super) fn check_depth(value: &Value, levels: usize, budget: &Budget) -> Result<(), Error> {
    let Some(below) = levels.checked_sub(1) else { return Err(stopped(TOO_DEEP)) };
    budget.spend(1)?;
    match value.kind() {
        ValueKind::Map => {
            for key in value.try_iter()? {
                check_depth(&value.get_item(&key)?, below, budget)?;
            }
        }
        ValueKind::Seq | ValueKind::Iterable if value.len().is_some() => {
            for item in value.try_iter()? {
                check_depth(&item, below, budget)?;
            }
        }
        _ => {}
    }
    Ok(())
}
