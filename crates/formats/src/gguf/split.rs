//! A GGUF model in one file, or in parts named `NAME-00001-of-000NN.gguf` that say which part they are.

use std::path::{Path, PathBuf};

use akunu_limits::Limits;

use super::metadata::Metadata as GgufMetadata;
use super::read::{self, Header};
use crate::error::{Error, Fault, Name};
use crate::map::Bytes;
use crate::model_file::{Container, Contents, Metadata, check_tensors};

/// Opens the file, and the other parts where it is the first of several.
pub(crate) fn open(path: &Path, bytes: Bytes, limits: &Limits) -> Result<Contents, Error> {
    let first = read::read(path, &bytes, 0, limits)?;
    match split(&first.metadata)? {
        Some((part, count)) if count > 1 => open_parts(path, bytes, first, (part, count), limits),
        _ => Ok(contents(first, vec![bytes])),
    }
}

/// Opens bytes that have no siblings.
pub(crate) fn open_single(path: &Path, bytes: Bytes, limits: &Limits) -> Result<Contents, Error> {
    let part = read::read(path, &bytes, 0, limits)?;
    if split(&part.metadata)?.is_some_and(|(_, count)| count > 1) {
        return Err(Error::new(path, Fault::NotSupported("a split GGUF file in memory".into())));
    }
    Ok(contents(part, vec![bytes]))
}

fn contents(part: Header, maps: Vec<Bytes>) -> Contents {
    Contents {
        container: Container::Gguf,
        metadata: Metadata::Gguf(part.metadata),
        tensors: part.tensors,
        maps,
        directory: None,
        tokens: Vec::new(),
    }
}

/// Which part (from 0) of how many a file says it is.
fn split(metadata: &GgufMetadata) -> Result<Option<(u64, u64)>, Error> {
    let Some(count) = metadata.u64("split.count")? else { return Ok(None) };
    Ok(Some((metadata.u64("split.no")?.unwrap_or(0), count)))
}

fn open_parts(
    path: &Path,
    bytes: Bytes,
    mut all: Header,
    (part, count): (u64, u64),
    limits: &Limits,
) -> Result<Contents, Error> {
    let fail = |fault| Error::new(path, fault);
    let file_name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let suffix = |part: u64| format!("-{:05}-of-{count:05}.gguf", part + 1);
    if part != 0 {
        let prefix = part.checked_add(1).and_then(|_| file_name.strip_suffix(&suffix(part)));
        let first = prefix.map_or_else(|| format!("…{}", suffix(0)), |p| format!("{p}{}", suffix(0)));
        return Err(fail(Fault::NotFirstSplit { part: part.saturating_add(1), count, first: Name::new(&first) }));
    }
    let Some(prefix) = file_name.strip_suffix(&suffix(0)) else {
        let (what, found) = ("the name of the first part".into(), Name::new(file_name).to_string());
        let expected = "NAME-00001-of-000NN.gguf with the file's own count of parts";
        return Err(fail(Fault::BadValue { what, expected, found }));
    };
    let declared = all.metadata.u64("split.tensors.count")?;

    let mut maps = vec![bytes];
    for no in 1..count {
        let sibling: PathBuf = path.with_file_name(format!("{prefix}{}", suffix(no)));
        let fail = |fault| Error::new(&sibling, fault);
        let bytes = Bytes::map(&sibling)?;
        if !super::is_gguf(&sibling, &bytes)? {
            return Err(fail(Fault::UnknownContainer));
        }
        let part = read::read(&sibling, &bytes, maps.len(), limits)?;
        let (found, found_count) = split(&part.metadata)?.unwrap_or((0, 1));
        if (found, found_count) != (no, count) {
            return Err(fail(Fault::WrongSplit {
                part: found.saturating_add(1),
                count: found_count,
                expected_part: no + 1,
                expected_count: count,
            }));
        }
        all.tensors.extend(part.tensors);
        check_tensors(all.tensors.len() as u64, limits).map_err(fail)?;
        maps.push(bytes);
    }
    let found = all.tensors.len() as u64;
    match declared {
        Some(declared) if declared != found => Err(fail(Fault::SplitTensors { declared, found })),
        _ => Ok(contents(all, maps)),
    }
}
