//! The packages of the tests, outside of the repository: installed once for each list of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, Runner};

/// What runs tests, or why it cannot, once for each runner.
#[derive(Default)]
pub(super) struct Tools(Vec<(Runner, Result<PathBuf, String>)>);

impl Tools {
    /// The interpreter of a runner, with its packages.
    pub fn of(&mut self, runner: Runner, place: &Place) -> Result<&PathBuf, &String> {
        let at = self.0.iter().position(|(r, _)| *r == runner).unwrap_or_else(|| {
            let tool = match runner {
                Runner::Python => packages(place, &[Runner::Python]),
                Runner::Node => node(place),
                Runner::LlamaCpp if place.llama_cpp.is_none() => Err("no --llama-cpp was given".into()),
                Runner::LlamaCpp => packages(place, &[Runner::Python, Runner::LlamaCpp]),
            };
            if let Err(why) = &tool {
                eprintln!("SKIPPED: {why}");
            }
            self.0.push((runner, tool));
            self.0.len() - 1
        });
        self.0[at].1.as_ref()
    }
}

fn packages(place: &Place, lists: &[Runner]) -> Result<PathBuf, String> {
    let folder = place.dir.join(format!("python-{}", lists.len()));
    let lists: Vec<PathBuf> = lists.iter().map(|runner| place.tests(*runner).join("requirements.txt")).collect();
    python(Path::new("python3"), &folder, &lists)
}

/// The interpreter of an environment.
pub(crate) fn interpreter(folder: &Path) -> PathBuf {
    folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// The interpreter of an environment with the packages of these lists, or why there is none.
pub(crate) fn python(python: &Path, folder: &Path, lists: &[PathBuf]) -> Result<PathBuf, String> {
    let installed = interpreter(folder);
    once(folder, lists, || {
        succeed(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
        let mut pip = Command::new(&installed);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        for list in lists {
            pip.arg("-r").arg(list);
        }
        succeed(&mut pip)
    })?;
    Ok(installed)
}

fn node(place: &Place) -> Result<PathBuf, String> {
    let (from, folder) = (place.tests(Runner::Node), place.dir.join("node"));
    let lists = ["package.json", "package-lock.json"].map(|name| from.join(name));
    once(&folder, &lists, || {
        for list in &lists {
            let to = folder.join(list.file_name().unwrap_or_default());
            fs::copy(list, to).map_err(|e| format!("{}: {e}", list.display()))?;
        }
        succeed(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder))
    })?;
    // Modules are looked up from where a test lies.
    for entry in fs::read_dir(&from).map_err(|e| e.to_string())?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "mjs") {
            fs::copy(entry.path(), folder.join(entry.file_name())).map_err(|e| e.to_string())?;
        }
    }
    Ok("node".into())
}

/// Does it unless it was done for the same lists.
fn once(folder: &Path, lists: &[PathBuf], install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let read = |list: &PathBuf| fs::read_to_string(list).map_err(|e| format!("{}: {e}", list.display()));
    let wanted = lists.iter().map(read).collect::<Result<String, _>>()?;
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|done| done == wanted) {
        return Ok(());
    }
    eprintln!("installing packages into {}", folder.display());
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    install()?;
    fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))
}

pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name} cannot be started: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("packages cannot be installed: {name}: {last}"))
}
