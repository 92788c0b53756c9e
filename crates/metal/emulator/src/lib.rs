//! Runs Metal kernels on the CPU, thread by thread, and watches every access to memory.
//!
//! Kernels are compiled by the system's C++ compiler from the same sources that Metal compiles (`build/shader.rs`,
//! `cpp/include/metal_stdlib`). The threads of a threadgroup are fibres of one thread of ours; barriers and SIMD operations are
//! where they meet. An error is a sentence: a barrier that not all threads reach, an access outside of the buffers, a race
//! between two barriers, threadgroup memory that nobody wrote or that is more than there is.
#![cfg(emulated)]

mod gpu;

pub use gpu::EmulatedGpu;

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::ops::Range;
use std::ptr;

/// What a kernel is given as one of its buffers.
#[derive(Debug)]
pub enum Buffer<'b> {
    /// Only read.
    Constant(&'b [u8]),
    /// Read and written.
    Device(&'b mut [u8]),
}

/// How a kernel is run.
#[derive(Clone, Debug, Default)]
pub struct Geometry {
    pub threadgroups: [u32; 3],
    /// Of a threadgroup.
    pub threads: [u32; 3],
    /// Function constants by their number, as the bytes of their values.
    pub constants: Vec<(u32, u64)>,
    /// Bytes of `[[threadgroup(n)]]` arguments.
    pub shared: Vec<usize>,
    /// Accesses are compared with the buffers' bounds only, not with those of other threads: faster.
    pub bounds_only: bool,
}

const MOST_BUFFERS: usize = 31;
const MOST_CONSTANTS: usize = 512;
const MOST_SHARED: usize = 4;

#[repr(C)]
#[derive(Clone, Copy)]
struct RawBuffer {
    bytes: *mut u8,
    length: usize,
    writable: bool,
}

/// As `cpp/include/emulator.h` has it.
#[repr(C)]
struct RawCall {
    buffers: [RawBuffer; MOST_BUFFERS],
    defined: [bool; MOST_CONSTANTS],
    constants: [u64; MOST_CONSTANTS],
    threadgroups: [u32; 3],
    threads: [u32; 3],
    shared: [usize; MOST_SHARED],
    races: bool,
}

unsafe extern "C" {
    fn emulator_kernels(names: *mut *const c_char, most: c_uint) -> c_uint;
    fn emulator_dispatch(kernel: *const c_char, call: *const RawCall, error: *mut c_char, bytes: usize) -> c_int;
    fn emulator_unwritten(buffer: c_uint, from: usize, to: usize) -> usize;
}

/// The kernels that were compiled, in order of their names.
pub fn kernels() -> Vec<&'static str> {
    // SAFETY: it writes as many names as there is room for; they are constants of the program.
    let names = unsafe {
        let count = emulator_kernels(ptr::null_mut(), 0);
        let mut names = vec![ptr::null(); count as usize];
        emulator_kernels(names.as_mut_ptr(), count);
        names.into_iter().map(|name| CStr::from_ptr(name))
    };
    let mut names: Vec<&str> = names.map(|name| name.to_str().expect("names are of our sources")).collect();
    names.sort_unstable();
    names
}

/// Runs a kernel over `buffers`, by their numbers.
pub fn dispatch(kernel: &str, geometry: &Geometry, buffers: &mut [Buffer<'_>]) -> Result<(), String> {
    if buffers.len() > MOST_BUFFERS {
        return Err(format!("{kernel}: more than {MOST_BUFFERS} buffers"));
    }
    let mut raw = [NO_BUFFER; MOST_BUFFERS];
    for (raw, buffer) in raw.iter_mut().zip(buffers) {
        *raw = match buffer {
            Buffer::Constant(bytes) => {
                RawBuffer { bytes: bytes.as_ptr().cast_mut(), length: bytes.len(), writable: false }
            }
            Buffer::Device(bytes) => RawBuffer { bytes: bytes.as_mut_ptr(), length: bytes.len(), writable: true },
        };
    }
    // SAFETY: the buffers live until this returns, and only those that are ours alone are written.
    unsafe { run(kernel, geometry, raw) }
}

const NO_BUFFER: RawBuffer = RawBuffer { bytes: ptr::null_mut(), length: 0, writable: false };

/// # Safety
/// Where a buffer has bytes, there are as many, nobody else uses them until this returns, and they may be written where it says so.
/// Buffers may overlap.
unsafe fn run(kernel: &str, geometry: &Geometry, buffers: [RawBuffer; MOST_BUFFERS]) -> Result<(), String> {
    let name = CString::new(kernel).map_err(|_| "a kernel's name has no zero in it".to_owned())?;
    if geometry.shared.len() > MOST_SHARED {
        return Err(format!("{kernel}: more than {MOST_SHARED} threadgroup arguments"));
    }
    let mut call = RawCall {
        buffers,
        defined: [false; MOST_CONSTANTS],
        constants: [0; MOST_CONSTANTS],
        threadgroups: geometry.threadgroups,
        threads: geometry.threads,
        shared: [0; MOST_SHARED],
        races: !geometry.bounds_only,
    };
    for (number, value) in &geometry.constants {
        let (Some(defined), Some(constant)) =
            (call.defined.get_mut(*number as usize), call.constants.get_mut(*number as usize))
        else {
            return Err(format!("{kernel}: function constant {number}, and there are {MOST_CONSTANTS}"));
        };
        (*defined, *constant) = (true, *value);
    }
    call.shared[..geometry.shared.len()].copy_from_slice(&geometry.shared);
    let mut error = [0; 512];
    // SAFETY: the call is laid out as the header has it; what a kernel does beyond its buffers is an error before it happens.
    let failed = unsafe { emulator_dispatch(name.as_ptr(), &call, error.as_mut_ptr(), error.len()) };
    match failed {
        0 => Ok(()),
        // SAFETY: the sentence ends with a zero inside the array.
        _ => Err(unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned()),
    }
}

/// The first byte of a buffer that the last dispatch of this thread should have written, and did not.
pub fn unwritten(buffer: usize, bytes: Range<usize>) -> Option<usize> {
    // SAFETY: it looks at what the emulator noted, within its bounds.
    let first = unsafe { emulator_unwritten(buffer.min(MOST_BUFFERS - 1) as c_uint, bytes.start, bytes.end) };
    (first < bytes.end).then_some(first)
}
