//! The arguments of a call, as they come: JSON whatever the format, or the text of a tool that takes one.

use serde_json::Value;

use super::braces::Braces;
use super::fixed::{Came, Fixed, one_more};
use super::literal::{TOKEN_BEGINS, TOKEN_ENDS};
use super::parameters::{Kind, Parameter};
use super::unwrap::Unwrap;
use super::{Inner, Tool, ToolInput};

/// How arguments begin.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// The bracket of an object was read.
    Object,
    /// What opens the first of several was read.
    Key,
    /// There are none; the call's end was read.
    Empty,
    /// A text in their place.
    Raw,
}

/// What a character did.
pub enum Progress {
    More,
    /// The arguments are complete.
    Over,
    /// The call is.
    CallOver,
    /// This is not how arguments go on.
    Wrong(String),
}

pub struct Arguments {
    mode: Mode,
    out: String,
    /// Of a tool that takes a text.
    unwrap: Option<Unwrap>,
    /// Inside a special token, which is no argument.
    in_token: bool,
}

enum Mode {
    Json {
        depth: usize,
        string: bool,
        escaped: bool,
    },
    /// Whether white space of what comes before it may come yet.
    Raw(bool),
    Braces(Braces),
    Tagged(Tagged),
    Over,
}

struct Tagged {
    parameters: Vec<Parameter>,
    state: State,
    held: String,
    any: bool,
    open: Vec<char>,
    equals: [Vec<char>; 2],
    /// Whether the two say what a value is.
    typed: bool,
    /// A line break that belongs to the tag before a value, and to the one after it.
    breaks: (bool, bool),
    close: Vec<char>,
    after: Vec<char>,
}

enum State {
    Between(Vec<Fixed<bool>>),
    Key(String),
    Equals(String, Vec<Fixed<usize>>),
    Value { kind: Kind, value: String, fresh: bool, text: bool },
}

/// Keys are not longer.
const LONGEST_KEY: usize = 1024;

impl Arguments {
    pub fn new(inner: &Inner, tool: &Tool, entry: Entry) -> Self {
        let unwrap = matches!(tool.parameters, ToolInput::Text(_)) && !tool.is_raw();
        let mode = match (entry, &inner.pieces.tags) {
            (Entry::Object, _) => match &inner.pieces.quote {
                Some(quote) => Mode::Braces(Braces::new(quote.exact())),
                None => Mode::Json { depth: 0, string: false, escaped: false },
            },
            (Entry::Key, Some(tags)) => Mode::Tagged(Tagged {
                parameters: tool.parameters(),
                state: State::Key(String::new()),
                held: String::new(),
                any: false,
                open: tags.open.marked(),
                equals: [tags.equals[0].marked(), tags.equals[1].marked()],
                typed: tags.equals[0] != tags.equals[1],
                breaks: (tags.equals[0].ends_in_break(), tags.close.begins_with_break()),
                close: tags.close.marked(),
                after: inner.pieces.after.marked(),
            }),
            (Entry::Raw, _) => Mode::Raw(inner.pieces.middle.ends_in_space()),
            _ => Mode::Over,
        };
        let mut new = Self { mode, out: String::new(), unwrap: unwrap.then(Unwrap::default), in_token: false };
        match entry {
            Entry::Object => drop(new.read('{')),
            Entry::Empty => new.put("{}"),
            Entry::Key | Entry::Raw => {}
        }
        new
    }

    /// What has come since it was asked last.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// The reply ends here.
    pub fn end(&mut self) {
        if let Mode::Tagged(tagged) = &mut self.mode
            && matches!(tagged.state, State::Value { .. })
        {
            let held = std::mem::take(&mut tagged.held);
            let mut out = String::new();
            held.chars().for_each(|c| tagged.value(c, &mut out));
            self.put(&out);
        }
    }

    fn put(&mut self, text: &str) {
        match &mut self.unwrap {
            Some(unwrap) => text.chars().for_each(|c| unwrap.read(c, &mut self.out)),
            None => self.out.push_str(text),
        }
    }

    pub fn read(&mut self, c: char) -> Progress {
        match &mut self.mode {
            Mode::Tagged(tagged) => {
                let mut out = String::new();
                let progress = tagged.read(c, &mut out);
                self.put(&out);
                return progress;
            }
            Mode::Braces(braces) => {
                let mut out = String::new();
                let read = braces.read(c, &mut out);
                self.put(&out);
                return match read {
                    Some(true) => Progress::Over,
                    Some(false) => Progress::More,
                    None => Progress::Wrong(c.into()),
                };
            }
            _ if c == TOKEN_BEGINS || self.in_token => {
                self.in_token = c != TOKEN_ENDS;
                return Progress::More;
            }
            Mode::Json { depth, string, escaped } => {
                match c {
                    _ if *escaped => *escaped = false,
                    '\\' if *string => *escaped = true,
                    '"' => *string = !*string,
                    '{' | '[' if !*string => *depth += 1,
                    '}' | ']' if !*string => *depth -= 1,
                    _ => {}
                }
                let over = *depth == 0;
                self.put(c.encode_utf8(&mut [0; 4]));
                if over {
                    return Progress::Over;
                }
            }
            Mode::Raw(space) => {
                if !(std::mem::replace(space, false) && c.is_whitespace()) {
                    self.put(c.encode_utf8(&mut [0; 4]));
                }
            }
            Mode::Over => return Progress::CallOver,
        }
        Progress::More
    }
}

