//! Arguments as `{key:value}`, with strings between marks of their own: read as the JSON that they mean.

use serde_json::Value;

pub struct Braces {
    quote: Vec<char>,
    /// Whether what is open is an object, from outside in.
    open: Vec<bool>,
    state: State,
    /// Characters that may become a mark.
    held: String,
}

enum State {
    Key(String),
    /// A value begins.
    Value,
    Scalar(String),
    Text,
    /// A value is complete.
    After,
}

/// Values are not nested deeper, and keys and numbers are not longer.
const DEEPEST: usize = 128;
const LONGEST: usize = 1024;

impl Braces {
    pub fn new(quote: Vec<char>) -> Self {
        Self { quote, open: Vec::new(), state: State::Value, held: String::new() }
    }

    /// One more character: whether all is complete; `None` where it cannot go on so.
    pub fn read(&mut self, c: char, out: &mut String) -> Option<bool> {
        match &mut self.state {
            State::Key(key) => match c {
                ':' => {
                    out.push_str(&Value::from(key.trim()).to_string());
                    out.push_str(": ");
                    self.state = State::Value;
                }
                '}' if key.trim().is_empty() => return self.close(true, out),
                _ if key.len() < LONGEST => key.push(c),
                _ => return None,
            },
            State::Value => {
                if self.held.is_empty() {
                    match c {
                        '{' | '[' if self.open.len() < DEEPEST => {
                            out.push(c);
                            self.open.push(c == '{');
                            self.state = if c == '{' { State::Key(String::new()) } else { State::Value };
                            return Some(false);
                        }
                        ']' => return self.close(false, out),
                        _ if c.is_whitespace() => return Some(false),
                        _ => {}
                    }
                }
                self.held.push(c);
                if !self.held.chars().zip(&self.quote).all(|(a, b)| a == *b) {
                    let held = std::mem::take(&mut self.held);
                    self.state = State::Scalar(String::new());
                    for c in held.chars() {
                        if self.read(c, out)? {
                            return Some(true);
                        }
                    }
                } else if self.held.chars().count() == self.quote.len() {
                    self.held.clear();
                    out.push('"');
                    self.state = State::Text;
                }
            }
            State::Scalar(value) => match c {
                ',' | '}' | ']' => {
                    let value = value.trim();
                    match value {
                        "None" => out.push_str("null"),
                        _ if serde_json::from_str::<Value>(value).is_ok() => out.push_str(value),
                        _ => out.push_str(&Value::from(value).to_string()),
                    }
                    self.state = State::After;
                    return self.read(c, out);
                }
                _ if value.len() < LONGEST => value.push(c),
                _ => return None,
            },
            State::Text => {
                self.held.push(c);
                while !self.held.is_empty() {
                    if self.held.chars().zip(&self.quote).all(|(a, b)| a == *b) {
                        if self.held.chars().count() == self.quote.len() {
                            self.held.clear();
                            out.push('"');
                            self.state = State::After;
                        }
                        break;
                    }
                    let quoted = Value::from(self.held.remove(0).to_string()).to_string();
                    out.push_str(&quoted[1..quoted.len() - 1]);
                }
            }
            State::After => match c {
                ',' => {
                    out.push_str(", ");
                    let object = self.open.last().copied().unwrap_or_default();
                    self.state = if object { State::Key(String::new()) } else { State::Value };
                }
                '}' | ']' => return self.close(c == '}', out),
                _ if c.is_whitespace() => {}
                _ => return None,
            },
        }
        Some(false)
    }

    fn close(&mut self, object: bool, out: &mut String) -> Option<bool> {
        if self.open.pop()? != object {
            return None;
        }
        out.push(if object { '}' } else { ']' });
        self.state = State::After;
        Some(self.open.is_empty())
    }
}
