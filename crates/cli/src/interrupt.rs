//! Ctrl-C: asks the work in progress to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit status of a program that Ctrl-C stopped.
pub const EXIT_STATUS: u8 = 130;

/// How often somebody looks whether a signal came.
const POLL: Duration = Duration::from_millis(50);

fn end() -> ! {
    akunu_formats::abandon_outputs();
    std::process::exit(EXIT_STATUS.into())
}

/// From here on Ctrl-C, or being asked to end, removes what is not finished before the program ends.
pub fn leave_nothing_unfinished() -> io::Result<()> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    let watch = move || {
        while !flag.load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
        }
        end();
    };
    std::thread::Builder::new().name("akunu-interrupt".into()).spawn(watch)?;
    Ok(())
}

/// How long a step may go on after Ctrl-C, so that what it was for ends in order.
const PATIENCE: Duration = Duration::from_millis(800);

/// Set by Ctrl-C from when it is made.
#[derive(Clone)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    /// Raised by the signal, until it is cleared.
    asked: Arc<AtomicBool>,
    /// Whether the work has seen it.
    taken: AtomicBool,
}

impl Interrupt {
    /// From here on Ctrl-C asks the work to stop. Where that does not take it for most of a second, as in the middle of
    /// a long step, or where it is pressed again, the program ends.
    pub fn once() -> io::Result<Self> {
        Self::new(|asked_for, again, taken| again || !taken && asked_for >= PATIENCE)
    }

    /// From here on Ctrl-C asks the work to stop, and ends the program only where it is pressed again before the work took it.
    pub fn always() -> io::Result<Self> {
        Self::new(|_, again, taken| again && !taken)
    }

    /// `ends`: whether to end the program so long after being asked, when asked again or not, and when the work took it or not.
    fn new(ends: fn(Duration, bool, bool) -> bool) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let raised = Arc::new(AtomicBool::new(false));
        // Before the other: whoever sees that it was raised sees that it was asked for.
        signal_hook::flag::register(SIGINT, state.asked.clone())?;
        signal_hook::flag::register(SIGINT, raised.clone())?;
        let watched = state.clone();
        let watch = move || {
            let mut since = None;
            loop {
                std::thread::sleep(POLL);
                let again = raised.swap(false, Ordering::Relaxed) && since.is_some();
                since = match watched.asked.load(Ordering::Relaxed) {
                    true => since.or_else(|| Some(Instant::now())),
                    false => None,
                };
                let taken = watched.taken.load(Ordering::Relaxed);
                if since.is_some_and(|since| ends(since.elapsed(), again, taken)) {
                    end();
                }
            }
        };
        std::thread::Builder::new().name("akunu-interrupt".into()).spawn(watch)?;
        Ok(Self(state))
    }

    /// Whether to stop; who asks and is told so takes it.
    pub fn is_set(&self) -> bool {
        let asked = self.0.asked.load(Ordering::Relaxed);
        if asked {
            self.0.taken.store(true, Ordering::Relaxed);
        }
        asked
    }

    /// Ready for the next.
    pub fn clear(&self) {
        self.0.asked.store(false, Ordering::Relaxed);
        self.0.taken.store(false, Ordering::Relaxed);
    }
}
