//! Takes a reply apart as it comes: thoughts, text, calls and their arguments. It holds back only what may become a marker,
//! and takes time linear in the reply. What looks like a call and is none is text.

use std::sync::Arc;

use super::arguments::{Arguments, Entry, Progress};
use super::fixed::{Came, Fixed, one_more};
use super::literal::{Literal, TOKEN_BEGINS, TOKEN_ENDS, marked_token, unmarked};
use super::{Inner, Tool};

/// Something that a reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    /// More of the answer.
    Text(String),
    /// More of the thoughts before it.
    Thought(String),
    /// A call begins.
    Call { index: usize, name: String },
    /// More of a call's arguments: of the JSON, or of the text where the tool takes one.
    Arguments { index: usize, text: String },
}

/// Takes a reply apart.
pub struct ReplyReader {
    inner: Arc<Inner>,
    tools: Vec<Tool>,
    /// What ends a text, and what ends thoughts.
    ends_text: Vec<Vec<char>>,
    ends_thoughts: Vec<Vec<char>>,
    state: State,
    calls: usize,
    /// Which of the strays the call that is read now is, if any.
    stray: Option<usize>,
    /// Characters that may become a marker; in a call, all that it would be as text.
    held: String,
    /// White space that is text only if more text follows.
    blank: String,
    /// White space at the beginning of a text or a thought is not part of it.
    trims: bool,
    /// Inside a special token that means nothing here.
    in_token: bool,
    parts: Vec<ReplyPart>,
}

enum State {
    Text,
    Thought,
    Expect(Vec<Fixed<Then>>),
    Name(String),
    Arguments(Box<Arguments>),
}

/// What follows something fixed.
enum Then {
    Thought,
    Text,
    /// Whatever a reply can begin with.
    Beginning,
    /// Of a call, or of such a stray.
    Name(Option<usize>),
    Arguments(String, Entry),
    /// A call is over.
    Called,
}

/// Names are not longer, and no marker has as much white space in it.
const LONGEST_NAME: usize = 256;
const LONGEST_HELD: usize = 1024;

/// Whether a tool may have such a name's character.
pub fn is_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.:/@$+*~#".contains(c)
}

impl ReplyReader {
    pub(super) fn new(inner: Arc<Inner>, tools: &[Tool], thinking: bool) -> Self {
        let pieces = &inner.pieces;
        let opens = if inner.family.bare { pieces.lead.clone() } else { pieces.first.split_marker().0 };
        let calls = (!tools.is_empty()).then_some(opens);
        let turns = pieces.turns.iter().map(|turn| turn.split_marker().0);
        let ends_text = calls.into_iter().chain(turns).map(|marker| marker.exact());
        let mut reader = Self {
            tools: tools.to_vec(),
            ends_text: ends_text.filter(|marker| !marker.is_empty()).collect(),
            ends_thoughts: pieces.think.iter().map(|(_, close)| close.exact()).collect(),
            state: State::Thought,
            calls: 0,
            stray: None,
            held: String::new(),
            blank: String::new(),
            trims: pieces.think.is_some() || !tools.is_empty(),
            in_token: false,
            parts: Vec::new(),
            inner,
        };
        if !thinking {
            let trims = reader.trims;
            reader.begin();
            reader.trims = trims;
        }
        reader
    }

    /// A token, and the text that it completes.
    pub fn push(&mut self, token: u32, text: &str) -> Vec<ReplyPart> {
        let mut read = unmarked(text);
        if self.inner.tokenizer.is_special(token) {
            read += &marked_token(self.inner.tokenizer.token_text(token).unwrap_or_default());
        }
        read.chars().for_each(|c| self.read(c));
        std::mem::take(&mut self.parts)
    }

    /// Text that was held back until the reply ended.
    pub fn push_text(&mut self, text: &str) -> Vec<ReplyPart> {
        unmarked(text).chars().for_each(|c| self.read(c));
        std::mem::take(&mut self.parts)
    }

