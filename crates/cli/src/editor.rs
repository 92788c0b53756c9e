//! Reading messages: line editing and history at a terminal, plain lines elsewhere, several lines to a message.

use std::path::PathBuf;

use anyhow::Result;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor as Line};

const BLOCK: &str = "\"\"\"";

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    Message(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// Ctrl-D, or the end of what was piped in.
    End,
}

pub struct Editor {
    line: Line<(), DefaultHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    /// `history` is where lines are remembered, if at all.
    pub fn new(history: Option<PathBuf>) -> Result<Self> {
        let config = Config::builder().max_history_size(1000)?.auto_add_history(false).build();
        let lines = DefaultHistory::with_config(&config);
        let mut line = Line::with_history(config, lines)?;
        if let Some(path) = &history {
            // No history yet, or none that can be read: it begins anew.
            let _ = line.load_history(path);
        }
        Ok(Self { line, history })
    }

    /// One message, of as many lines as it takes.
    pub fn read(&mut self) -> Result<Entered> {
        let mut message = Assembly::default();
        loop {
            let prompt = if message.is_empty() { "> " } else { "… " };
            match self.line.readline(prompt) {
                Ok(line) => {
                    if let Some(text) = message.push(&line) {
                        self.remember(&text);
                        return Ok(Entered::Message(text));
                    }
                }
                Err(ReadlineError::Interrupted) => return Ok(Entered::Interrupted),
                Err(ReadlineError::Eof) => {
                    return Ok(message.unfinished().map_or(Entered::End, Entered::Message));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A history that cannot be written is no reason to stop talking.
    fn remember(&mut self, text: &str) {
        if let Some(path) = &self.history
            && !text.trim().is_empty()
            && self.line.add_history_entry(text).unwrap_or(false)
        {
            let _ = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            let _ = self.line.append_history(path);
        }
    }
}

/// Lines on their way to a message: a backslash at the end goes on, three quotes begin and end a block.
#[derive(Default)]
struct Assembly {
    lines: Vec<String>,
    block: bool,
}

impl Assembly {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.block
    }

    /// The message, if this line ends it.
    fn push(&mut self, line: &str) -> Option<String> {
        if self.block {
            match line.trim_end().strip_suffix(BLOCK) {
                Some(last) => {
                    if !last.is_empty() {
                        self.lines.push(last.to_owned());
                    }
                    return Some(self.take());
                }
                None => self.lines.push(line.to_owned()),
            }
            return None;
        }
        if self.lines.is_empty()
            && let Some(first) = line.trim_start().strip_prefix(BLOCK)
        {
            self.block = true;
            return if first.trim().is_empty() { None } else { self.push(first) };
        }
        match line.strip_suffix('\\') {
            Some(part) => {
                self.lines.push(part.to_owned());
                None
            }
            None => {
                self.lines.push(line.to_owned());
                Some(self.take())
            }
        }
    }

    fn take(&mut self) -> String {
        self.block = false;
        std::mem::take(&mut self.lines).join("\n")
    }

    /// What is there when the input ends in the middle.
    fn unfinished(&mut self) -> Option<String> {
        let text = self.take();
        (!text.trim().is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(lines: &[&str]) -> Vec<String> {
        let mut assembly = Assembly::default();
        lines.iter().filter_map(|l| assembly.push(l)).collect()
    }

    #[test]
    fn a_line_is_a_message_unless_it_says_otherwise() {
        assert_eq!(messages(&["one", "two"]), ["one", "two"]);
        assert_eq!(messages(&["one\\", "two", "three"]), ["one\ntwo", "three"]);
        assert_eq!(messages(&["\"\"\"", "a", "", "b\\", "\"\"\"", "c"]), ["a\n\nb\\", "c"]);
        assert_eq!(messages(&["\"\"\"a", "b\"\"\""]), ["a\nb"]);
        assert_eq!(messages(&["\"\"\"a\"\"\""]), ["a"]);
    }

    #[test]
    fn input_that_ends_in_a_block_is_still_a_message() {
        let mut assembly = Assembly::default();
        assert_eq!((assembly.push("\"\"\"x"), assembly.push("y")), (None, None));
        assert_eq!(assembly.unfinished(), Some("x\ny".to_owned()));
        assert_eq!(Assembly::default().unfinished(), None);
    }
}
