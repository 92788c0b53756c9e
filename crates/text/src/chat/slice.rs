//! `value[start:stop:step]` as Python slices. The engine's own overflows where the numbers are extreme, and computes anew
//! whenever somebody looks.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::budget::{spend, weight};

/// The filter that a slice becomes.
pub(super) const SLICE: &str = "__slice";
/// What an item of the new list costs.
const HOLD: usize = 16;

pub(super) fn slice(value: &Value, start: &Value, stop: Option<&Value>, step: Option<&Value>) -> Result<Value, Error> {
    let number = |value: Option<&Value>| value.filter(|v| !v.is_none()).map(|v| i64::try_from(v.clone())).transpose();
    let (start, stop, step) = (number(Some(start))?, number(stop)?, number(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "a slice cannot have steps of 0"));
    }
    spend(weight(value))?;
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let chosen = Chosen::new(start, stop, step, text.chars().count());
            if step == 1 {
                let mut places = text.char_indices().map(|(at, _)| at).skip(chosen.first).chain([text.len()]);
                let from = places.next().unwrap_or(text.len());
                let to = if chosen.count == 0 { from } else { places.nth(chosen.count - 1).unwrap_or(text.len()) };
                return Ok(Value::from(&text[from..to]));
            }
            let chars: Vec<char> = text.chars().collect();
            Ok(Value::from(chosen.of(&chars).collect::<String>()))
        }
        ValueKind::Undefined | ValueKind::None => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items: Vec<Value> = value.try_iter()?.collect();
            let chosen = Chosen::new(start, stop, step, items.len());
            spend(chosen.count.saturating_mul(HOLD))?;
            if step == 1 {
                items.truncate(chosen.first + chosen.count);
                items.drain(..chosen.first);
                return Ok(Value::from(items));
            }
            Ok(Value::from(chosen.of(&items).collect::<Vec<Value>>()))
        }
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("a {kind} cannot be sliced"))),
    }
}

/// Which of so many items a slice takes.
struct Chosen {
    first: usize,
    count: usize,
    step: i64,
}

impl Chosen {
    fn new(start: Option<i64>, stop: Option<i64>, step: i64, len: usize) -> Self {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let (lowest, highest) = if step < 0 { (-1, len - 1) } else { (0, len) };
        let place = |at: i64| if at < 0 { at.saturating_add(len).max(lowest) } else { at.min(highest) };
        let (from, to) = if step < 0 { (highest, lowest) } else { (lowest, highest) };
        let (start, stop) = (start.map_or(from, place), stop.map_or(to, place));
        // Between -1 and the length: their difference fits.
        let distance = if step < 0 { start - stop } else { stop - start };
        let count = if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
        Chosen { first: start.max(0) as usize, count, step }
    }

    fn of<T: Clone>(&self, items: &[T]) -> impl Iterator<Item = T> {
        // Every place is one of the items: the last is short of the end that was counted to.
        (0..self.count as i64).filter_map(|i| items.get((self.first as i64 + i * self.step) as usize).cloned())
    }
}
