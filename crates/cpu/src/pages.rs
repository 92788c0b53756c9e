//! Memory of our own, on huge pages where there is much of it.
//!
//! A core that reads weights is bound by the cache lines it can have under way, and every
//! 4 KiB page costs a walk of the page tables and stops the prefetchers at its end. On 2 MiB pages the same
//! kernels read about a quarter faster, which is worth one copy at load. Steps over many sequences touch a few lines in
//! each of thousands of small pages, more than the TLB holds.

use akunu_plan::backend::LoadError;
use memmap2::MmapMut;
use std::io;

/// Every base address is a multiple of this: a cache line and the widest vector.
pub const ALIGN: usize = 64;
/// From so many bytes on huge pages are asked for.
pub const LARGE: usize = 4 << 20;
/// What a thread reads at a time, about.
pub const CHUNK: usize = 8 << 20;

/// Memory of our own. Its pages cost nothing until they are touched.
pub struct Pages {
    map: MmapMut,
    base: *mut u8,
    len: usize,
}

impl Pages {
    pub fn zeroed(what: &'static str, len: usize) -> Result<Self, LoadError> {
        let mut map = MmapMut::map_anon(len.max(1)).map_err(|_| LoadError::OutOfMemory { what, bytes: len })?;
        #[cfg(target_os = "linux")]
        if len >= LARGE {
            // A wish: without huge pages everything works, slower.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let base = map.as_mut_ptr();
        debug_assert!(base.align_offset(ALIGN) == 0, "pages are lines");
        Ok(Self { map, base, len })
    }

    /// Bytes that `read` gives for an offset, read by several threads at once, in chunks that end where `end` says for the
    /// place they begin at.
    pub fn filled(
        what: &'static str,
        len: usize,
        end: impl Fn(usize) -> usize,
        read: impl Fn(usize, &mut [u8]) -> io::Result<()> + Sync,
    ) -> Result<Self, LoadError> {
        let mut pages = Self::zeroed(what, len)?;
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
        let mut rest = &mut pages.map[..len];
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let at = len - rest.len();
            let (chunk, after) = rest.split_at_mut((end(at) - at).clamp(1, rest.len()));
            chunks.push((at, chunk));
            rest = after;
        }
        let chunks = std::sync::Mutex::new(chunks.into_iter());
        let work = || {
            let next = || chunks.lock().unwrap_or_else(|e| e.into_inner()).next();
            std::iter::from_fn(next).try_for_each(|(at, chunk)| read(at, chunk))
        };
        let done = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mine = work();
            others.into_iter().fold(mine, |done, other| done.and(other.join().unwrap_or(Ok(()))))
        });
        done.map_err(|e| LoadError::Unreadable(e.to_string()))?;
        Ok(pages)
    }

    /// Whether a copy of so many mapped bytes would be faster to read: it is large, and there are huge pages.
    pub fn worth_copying(len: usize) -> bool {
        let enabled = || std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        len >= LARGE && enabled().is_ok_and(|choice| !choice.contains("[never]"))
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn bytes(&self) -> usize {
        self.len
    }
}

// SAFETY: a `Pages` owns its bytes; who may touch them when is up to those who read `base`.
unsafe impl Send for Pages {}
// SAFETY: as above; shared use reads only the two fields.
unsafe impl Sync for Pages {}
