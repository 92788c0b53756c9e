//! Models on a hub: what `org/name` holds and which of its files make a model.

use serde_json::Value;

use crate::error::Error;

/// `org/name`, `org/name@revision`, `org/name:file` or `org/name@revision:file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub org: String,
    pub name: String,
    pub revision: String,
    pub file: Option<String>,
}

impl Repository {
    /// Reads a specification; `None` where it is not of this form at all.
    pub fn parse(text: &str) -> Option<Result<Self, Error>> {
        let (path, file) = match text.split_once(':') {
            Some((path, file)) => (path, Some(file)),
            None => (text, None),
        };
        let (path, revision) = path.split_once('@').unwrap_or((path, "main"));
        let (org, name) = path.split_once('/')?;
        let check = || {
            check_name("part of a repository's name", org)?;
            check_name("part of a repository's name", name)?;
            check_name("revision", revision)?;
            file.map_or(Ok(()), check_path)?;
            Ok(Self { org: org.into(), name: name.into(), revision: revision.into(), file: file.map(str::to_owned) })
        };
        Some(check())
    }

    pub fn full_name(&self) -> String {
        format!("{}/{}", self.org, self.name)
    }

    /// With sizes and hashes of the files.
    pub(crate) fn list_url(&self, base: &str) -> String {
        format!("{base}/api/models/{}/{}/revision/{}?blobs=true", self.org, self.name, self.revision)
    }

    pub(crate) fn file_url(&self, base: &str, revision: &str, file: &str) -> String {
        format!("{base}/{}/{}/resolve/{revision}/{file}", self.org, self.name)
    }
}

/// One plain word of a path: nothing that a file system or a URL reads as more than a name.
pub fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let sound = !name.is_empty() && name.len() <= 200 && name.chars().all(plain) && !name.starts_with('.');
    if sound { Ok(()) } else { Err(Error::BadName { what, name: shortened(name) }) }
}

/// Plain words with `/` between them.
pub fn check_path(path: &str) -> Result<(), Error> {
    let bad = || Error::BadName { what: "file's name", name: shortened(path) };
    if path.split('/').count() > 8 || path.len() > 500 {
        return Err(bad());
    }
    path.split('/').try_for_each(|part| check_name("file's name", part).map_err(|_| bad()))
}

fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

/// What a hub says of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The commit that the revision is, so that all files come from one.
    pub commit: Option<String>,
    pub files: Vec<RemoteFile>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteFile {
    pub name: String,
    pub bytes: Option<u64>,
    /// Of large files only.
    pub sha256: Option<String>,
}

impl Listing {
    /// The hub's answer.
    pub fn read(url: &str, json: &str) -> Result<Self, Error> {
        let bad = |reason: String| Error::BadList { url: url.into(), reason };
        let value: Value = serde_json::from_str(json).map_err(|e| bad(e.to_string()))?;
        let siblings = value["siblings"].as_array().ok_or_else(|| bad("no siblings".into()))?;
        let files = siblings.iter().filter_map(|sibling| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            // Other files of a repository may be called anything: only those that make a model are looked at.
            let name = text(&sibling["rfilename"]).filter(|name| check_path(name).is_ok())?;
            let sha256 = text(&sibling["lfs"]["sha256"]).filter(|hash| hash.len() == 64);
            Some(RemoteFile { name, bytes: sibling["size"].as_u64(), sha256 })
        });
        let commit = value["sha"].as_str().filter(|commit| check_name("commit", commit).is_ok());
        Ok(Self { commit: commit.map(str::to_owned), files: files.collect() })
    }

    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.name.clone()).collect()
    }

    /// What is known of a file; little, where it is not listed.
    pub fn file(&self, name: &str) -> RemoteFile {
        let found = self.files.iter().find(|file| file.name == name).cloned();
        found.unwrap_or_else(|| RemoteFile { name: name.into(), ..RemoteFile::default() })
    }
}

/// What a choice of files is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A GGUF file, or all parts of one, the first first.
    Gguf(Vec<String>),
    /// A directory of safetensors with its configuration, which comes last.
    Directory(Vec<String>),
}

/// The size and quality most people want, first.
const PREFERRED: &[&str] = &["q4_k_m", "q4_k_s", "q5_k_m", "q4_0", "q8_0", "f16", "bf16"];

/// What a directory needs beside its weights, where it is there.
const BESIDE_WEIGHTS: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

/// The files that make the model of a repository, or the one that `wanted` names.
pub fn choose(repository: &Repository, files: &[String]) -> Result<Choice, Error> {
    if let Some(wanted) = &repository.file {
        let parts = parts_of(wanted, files);
        return Ok(Choice::Gguf(if parts.is_empty() { vec![wanted.clone()] } else { parts }));
    }
    let full_name = || repository.full_name();
    let is_model = |f: &&String| {
        let name = f.to_ascii_lowercase();
        // Projectors of images and later parts are no models of their own.
        name.ends_with(".gguf") && !name.contains("mmproj") && split_of(f).is_none_or(|(_, part, _)| part == 1)
    };
    let models: Vec<&String> = files.iter().filter(is_model).collect();
    let preferred = PREFERRED.iter().find_map(|kind| {
        let mut found = models.iter().filter(|f| f.to_ascii_lowercase().contains(kind));
        found.next().filter(|_| found.next().is_none())
    });
    match (models.as_slice(), preferred) {
        ([only], _) | (_, Some(only)) => {
            let parts = parts_of(only, files);
            Ok(Choice::Gguf(if parts.is_empty() { vec![(*only).clone()] } else { parts }))
        }
        ([], None) => {
            let weights = |f: &String| f.ends_with(".safetensors") && !f.contains('/');
            let listed = files.iter().filter(|f| weights(f) || BESIDE_WEIGHTS.contains(&f.as_str()));
            let mut listed: Vec<String> = listed.cloned().collect();
            // By the configuration a directory is known: it comes last, when all the rest is there.
            listed.sort_by_key(|file| file == "config.json");
            if listed.iter().any(weights) && listed.iter().any(|f| f == "config.json") {
                Ok(Choice::Directory(listed))
            } else {
                Err(Error::NoModel { repository: full_name() })
            }
        }
        (several, None) => {
            let choices = several.iter().map(|f| format!("{}:{f}", full_name())).collect::<Vec<_>>().join(", ");
            Err(Error::Ambiguous { repository: full_name(), choices })
        }
    }
}

