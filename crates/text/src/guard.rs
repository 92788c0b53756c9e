//! Work of libraries that recurse over what they are given: on a stack of its own, and a panic is a result.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::thread;

/// Address space; only what is touched becomes memory.
const STACK_BYTES: usize = 256 << 20;

thread_local! {
    /// Whether panics of this thread are results.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives, or `None` where it panics or there is no thread for it.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                others(info);
            }
        }));
    });
    let guarded = || {
        GUARDED.set(true);
        work()
    };
    thread::scope(|scope| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, guarded).ok()?.join().ok())
}
