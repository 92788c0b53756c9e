//! The caller's memory: texts, arrays and structs that pointers lead to.
//!
//! Each of these types is made from a pointer, which takes the caller's word that the header asks for: it is null, or leads to
//! that many values for as long as the call lasts. What can be checked is checked when the memory is used.

use crate::call::{Failure, Outcome};
use crate::types::*;
use std::ffi::{CStr, c_char};
use std::mem::{align_of, size_of};

fn check<T>(what: &str, pointer: *const T, count: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format_args!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format_args!("{what} is not aligned to {} bytes", align_of::<T>())));
    }
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Failure::argument(format_args!("{what} has {count} items, more than memory can have"))),
    }
}

/// A text that the caller gave.
pub struct Text {
    what: &'static str,
    pointer: *const c_char,
    length: usize,
}

impl Text {
    /// # Safety
    /// While this lives `pointer` is null, or leads to `length` bytes, or with [`AKUNU_NUL_TERMINATED`] to some that end with a NUL.
    pub unsafe fn new(what: &'static str, pointer: *const c_char, length: usize) -> Self {
        Self { what, pointer, length }
    }

    pub fn str(&self) -> Result<&str, Failure> {
        let what = self.what;
        if self.pointer.is_null() && self.length == 0 {
            return Ok("");
        }
        let bytes = match self.length {
            AKUNU_NUL_TERMINATED => {
                check(what, self.pointer, 0)?;
                // SAFETY: it is not null, and the caller of `new` promised a NUL at its end.
                unsafe { CStr::from_ptr(self.pointer) }.to_bytes()
            }
            length => {
                check(what, self.pointer, length)?;
                // SAFETY: it is not null, no longer than memory can be, and promised to `new`.
                unsafe { std::slice::from_raw_parts(self.pointer.cast::<u8>(), length) }
            }
        };
        std::str::from_utf8(bytes).map_err(|e| Failure::argument(format_args!("{what} is not UTF-8: {e}")))
    }

    /// The same, where it may be null.
    pub fn given(&self) -> Result<Option<&str>, Failure> {
        if self.pointer.is_null() { Ok(None) } else { self.str().map(Some) }
    }
}

/// An array that the caller gave.
pub struct Items<T> {
    what: &'static str,
    pointer: *const T,
    count: usize,
}

impl<T: Copy> Items<T> {
    /// # Safety
    /// While this lives `pointer` is null or leads to `count` values.
    pub unsafe fn new(what: &'static str, pointer: *const T, count: usize) -> Self {
        Self { what, pointer, count }
    }

    pub fn slice(&self) -> Result<&[T], Failure> {
        if self.count == 0 {
            return Ok(&[]);
        }
        check(self.what, self.pointer, self.count)?;
        // SAFETY: it is not null, aligned, no longer than memory can be, and promised to `new`.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, self.count) })
    }
}

impl Items<*const c_char> {
    /// Texts that end with a NUL.
    pub fn texts(&self) -> Result<Vec<&str>, Failure> {
        let text = |pointer: &*const c_char| {
            check(self.what, *pointer, 0)?;
            // SAFETY: it is not null, and the header asks for a NUL at the end of every text of an array.
            let text = unsafe { CStr::from_ptr(*pointer) };
            text.to_str().map_err(|e| Failure::argument(format_args!("{} is not UTF-8: {e}", self.what)))
        };
        self.slice()?.iter().map(text).collect()
    }
}

/// An array of the caller's that is changed.
pub struct ItemsMut<T> {
    what: &'static str,
    pointer: *mut T,
    count: usize,
}

impl<T: Copy> ItemsMut<T> {
    /// # Safety
    /// While this lives `pointer` is null or leads to `count` values, which nobody else uses.
    pub unsafe fn new(what: &'static str, pointer: *mut T, count: usize) -> Self {
        Self { what, pointer, count }
    }

