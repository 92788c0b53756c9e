//! The bytes of a file, mapped; the one place of this crate with `unsafe`.
//!
//! What happens when a mapped file changes under us. Pages come from the file when they are first touched, so a
//! program that rewrites the file in place can change weights between two reads: the model then computes other numbers.
//! A file that is truncated while mapped ends the process with SIGBUS at the next touch of a page that is
//! gone (an in-page error on Windows): the kernel never hands out other memory in its place, so a shrinking file
//! cannot corrupt memory silently. Bytes are read as numbers whose every bit pattern is valid; strings are
//! validated again when they are read, so changed bytes cannot break Rust's promises about `str` either.
//! Therefore: give write access to model files only to those you trust as much as the process, and replace
//! a model by renaming a new file over it (as [`crate::gguf::Writer`] does), never by writing into it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use akunu_limits::Over;
use memmap2::Mmap;

use crate::error::{Error, Fault};

/// Linux reads less than was asked for where more is asked for at once.
#[cfg(unix)]
const AHEAD_AT_ONCE: usize = 1 << 20;

/// Bytes that live as long as anybody looks at them; cheap to clone.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<(Mmap, File)>),
    Static(&'static [u8]),
    Owned(Arc<[u8]>),
}

impl Bytes {
    /// Maps a regular, non-empty file. Touches no page of it.
    pub fn map(path: &Path) -> Result<Self, Error> {
        let (file, len) = open_regular(path)?;
        if len == 0 {
            return Err(Error::new(path, Fault::Empty));
        }
        let map = map_file(&file).map_err(|e| Error::new(path, Fault::Read(e)))?;
        Ok(Self::Mapped(Arc::new((map, file))))
    }

    /// Asks the system to read these bytes from the disk now, and does not wait for them. What is asked for first comes first.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub fn read_ahead(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            let end = range.end.min(self.len());
            for at in (range.start..end).step_by(AHEAD_AT_ONCE) {
                // A wish.
                let _ = map.0.advise_range(memmap2::Advice::WillNeed, at, AHEAD_AT_ONCE.min(end - at));
            }
        }
    }

    /// Fills `to` with the bytes from `at` on, without touching the mapping where the system allows it.
    pub fn read(&self, at: usize, to: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            return std::os::unix::fs::FileExt::read_exact_at(&map.1, to, at as u64);
        }
        let bytes = at.checked_add(to.len()).and_then(|end| self.get(at..end));
        to.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => &map.0,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

#[allow(unsafe_code)]
fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and owned by the `Mmap`, which keeps it for as long as its slices live. What
    // another process can do to the file meanwhile is described at the top of this module: other numbers or SIGBUS.
    // Neither lets this crate read outside the mapping: offsets and lengths are copied out when they are validated, and
    // the only ones read again, the lengths of strings in arrays, are checked again.
    unsafe { Mmap::map(file) }
}

/// Opens a file that is certainly a regular one, and gives its length. Never waits for a FIFO's writer.
pub fn open_regular(path: &Path) -> Result<(File, u64), Error> {
    let fail = |fault| Error::new(path, fault);
    // Looking first: opening some devices has effects. Looking again after: the name may have been given to another file.
    regular(&fs::metadata(path).map_err(|e| fail(Fault::Open(e)))?).map_err(fail)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path).map_err(|e| fail(Fault::Open(e)))?;
    let metadata = file.metadata().map_err(|e| fail(Fault::Open(e)))?;
    regular(&metadata).map_err(fail)?;
    Ok((file, metadata.len()))
}

pub(crate) fn regular(metadata: &Metadata) -> Result<(), Fault> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Err(Fault::NotAFile { found: "a FIFO" });
        }
        if kind.is_socket() {
            return Err(Fault::NotAFile { found: "a socket" });
        }
        if kind.is_block_device() || kind.is_char_device() {
            return Err(Fault::NotAFile { found: "a device" });
        }
    }
    Err(Fault::NotAFile { found: if kind.is_dir() { "a directory" } else { "something else" } })
}

/// Errs where a file has more bytes than it may.
pub(crate) fn check_length(path: &Path, found: u64, limit: Over) -> Result<(), Error> {
    if found <= limit.most {
        return Ok(());
    }
    Err(Error::new(path, Fault::Over { what: "the file's length", found, over: limit }))
}

/// The whole of a regular file that is not over `limit`.
pub(crate) fn read_bounded(path: &Path, limit: Over) -> Result<Vec<u8>, Error> {
    let fail = |fault| Error::new(path, fault);
    let (file, len) = open_regular(path)?;
    check_length(path, len, limit)?;
    let mut out = Vec::with_capacity(len as usize);
    // One byte more than allowed, so that a file that grew meanwhile is noticed.
    file.take(limit.most.saturating_add(1)).read_to_end(&mut out).map_err(|e| fail(Fault::Read(e)))?;
    check_length(path, out.len() as u64, limit)?;
    Ok(out)
}
