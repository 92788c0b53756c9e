//! What calls come to.

/// What a call came to: 0 or more where it did what it was asked for, less where it failed.
pub type akunu_status = i32;

/// It is done.
pub const AKUNU_OK: akunu_status = 0;
/// A callback asked to stop. What was there before stays.
pub const AKUNU_STOPPED: akunu_status = 1;
/// A request has not ended yet.
pub const AKUNU_PENDING: akunu_status = 2;
/// An argument is null, out of range, not UTF-8, or a struct whose size is not set.
pub const AKUNU_ERROR_ARGUMENT: akunu_status = -1;
/// A handle is zero, was freed, or is of another kind.
pub const AKUNU_ERROR_HANDLE: akunu_status = -2;
/// Something is in use, and the call cannot wait for it.
pub const AKUNU_ERROR_BUSY: akunu_status = -3;
/// The buffer is too small. The count says what is needed; nothing was written.
pub const AKUNU_ERROR_BUFFER: akunu_status = -4;
/// A file is not there, damaged, or not supported.
pub const AKUNU_ERROR_FILE: akunu_status = -5;
/// The model cannot do that.
pub const AKUNU_ERROR_MODEL: akunu_status = -6;
/// The device is not there.
pub const AKUNU_ERROR_DEVICE: akunu_status = -7;
/// There is not enough memory, or the KV cache is full.
pub const AKUNU_ERROR_MEMORY: akunu_status = -8;
/// The text does not fit the context.
pub const AKUNU_ERROR_CONTEXT: akunu_status = -9;
/// The grammar cannot be kept.
pub const AKUNU_ERROR_GRAMMAR: akunu_status = -10;
/// There is no chat template, or it refuses the messages.
pub const AKUNU_ERROR_TEMPLATE: akunu_status = -11;
/// This is the child of a fork, and the handles are its parent's.
pub const AKUNU_ERROR_FORKED: akunu_status = -12;
/// A fault in the library was contained.
pub const AKUNU_ERROR_FAULT: akunu_status = -13;
/// Anything else; `akunu_last_error` says what.
pub const AKUNU_ERROR_FAILED: akunu_status = -14;