/// Stem, part and count of `stem-00001-of-00003.gguf`.
pub(crate) fn split_of(file: &str) -> Option<(&str, usize, usize)> {
    let stem = file.strip_suffix(".gguf")?;
    let (stem, count) = stem.rsplit_once("-of-")?;
    let (stem, part) = stem.rsplit_once('-')?;
    let number = |digits: &str| (digits.len() == 5).then(|| digits.parse().ok()).flatten();
    Some((stem, number(part)?, number(count)?))
}

/// All parts of a split file, the first first; none where it is whole.
fn parts_of(file: &str, files: &[String]) -> Vec<String> {
    let Some((stem, _, count)) = split_of(file) else { return Vec::new() };
    let name = |part: usize| format!("{stem}-{part:05}-of-{count:05}.gguf");
    (1..=count.min(files.len())).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn specifications_are_read_and_hostile_ones_refused() {
        let r = Repository::parse("org/some-model_1.5@v2:q/x.gguf").unwrap().unwrap();
        assert_eq!((r.org.as_str(), r.name.as_str(), r.revision.as_str()), ("org", "some-model_1.5", "v2"));
        assert_eq!(r.file.as_deref(), Some("q/x.gguf"));
        assert!(Repository::parse("short-name").is_none());
        for hostile in [
            "../x",
            "org/..",
            "/etc/passwd",
            "org/name:../../x",
            "org/name:/etc/passwd",
            "org/name:a//b",
            "org/name:",
            "org/na me",
            "org/name:a\\b",
            "org/name:.ssh/x",
            "org/name@../..:x",
            "a/b/c",
            "org/é",
            "org/name:x?y",
            "org/name:%2e%2e/x",
            "~/x",
            "org/\0",
        ] {
            assert!(Repository::parse(hostile).unwrap().is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn the_files_that_make_a_model() {
        let repository = |file: Option<&str>| Repository {
            org: "o".into(),
            name: "n".into(),
            revision: "main".into(),
            file: file.map(str::to_owned),
        };
        let none = repository(None);
        let gguf = |names: &[&str]| Choice::Gguf(list(names));
        assert_eq!(choose(&none, &list(&["a-Q8_0.gguf", "README.md"])).unwrap(), gguf(&["a-Q8_0.gguf"]));
        let both = list(&["a-Q8_0.gguf", "a-Q4_K_M.gguf", "mmproj-f16.gguf"]);
        assert_eq!(choose(&none, &both).unwrap(), gguf(&["a-Q4_K_M.gguf"]));
        let split = list(&["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]);
        assert_eq!(choose(&none, &split).unwrap(), Choice::Gguf(split.clone()));
        assert_eq!(choose(&repository(Some("b-00001-of-00002.gguf")), &split).unwrap(), Choice::Gguf(split));
        let hf = list(&["config.json", "model.safetensors", "tokenizer.json", "x.bin", "onnx/model.safetensors"]);
        let expected = list(&["model.safetensors", "tokenizer.json", "config.json"]);
        assert_eq!(choose(&none, &hf).unwrap(), Choice::Directory(expected));
        let error = choose(&none, &list(&["x.gguf", "y.gguf"])).unwrap_err().to_string();
        assert!(error.contains("o/n:x.gguf, o/n:y.gguf"), "{error}");
        assert!(matches!(choose(&none, &list(&["README.md"])), Err(Error::NoModel { .. })));
    }

    #[test]
    fn names_of_files_from_the_hub_are_checked() {
        let hash = "a".repeat(64);
        let json = format!(
            r#"{{"sha":"c0ffee","siblings":[{{"rfilename":"a.gguf","size":7,"lfs":{{"sha256":"{hash}"}}}},
            {{"rfilename":"../../b.gguf"}},{{"rfilename":"/c.gguf"}},{{"rfilename":7}},7]}}"#
        );
        let listing = Listing::read("u", &json).unwrap();
        assert_eq!(listing.names(), ["a.gguf"]);
        assert_eq!(listing.commit.as_deref(), Some("c0ffee"));
        assert_eq!(listing.file("a.gguf"), RemoteFile { name: "a.gguf".into(), bytes: Some(7), sha256: Some(hash) });
        assert_eq!(Listing::read("u", r#"{"sha":"../x","siblings":[]}"#).unwrap(), Listing::default());
        assert!(Listing::read("u", "[]").is_err() && Listing::read("u", "{").is_err());
    }
}
