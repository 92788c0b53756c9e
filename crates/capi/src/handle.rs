//! Handles: numbers that stand for objects, so that one that is no longer or never was valid is an error.
//!
//! A handle is the place of an object in a table and the generation of that place. An object lives as long as its handle and the
//! calls that use it, whichever is longer.

use crate::call::{Failure, Outcome, own_process};
use crate::types::*;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kind of handle.
pub(crate) trait Handle: Copy {
    /// What it stands for.
    type Object: Any + Send + Sync;
    const NAME: &'static str;
    fn id(self) -> u64;
    fn from_id(id: u64) -> Self;
}

macro_rules! handles {
    ($($handle:ident, $object:ty, $name:literal;)+) => {
        $(impl Handle for $handle {
            type Object = $object;
            const NAME: &'static str = $name;
            fn id(self) -> u64 {
                self.id
            }
            fn from_id(id: u64) -> Self {
                Self { id }
            }
        })+
    };
}

handles! {
    akunu_model, crate::model::Model, "model";
    akunu_session, crate::session::Session, "session";
    akunu_draft, crate::model::DraftModel, "draft";
    akunu_grammar, crate::grammar::CompiledGrammar, "grammar";
    akunu_service, crate::service::Running, "service";
    akunu_request, crate::service::Submitted, "request";
    akunu_embedder, crate::embedder::Reader, "embedder";
    akunu_transcriber, crate::transcribe::SpeechModel, "transcriber";
}

struct Object {
    kind: &'static str,
    object: Arc<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct Place {
    generation: u32,
    object: Option<Object>,
}

struct Table {
    places: Vec<Place>,
    /// Places without an object.
    free: Vec<u32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { places: Vec::new(), free: Vec::new() });

fn table() -> MutexGuard<'static, Table> {
    // Every change is complete before anything that can panic.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of a place, and the generation it had.
fn parts(id: u64) -> (usize, u32) {
    ((id as u32).wrapping_sub(1) as usize, (id >> 32) as u32)
}

/// Puts an object into the table.
pub(crate) fn insert<H: Handle>(object: H::Object) -> Result<H, Failure> {
    own_process();
    let mut table = table();
    let index = match table.free.pop() {
        Some(index) => index,
        None => {
            let index = u32::try_from(table.places.len()).ok().filter(|index| *index < u32::MAX);
            let index = index.ok_or_else(|| Failure::new(AKUNU_ERROR_MEMORY, "there are too many handles"))?;
            table.places.push(Place::default());
            index
        }
    };
    let place = &mut table.places[index as usize];
    place.generation += 1;
    place.object = Some(Object { kind: H::NAME, object: Arc::new(object) });
    Ok(H::from_id(u64::from(place.generation) << 32 | u64::from(index + 1)))
}

/// What a handle stands for.
pub(crate) fn get<H: Handle>(handle: H) -> Result<Arc<H::Object>, Failure> {
    let fail = |why: &str| Err(Failure::new(AKUNU_ERROR_HANDLE, format_args!("the {} handle {why}", H::NAME)));
    let (index, generation) = parts(handle.id());
    if handle.id() == 0 {
        return fail("is zero");
    }
    let table = table();
    let Some(place) = table.places.get(index) else { return fail("was not made by this library") };
    match &place.object {
        Some(object) if place.generation == generation => match object.object.clone().downcast() {
            Ok(object) => Ok(object),
            Err(_) => fail(&format!("is that of a {}", object.kind)),
        },
        _ if generation <= place.generation => fail("was freed"),
        _ => fail("was not made by this library"),
    }
}

/// Takes a handle out of the table; zero is none, and nothing to do.
pub(crate) fn free<H: Handle>(handle: H) -> Outcome {
    if handle.id() == 0 {
        return Ok(AKUNU_OK);
    }
    get(handle)?;
    let (index, generation) = parts(handle.id());
    let mut table = table();
    let place = &mut table.places[index];
    // Another thread may have been faster.
    let object = if place.generation == generation { place.object.take() } else { None };
    // One whose generations are used up would mistake old handles for new ones.
    if object.is_some() && place.generation < u32::MAX {
        table.free.push(index as u32);
    }
    drop(table);
    match object {
        Some(object) => drop(object),
        None => return Err(Failure::new(AKUNU_ERROR_HANDLE, format_args!("the {} handle was freed", H::NAME))),
    }
    Ok(AKUNU_OK)
}
