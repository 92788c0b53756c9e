//! The archives of package registries: single members out of wheels (zip) and of npm packages and sdists (tar, gzip).
//!
//! Archives are untrusted: a member is found by the end of its name and its bytes are given to the caller; no name in
//! an archive becomes a path.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::read::{DeflateDecoder, GzDecoder};

use crate::error::Error;

/// Copies the one member whose name ends in `member` to `out`; gives its length.
pub fn extract(path: &Path, member: &str, limit: u64, out: &mut dyn Write) -> Result<u64, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let mut file = BufReader::with_capacity(1 << 18, file);
    let mut magic = [0; 2];
    file.read_exact(&mut magic).map_err(Error::io(path))?;
    file.rewind().map_err(Error::io(path))?;
    match &magic {
        b"PK" => from_zip(path, file, member, limit, out),
        [0x1f, 0x8b] => from_tar(path, GzDecoder::new(file), member, limit, out),
        _ => Err(Error::archive(path, "is neither a zip archive nor a gzipped one")),
    }
}

/// As [`extract`], from a zip archive whose beginning is missing: what its directory says counts from its end.
pub fn extract_from_end(path: &Path, member: &str, limit: u64, out: &mut dyn Write) -> Result<u64, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    from_zip(path, BufReader::with_capacity(1 << 18, file), member, limit, out)
}

fn missing(path: &Path, member: &str) -> Error {
    Error::archive(path, format!("has no member that ends in {member:?}"))
}

/// Copies at most `limit` bytes and refuses more.
fn copy(path: &Path, from: &mut dyn Read, limit: u64, out: &mut dyn Write) -> Result<u64, Error> {
    let count = io::copy(&mut from.take(limit.saturating_add(1)), out).map_err(Error::io(path))?;
    if count > limit {
        return Err(Error::archive(path, format!("has a member of more than {limit} bytes")));
    }
    Ok(count)
}

fn u16_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 2).map_or(0, |b| u64::from(u16::from_le_bytes([b[0], b[1]])))
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).map_or(0, |b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
}

/// The end record, a comment of up to 64 kB after it.
const END_RECORD: usize = 22;
const LONGEST_TAIL: u64 = END_RECORD as u64 + 0xffff;
/// Wheels of one model part have some ten members.
const MAX_DIRECTORY: u64 = 16 << 20;

fn from_zip(
    path: &Path,
    mut file: BufReader<File>,
    member: &str,
    limit: u64,
    out: &mut dyn Write,
) -> Result<u64, Error> {
    let io = || Error::io(path);
    let bad = |reason: &str| Error::archive(path, reason);
    let len = file.seek(SeekFrom::End(0)).map_err(io())?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(len.saturating_sub(LONGEST_TAIL))).map_err(io())?;
    (&mut file).take(LONGEST_TAIL).read_to_end(&mut tail).map_err(io())?;
    let end = (0..tail.len().saturating_sub(END_RECORD - 1)).rev().find(|&i| tail[i..].starts_with(b"PK\x05\x06"));
    let at = end.ok_or_else(|| bad("has no directory: it is cut off or not a zip archive"))?;
    let end_at = len - (tail.len() - at) as u64;
    let end = &tail[at..];
    // The directory ends where its end record begins; what is missing before it moves all offsets.
    let (size, stated) = (u32_at(end, 12), u32_at(end, 16));
    let start = end_at.checked_sub(size).filter(|start| size <= MAX_DIRECTORY && *start <= stated);
    let start = start.ok_or_else(|| bad("has a directory that does not fit it"))?;
    let missing_bytes = stated - start;
    let mut directory = vec![0; size as usize];
    file.seek(SeekFrom::Start(start)).map_err(io())?;
    file.read_exact(&mut directory).map_err(io())?;

    let mut rest = directory.as_slice();
    while rest.starts_with(b"PK\x01\x02") {
        let (name_len, extra, comment) = (u16_at(rest, 28), u16_at(rest, 30), u16_at(rest, 32));
        let name = rest.get(46..46 + name_len as usize).ok_or_else(|| bad("has a damaged directory"))?;
        if name.ends_with(member.as_bytes()) {
            let (method, packed, at) = (u16_at(rest, 10), u32_at(rest, 20), u32_at(rest, 42));
            let at = at.checked_sub(missing_bytes).ok_or_else(|| bad("has lost the member's beginning"))?;
            let mut local = [0; 30];
            file.seek(SeekFrom::Start(at)).map_err(io())?;
            file.read_exact(&mut local).map_err(io())?;
            let skip = u16_at(&local, 26) + u16_at(&local, 28);
            file.seek(SeekFrom::Current(skip as i64)).map_err(io())?;
            let packed = file.take(packed);
            return match method {
                0 => copy(path, &mut { packed }, limit, out),
                8 => copy(path, &mut DeflateDecoder::new(packed), limit, out),
                other => Err(bad(&format!("packs {member:?} with method {other}, which is not supported"))),
            };
        }
        let next = 46 + (name_len + extra + comment) as usize;
        rest = rest.get(next..).unwrap_or_default();
    }
    Err(missing(path, member))
}

