//! Ctrl-C: asks the work in progress to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit status of a program that Ctrl-C stopped.
pub const EXIT_STATUS: u8 = 130;

/// From here on Ctrl-C, or being asked to end, removes what is not finished before the program ends.
pub fn leave_nothing_unfinished() -> io::Result<()> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    let watch = move || {
        while !flag.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        akunu_formats::abandon_outputs();
        std::process::exit(EXIT_STATUS.into());
    };
    std::thread::Builder::new().name("akunu-interrupt".into()).spawn(watch)?;
    Ok(())
}

/// Set by Ctrl-C from when it is made.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on Ctrl-C no longer ends the program; a second one does where the first was not taken.
    pub fn once() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        // Before the other: the first Ctrl-C finds the flag still down.
        signal_hook::flag::register_conditional_shutdown(SIGINT, EXIT_STATUS.into(), flag.clone())?;
        signal_hook::flag::register(SIGINT, flag.clone())?;
        Ok(Self(flag))
    }

    /// From here on Ctrl-C never ends the program.
    pub fn always() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, flag.clone())?;
        Ok(Self(flag))
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ready for the next.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
