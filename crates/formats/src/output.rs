//! A file being written beside its destination, which gets its name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Fault};
use crate::map::regular;

/// The names under which files are being written.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every file that is not finished: for a program that is about to end.
pub fn abandon_outputs() {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    unfinished.drain(..).for_each(|path| drop(fs::remove_file(path)));
}

/// Removed again when dropped before [`Output::finish`].
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    overwrite: bool,
    file: Option<BufWriter<File>>,
}

impl Output {
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Error> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let fail = |fault| Error::new(path, fault);
        match fs::metadata(path) {
            Ok(metadata) => {
                let special = |fault: Fault| Fault::Write(io::Error::other(format!("it {fault}")));
                regular(&metadata).map_err(|fault| fail(special(fault)))?;
                if !overwrite {
                    return Err(fail(Fault::Exists));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(Fault::Write(e))),
        }
        let no_name = || fail(Fault::Write(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name")));
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or_else(no_name)?);
        name.push(format!(".{}-{}.part", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let temporary = path.with_file_name(name);
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|e| fail(Fault::Write(e)))?;
        unfinished.push(temporary.clone());
        Ok(Self { path: path.to_path_buf(), temporary, overwrite, file: Some(BufWriter::with_capacity(1 << 20, file)) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| Error::new(&self.path, Fault::Write(e))),
            // `finish` takes `self`, so that nobody can write after it.
            None => Ok(()),
        }
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.publish().map_err(|e| {
            let taken = e.kind() == io::ErrorKind::AlreadyExists;
            Error::new(&self.path, if taken { Fault::Exists } else { Fault::Write(e) })
        })
    }

    fn publish(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        }
        if self.overwrite {
            return fs::rename(&self.temporary, &self.path);
        }
        // A link, unlike a rename, fails where the name was taken meanwhile; `drop` removes the temporary name.
        match fs::hard_link(&self.temporary, &self.path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
            Err(_) if !self.path.exists() => fs::rename(&self.temporary, &self.path),
            linked => linked,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        drop(self.file.take());
        // Already renamed where it was finished; there is nobody to tell about a failure.
        let _ = fs::remove_file(&self.temporary);
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.temporary);
    }
}
