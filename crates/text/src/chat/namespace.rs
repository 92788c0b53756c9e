//! Namespaces: what templates may change. One may hold itself, and then nobody would ever free it; so those of a rendering are
//! known, and emptied after it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Object, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::budget::{keep, spend, weight};

/// The filter that setting an attribute becomes.
pub(super) const SET: &str = "__set";
/// What a namespace and an attribute cost to have.
const HOLD: usize = 64;

#[derive(Debug, Default)]
struct Namespace(Mutex<BTreeMap<Arc<str>, Value>>);

impl Namespace {
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Arc<str>, Value>) -> T) -> T {
        // Nothing that holds the lock panics half way.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.change(|values| values.get(key.as_str()?).cloned())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.change(|values| values.keys().cloned().map(Value::from).collect()))
    }
}

thread_local! {
    /// Those of the rendering on this thread.
    static MADE: RefCell<Vec<Arc<Namespace>>> = const { RefCell::new(Vec::new()) };
}

/// `namespace({…}, name=value)`.
pub(super) fn namespace(values: Rest<Value>) -> Result<Value, Error> {
    let made = Arc::new(Namespace::default());
    spend(HOLD)?;
    for values in values.iter() {
        if values.kind() != ValueKind::Map {
            let message = format!("a namespace is made of names and values, not of a {}", values.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        spend(weight(values))?;
        keep(values)?;
        for key in values.try_iter()? {
            if let Some(name) = key.as_str() {
                let value = values.get_item(&key)?;
                made.change(|values| values.insert(name.into(), value));
            }
        }
    }
    MADE.with_borrow_mut(|all| all.push(made.clone()));
    Ok(Value::from_dyn_object(made))
}

/// `set namespace.name = value`.
pub(super) fn set(namespace: &Value, name: &str, value: Value) -> Result<(), Error> {
    keep(&value)?;
    let Some(namespace) = namespace.downcast_object_ref::<Namespace>() else {
        let message = format!("only attributes of a namespace can be set, not of a {}", namespace.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    };
    // The lock is free when the old value goes.
    let new = namespace.change(|values| match values.get_mut(name) {
        Some(old) => Ok(std::mem::replace(old, value)),
        None => Err(value),
    });
    if let Err(value) = new {
        spend(HOLD)?;
        namespace.change(|values| values.insert(name.into(), value));
    }
    Ok(())
}

/// Empties the namespaces of the rendering that has ended.
pub(super) fn clear() {
    for namespace in MADE.take() {
        drop(namespace.change(std::mem::take));
    }
}
