//! A bounds-checked reader of little-endian fields: every read names what it reads and fails where the bytes end.

use std::fmt::Display;
use std::path::Path;

use crate::error::{Error, Fault};

pub(crate) struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn fail(&self, fault: Fault) -> Error {
        Error::new(self.path, fault)
    }

    pub fn truncated(&self, needs: u64, what: &dyn Display) -> Error {
        let (offset, len) = (self.at as u64, self.bytes.len() as u64);
        self.fail(Fault::Truncated { what: what.to_string(), needs, offset, len })
    }

    pub fn take(&mut self, count: u64, what: &dyn Display) -> Result<&'a [u8], Error> {
        if count > self.remaining() as u64 {
            return Err(self.truncated(count, what));
        }
        // Fits: `count` is at most `remaining`, which is a usize.
        let end = self.at + count as usize;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &dyn Display) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub fn u32(&mut self, what: &dyn Display) -> Result<u32, Error> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &dyn Display) -> Result<u64, Error> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A length-prefixed UTF-8 string of at most `limit` bytes.
    pub fn string(&mut self, limit: u64, what: &dyn Display) -> Result<&'a str, Error> {
        let count = self.u64(&format_args!("the length of {what}"))?;
        if count > self.remaining() as u64 {
            return Err(self.truncated(count, what));
        }
        if count > limit {
            return Err(self.fail(Fault::Limit { what: format!("the length of {what}"), found: count, limit }));
        }
        let offset = self.at as u64;
        let bytes = self.take(count, what)?;
        std::str::from_utf8(bytes).map_err(|_| self.fail(Fault::NotUtf8 { what: what.to_string(), offset }))
    }

    /// Fails unless `count` things of at least `each` bytes can follow.
    pub fn room(&self, count: u64, each: u64, what: &dyn Display) -> Result<(), Error> {
        let needs = count.saturating_mul(each);
        if needs > self.remaining() as u64 { Err(self.truncated(needs, what)) } else { Ok(()) }
    }
}
