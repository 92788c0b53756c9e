//! Where a generation stands with its thoughts: whether it thinks, and when it has thought enough.

use akunu_text::{Encode, ThinkTags, Tokenizer};
use std::collections::VecDeque;

/// Whether the model thinks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// The grammar holds from the first token on.
    #[default]
    Not,
    /// The model may begin with a thinking block.
    MayOpen,
    /// The prompt has opened a thinking block.
    Open,
}

/// What stands around thoughts, and how many there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thoughts {
    /// What opens and closes them.
    pub tags: ThinkTags,
    /// After so many tokens they are closed; `None`: the model closes them.
    pub budget: Option<usize>,
    /// What is put before the closing tag then.
    pub closing: String,
}

impl Default for Thoughts {
    fn default() -> Self {
        let closing = "\n\nConsidering the limited time, I answer now.\n".to_owned();
        Self { tags: ThinkTags::default(), budget: None, closing }
    }
}

enum Phase {
    /// Nothing is there yet, or this many tokens of what opens a thinking block.
    Beginning(usize),
    Thinking,
    /// They are closed, token by token.
    Closing(VecDeque<u32>),
    Over,
}

pub(crate) struct Tracker {
    phase: Phase,
    /// The tokens of the tag that opens, and whether text cannot be taken for the first of them.
    open: Vec<u32>,
    distinct: bool,
    close: Option<u32>,
    close_text: String,
    /// The end of the thoughts, where no single token closes them.
    tail: String,
    in_grammar: bool,
    /// Tokens that may still be thought.
    left: Option<usize>,
    /// What closes them when there are no more.
    closing: Vec<u32>,
}

impl Tracker {
    pub fn new(thinking: Thinking, thoughts: &Thoughts, tokenizer: Option<&Tokenizer>) -> Self {
        let tags = &thoughts.tags;
        let ids = |text: &str| {
            let encode = Encode { add_special: false, parse_special: true };
            tokenizer.and_then(|t| t.encode(text, encode).ok()).unwrap_or_default()
        };
        let id = |text: &str| tokenizer.and_then(|t| t.id_of(text));
        let open = id(&tags.open).map_or_else(|| ids(&tags.open), |id| vec![id]);
        let special = |id: &u32| tokenizer.is_some_and(|t| t.is_special(*id));
        let closing = format!("{}{}{}", thoughts.closing, tags.close, tags.then);
        Self {
            phase: match thinking {
                Thinking::Not => Phase::Over,
                Thinking::MayOpen if open.is_empty() => Phase::Over,
                Thinking::MayOpen => Phase::Beginning(0),
                Thinking::Open => Phase::Thinking,
            },
            distinct: open.len() == 1 || open.first().is_some_and(special),
            open,
            close: id(&tags.close),
            close_text: tags.close.clone(),
            tail: String::new(),
            in_grammar: tags.in_grammar,
            left: thoughts.budget,
            closing: if thoughts.budget.is_some() { ids(&closing) } else { Vec::new() },
        }
    }

    /// Whether a grammar holds for the next token.
    pub fn binds(&self) -> bool {
        self.in_grammar || matches!(self.phase, Phase::Beginning(0) | Phase::Over)
    }

    /// The token that begins a thinking block, where one may begin and a grammar does not know of it.
    pub fn opens_with(&self) -> Option<u32> {
        match self.phase {
            Phase::Beginning(0) if self.distinct && !self.in_grammar => self.open.first().copied(),
            _ => None,
        }
    }

    /// Tokens that nobody has to look at between each other.
    pub fn unwatched(&self) -> usize {
        match (&self.phase, self.left) {
            (Phase::Closing(_), _) => 0,
            (Phase::Thinking, Some(left)) => left,
            (Phase::Beginning(_), Some(_)) => 1,
            _ => usize::MAX,
        }
    }

    /// The token that must come now, because enough was thought.
    pub fn forced(&mut self) -> Option<u32> {
        if matches!((&self.phase, self.left), (Phase::Thinking, Some(0))) {
            self.phase = Phase::Closing(self.closing.iter().copied().collect());
        }
        match &self.phase {
            Phase::Closing(tokens) => tokens.front().copied(),
            _ => None,
        }
    }

    /// Whether tokens that must come are under way.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    /// Goes on with a token that was chosen, and the text it completed.
    pub fn accept(&mut self, token: u32, text: &str) {
        match &mut self.phase {
            Phase::Beginning(at) if self.open.get(*at) == Some(&token) => {
                *at += 1;
                if *at == self.open.len() {
                    self.phase = Phase::Thinking;
                }
            }
            Phase::Beginning(_) => self.phase = Phase::Over,
            Phase::Thinking => {
                self.tail.push_str(text);
                self.left = self.left.map(|left| left.saturating_sub(1));
                if self.close == Some(token) || self.tail.contains(&self.close_text) {
                    self.phase = Phase::Over;
                }
                let far = self.tail.len().saturating_sub(self.close_text.len());
                self.tail.drain(..self.tail.floor_char_boundary(far));
            }
            Phase::Closing(tokens) => {
                tokens.pop_front();
                if tokens.is_empty() {
                    self.phase = Phase::Over;
                }
            }
            Phase::Over => {}
        }
    }
}
