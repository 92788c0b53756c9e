//! A file that is being downloaded: `NAME.part`, and in `NAME.part.tag` which version of the file it is.
//!
//! One process at a time writes it and holds its lock; others wait for the whole file. It gets its name when its hash is
//! right.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use same_file::Handle;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Told the bytes that are there and those there will be.
pub type Progress<'a> = dyn FnMut(u64, Option<u64>) + 'a;

/// How often a process that waits for another looks again.
const GLANCE: Duration = Duration::from_millis(100);

pub(crate) struct Partial {
    destination: PathBuf,
    path: PathBuf,
    tag_path: PathBuf,
    file: File,
    len: u64,
    tag: Option<String>,
}

impl Partial {
    /// What is there of `destination`; `None` where all of it is. While another process writes it this one waits, for
    /// as long as it grows within every `patience`.
    pub fn open(destination: &Path, patience: Duration, progress: &mut Progress<'_>) -> Result<Option<Self>, Error> {
        let beside = |suffix: &str| {
            let mut name = destination.file_name().unwrap_or_default().to_owned();
            name.push(suffix);
            destination.with_file_name(name)
        };
        let (path, tag_path) = (beside(".part"), beside(".part.tag"));
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            // Windows could not cut a file that was opened to append: the end is sought where the lock is had.
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path).map_err(Error::io(&path))?;
            let len = file.metadata().map_err(Error::io(&path))?.len();
            match file.try_lock() {
                Ok(()) => {}
                // Some file systems know no locks: one process alone is as well off there as before.
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(e)) => return Err(Error::io(&path)(e)),
                Err(TryLockError::WouldBlock) => {
                    if len != seen {
                        (seen, since) = (len, Instant::now());
                        progress(len, None);
                    } else if since.elapsed() > patience {
                        return Err(Error::Busy { path });
                    }
                    thread::sleep(GLANCE);
                    continue;
                }
            }
            // Between opening and locking, another process may have renamed or removed this very file.
            if !is_at(&file, &path) {
                continue;
            }
            if destination.exists() {
                drop(fs::remove_file(&path));
                return Ok(None);
            }
            let tag = fs::read_to_string(&tag_path).ok();
            // Until the lock was had, another process may have written.
            let len = file.seek(SeekFrom::End(0)).map_err(Error::io(&path))?;
            return Ok(Some(Self { destination: destination.to_path_buf(), path, tag_path, file, len, tag }));
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The version of the file, as the server named it.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes).map_err(Error::io(&self.path))
    }

    pub fn restart(&mut self) -> Result<(), Error> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(Error::io(&self.path))?;
        self.len = 0;
        self.remember(None)
    }

    pub fn remember(&mut self, tag: Option<String>) -> Result<(), Error> {
        match &tag {
            Some(tag) => fs::write(&self.tag_path, tag).map_err(Error::io(&self.tag_path))?,
            None => drop(fs::remove_file(&self.tag_path)),
        }
        self.tag = tag;
        Ok(())
    }

    /// Checks length and hash, as far as they are known, and gives the file its name. A wrong file is deleted.
    pub fn publish(mut self, bytes: Option<u64>, sha256: Option<&str>) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::io(&self.path))?;
        if let Err(error) = self.check(bytes, sha256) {
            drop(fs::remove_file(&self.tag_path));
            drop(fs::remove_file(&self.path));
            return Err(error);
        }
        drop(fs::remove_file(&self.tag_path));
        fs::rename(&self.path, &self.destination).map_err(Error::io(&self.destination))
    }

    fn check(&mut self, bytes: Option<u64>, sha256: Option<&str>) -> Result<(), Error> {
        let what = || self.destination.display().to_string();
        if let Some(expected) = bytes.filter(|bytes| *bytes != self.len) {
            return Err(Error::WrongSize { what: what(), expected, found: self.len });
        }
        let Some(expected) = sha256 else { return Ok(()) };
        // Through the handle that has the lock: elsewhere than on Unix no other may read.
        self.file.rewind().map_err(Error::io(&self.path))?;
        let found = hash_of(&mut self.file).map_err(Error::io(&self.path))?;
        match found.eq_ignore_ascii_case(expected) {
            true => Ok(()),
            false => Err(Error::WrongHash { what: what(), expected: expected.into(), found }),
        }
    }
}

impl Drop for Partial {
    /// Where nothing came, nothing stays.
    fn drop(&mut self) {
        if self.len == 0 {
            drop(fs::remove_file(&self.tag_path));
            drop(fs::remove_file(&self.path));
        }
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.len += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether `path` leads to the file that is open.
fn is_at(file: &File, path: &Path) -> bool {
    let open = file.try_clone().and_then(Handle::from_file);
    matches!((open, Handle::from_path(path)), (Ok(a), Ok(b)) if a == b)
}

/// The sha256 of a file, in lower-case hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String, Error> {
    File::open(path).and_then(|mut file| hash_of(&mut file)).map_err(Error::io(path))
}

fn hash_of(file: &mut File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
