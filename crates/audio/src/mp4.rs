//! What an mp4 file says of itself, before a demuxer believes it: tables lie inside their boxes, and samples inside the file.
//!
//! The demuxer allocates as many entries as a table claims, and looks through the table of times for every sample.

use crate::Fault;
use std::io::{self, Read, Seek, SeekFrom};

/// Boxes in boxes: `moov.trak.mdia.minf.stbl.stsd.mp4a.wave` is the deepest there is.
const MAX_DEPTH: usize = 10;
/// Entries of the table of times, times the samples that they are looked through for.
const MAX_LOOKUPS: u64 = 1 << 30;

/// Whether a file begins as mp4 files do.
pub fn begins(media: &mut (impl Read + Seek + ?Sized)) -> io::Result<bool> {
    let mut start = [0; 8];
    media.seek(SeekFrom::Start(0))?;
    let mut got = 0;
    while got < start.len() {
        match media.read(&mut start[got..])? {
            0 => break,
            n => got += n,
        }
    }
    media.seek(SeekFrom::Start(0))?;
    Ok(&start[4..] == b"ftyp")
}

/// Walks all boxes.
pub fn check(media: &mut (impl Read + Seek + ?Sized)) -> Result<(), Fault> {
    let len = media.seek(SeekFrom::End(0)).map_err(Fault::Read)?;
    let mut walk = Walk { media: io::BufReader::new(media), len, fragments: 0, times: 0, samples: 0 };
    walk.boxes(0, len, 0)?;
    walk.media.seek(SeekFrom::Start(0)).map_err(Fault::Read)?;
    Ok(())
}

struct Walk<R> {
    media: io::BufReader<R>,
    /// Bytes of the file.
    len: u64,
    /// Samples of all fragments.
    fragments: u64,
    /// Of the track being walked: entries of its table of times, and samples.
    times: u64,
    samples: u64,
}

fn damaged<T>(what: &str) -> Result<T, Fault> {
    Err(Fault::Malformed(what.to_string()))
}

impl<R: Read + Seek> Walk<R> {
    fn boxes(&mut self, mut at: u64, end: u64, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return damaged("its boxes are nested too deeply");
        }
        while end - at >= 8 {
            self.go_to(at)?;
            let (size, kind) = (u64::from(self.number()?), self.number()?.to_be_bytes());
            let (head, size) = match size {
                0 if depth == 0 => (8, end - at),
                1 => (16, u64::from(self.number()?) << 32 | u64::from(self.number()?)),
                size => (8, size),
            };
            // A recording that was cut off ends inside its samples.
            if depth == 0 && size > end - at {
                return Ok(());
            }
            if size < head || size > end - at {
                return damaged("a box does not lie inside the box around it");
            }
            match &kind {
                b"trak" => {
                    (self.times, self.samples) = (0, 0);
                    self.boxes(at + head, at + size, depth + 1)?;
                    if self.times.saturating_mul(self.samples) > MAX_LOOKUPS {
                        return damaged("its table of times has too many entries");
                    }
                }
                b"moov" | b"mdia" | b"minf" | b"stbl" | b"moof" | b"traf" | b"mvex" | b"edts" | b"udta" => {
                    self.boxes(at + head, at + size, depth + 1)?;
                }
                kind => self.table(kind, size - head)?,
            }
            at += size;
        }
        Ok(())
    }

    /// A box without others, whose contents have `left` bytes.
    fn table(&mut self, kind: &[u8; 4], left: u64) -> Result<(), Fault> {
        let entry = match kind {
            b"stsz" => return self.sizes(left),
            b"trun" => return self.run(left),
            b"stts" | b"ctts" | b"co64" => 8,
            b"stsc" => 12,
            b"stco" | b"stss" => 4,
            _ => return Ok(()),
        };
        if left < 8 {
            return damaged("a table ends too early");
        }
        // Version and flags.
        self.number()?;
        let count = u64::from(self.number()?);
        if count * entry > left - 8 {
            return damaged("a table has fewer entries than it says");
        }
        if kind == b"stts" {
            self.times = count;
        }
        Ok(())
    }

    /// The samples' sizes: together they are no more than the file.
    fn sizes(&mut self, left: u64) -> Result<(), Fault> {
        if left < 12 {
            return damaged("a table ends too early");
        }
        self.number()?;
        let (all, count) = (u64::from(self.number()?), u64::from(self.number()?));
        let bytes = match all {
            0 if 4 * count > left - 12 => return damaged("a table has fewer entries than it says"),
            0 => (0..count).try_fold(0u64, |sum, _| Ok(sum + u64::from(self.number()?)))?,
            size => count * size,
        };
        self.samples = count;
        if bytes > self.len { damaged("its samples are larger than the file") } else { Ok(()) }
    }

    /// A fragment's samples: no more, all together, than the file has bytes.
    fn run(&mut self, left: u64) -> Result<(), Fault> {
        if left < 8 {
            return damaged("a table ends too early");
        }
        let flags = self.number()?;
        let count = u64::from(self.number()?);
        let each = 4 * u64::from((flags & 0xf00).count_ones());
        let once = 4 * u64::from((flags & 0x5).count_ones());
        if once + count * each > left - 8 {
            return damaged("a table has fewer entries than it says");
        }
        self.fragments += count;
        // The times of a run are summed up for each of its samples.
        let lookups = if each > 0 { count * count } else { count };
        if self.fragments > self.len || lookups > MAX_LOOKUPS {
            return damaged("its fragments have too many samples");
        }
        Ok(())
    }

    /// What the buffer holds of the way there is not read again.
    fn go_to(&mut self, at: u64) -> Result<(), Fault> {
        let here = self.media.stream_position().map_err(Fault::Read)?;
        let by = i64::try_from(at).ok().zip(i64::try_from(here).ok()).map(|(at, here)| at - here);
        let Some(by) = by else { return damaged("a box is further away than a file can be long") };
        self.media.seek_relative(by).map_err(Fault::Read)
    }

    fn number(&mut self) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        match self.media.read_exact(&mut bytes) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => damaged("it ends inside a box"),
            Err(e) => Err(Fault::Read(e)),
            Ok(()) => Ok(u32::from_be_bytes(bytes)),
        }
    }
}