const TAR_BLOCK: usize = 512;

fn from_tar(path: &Path, mut file: impl Read, member: &str, limit: u64, out: &mut dyn Write) -> Result<u64, Error> {
    let mut header = [0; TAR_BLOCK];
    loop {
        file.read_exact(&mut header).map_err(|_| missing(path, member))?;
        let name_end = header[..100].iter().position(|&b| b == 0).unwrap_or(100);
        let name = &header[..name_end];
        if name.is_empty() {
            return Err(missing(path, member));
        }
        let digits = std::str::from_utf8(&header[124..136]).unwrap_or_default();
        let size = u64::from_str_radix(digits.trim_matches(['\0', ' ']), 8)
            .map_err(|_| Error::archive(path, "has a member without a length"))?;
        let regular = matches!(header[156], b'0' | 0);
        if regular && name.ends_with(member.as_bytes()) {
            let count = copy(path, &mut (&mut file).take(size), limit, out)?;
            return if count == size { Ok(count) } else { Err(Error::archive(path, "is cut off")) };
        }
        let padded = size.next_multiple_of(TAR_BLOCK as u64);
        let skipped = io::copy(&mut (&mut file).take(padded), &mut io::sink()).map_err(Error::io(path))?;
        if skipped < padded {
            return Err(missing(path, member));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akunu_testkit::TempDir;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder};

    fn zip(name: &str, bytes: &[u8], method: u16) -> Vec<u8> {
        let packed = match method {
            8 => {
                let mut e = DeflateEncoder::new(Vec::new(), Compression::fast());
                e.write_all(bytes).unwrap();
                e.finish().unwrap()
            }
            _ => bytes.to_vec(),
        };
        let sizes = [(packed.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        let mut out = b"PK\x03\x04\x14\0\0\0".to_vec();
        out.extend(method.to_le_bytes());
        out.extend([0; 8]);
        out.extend(&sizes);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0; 2]);
        out.extend(name.as_bytes());
        out.extend(&packed);
        let start = out.len() as u32;
        let mut directory = b"PK\x01\x02\x14\0\x14\0\0\0".to_vec();
        directory.extend(method.to_le_bytes());
        directory.extend([0; 8]);
        directory.extend(&sizes);
        directory.extend((name.len() as u16).to_le_bytes());
        directory.extend([0; 16]);
        directory.extend(name.as_bytes());
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        out.extend((directory.len() as u32).to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend([0; 2]);
        out
    }

    fn tgz(name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut header = [0; TAR_BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[156] = b'0';
        let mut tar = header.to_vec();
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(TAR_BLOCK) + 2 * TAR_BLOCK, 0);
        let mut e = GzEncoder::new(Vec::new(), Compression::fast());
        e.write_all(&tar).unwrap();
        e.finish().unwrap()
    }

    #[test]
    fn members_of_every_kind_of_archive_come_out_whole() {
        let dir = TempDir::new();
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for (kind, archive) in [
            ("stored", zip("a/b.bin", &bytes, 0)),
            ("deflated", zip("a/b.bin", &bytes, 8)),
            ("tar", tgz("a/b.bin", &bytes)),
        ] {
            let path = dir.write(kind, &archive);
            let mut out = Vec::new();
            assert_eq!(extract(&path, "b.bin", 1 << 20, &mut out).unwrap(), 100_000, "{kind}");
            assert_eq!(out, bytes, "{kind}");
            let error = extract(&path, "c.bin", 1 << 20, &mut out).unwrap_err().to_string();
            assert!(error.ends_with("has no member that ends in \"c.bin\""), "{error}");
            assert!(extract(&path, "b.bin", 1000, &mut io::sink()).is_err(), "{kind}: a limit");
            for cut in [1, 30, archive.len() / 2, archive.len() - 1] {
                let path = dir.write("cut", &archive[..cut]);
                let result = extract(&path, "b.bin", 1 << 20, &mut Vec::new());
                assert!(result.is_err() || kind == "tar" && cut == archive.len() - 1, "{kind} cut at {cut}");
            }
        }
    }
}
