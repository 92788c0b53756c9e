//! HF and MLX models: `config.json` and safetensors, in one file or in shards that an index lists.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use akunu_limits::{Limits, over};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::error::{Error, Fault, Name};
use crate::map::{Bytes, check_length};
use crate::model_file::{Container, Contents, Metadata, check_tensors};
use crate::safetensors::File;
use crate::{json, mlx};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const MODULES: &str = "modules.json";
/// Published models have two.
const MAX_DENSE: usize = 8;
const INDEX: &str = "model.safetensors.index.json";

/// A model directory. A whole `model.safetensors` is preferred to an index, which may be left over from before merging.
pub(crate) fn open(directory: &Path, limits: &Limits) -> Result<Contents, Error> {
    let single = directory.join(WEIGHTS);
    let index = directory.join(INDEX);
    let files = if exists(&single)? {
        vec![File::read(&single, Bytes::map(&single)?, limits)?]
    } else if exists(&index)? {
        open_shards(directory, &index, limits)?
    } else {
        return Err(Error::new(directory, Fault::NoWeights));
    };
    let config = json::read(&directory.join(CONFIG), limits)?;
    contents(directory.to_path_buf(), config, files, limits)
}

/// A single safetensors file, with the `config.json` beside it if there is one.
pub(crate) fn open_file(path: &Path, bytes: Bytes, limits: &Limits) -> Result<Contents, Error> {
    let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let file = File::read(path, bytes, limits)?;
    let config = directory.join(CONFIG);
    let config = if exists(&config)? { json::read(&config, limits)? } else { Value::Null };
    contents(directory, config, vec![file], limits)
}

fn contents(directory: PathBuf, config: Value, mut files: Vec<File>, limits: &Limits) -> Result<Contents, Error> {
    files.extend(dense(&directory, limits)?);
    let tensors = mlx::tensors(&directory.join(CONFIG), &config, &files)?;
    let maps = files.into_iter().map(File::into_bytes).collect();
    let (container, metadata) = (Container::Safetensors, Metadata::Json(config));
    Ok(Contents { container, metadata, tensors, maps, directory: Some(directory), tokens: Vec::new() })
}

/// The dense layers that `modules.json` puts after the model, each in a folder of its own. Their tensors are `dense.0.…` and on.
fn dense(directory: &Path, limits: &Limits) -> Result<Vec<File>, Error> {
    let path = directory.join(MODULES);
    let modules = if exists(&path)? { json::read(&path, limits)? } else { Value::Null };
    let mut files: Vec<File> = Vec::new();
    for module in modules.as_array().into_iter().flatten() {
        if module["type"].as_str().and_then(|kind| kind.rsplit('.').next()) != Some("Dense") {
            continue;
        }
        if files.len() == MAX_DENSE {
            return Err(Error::new(&path, Fault::NotSupported(format!("more than {MAX_DENSE} dense layers"))));
        }
        let folder = module["path"].as_str().unwrap_or("");
        if !is_plain_name(folder) {
            let (what, found) = ("the path of a module".into(), Name::new(folder).to_string());
            return Err(Error::new(&path, Fault::BadValue { what, expected: "a plain folder name", found }));
        }
        let weights = directory.join(folder).join(WEIGHTS);
        let file = File::read(&weights, Bytes::map(&weights)?, limits)?;
        files.push(file.below(&format!("dense.{}", files.len())));
    }
    Ok(files)
}

/// A file that is there but cannot be looked at is an error, not an absence.
fn exists(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::new(path, Fault::Open(e))),
    }
}

/// More than any system allows.
const LONGEST_NAME: usize = 255;

/// Whether this names a file in a directory and nothing outside it, on every system and in one line of a message.
pub(crate) fn is_plain_name(name: &str) -> bool {
    if name.len() > LONGEST_NAME || name.contains(char::is_control) {
        return false;
    }
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(first)) if first == name);
    plain && components.next().is_none() && !name.contains(['/', '\\', ':'])
}

