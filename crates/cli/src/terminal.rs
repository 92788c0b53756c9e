//! Standard output and error: colours only where they are wanted, progress only for people.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Standard output, buffered until `flush`; colours go where a terminal is and `NO_COLOR` is not.
pub fn out() -> impl Write {
    io::BufWriter::new(anstream::stdout())
}

/// Standard error, with colours by the same rule.
pub fn err() -> impl Write {
    anstream::stderr()
}

/// Whether styled text reaches somebody.
pub fn colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Text out of a model or a file, safe for a terminal: escape sequences in it must not move the cursor or
/// rename the window. What goes into a pipe stays as it is.
pub struct Sanitizer {
    terminal: bool,
}

impl Sanitizer {
    pub fn for_stdout() -> Self {
        Self { terminal: io::stdout().is_terminal() }
    }

    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.terminal { printable(text) } else { Cow::Borrowed(text) }
    }
}

/// Control characters other than newline and tab, and those that turn the direction of writing, become U+FFFD.
pub fn printable(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || turns(c);
    if text.contains(bad) { text.replace(bad, "\u{fffd}").into() } else { text.into() }
}

/// A progress bar over bytes; invisible where standard error is no terminal.
#[cfg(any(feature = "hub", feature = "convert"))]
pub fn byte_progress(what: &str) -> ProgressBar {
    // The target hides itself where there is no terminal.
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left");
    // The template is a constant; where it did not parse, the default style serves too.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// A progress bar over steps, with the time left; invisible where standard error is no terminal.
pub fn step_progress(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}}/{{len}} {what}, {{eta}} left {{msg}}"))
    {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(printable("a\u{1b}]0;x\u{7}b\n\tc\u{9b}"), "a\u{fffd}]0;x\u{fffd}b\n\tc\u{fffd}");
        assert!(matches!(printable("plain ünï\n"), Cow::Borrowed(_)));
    }
}
