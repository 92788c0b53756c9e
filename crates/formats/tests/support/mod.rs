//! Bytes of model files with every field free to be wrong, and an allocator that knows how much was asked of it.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use akunu_formats::{Error, Metadata, ModelFile, gguf};
use akunu_limits::Limits;

/// The system's allocator, counting what each thread has and had at most.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let live = LIVE.get() + change;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: every call is passed on to `System` unchanged; counting uses thread-locals that neither allocate nor drop.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the project promises for any broken file, beyond its mapping.
pub const MEMORY: isize = 64 << 20;

/// Opens the path and fails the test where that takes more memory than promised.
pub fn open(path: &Path) -> Result<ModelFile, Error> {
    open_within(path, Limits::default())
}

pub fn open_within(path: &Path, limits: Limits) -> Result<ModelFile, Error> {
    let before = LIVE.get();
    PEAK.set(before);
    let result = ModelFile::open_within(path, limits);
    let peak = PEAK.get() - before;
    assert!(peak < MEMORY, "{}: opening took {peak} bytes", path.display());
    result
}

/// The message of a file that must not open: it names the file, or one in the directory, and is one line.
pub fn message(path: &Path) -> String {
    let message = match open(path) {
        Ok(_) => panic!("{} opened", path.display()),
        Err(e) => e.to_string(),
    };
    assert!(message.starts_with(&*path.to_string_lossy()), "the file is not named: {message}");
    assert!(!message.contains('\n') && message.len() < 1000, "not one sentence: {message}");
    message
}

/// Reads everything that an opened file offers, and checks what is promised of it.
pub fn read_everything(file: &ModelFile) -> u64 {
    let mut sum = 0u64;
    let mut add = |bytes: &[u8]| sum = bytes.iter().fold(sum, |s, &b| s.wrapping_mul(31).wrapping_add(b.into()));
    for t in file.tensors() {
        let planes = file.planes(t);
        assert!(!t.shape.is_empty() && t.elements() > 0 && t.rows() * t.cols() == t.elements());
        assert_eq!(Some(planes.data.len()), t.dtype.row_bytes(t.cols()).map(|row| row * t.rows()), "{}", t.name);
        assert_eq!(planes.scales.len(), t.dtype.row_side_bytes(t.cols()) * t.rows(), "{}", t.name);
        assert_eq!(planes.biases.len(), planes.scales.len(), "{}", t.name);
        [planes.data, planes.scales, planes.biases].into_iter().for_each(&mut add);
        assert!(std::ptr::eq(file.tensor(&t.name).unwrap(), t));
    }
    if let Metadata::Gguf(metadata) = file.metadata() {
        for (key, value) in metadata.iter() {
            add(key.as_bytes());
            if let gguf::Value::Array(array) = value {
                let strings = array.strings().map_or(0, |s| s.map(|s| add(s.as_bytes())).count());
                let numbers = array.i64s().map_or(0, |n| n.count()) + array.f32s().map_or(0, |n| n.count());
                let bools = array.bools().map_or(0, |b| b.count());
                let too_big = array.kind() == gguf::Kind::U64 && array.i64s().is_none();
                assert!(too_big || strings + numbers + bools == array.len());
                assert!(array.string(array.len()).is_none());
            }
        }
    }
    sum
}

/// Type ids of GGUF values.
pub const U32: u32 = 4;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
pub const U64: u32 = 10;

pub fn string(s: impl AsRef<[u8]>) -> Vec<u8> {
    let s = s.as_ref();
    [&(s.len() as u64).to_le_bytes(), s].concat()
}

pub fn key(name: impl AsRef<[u8]>, kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [&string(name)[..], &kind.to_le_bytes(), value.as_ref()].concat()
}

pub fn array(kind: u32, len: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &len.to_le_bytes(), elements.as_ref()].concat()
}

/// A tensor info; dimensions innermost first, as in the file.
pub fn info(name: impl AsRef<[u8]>, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = string(name);
    out.extend((dims.len() as u32).to_le_bytes());
    dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

/// A GGUF file whose counts are given, or right where they are not.
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub keys: Vec<Vec<u8>>,
    pub infos: Vec<Vec<u8>>,
    pub key_count: Option<u64>,
    pub tensor_count: Option<u64>,
    pub alignment: usize,
    pub data: usize,
}

impl Default for Gguf {
    /// Two tensors, a scalar of most kinds and arrays of most kinds.
    fn default() -> Self {
        let keys = vec![
            key("general.architecture", STRING, string("llama")),
            key("general.alignment", U32, 32u32.to_le_bytes()),
            key("llama.block_count", U32, 2u32.to_le_bytes()),
            key("llama.eps", F32, 1e-5f32.to_le_bytes()),
            key("tokenizer.add_bos", BOOL, [1]),
            key("tokenizer.tokens", ARRAY, array(STRING, 3, [string("a"), string("\u{2581}the"), string("")].concat())),
            key("tokenizer.scores", ARRAY, array(F32, 2, [0, 0, 128, 63, 0, 0, 0, 64])),
            key("tokenizer.flags", ARRAY, array(BOOL, 3, [0, 1, 0])),
            key("tokenizer.ids", ARRAY, array(U64, 1, 7u64.to_le_bytes())),
        ];
        let infos = vec![info("norm.weight", &[4], 0, 0), info("q.weight", &[32, 2], 2, 32)];
        Self {
            magic: *b"GGUF",
            version: 3,
            keys,
            infos,
            key_count: None,
            tensor_count: None,
            alignment: 32,
            data: 32 + 2 * 18,
        }
    }
}

impl Gguf {
    pub fn header(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.infos.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.infos.concat());
        out
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.header();
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend((0..self.data).map(|i| i as u8));
        out
    }
}

/// A safetensors file with this header and this many bytes of data.
pub fn safetensors(header: impl AsRef<[u8]>, data: usize) -> Vec<u8> {
    let mut out = string(header);
    out.extend((0..data).map(|i| i as u8));
    out
}

/// A small sound header for `SAFETENSORS_DATA` bytes.
pub const SAFETENSORS: &str = r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F16","shape":[2,4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[],"data_offsets":[16,20]},"ids":{"dtype":"I64","shape":[2],"data_offsets":[20,36]}}"#;
pub const SAFETENSORS_DATA: usize = 36;

/// A generator of numbers that are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
