//! Responses that later requests may go on from: as many as there is room for, as long as they are young enough.

use crate::http::body::short;
use crate::options::RequestLimits;
use crate::problem::{Kind, Problem};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A response, with all that came before it.
#[derive(Clone, Debug)]
pub struct Kept {
    pub id: String,
    /// As it was sent.
    pub response: Value,
    /// Everything that the model was told, in order: shared with the responses before.
    pub input: Vec<Arc<Value>>,
    pub output: Vec<Arc<Value>>,
    /// Of all of it: what is shared counts for everyone who shares it, so that the sum is never too low.
    pub bytes: usize,
}

/// About the bytes that a value takes: some times those of its text.
pub fn bytes(value: &Value) -> usize {
    4 * value.to_string().len()
}

/// The oldest first.
#[derive(Debug, Default)]
pub struct Store(Mutex<VecDeque<(Instant, Kept)>>);

impl Store {
    fn lock(&self, limits: &RequestLimits) -> MutexGuard<'_, VecDeque<(Instant, Kept)>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|(since, _)| since.elapsed() > limits.kept_time) {
            kept.pop_front();
        }
        kept
    }

    /// Keeps a response, and lets the oldest go where there is no room.
    pub fn keep(&self, limits: &RequestLimits, response: Kept) {
        let mut kept = self.lock(limits);
        let mut bytes: usize = kept.iter().map(|(_, k)| k.bytes).sum::<usize>().saturating_add(response.bytes);
        kept.push_back((Instant::now(), response));
        while bytes > limits.kept
            && let Some((_, gone)) = kept.pop_front()
        {
            bytes -= gone.bytes;
        }
    }

    pub fn get(&self, limits: &RequestLimits, id: &str) -> Result<Kept, Problem> {
        let kept = self.lock(limits);
        kept.iter().rev().find(|(_, k)| k.id == id).map(|(_, k)| k.clone()).ok_or_else(|| missing(id))
    }

    pub fn remove(&self, limits: &RequestLimits, id: &str) -> Result<(), Problem> {
        let mut kept = self.lock(limits);
        let at = kept.iter().position(|(_, k)| k.id == id).ok_or_else(|| missing(id))?;
        kept.remove(at);
        Ok(())
    }

    /// Items of all responses, by their identifiers.
    pub fn items(&self, limits: &RequestLimits) -> HashMap<String, Arc<Value>> {
        let kept = self.lock(limits);
        let items = kept.iter().flat_map(|(_, k)| k.input.iter().chain(&k.output));
        items.filter_map(|item| Some((item["id"].as_str()?.to_owned(), item.clone()))).collect()
    }
}

fn missing(id: &str) -> Problem {
    let sentence = format!("there is no response {:?}: it was never kept, or is too old", short(id));
    Problem::new(Kind::NotFound, sentence).code("response_not_found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn kept(id: &str, bytes: usize) -> Kept {
        Kept { id: id.into(), response: Value::Null, input: Vec::new(), output: Vec::new(), bytes }
    }

    #[test]
    fn the_oldest_goes_first_and_nothing_stays_for_ever() {
        let limits = RequestLimits { kept: 100, ..RequestLimits::default() };
        let store = Store::default();
        for (id, bytes) in [("a", 40), ("b", 40), ("c", 40)] {
            store.keep(&limits, kept(id, bytes));
        }
        assert!(store.get(&limits, "a").is_err() && store.get(&limits, "b").is_ok() && store.get(&limits, "c").is_ok());
        store.remove(&limits, "b").unwrap();
        assert!(store.get(&limits, "b").is_err() && store.remove(&limits, "b").is_err());
        store.keep(&limits, kept("larger than all", 101));
        assert!(store.get(&limits, "larger than all").is_err() && store.get(&limits, "c").is_err());
        store.keep(&limits, kept("d", 1));
        let at_once = RequestLimits { kept_time: Duration::ZERO, ..limits };
        assert!(store.get(&at_once, "d").is_err());
    }
}