    pub fn slice(&mut self) -> Result<&mut [T], Failure> {
        if self.count == 0 {
            return Ok(&mut []);
        }
        check(self.what, self.pointer, self.count)?;
        // SAFETY: it is not null, aligned, no longer than memory can be, and promised to `new`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer, self.count) })
    }
}

/// Room that the caller has for an array.
pub struct Room<T> {
    what: &'static str,
    pointer: *mut T,
    capacity: usize,
    count: *mut usize,
}

impl<T: Copy> Room<T> {
    /// # Safety
    /// While this lives `pointer` is null or leads to room for `capacity` values, and `count` is null or leads to one.
    pub unsafe fn new(what: &'static str, pointer: *mut T, capacity: usize, count: *mut usize) -> Self {
        Self { what, pointer, capacity, count }
    }

    fn write_count(&self, count: usize) -> Result<(), Failure> {
        if !self.count.is_null() {
            check("the count", self.count, 1)?;
            // SAFETY: it is not null, aligned, and promised to `new`.
            unsafe { self.count.write(count) };
        }
        Ok(())
    }

    /// Says how many values there will be. Whether that was the question, because there is no room at all; too little room is an
    /// error, and so found before any work is done.
    pub fn asks_or_lacks(&self, count: usize) -> Result<bool, Failure> {
        self.has(count, count)
    }

    fn has(&self, count: usize, needed: usize) -> Result<bool, Failure> {
        self.write_count(count)?;
        if self.capacity == 0 {
            return Ok(true);
        }
        check(self.what, self.pointer, self.capacity)?;
        if needed > self.capacity {
            let why = format_args!("{} has room for {}, and {needed} are needed", self.what, self.capacity);
            return Err(Failure::new(AKUNU_ERROR_BUFFER, why));
        }
        Ok(false)
    }

