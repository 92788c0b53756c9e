//! Colours for Markdown as it streams: headings, emphasis, code, and thinking blocks dimmed.
//!
//! The text itself stays as it is, markers included; only styles are put between. What may still become a marker is
//! held back until the next piece.

use std::fmt::Write;

use owo_colors::Style;

const THINK: [(&str, bool); 4] = [("<think>", true), ("</think>", false), ("<thinking>", true), ("</thinking>", false)];
const FENCE: &str = "```";

/// What the next character is part of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    thinking: bool,
    fence: bool,
    code: bool,
    bold: bool,
    heading: bool,
}

impl Place {
    fn style(self) -> Option<Style> {
        let style = Style::new();
        match self {
            Place { thinking: true, .. } => Some(style.dimmed()),
            Place { fence: true, .. } | Place { code: true, .. } => Some(style.cyan()),
            Place { heading: true, .. } => Some(style.bold().underline()),
            Place { bold: true, .. } => Some(style.bold()),
            _ => None,
        }
    }
}

/// Paints one answer.
pub struct Painter {
    colours: bool,
    place: Place,
    painted: Place,
    line_start: bool,
    /// Held back: it may be the beginning of a marker.
    pending: String,
}

impl Painter {
    pub fn new(colours: bool, thinking: bool) -> Self {
        let place = Place { thinking, ..Place::default() };
        Self { colours, place, painted: Place::default(), line_start: true, pending: String::new() }
    }

    /// `text` with what was held back before it, painted as far as it is certain.
    pub fn push(&mut self, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        self.pending.push_str(text);
        self.paint(false)
    }

    /// The end: everything held back, and no colours from here on.
    pub fn finish(&mut self) -> String {
        if !self.colours {
            return String::new();
        }
        let mut out = self.paint(true);
        self.place = Place::default();
        self.switch(&mut out);
        out
    }

    fn paint(&mut self, end: bool) -> String {
        let text = std::mem::take(&mut self.pending);
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            if !end && self.undecided(rest) {
                self.pending = rest.to_owned();
                break;
            }
            rest = match self.marker(rest, &mut out) {
                Some(length) => &rest[length..],
                None => {
                    self.plain(c, &mut out);
                    &rest[c.len_utf8()..]
                }
            };
        }
        out
    }

    /// Whether more text could make this the beginning of a marker.
    fn undecided(&self, rest: &str) -> bool {
        let begins = |marker: &str| rest.len() < marker.len() && marker.starts_with(rest);
        THINK.iter().any(|(tag, _)| begins(tag)) || self.line_start && begins(FENCE) || rest == "*"
    }

    /// Handles a marker at the start of `rest`: its length.
    fn marker(&mut self, rest: &str, out: &mut String) -> Option<usize> {
        if let Some((tag, opens)) = THINK.iter().find(|(tag, _)| rest.starts_with(tag)) {
            // The tags are dimmed like what they enclose.
            self.place.thinking = true;
            self.write(tag, out);
            self.place = Place { thinking: *opens, ..Place::default() };
            return Some(tag.len());
        }
        if self.line_start && rest.starts_with(FENCE) {
            let closes = self.place.fence;
            self.place.fence = true;
            self.write(FENCE, out);
            self.place.fence = !closes;
            return Some(FENCE.len());
        }
        if self.place.fence {
            return None;
        }
        if rest.starts_with("**") && !self.place.code {
            let closes = self.place.bold;
            self.place.bold = true;
            self.write("**", out);
            self.place.bold = !closes;
            return Some(2);
        }
        if rest.starts_with('`') {
            let closes = self.place.code;
            self.place.code = true;
            self.write("`", out);
            self.place.code = !closes;
            return Some(1);
        }
        None
    }

    fn plain(&mut self, c: char, out: &mut String) {
        if self.line_start && c == '#' && !self.place.fence {
            self.place.heading = true;
        }
        if c == '\n' {
            // Emphasis does not cross lines; a forgotten marker must not colour the rest.
            self.place = Place { thinking: self.place.thinking, fence: self.place.fence, ..Place::default() };
        }
        self.switch(out);
        out.push(c);
        // Indented fences and headings are still that.
        self.line_start = c == '\n' || self.line_start && c == ' ';
    }

    fn write(&mut self, marker: &str, out: &mut String) {
        self.switch(out);
        out.push_str(marker);
        self.line_start = false;
    }

    /// Changes colours where the place has changed.
    fn switch(&mut self, out: &mut String) {
        if self.painted == self.place {
            return;
        }
        // Writing to a string cannot fail.
        if let Some(style) = self.painted.style() {
            let _ = write!(out, "{}", style.suffix_formatter());
        }
        if let Some(style) = self.place.style() {
            let _ = write!(out, "{}", style.prefix_formatter());
        }
        self.painted = self.place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "<think>\nhm, **x**\n</think>\n# Title\nSome **bold** and `code` *it*.\n\n\
                        ```rust\nlet a = \"**\";\n```\n1 < 2 `open\nend";

    fn painted(text: &str, step: usize) -> String {
        let mut painter = Painter::new(true, false);
        let chars: Vec<char> = text.chars().collect();
        let mut out: String = chars.chunks(step).map(|c| painter.push(&c.iter().collect::<String>())).collect();
        out.push_str(&painter.finish());
        out
    }

    fn stripped(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn the_text_stays_as_it_is_and_pieces_do_not_matter() {
        let whole = painted(TEXT, 10_000);
        assert_eq!(stripped(&whole), TEXT);
        for step in 1..12 {
            assert_eq!(painted(TEXT, step), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn thinking_is_dimmed_and_code_is_coloured() {
        let text = painted(TEXT, 3);
        assert!(text.starts_with("\u{1b}[2m<think>"), "{text:?}");
        assert!(text.contains("\u{1b}[36m`code`"), "{text:?}");
        assert!(text.contains("\u{1b}[36m```rust\nlet a = \"**\";\n```"), "{text:?}");
        assert!(text.contains("\u{1b}[1m**bold**"), "{text:?}");
    }

    #[test]
    fn without_colours_nothing_is_held_back() {
        let mut painter = Painter::new(false, true);
        assert_eq!(painter.push("**a"), "**a");
        assert_eq!(painter.push("<thi"), "<thi");
        assert_eq!(painter.finish(), "");
    }

    #[test]
    fn an_answer_may_begin_inside_a_thinking_block() {
        let mut painter = Painter::new(true, true);
        let text = painter.push("so</think>yes") + &painter.finish();
        assert!(text.starts_with("\u{1b}[2mso</think>\u{1b}["), "{text:?}");
        assert!(text.ends_with("yes"), "{text:?}");
    }
}
