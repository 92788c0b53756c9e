//! The Python package: its wheel built, installed into a fresh environment, and tested there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::clients::install;

/// How to build and test it.
pub struct Options {
    /// The interpreter; `python3` where none is given.
    pub python: Option<PathBuf>,
    /// Where packages and wheels go; below the build folder where none is given.
    pub dir: Option<PathBuf>,
    /// Build as a release is built.
    pub release: bool,
    /// For pytest.
    pub tests: Vec<String>,
}

/// Builds, installs, checks types and tests. True, with a line that says why, where Python or its packages are missing.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let crate_folder = crate::root().join("crates/python");
    let python = options.python.clone().unwrap_or_else(|| "python3".into());
    let dir = options.dir.clone().unwrap_or_else(|| crate::root().join("target/python"));
    let tools = match install::python(&python, &dir.join("tools"), &[crate_folder.join("tests/requirements.txt")]) {
        Ok(tools) => tools,
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            return Ok(true);
        }
    };
    let wheel = build(&tools, &crate_folder, &dir.join("wheels"), options.release)?;
    println!("{}", wheel.display());
    let fresh = fresh(&python, &tools, &dir.join("fresh"), &wheel)?;

    let module = |name: &str| {
        let mut command = Command::new(&fresh);
        command.current_dir(&crate_folder).args(["-m", name]);
        command
    };
    let mut passed = done(module("mypy").args(["-p", "akunu"]))?;
    passed &= done(module("mypy").arg("tests/typed.py"))?;
    passed &= done(module("pyright").arg("--pythonpath").arg(&fresh).args(["python", "tests/typed.py"]))?;
    passed &= done(module("pytest").args(["-q", "-rs"]).args(&options.tests))?;
    Ok(passed)
}

fn build(tools: &Path, crate_folder: &Path, wheels: &Path, release: bool) -> anyhow::Result<PathBuf> {
    if wheels.exists() {
        fs::remove_dir_all(wheels)?;
    }
    let mut maturin = Command::new(tools);
    maturin.args(["-m", "maturin", "build", "--out"]).arg(wheels).current_dir(crate_folder);
    // On this machine: what runs elsewhere too is built where it is released.
    maturin.args(["--compatibility", "linux"]);
    if release {
        maturin.arg("--release");
    }
    ensure!(done(&mut maturin)?, "the wheel was not built");
    let mut built = fs::read_dir(wheels)?.flatten().map(|entry| entry.path());
    built.find(|path| path.extension() == Some(OsStr::new("whl"))).context("there is no wheel")
}

/// An environment with nothing but the wheel in it, which sees the packages of `tools`.
fn fresh(python: &Path, tools: &Path, folder: &Path, wheel: &Path) -> anyhow::Result<PathBuf> {
    install::succeed(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder)).map_err(anyhow::Error::msg)?;
    let fresh = install::interpreter(folder);
    let packages = |python: &Path| -> anyhow::Result<String> {
        let out =
            Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output()?;
        Ok(String::from_utf8(out.stdout)?.trim().to_owned())
    };
    fs::write(Path::new(&packages(&fresh)?).join("tools.pth"), packages(tools)?)?;
    let mut pip = Command::new(&fresh);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel);
    install::succeed(&mut pip).map_err(anyhow::Error::msg)?;
    Ok(fresh)
}

fn done(command: &mut Command) -> anyhow::Result<bool> {
    println!("== {command:?}");
    let status = command.status().with_context(|| format!("{command:?} cannot be started"))?;
    Ok(status.success())
}