fn open_shards(directory: &Path, index: &Path, limits: &Limits) -> Result<Vec<File>, Error> {
    // Mapped, as it is read twice and not kept.
    let bytes = Bytes::map(index)?;
    check_length(index, bytes.len() as u64, over!(limits, index_bytes))?;
    let mut shards = Shards::new(directory, limits);
    walk(index, &bytes, &mut |_, shard| shards.open(shard))?;

    // A second walk finds the tensors: the map is not kept in memory, only a mark for each tensor that is there.
    let mut listed: Vec<Vec<bool>> = shards.files.iter().map(|f| vec![false; f.entries().len()]).collect();
    walk(index, &bytes, &mut |tensor, shard| {
        let name = || Name::new(tensor);
        let missing = || Error::new(index, Fault::NotInShard { name: name(), shard: Name::new(shard) });
        let file = *shards.by_name.get(shard).ok_or_else(missing)?;
        let position = shards.files[file].position(tensor).ok_or_else(missing)?;
        if std::mem::replace(&mut listed[file][position], true) {
            return Err(Error::new(index, Fault::Duplicate { what: "tensor", name: name() }));
        }
        Ok(())
    })?;
    Ok(shards.files)
}

/// The shards that were named so far.
struct Shards<'a> {
    directory: &'a Path,
    limits: &'a Limits,
    files: Vec<File>,
    by_name: HashMap<String, usize>,
    tensors: u64,
}

impl<'a> Shards<'a> {
    fn new(directory: &'a Path, limits: &'a Limits) -> Self {
        Self { directory, limits, files: Vec::new(), by_name: HashMap::new(), tensors: 0 }
    }

    fn open(&mut self, shard: &str) -> Result<(), Error> {
        if self.by_name.contains_key(shard) {
            return Ok(());
        }
        if !is_plain_name(shard) {
            let (what, found) = ("a shard in weight_map".into(), Name::new(shard).to_string());
            let fault = Fault::BadValue { what, expected: "a plain file name", found };
            return Err(Error::new(&self.directory.join(INDEX), fault));
        }
        let path = self.directory.join(shard);
        let file = File::read(&path, Bytes::map(&path)?, self.limits)?;
        self.tensors += file.entries().len() as u64;
        check_tensors(self.tensors, self.limits).map_err(|fault| Error::new(&path, fault))?;
        self.by_name.insert(shard.to_owned(), self.files.len());
        self.files.push(file);
        Ok(())
    }
}

/// Calls `visit` for every tensor and shard of the index's `weight_map`.
type Visit<'a> = dyn FnMut(&str, &str) -> Result<(), Error> + 'a;

fn walk(path: &Path, json: &[u8], visit: &mut Visit<'_>) -> Result<(), Error> {
    let mut failed = None;
    let mut found = false;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let index = Index { visit, failed: &mut failed, found: &mut found };
    let result = index.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    if let Some(error) = failed {
        return Err(error);
    }
    result.map_err(|e| Error::new(path, Fault::Json(e.to_string())))?;
    if found { Ok(()) } else { Err(Error::new(path, Fault::Json("weight_map is missing or empty".into()))) }
}

/// The index itself: everything but `weight_map` is skipped.
struct Index<'a, 'b> {
    visit: &'a mut Visit<'b>,
    /// The fault of `visit`, which serde's error cannot carry.
    failed: &'a mut Option<Error>,
    found: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Index<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Index<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "weight_map" {
                map.next_value_seed(WeightMap { visit: self.visit, failed: self.failed, found: self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct WeightMap<'a, 'b> {
    visit: &'a mut Visit<'b>,
    failed: &'a mut Option<Error>,
    found: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for WeightMap<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names in weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
            *self.found = true;
            if let Err(error) = (self.visit)(&tensor, &shard) {
                *self.failed = Some(error);
                return Err(de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
