//! Models by name: a cache folder, the packages of [`CATALOG`], and a model hub.
//!
//! Everything that comes from outside is checked before it gets its final name, and no name from outside becomes a
//! path that leaves the cache.

mod archive;
mod catalog;
mod error;
mod http;
mod packages;
mod repository;

pub use catalog::{CATALOG, Known, Registry, Task};
pub use error::Error;
pub use http::{Client, Download, MAX_FILE, Progress, sha256_of};
pub use repository::{Choice, Repository, check_name, check_path};

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Where models come from and where they are kept.
pub struct Hub {
    cache: PathBuf,
    base: String,
    token: Option<String>,
    client: Client,
}

/// A model of the catalog or of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What to call it.
    pub name: String,
    pub about: String,
    /// Where it is, if it was fetched.
    pub path: Option<PathBuf>,
    pub bytes: u64,
}

const DEFAULT_BASE: &str = "https://huggingface.co";
/// The folder of models from the hub, beside those of the catalog.
const FROM_HUB: &str = "hub";
const FROM_URL: &str = "url";

impl Hub {
    /// As the environment says: `AKUNU_CACHE` (or `XDG_CACHE_HOME`, or `HOME`), `AKUNU_HUB`, `AKUNU_HUB_TOKEN`.
    pub fn from_environment() -> Result<Self, Error> {
        let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty());
        let cache = set("AKUNU_CACHE")
            .map(PathBuf::from)
            .or_else(|| set("XDG_CACHE_HOME").map(|v| Path::new(&v).join("akunu")))
            .or_else(|| set("HOME").map(|v| Path::new(&v).join(".cache/akunu")))
            .or_else(|| set("LOCALAPPDATA").map(|v| Path::new(&v).join("akunu")))
            .ok_or(Error::NoCache)?;
        let base = env::var("AKUNU_HUB").ok().filter(|v| !v.is_empty());
        let mut hub = Self::new(&cache, base.as_deref().unwrap_or(DEFAULT_BASE));
        hub.token = env::var("AKUNU_HUB_TOKEN").ok().filter(|v| !v.is_empty());
        Ok(hub)
    }

    pub fn new(cache: &Path, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { cache: cache.to_path_buf(), base, token: None, client: Client::default() }
    }

    /// The folder that models are in.
    pub fn models(&self) -> PathBuf {
        self.cache.join("models")
    }

    /// Every known model, fetched or not, then every other model of the cache.
    pub fn list(&self) -> Vec<Listed> {
        let known = CATALOG.iter().map(|k| {
            let path = Some(self.known_path(k)).filter(|p| p.exists());
            Listed { name: k.name.into(), about: k.about.into(), path, bytes: k.bytes }
        });
        let mut listed: Vec<Listed> = known.collect();
        let hub = self.models().join(FROM_HUB);
        for (org, folder) in folders(&hub) {
            for (name, folder) in folders(&folder) {
                let name = format!("{org}/{name}");
                let config = folder.join("config.json");
                if config.exists() {
                    listed.push(Listed { name, about: "directory".into(), bytes: size(&folder), path: Some(folder) });
                    continue;
                }
                for file in files(&folder) {
                    let file_name = file.strip_prefix(&folder).unwrap_or(&file).to_string_lossy().replace('\\', "/");
                    let bytes = size(&file);
                    let name = format!("{name}:{file_name}");
                    listed.push(Listed { name, about: "file".into(), path: Some(file), bytes });
                }
            }
        }
        listed
    }

    /// Where a model is that was fetched before.
    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let not_fetched = || Error::NotFetched { name: name.into() };
        if let Some(known) = Known::find(name) {
            return Some(self.known_path(known)).filter(|p| p.exists()).ok_or_else(not_fetched);
        }
        let repository = self.repository(name)?;
        let folder = self.repository_folder(&repository);
        if let Some(file) = &repository.file {
            return Some(folder.join(file)).filter(|p| p.exists()).ok_or_else(not_fetched);
        }
        if folder.join("config.json").exists() {
            return Ok(folder);
        }
        // The only model there is, or the first part of it.
        let mut models = files(&folder);
        models.sort();
        let first = models.iter().find(|f| f.extension().is_some_and(|e| e == "gguf"));
        first.cloned().ok_or_else(not_fetched)
    }

    /// Fetches a model by its short name or from the hub; one that is there already is left as it is.
    pub fn fetch(&self, name: &str, progress: &mut Progress<'_>) -> Result<PathBuf, Error> {
        if let Some(known) = Known::find(name) {
            let path = self.known_path(known);
            if !path.exists() {
                create_parent(&path)?;
                packages::fetch(known, &path, progress)?;
            }
            return Ok(path);
        }
        let repository = self.repository(name)?;
        let folder = self.repository_folder(&repository);
        // A single file needs no list.
        let whole = repository.file.as_ref().filter(|f| !f.contains("-of-"));
        let choice = match whole {
            Some(file) => Choice::Gguf(vec![file.clone()]),
            None => {
                let url = repository.list_url(&self.base);
                let list = self.client.text(&url, self.token.as_deref())?;
                repository::choose(&repository, &repository::files(&url, &list)?)?
            }
        };
        let (wanted, is_directory) = match &choice {
            Choice::Gguf(files) => (files, false),
            Choice::Directory(files) => (files, true),
        };
        for file in wanted {
            let path = folder.join(file);
            if !path.exists() {
                let url = repository.file_url(&self.base, file);
                self.download(&url, None, &path, progress)?;
            }
        }
        match wanted.first().filter(|_| !is_directory) {
            Some(first) => Ok(folder.join(first)),
            None => Ok(folder),
        }
    }

    /// Fetches a file by its address.
    pub fn fetch_url(&self, url: &str, sha256: Option<&str>, progress: &mut Progress<'_>) -> Result<PathBuf, Error> {
        let name = url.split(['?', '#']).next().and_then(|u| u.rsplit('/').next()).unwrap_or_default();
        check_name("file's name", name)?;
        let path = self.models().join(FROM_URL).join(folder_of(url)).join(name);
        if !path.exists() {
            self.download(url, sha256, &path, progress)?;
        }
        Ok(path)
    }

    /// Deletes a fetched model; gives the bytes that it took.
    pub fn remove(&self, name: &str) -> Result<u64, Error> {
        let mut path = self.path(name)?;
        if Known::find(name).is_some() {
            // With what lies beside it.
            path.pop();
        }
        let bytes = size(&path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(Error::io(&path))?;
        // Folders that became empty go too; others refuse.
        for folder in path.ancestors().skip(1).take_while(|p| p.starts_with(self.models()) && **p != self.models()) {
            drop(fs::remove_dir(folder));
        }
        Ok(bytes)
    }

    fn download(&self, url: &str, sha256: Option<&str>, path: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
        create_parent(path)?;
        let token = self.token.clone().filter(|_| url.starts_with(&format!("{}/", self.base)));
        let sha256 = sha256.map(str::to_owned);
        self.client.download(&Download { url: url.into(), sha256, limit: MAX_FILE, token }, path, progress)
    }

    fn known_path(&self, known: &Known) -> PathBuf {
        self.models().join(known.name).join(known.file)
    }

    fn repository(&self, name: &str) -> Result<Repository, Error> {
        let unknown = || Error::UnknownName { name: name.chars().take(80).collect(), known: Known::names() };
        Repository::parse(name).ok_or_else(unknown)?
    }

    fn repository_folder(&self, repository: &Repository) -> PathBuf {
        self.models().join(FROM_HUB).join(&repository.org).join(&repository.name)
    }
}

fn create_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(Error::io(parent))
}

/// A folder name for an address: files of the same name may come from many.
fn folder_of(url: &str) -> String {
    use sha2::{Digest, Sha256};
    http::hex(&Sha256::digest(url.as_bytes())[..8])
}

/// Folders in a folder, by name.
fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<(String, PathBuf)> =
        entries.filter(|p| p.is_dir()).filter_map(|p| Some((p.file_name()?.to_str()?.to_owned(), p))).collect();
    found.sort();
    found
}

/// Whole files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if !path.to_string_lossy().contains(".part") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn size(path: &Path) -> u64 {
    let one = |p: &Path| fs::metadata(p).map_or(0, |m| m.len());
    if path.is_dir() { files(path).iter().map(|f| one(f)).sum() } else { one(path) }
}
