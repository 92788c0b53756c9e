//! Models that read texts: vectors, and scores of documents for a query.

use crate::call::{Failure, call, lock};
use crate::memory::{self, Items, Out, Report, Room, Text};
use crate::types::*;
use crate::{convert, handle, model};
use akunu::{Embedder, Reading, TooLong, normalize};
use std::ffi::c_char;
use std::sync::Mutex;

/// A model that reads, and what it was loaded to read out.
pub(crate) struct Reader {
    embedder: Mutex<Embedder>,
    info: akunu_embedder_info,
    ranks: bool,
}

impl Reader {
    fn check_ranks(&self, ranks: bool) -> Result<(), Failure> {
        match (self.ranks, ranks) {
            (true, false) => Err(Failure::new(AKUNU_ERROR_MODEL, "the embedder was loaded to rank, not to embed")),
            (false, true) => Err(Failure::new(AKUNU_ERROR_MODEL, "the embedder was loaded to embed, not to rank")),
            _ => Ok(()),
        }
    }
}

fn too_long(flags: u32) -> Result<TooLong, Failure> {
    convert::check_flags("the embedder", flags, AKUNU_EMBED_CUT | AKUNU_EMBED_RAW)?;
    Ok(if flags & AKUNU_EMBED_CUT > 0 { TooLong::Cut } else { TooLong::Refuse })
}

/// Loads a model to embed (`AKUNU_PURPOSE_EMBED`) or to rank (`AKUNU_PURPOSE_RANK`), with one of `AKUNU_POOLING_*`. Models that
/// write text embed too. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_embedder_load(
    path: *const c_char,
    options: *const akunu_load_options,
    purpose: u32,
    pooling: u32,
    embedder: *mut akunu_embedder,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, out) =
            unsafe { (memory::read("the load options", options)?, Out::new("the embedder", embedder)) };
        out.check()?;
        let reading = match purpose {
            AKUNU_PURPOSE_EMBED => Reading::Embedding(convert::pooling(pooling)?),
            AKUNU_PURPOSE_RANK => Reading::Scores,
            other => return Err(Failure::argument(format_args!("{other} is no purpose of an embedder"))),
        };
        let embedder = Embedder::from_file(model::open(path)?, convert::load(&options)?, reading)?;
        let ranks = reading == Reading::Scores;
        if ranks && embedder.width() != 1 {
            let why = format!("the model's head gives {} scores a pair, not one", embedder.width());
            return Err(Failure::new(AKUNU_ERROR_MODEL, why));
        }
        let info = akunu_embedder_info {
            size: 0,
            width: embedder.width() as u32,
            context: embedder.context() as u32,
            pooling: convert::pooling_number(embedder.pooling()),
        };
        out.put(handle::insert(Reader { embedder: Mutex::new(embedder), info, ranks })?)
    })
}

/// Frees an embedder.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_embedder_free(embedder: akunu_embedder) -> akunu_status {
    call(|| handle::free(embedder))
}

/// What an embedder gives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_embedder_describe(
    embedder: akunu_embedder,
    info: *mut akunu_embedder_info,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let report = unsafe { Report::new("the embedder info", info) };
    call(|| report.must_put(&handle::get(embedder)?.info))
}

/// The vectors of texts that end with a NUL, one after the other: `count * width` values. `flags` are `AKUNU_EMBED_*`, added. With
/// no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_embed(
    embedder: akunu_embedder,
    texts: *const *const c_char,
    count: usize,
    flags: u32,
    vectors: *mut f32,
    capacity: usize,
    written: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (texts, room) =
        unsafe { (Items::new("the texts", texts, count), Room::new("the vectors", vectors, capacity, written)) };
    call(|| {
        let too_long = too_long(flags)?;
        let reader = handle::get(embedder)?;
        reader.check_ranks(false)?;
        let width = reader.info.width as usize;
        let values = count.checked_mul(width);
        let values = values.ok_or_else(|| Failure::argument("there are more texts than memory can have"))?;
        if room.asks_or_lacks(values)? {
            return Ok(AKUNU_OK);
        }
        let mut embedder = lock("embedder", &reader.embedder)?;
        let texts = texts.texts()?;
        let texts: Vec<_> = texts.iter().map(|text| embedder.text(text, too_long)).collect::<Result<_, _>>()?;
        let mut vectors = vec![0.0; values];
        embedder.read(&texts, |text, vector| vectors[text * width..][..width].copy_from_slice(vector))?;
        if flags & AKUNU_EMBED_RAW == 0 {
            vectors.chunks_mut(width).for_each(normalize);
        }
        room.put(&vectors)
    })
}

/// How well documents answer a query: `count` scores, the higher the better. Texts of the array end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_rerank(
    embedder: akunu_embedder,
    query: *const c_char,
    documents: *const *const c_char,
    count: usize,
    flags: u32,
    scores: *mut f32,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (query, documents, room) = unsafe {
        let query = Text::new("the query", query, AKUNU_NUL_TERMINATED);
        let room = Room::new("the scores", scores, count, std::ptr::null_mut());
        (query, Items::new("the documents", documents, count), room)
    };
    call(|| {
        let too_long = too_long(flags)?;
        let reader = handle::get(embedder)?;
        reader.check_ranks(true)?;
        let mut embedder = lock("embedder", &reader.embedder)?;
        let (query, documents) = (query.str()?, documents.texts()?);
        let pairs: Vec<_> =
            documents.iter().map(|document| embedder.pair(query, document, too_long)).collect::<Result<_, _>>()?;
        let mut scores = vec![0.0; documents.len()];
        embedder.read(&pairs, |pair, score| scores[pair] = score[0])?;
        room.put(&scores)
    })
}
