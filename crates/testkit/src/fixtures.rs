//! Where fixtures are: in the repository, or beside it for those that are not ours to commit.

use std::path::{Path, PathBuf};

use akunu_arch::{Error, Model};
use akunu_formats::{Fault, ModelFile};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fixture of the repository: `path("gguf/llama-256-Q2_K.gguf")`.
pub fn path(name: &str) -> PathBuf {
    let path = root().join("fixtures").join(name);
    assert!(path.exists(), "fixture {} is not in the repository", path.display());
    path
}

/// Makes a test fail where it would only say that it was skipped: `1` what lies beside the repository, `all` also models that
/// must be fetched and packages of the system.
pub const REQUIRE: &str = "AKUNU_REQUIRE_FIXTURES";

/// Where something comes from that a test needs and the repository does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The folder `shared` beside the repository.
    Beside,
    /// A fetched model, or a package of the system.
    Fetched,
}

/// `found`, where it is there. Where it is not, the test has nothing to do and says so, or fails if [`REQUIRE`] asks for it.
#[track_caller]
pub fn needed<T>(found: Option<T>, source: Source, what: &str) -> Option<T> {
    if found.is_none() {
        let asked = std::env::var(REQUIRE).unwrap_or_default();
        assert!(!requires(&asked, source), "{REQUIRE}={asked}, but there is no {what}");
        eprintln!("skipped: there is no {what}");
    }
    found
}

fn requires(asked: &str, source: Source) -> bool {
    match asked {
        "" | "0" => false,
        "all" => true,
        _ => source == Source::Beside,
    }
}

/// A fixture in `shared/fixtures` beside the repository.
#[track_caller]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = root().join("../shared/fixtures").join(name);
    needed(path.exists().then_some(path), Source::Beside, &format!("shared/fixtures/{name} beside the repository"))
}

/// Every fixture of a folder (`"hf"`): those of the repository, then those that only lie beside it.
pub fn all(folder: &str) -> Vec<PathBuf> {
    let list = |dir: PathBuf| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        paths
    };
    let mut found = list(path(folder));
    let only_beside = |p: &PathBuf| !path(folder).join(p.file_name().unwrap_or_default()).exists();
    // Not every folder is in both places.
    let beside = shared("").map(|shared| list(shared.join(folder))).unwrap_or_default();
    found.extend(beside.into_iter().filter(only_beside));
    found
}

/// Whether a fixture's oracle computed in a module that was cast as a whole, with the constants of its configuration. Those with a
/// configuration of transformers 5 were loaded as they are.
pub fn was_cast(dir: &Path) -> bool {
    !dir.join("config.transformers5.json").exists()
}

/// The models of a folder (`"hf"`) that this version supports. All of the repository's are; one that lies beside it may have an
/// architecture that is not supported, and is named as skipped.
pub fn models(folder: &str) -> Vec<PathBuf> {
    let own = path(folder);
    let is_model = |p: &PathBuf| p.is_dir() || p.extension().is_some_and(|e| e == "gguf");
    let supported = |p: &PathBuf| match unsupported(p).filter(|_| !p.starts_with(&own)) {
        Some(error) => {
            eprintln!("skipped: {error}");
            false
        }
        None => true,
    };
    let models: Vec<PathBuf> = all(folder).into_iter().filter(is_model).filter(supported).collect();
    assert!(!models.is_empty(), "no model in {}", own.display());
    models
}

/// Why a model cannot be run, where it is a sound one that has something this version does not know.
fn unsupported(path: &Path) -> Option<Error> {
    let error = ModelFile::open(path).map_err(Error::from).and_then(|file| Model::read(&file)).err()?;
    let unknown = match &error {
        Error::Format(error) => matches!(error.fault, Fault::NotSupported(_)),
        Error::UnknownArchitecture { .. } | Error::NotSupported { .. } | Error::UnexpectedTensor { .. } => true,
        _ => false,
    };
    unknown.then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_required() {
        use Source::{Beside, Fetched};
        for (asked, beside, fetched) in
            [("", false, false), ("0", false, false), ("1", true, false), ("yes", true, false), ("all", true, true)]
        {
            assert_eq!((requires(asked, Beside), requires(asked, Fetched)), (beside, fetched), "{asked}");
        }
    }

    #[test]
    fn what_is_there_is_given_and_the_repository_comes_first() {
        assert_eq!(needed(Some(7), Source::Beside, "number"), Some(7));
        let models = all("hf");
        assert!(models[0].starts_with(path("hf")) && models.len() >= 15, "{models:?}");
        let names: std::collections::HashSet<_> = models.iter().map(|p| p.file_name()).collect();
        assert_eq!(names.len(), models.len(), "a fixture twice");
    }
}
