//! Fixed characters that come one at a time, with white space anywhere between them.

use super::literal::ID;

/// What may come, how much of it has come, and what follows it.
pub struct Fixed<T> {
    chars: Vec<char>,
    at: usize,
    pub then: T,
}

/// What became of several of them with one more character.
pub enum Came<T> {
    /// This one is complete.
    All(T),
    /// One of them may become complete.
    Part(Vec<Fixed<T>>),
    /// None can.
    Nothing,
}

impl<T> Fixed<T> {
    /// `None` where there is nothing to come.
    pub fn new(chars: Vec<char>, then: T) -> Option<Self> {
        (!chars.is_empty()).then_some(Self { chars, at: 0, then })
    }

    fn goes_on(&mut self, c: char) -> bool {
        if self.chars.get(self.at) == Some(&ID) {
            if c.is_ascii_alphanumeric() {
                return true;
            }
            self.at += 1;
        }
        self.at += 1;
        self.chars.get(self.at - 1) == Some(&c)
    }
}

pub fn one_more<T>(mut options: Vec<Fixed<T>>, c: char) -> Came<T> {
    if c.is_whitespace() && !options.is_empty() {
        return Came::Part(options);
    }
    options.retain_mut(|option| option.goes_on(c));
    match options.iter().position(|option| option.at == option.chars.len()) {
        Some(found) => Came::All(options.swap_remove(found).then),
        None if options.is_empty() => Came::Nothing,
        None => Came::Part(options),
    }
}