impl Tagged {
    fn read(&mut self, c: char, out: &mut String) -> Progress {
        match std::mem::replace(&mut self.state, State::Key(String::new())) {
            State::Between(options) => {
                self.held.push(c);
                match one_more(options, c) {
                    Came::All(true) => self.held.clear(),
                    Came::All(false) => {
                        out.push('}');
                        return Progress::CallOver;
                    }
                    Came::Part(options) => self.state = State::Between(options),
                    Came::Nothing => {
                        out.push('}');
                        return Progress::Wrong(std::mem::take(&mut self.held));
                    }
                }
            }
            State::Key(mut key) => {
                if self.equals[0].first() != Some(&c) && key.len() < LONGEST_KEY {
                    key.push(c);
                    self.state = State::Key(key);
                } else {
                    let options = self.equals.iter().enumerate();
                    let options = options.filter_map(|(n, chars)| Fixed::new(chars.clone(), n)).collect();
                    self.state = State::Equals(key.trim().to_owned(), options);
                    return self.read(c, out);
                }
            }
            State::Equals(key, options) => match one_more(options, c) {
                Came::All(which) => {
                    let declared = self.parameters.iter().find(|parameter| parameter.name == key);
                    let kind = match (self.typed, declared) {
                        (true, _) if which == 0 => Kind::Text,
                        (false, Some(parameter)) => parameter.kind.clone(),
                        _ => Kind::Json,
                    };
                    out.push_str(if self.any { ", " } else { "{" });
                    self.any = true;
                    out.push_str(&Value::from(key).to_string());
                    out.push_str(": ");
                    self.state = State::Value { kind, value: String::new(), fresh: self.breaks.0, text: false };
                }
                Came::Part(options) => self.state = State::Equals(key, options),
                Came::Nothing => {
                    out.push_str(if self.any { "}" } else { "{}" });
                    return Progress::Wrong(c.into());
                }
            },
            value @ State::Value { .. } => {
                self.state = value;
                self.held.push(c);
                while !self.held.is_empty() {
                    let tail = self.held.strip_prefix('\n').filter(|_| self.breaks.1).unwrap_or(&self.held);
                    let length = tail.chars().count();
                    if tail.chars().zip(&self.close).all(|(a, b)| a == *b) && length <= self.close.len() {
                        if length == self.close.len() {
                            self.held.clear();
                            self.finish(out);
                            self.between();
                        }
                        break;
                    }
                    let first = self.held.remove(0);
                    self.value(first, out);
                }
            }
        }
        Progress::More
    }

    /// After a value: another key, or the end.
    fn between(&mut self) {
        let options = [(&self.open, true), (&self.after, false)];
        let options = options.into_iter().filter_map(|(chars, more)| Fixed::new(chars.clone(), more)).collect();
        self.state = State::Between(options);
    }

    /// A character of a value.
    fn value(&mut self, c: char, out: &mut String) {
        let State::Value { kind, value, fresh, text } = &mut self.state else { return };
        if std::mem::replace(fresh, false) && c == '\n' {
            return;
        }
        value.push(c);
        let shows = match kind {
            Kind::Text => true,
            Kind::TextOrNull => *text || !"null".starts_with(&**value),
            Kind::Json => false,
        };
        if shows {
            if !std::mem::replace(text, true) {
                out.push('"');
            }
            let quoted = Value::from(std::mem::take(value)).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }

    /// The value is complete.
    fn finish(&mut self, out: &mut String) {
        let State::Value { kind, value, text, .. } = &self.state else { return };
        match kind {
            _ if *text => out.push('"'),
            Kind::Text => out.push_str("\"\""),
            Kind::TextOrNull if value == "null" => out.push_str("null"),
            Kind::Json if serde_json::from_str::<Value>(value).is_ok() => out.push_str(value.trim()),
            // Some templates show the words that Python has for them.
            Kind::Json if value.trim() == "True" => out.push_str("true"),
            Kind::Json if value.trim() == "False" => out.push_str("false"),
            Kind::Json if value.trim() == "None" => out.push_str("null"),
            Kind::TextOrNull | Kind::Json => out.push_str(&Value::from(value.as_str()).to_string()),
        }
    }
}
