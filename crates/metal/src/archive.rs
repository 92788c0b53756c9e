//! Where compiled pipelines are kept between runs: a file for every set of sources, device and system, replaced as a whole.

use crate::shaders;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// Beside a path while it is written.
const PART: &str = "part";

/// The file for a device under a system's version: what was compiled from other sources, or for others, has another name.
pub fn path(folder: &Path, device: &str, system: &str) -> PathBuf {
    let mut hash = Fnv::new();
    for text in [device, system].into_iter().chain(shaders::all().flat_map(|(path, text)| [path, text])) {
        hash.add(text.as_bytes());
        // Two texts are not one.
        hash.add(&[0xFF]);
    }
    let device: String = device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    folder.join(format!("{device}-{:016x}.pipelines", hash.0))
}

/// The folder, below that for downloads; `None` where the environment names none.
pub fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("AKUNU_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("akunu")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/akunu")));
    cache.map(|cache| cache.join("pipelines"))
}

/// Has `write` make a file beside `path`, and puts it there: whoever reads `path` finds all of the old or all of the new.
pub fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let part = path.with_extension(format!("{}.{PART}", process::id()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let done = write(&part).and_then(|()| fs::rename(&part, path));
    if done.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&part);
    }
    done
}

/// A 64-bit FNV-1a hash: the standard library's may change from version to version.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}