    /// Says how many values there are, and copies them where there is room for `needed`.
    fn fill(&self, values: &[T], needed: usize) -> Outcome {
        if self.has(values.len(), needed)? {
            return Ok(AKUNU_OK);
        }
        // SAFETY: it is not null, aligned, promised to `new`, and `values.len() <= needed <= capacity`. `values` are ours.
        unsafe { self.pointer.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(AKUNU_OK)
    }

    pub fn put(&self, values: &[T]) -> Outcome {
        self.fill(values, values.len())
    }
}

impl Room<c_char> {
    /// A text and a NUL, which its length does not count.
    pub fn put_text(&self, text: &str) -> Outcome {
        let bytes: Vec<c_char> = text.bytes().map(|b| b as c_char).collect();
        let status = self.fill(&bytes, bytes.len() + 1)?;
        if self.capacity > 0 {
            // SAFETY: `fill` has found room for one more than these.
            unsafe { self.pointer.add(bytes.len()).write(0) };
        }
        Ok(status)
    }
}

/// Where the caller wants one value.
pub struct Out<T>(&'static str, *mut T);

impl<T: Copy> Out<T> {
    /// # Safety
    /// While this lives `pointer` is null or leads to room for one value.
    pub unsafe fn new(what: &'static str, pointer: *mut T) -> Self {
        Self(what, pointer)
    }

    /// Asked before anything is made whose handle would be lost.
    pub fn check(&self) -> Result<(), Failure> {
        check(self.0, self.1, 1)
    }

    pub fn put(&self, value: T) -> Outcome {
        self.check()?;
        // SAFETY: it is not null, aligned, and promised to `new`.
        unsafe { self.1.write(value) };
        Ok(AKUNU_OK)
    }
}

/// A struct that may grow: callers say in its first field how much of it they know.
///
/// # Safety
/// It is `repr(C)` without padding, its first field is `size: u32`, and all bytes zero are a value.
pub unsafe trait Growing: Copy {
    /// Bytes of its first version.
    const FIRST: usize;
    /// What a caller has who says nothing; `size` is right.
    fn defaults() -> Self;
}

/// More than any version of any struct has.
const LARGEST: usize = 4096;

/// The size that a caller has written, where there can be such a version.
fn said<T: Growing>(what: &str, pointer: *const T) -> Result<usize, Failure> {
    check(what, pointer, 1)?;
    // SAFETY: it is not null, aligned, and leads at least to the first field.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    if !(T::FIRST..=LARGEST).contains(&size) {
        let why =
            format_args!("{what} says that it has {size} bytes, and has at least {}: set its size first", T::FIRST);
        return Err(Failure::argument(why));
    }
    Ok(size)
}

/// Options that the caller gave; the defaults where the pointer is null.
///
/// # Safety
/// `pointer` is null or leads to a struct of as many bytes as its first field says.
pub unsafe fn read<T: Growing>(what: &str, pointer: *const T) -> Result<T, Failure> {
    let mut value = T::defaults();
    if pointer.is_null() {
        return Ok(value);
    }
    let size = said(what, pointer)?;
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promised `size` bytes; what lies beyond those that we know is read as bytes.
    let unknown = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
    if unknown.iter().any(|byte| *byte != 0) {
        let why = format_args!("{what} uses fields that this version of the library does not know");
        return Err(Failure::argument(why));
    }
    // SAFETY: `known` bytes are there on both sides, and `T` takes any.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast(), known) };
    Ok(value)
}

/// Writes defaults into a struct of `size` bytes; what we do not know of it becomes zero.
///
/// # Safety
/// `pointer` is null or leads to `size` bytes.
pub unsafe fn write_defaults<T: Growing>(pointer: *mut T, size: usize) -> Outcome {
    check("the struct", pointer, 1)?;
    if !(T::FIRST..=LARGEST).contains(&size) {
        return Err(Failure::argument(format_args!("{size} is not the size of the struct")));
    }
    let (defaults, known) = (T::defaults(), size.min(size_of::<T>()));
    // SAFETY: `size` bytes are promised; all of them become zero, then those that we know the defaults, then their number.
    unsafe {
        pointer.cast::<u8>().write_bytes(0, size);
        std::ptr::copy_nonoverlapping((&raw const defaults).cast::<u8>(), pointer.cast(), known);
        pointer.cast::<u32>().write(size as u32);
    }
    Ok(AKUNU_OK)
}

/// Where the caller wants a struct, whose size is set.
pub struct Report<T>(&'static str, *mut T);

impl<T: Growing> Report<T> {
    /// # Safety
    /// While this lives `pointer` is null or leads to a struct of as many bytes as its first field says.
    pub unsafe fn new(what: &'static str, pointer: *mut T) -> Self {
        Self(what, pointer)
    }

    /// Asked before any work is done.
    pub fn check(&self) -> Result<(), Failure> {
        if self.1.is_null() { Ok(()) } else { said(self.0, self.1).map(drop) }
    }

    /// The part of it that the caller knows, but for the size; nothing where the pointer is null.
    pub fn put(&self, value: &T) -> Outcome {
        if !self.1.is_null() {
            const AFTER: usize = size_of::<u32>();
            let known = said(self.0, self.1)?.min(size_of::<T>());
            let from = (&raw const *value).cast::<u8>();
            // SAFETY: `known` bytes are there on both sides, more than the first field's, and `T` has no padding.
            unsafe { std::ptr::copy_nonoverlapping(from.add(AFTER), self.1.cast::<u8>().add(AFTER), known - AFTER) };
        }
        Ok(AKUNU_OK)
    }

    /// The same, where null would be pointless.
    pub fn must_put(&self, value: &T) -> Outcome {
        check(self.0, self.1, 1)?;
        self.put(value)
    }
}

/// A name in a field of fixed width: as much of it as fits before a NUL.
pub fn name<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    let text = &text[..text.floor_char_boundary(N - 1)];
    field.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    field
}