    /// The reply is over: what was held back comes out.
    pub fn end(&mut self) -> Vec<ReplyPart> {
        let state = std::mem::replace(&mut self.state, State::Text);
        let held = std::mem::take(&mut self.held);
        let thought = matches!(state, State::Thought);
        match state {
            State::Arguments(mut arguments) => {
                arguments.end();
                self.put_arguments(&mut arguments);
            }
            _ => held.chars().for_each(|c| self.show(c, thought)),
        }
        if self.calls == 0 && !thought && !self.blank.is_empty() {
            let blank = std::mem::take(&mut self.blank);
            self.parts.push(ReplyPart::Text(blank));
        }
        std::mem::take(&mut self.parts)
    }

    fn read(&mut self, c: char) {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => self.read_free(c, false),
            State::Thought => {
                self.state = State::Thought;
                self.read_free(c, true);
            }
            State::Expect(options) => self.read_expected(options, c),
            State::Name(name) => self.read_name(name, c),
            State::Arguments(arguments) => self.read_arguments(arguments, c),
        }
    }

    /// Text or a thought, until a marker ends it.
    fn read_free(&mut self, c: char, thought: bool) {
        self.held.push(c);
        while !self.held.is_empty() {
            let markers = if thought { &self.ends_thoughts } else { &self.ends_text };
            let held = self.held.chars();
            let mut may_come =
                markers.iter().filter(|marker| held.clone().zip(*marker).all(|(a, b)| a == *b)).peekable();
            if may_come.peek().is_none() {
                let first = self.held.remove(0);
                self.show(first, thought);
                continue;
            }
            if may_come.all(|marker| marker.len() > held.clone().count()) {
                return;
            }
            let marker = std::mem::take(&mut self.held);
            let (trims, blank) = (self.trims, self.blank.clone());
            self.begin();
            if !thought {
                // It may be no marker after all.
                (self.trims, self.blank) = (trims, blank);
                marker.chars().for_each(|c| self.read(c));
            }
            return;
        }
    }

    /// Whatever a reply can begin with.
    fn begin(&mut self) {
        let pieces = &self.inner.pieces;
        let option = |literal: &Literal, then| Fixed::new(literal.marked(), then);
        let mut options = Vec::new();
        options.extend(pieces.think.as_ref().map(|(open, _)| option(open, Then::Thought)));
        if !self.tools.is_empty() {
            options.push(option(&pieces.first, Then::Name(None)));
            if !pieces.lead.is_empty() {
                options.push(option(&pieces.lead.followed_by(&pieces.first), Then::Name(None)));
            }
            if self.calls == 0 {
                let strays = pieces.strays.iter().enumerate();
                options.extend(strays.map(|(n, stray)| option(&stray.first, Then::Name(Some(n)))));
            }
        }
        options.push(option(&pieces.text.0, Then::Text));
        options.extend(pieces.turns.iter().map(|turn| option(turn, Then::Beginning)));
        if self.calls > 0 && self.inner.family.bare {
            options.clear();
        }
        self.blank.clear();
        self.trims = true;
        self.expect(options.into_iter().flatten().collect());
    }

    fn expect(&mut self, options: Vec<Fixed<Then>>) {
        self.state = if options.is_empty() { State::Text } else { State::Expect(options) };
    }

    fn read_expected(&mut self, options: Vec<Fixed<Then>>, c: char) {
        self.held.push(c);
        match one_more(options, c) {
            Came::All(then) => self.go_on(then),
            Came::Part(options) if self.held.len() < LONGEST_HELD => self.state = State::Expect(options),
            Came::Part(_) | Came::Nothing => self.not_expected(),
        }
    }

    /// What was held is text after all; its first character begins no marker.
    fn not_expected(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.state = State::Text;
        let mut chars = held.chars();
        chars.next().into_iter().for_each(|first| self.show(first, false));
        chars.for_each(|c| self.read(c));
    }

    fn go_on(&mut self, then: Then) {
        match then {
            Then::Thought => self.state = State::Thought,
            Then::Text => self.state = State::Text,
            Then::Beginning => self.begin(),
            Then::Name(stray) => {
                self.stray = stray;
                return self.state = State::Name(String::new());
            }
            Then::Arguments(name, entry) => {
                let Some(tool) = self.tools.iter().find(|tool| tool.name == name) else { return };
                let mut arguments = Box::new(Arguments::new(&self.inner, tool, entry));
                self.blank.clear();
                self.parts.push(ReplyPart::Call { index: self.calls, name });
                self.calls += 1;
                self.put_arguments(&mut arguments);
                match entry {
                    Entry::Empty => self.called(),
                    _ => self.state = State::Arguments(arguments),
                }
            }
            Then::Called => self.called(),
        }
        self.held.clear();
    }

    /// After a call: another one, the end of all, or text.
    fn called(&mut self) {
        self.trims = true;
        if self.stray.take().is_some() {
            return self.state = State::Text;
        }
        let pieces = &self.inner.pieces;
        let option = |literal: &Literal, then| Fixed::new(literal.marked(), then);
        let next = pieces.next.iter().map(|next| option(next, Then::Name(None)));
        let turns = pieces.turns.iter().map(|turn| option(turn, Then::Beginning));
        let options = next.chain([option(&pieces.close, Then::Text)]).chain(turns);
        self.expect(options.flatten().collect());
    }

    fn read_name(&mut self, mut name: String, c: char) {
        let pieces = &self.inner.pieces;
        let is_raw = |tool: &Tool| tool.name == name && tool.is_raw() && pieces.middle.marked().is_empty();
        let goes_on = |tool: &Tool| tool.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with(c));
        if self.tools.iter().any(is_raw) && !self.tools.iter().any(goes_on) {
            // Nothing stands between the name and its text, which may begin like more of a name.
            self.go_on(Then::Arguments(name, Entry::Raw));
            return self.read(c);
        }
        if is_name(c) && name.len() < LONGEST_NAME {
            self.held.push(c);
            name.push(c);
            return self.state = State::Name(name);
        }
        let pieces = &self.inner.pieces;
        let entry = |literal: &Literal, entry| Fixed::new(literal.marked(), Then::Arguments(name.clone(), entry));
        let options = match (self.tools.iter().find(|tool| tool.name == name), &pieces.tags) {
            (None, _) => Vec::new(),
            (Some(tool), _) if tool.is_raw() => vec![entry(&pieces.middle, Entry::Raw)],
            (Some(_), None) => vec![entry(&pieces.middle.then("{"), Entry::Object)],
            (Some(_), Some(tags)) => vec![
                entry(&pieces.middle.followed_by(&tags.open), Entry::Key),
                entry(&pieces.middle.followed_by(&pieces.after), Entry::Empty),
            ],
        };
        self.read_expected(options.into_iter().flatten().collect(), c);
    }

    fn read_arguments(&mut self, mut arguments: Box<Arguments>, c: char) {
        let progress = arguments.read(c);
        self.put_arguments(&mut arguments);
        match progress {
            Progress::More => self.state = State::Arguments(arguments),
            Progress::CallOver => self.called(),
            Progress::Over => {
                let pieces = &self.inner.pieces;
                let after = self.stray.map_or(&pieces.after, |stray| &pieces.strays[stray].after);
                match Fixed::new(after.marked(), Then::Called) {
                    Some(after) => self.expect(vec![after]),
                    None => self.called(),
                }
            }
            Progress::Wrong(text) => text.chars().for_each(|c| self.read(c)),
        }
    }

    fn put_arguments(&mut self, arguments: &mut Arguments) {
        let more = arguments.take();
        let index = self.calls.saturating_sub(1);
        match self.parts.last_mut() {
            _ if more.is_empty() => {}
            Some(ReplyPart::Arguments { text, .. }) => text.push_str(&more),
            _ => self.parts.push(ReplyPart::Arguments { index, text: more }),
        }
    }

    /// A character of text or of a thought.
    fn show(&mut self, c: char, thought: bool) {
        match c {
            TOKEN_BEGINS => self.in_token = true,
            TOKEN_ENDS => self.in_token = false,
            _ if self.in_token => {}
            _ if c.is_whitespace() && self.trims => {}
            _ if c.is_whitespace() => self.blank.push(c),
            _ => {
                self.trims = false;
                let mut more = std::mem::take(&mut self.blank);
                more.push(c);
                match (self.parts.last_mut(), thought) {
                    (Some(ReplyPart::Text(text)), false) | (Some(ReplyPart::Thought(text)), true) => {
                        text.push_str(&more)
                    }
                    (_, false) => self.parts.push(ReplyPart::Text(more)),
                    (_, true) => self.parts.push(ReplyPart::Thought(more)),
                }
            }
        }
    }
}
