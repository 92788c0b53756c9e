//! Which models there are, and by which names.

use crate::problem::{Kind, Problem};
use akunu::{About, ChatTemplate, Limits, Purpose};
use akunu_formats::ModelFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Inside the binary.
    Embedded,
    Path(PathBuf),
}

/// One model.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub aliases: Vec<String>,
    pub source: Source,
    /// A chat template to use instead of the model's own.
    pub template: Option<String>,
    limits: Limits,
    about: OnceLock<Result<About, String>>,
    talks: OnceLock<bool>,
}

impl Entry {
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
            source,
            template: None,
            limits: Limits::default(),
            about: OnceLock::new(),
            talks: OnceLock::new(),
        }
    }

    /// The model inside the binary, which goes on with whatever it is told.
    pub fn embedded() -> Self {
        let template = "{% for message in messages %}{{ message.content }}{{ ' ' if not loop.last }}{% endfor %}";
        Self { template: Some(template.into()), ..Self::new("stories", Source::Embedded) }
    }

    /// Opens and validates its file.
    pub fn open(&self) -> Result<ModelFile, Problem> {
        let file = match &self.source {
            Source::Embedded => akunu::embedded_model().map_err(|e| e.to_string()),
            Source::Path(path) => ModelFile::open_within(path, self.limits).map_err(|e| e.to_string()),
        };
        file.map_err(|why| Problem::new(Kind::Internal, why))
    }

    /// What its header says; read once.
    pub fn about(&self) -> Result<&About, Problem> {
        let read = || About::read(&self.open().map_err(|p| p.message)?).map_err(|e| e.to_string());
        self.about.get_or_init(read).as_ref().map_err(|why| Problem::new(Kind::Internal, why.clone()))
    }

    /// Whether it has a chat template that can be used; looked up once.
    pub fn talks(&self) -> bool {
        let of_file = || self.open().is_ok_and(|file| ChatTemplate::from_model_file(&file).is_ok());
        let given = |source: &String| ChatTemplate::new_within(source, self.limits).is_ok();
        *self.talks.get_or_init(|| self.template.as_ref().map_or_else(of_file, given))
    }

    /// What says that its file is still the one that was loaded; `None` where it cannot be looked at.
    pub fn stamp(&self) -> Option<Stamp> {
        let of = |path: &Path| {
            let metadata = std::fs::metadata(path)?;
            Ok::<_, io::Error>((path.to_owned(), metadata.len(), metadata.modified()?))
        };
        let mut files = match &self.source {
            Source::Embedded => Ok(Vec::new()),
            Source::Path(path) if path.is_dir() => {
                std::fs::read_dir(path).and_then(|items| items.map(|item| of(&item?.path())).collect())
            }
            Source::Path(path) => of(path).map(|file| vec![file]),
        }
        .ok()?;
        files.sort();
        Some(Stamp(files))
    }

    fn is_called(&self, name: &str) -> bool {
        // Ollama's clients add a tag.
        let bare = name.strip_suffix(":latest").unwrap_or(name);
        [name, bare].iter().any(|name| self.name == *name || self.aliases.iter().any(|alias| alias == name))
    }
}

/// Size and time of a model's file, or of all files of its directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamp(Vec<(PathBuf, u64, SystemTime)>);

/// All models, in the order they were given: the first that can do something does it where nobody is named.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<Entry>,
}

impl Catalog {
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Adds the models of a folder: GGUF and Whisper files, and directories with a `config.json`.
    pub fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut found: Vec<Entry> = Vec::new();
        for item in std::fs::read_dir(folder)? {
            let path = item?.path();
            let Some(file_name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            let is_model = match path.is_dir() {
                true => path.join("config.json").is_file(),
                // Of a model in parts the first opens all.
                false => {
                    let part = file_name.contains("-of-") && !file_name.contains("-00001-of-");
                    let speech = file_name.starts_with("ggml-") && file_name.ends_with(".bin");
                    file_name.ends_with(".gguf") && !part || speech
                }
            };
            if is_model {
                let name = if path.is_dir() {
                    file_name
                } else {
                    file_name.trim_end_matches(".gguf").trim_end_matches(".bin")
                };
                found.push(Entry::new(name, Source::Path(path.clone())));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in found {
            if !self.entries.iter().any(|e| e.is_called(&entry.name)) {
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Reads files within these limits.
    pub fn within(mut self, limits: Limits) -> Self {
        self.entries.iter_mut().for_each(|entry| entry.limits = limits);
        self
    }

    /// Adds a model.
    pub fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Gives the model called `name` another name; false where there is none.
    pub fn add_alias(&mut self, alias: &str, name: &str) -> bool {
        let Some(at) = self.called(name) else { return false };
        self.entries[at].aliases.push(alias.to_owned());
        true
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn entry(&self, at: usize) -> &Entry {
        // Numbers come from `find` and from walks over the entries, which never get fewer.
        &self.entries[at]
    }

    /// Whether all headers have been read.
    pub fn is_read(&self) -> bool {
        self.entries.iter().all(|entry| entry.about.get().is_some())
    }

    /// The model called `name`.
    pub fn called(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_called(name))
    }

    /// The model called `name`. Where nobody is named, the first that has one of the purposes, in their order; where only
    /// one has, that one, whatever it is called: programs have names of their own built in.
    pub fn find(&self, name: Option<&str>, purposes: &[Purpose]) -> Result<usize, Problem> {
        let name = name.filter(|name| !name.is_empty());
        if let Some(name) = name
            && let Some(at) = self.called(name)
        {
            let purpose = self.entries[at].about()?.purpose;
            if !purposes.contains(&purpose) {
                let sentence =
                    format!("the model {} is there to {}, not for this", self.entries[at].name, purpose.name());
                return Err(Problem::field("model", sentence));
            }
            return Ok(at);
        }
        let able = |purpose: Purpose| -> Vec<usize> {
            let has = |at: &usize| self.entries[*at].about().is_ok_and(|about| about.purpose == purpose);
            (0..self.entries.len()).filter(has).collect()
        };
        let able = purposes.iter().map(|p| able(*p)).find(|able| !able.is_empty()).unwrap_or_default();
        match (name, &able[..]) {
            (None, [first, ..]) | (Some(_), [first]) => Ok(*first),
            (None, []) => Err(Problem::new(Kind::NotFound, format!("no model here can {}", purposes[0].name()))),
            (Some(name), _) => {
                let names: Vec<&str> = self.entries.iter().map(|e| e.name.as_str()).take(20).collect();
                let sentence =
                    format!("there is no model {:?}; there are {}", crate::http::body::short(name), names.join(", "));
                Err(Problem { field: Some("model".into()), ..Problem::new(Kind::NotFound, sentence) }
                    .code("model_not_found"))
            }
        }
    }
}
