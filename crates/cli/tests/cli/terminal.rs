//! A real terminal: tmux, driven by keys, read as a screen.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use akunu_testkit::fixtures;

/// How long a screen may take to show something; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tmux server of its own with one window; ended when dropped.
pub struct Terminal {
    socket: String,
}

impl Terminal {
    /// Starts `akunu` with `arguments`; `None` (and a line that says so) where there is no tmux.
    pub fn start(arguments: &str) -> Option<Self> {
        Self::start_with("", arguments)
    }

    /// The same, with variables of the environment: `NAME=value`.
    pub fn start_with(environment: &str, arguments: &str) -> Option<Self> {
        let tmux = Command::new("tmux").arg("-V").output().ok().filter(|o| o.status.success());
        fixtures::needed(tmux, fixtures::Source::Fetched, "tmux")?;
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let socket = format!("akunu-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let terminal = Self { socket };
        // The shell stays after the command, so that its exit status can be seen, and Ctrl-C is not for it.
        let akunu = env!("CARGO_BIN_EXE_akunu");
        let line = format!("trap : INT; env {environment} {akunu} {arguments}; echo left with $?; cat");
        let started =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "sh", "-c", &line]);
        assert!(started.0, "tmux: {}", started.1);
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments);
        let output = command.env_remove("TMUX").env_remove("NO_COLOR").output().expect("tmux starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.key("Enter");
    }

    /// Presses a key by tmux's name: `C-c`, `Up`.
    pub fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    /// The screen as text.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-200"]).1
    }

    /// The screen with its escape sequences.
    pub fn coloured_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-S", "-200"]).1
    }

    /// Waits until the screen is as `wanted`, and returns it.
    #[track_caller]
    pub fn wait(&self, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "the screen never showed it:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits for the prompt after `text` has been shown.
    #[track_caller]
    pub fn wait_prompt_after(&self, text: &str) -> String {
        self.wait(|screen| screen.find(text).is_some_and(|at| screen[at..].trim_end().ends_with("\n>")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
