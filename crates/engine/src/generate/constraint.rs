//! A grammar over a generation: from its beginning, or from where the model stops thinking.

use super::thoughts::Tracker;
use crate::Error;
use akunu_text::Matcher;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// A thread that computes masks while a step runs. It ends with whoever sends to it.
pub(crate) struct Masks(Sender<(Matcher, SyncSender<Matcher>)>);

impl Masks {
    pub fn start() -> std::io::Result<Self> {
        let (sender, jobs) = channel::<(Matcher, SyncSender<Matcher>)>();
        std::thread::Builder::new().name("masks".into()).spawn(move || {
            for (mut matcher, back) in jobs {
                // An error is found again by who asks for the mask; one who is gone wants none.
                let _ = matcher.allowed();
                let _ = back.send(matcher);
            }
        })?;
        Ok(Self(sender))
    }
}

/// Where a grammar's matcher is.
enum Place {
    Here(Box<Matcher>),
    /// With the thread that computes its mask.
    Away(Receiver<Matcher>),
    /// That thread has ended.
    Gone,
}

pub(crate) struct Constraint {
    matcher: Place,
    words: Vec<u32>,
}

impl Constraint {
    pub fn new(matcher: Matcher) -> Self {
        Self { matcher: Place::Here(Box::new(matcher)), words: Vec::new() }
    }

    /// Has the next mask computed while something else goes on.
    pub fn look_ahead(&mut self, masks: &Masks) {
        self.matcher = match std::mem::replace(&mut self.matcher, Place::Gone) {
            Place::Here(matcher) => {
                let (back, away) = sync_channel(1);
                match masks.0.send((*matcher, back)) {
                    Ok(()) => Place::Away(away),
                    Err(unsent) => Place::Here(Box::new(unsent.0.0)),
                }
            }
            elsewhere => elsewhere,
        };
    }

    /// The matcher, back from wherever it was.
    fn matcher(&mut self) -> Result<&mut Matcher, Error> {
        if let Place::Away(away) = &self.matcher {
            self.matcher = away.recv().map_or(Place::Gone, |matcher| Place::Here(Box::new(matcher)));
        }
        match &mut self.matcher {
            Place::Here(matcher) => Ok(matcher),
            _ => Err(Error::Stopped { why: "its grammar's thread has ended".into() }),
        }
    }

    /// A bit for every token that may come next; `None`: any may.
    pub fn allowed(&mut self, thoughts: &Tracker) -> Result<Option<&[u32]>, Error> {
        if !thoughts.binds() {
            return Ok(None);
        }
        let Some(open) = thoughts.opens_with() else { return Ok(Some(self.matcher()?.allowed()?)) };
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.extend_from_slice(self.matcher()?.allowed()?);
        if let Some(word) = words.get_mut(open as usize / 32) {
            *word |= 1 << (open % 32);
        }
        self.words = words;
        Ok(Some(&self.words))
    }

    /// Whether a token may come next.
    pub fn allows(&mut self, token: u32, thoughts: &Tracker) -> Result<bool, Error> {
        if !thoughts.binds() || thoughts.opens_with() == Some(token) {
            return Ok(true);
        }
        Ok(self.matcher()?.allows(token))
    }

    /// Goes on with a token that was chosen and that it binds.
    pub fn accept(&mut self, token: u32) -> Result<(), Error> {
        Ok(self.matcher()?.accept(token)?)
    }

    /// Tokens that must come now; they are accepted.
    pub fn forced(&mut self) -> Result<Vec<u32>, Error> {
        Ok(self.matcher()?.forced())
    }

    /// Whether nothing more can come.
    pub fn is_finished(&mut self) -> bool {
        self.matcher().is_ok_and(|matcher| matcher.is_finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::thoughts::{Thinking, Thoughts};
    use crate::{Engine, LoadOptions};
    use akunu_text::Grammar;

    /// Nothing is thought.
    fn no_thoughts() -> Tracker {
        Tracker::new(Thinking::Not, &Thoughts::default(), None)
    }

    #[test]
    fn thoughts_are_free_and_what_follows_them_is_bound() {
        let engine = Engine::embedded(LoadOptions::default()).unwrap();
        let tokenizer = engine.tokenizer().unwrap();
        let matcher = || engine.grammars().unwrap().compile(&Grammar::Regex("yes|no".into())).unwrap();
        // This vocabulary has no token for the tags: they are text, cut somewhere.
        let mut constraint = Constraint::new(matcher());
        let mut thoughts = Tracker::new(Thinking::Open, &Thoughts::default(), Some(tokenizer));
        for token in tokenizer.encode("A cat. <think> or </think", Default::default()).unwrap() {
            assert!(constraint.allowed(&thoughts).unwrap().is_none());
            thoughts.accept(token, &String::from_utf8_lossy(tokenizer.token_bytes(token)));
        }
        let end = tokenizer.encode(">", Default::default()).unwrap();
        end.iter().for_each(|token| thoughts.accept(*token, ">"));
        let allowed = |constraint: &mut Constraint, thoughts: &Tracker| {
            let words = constraint.allowed(thoughts).unwrap().unwrap().to_vec();
            let set = |id: &u32| words[*id as usize / 32] >> (id % 32) & 1 == 1;
            let tokens = (0..tokenizer.vocab_size() as u32).filter(set);
            tokens.map(|id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned()).collect::<Vec<_>>()
        };
        let first = allowed(&mut constraint, &thoughts);
        assert!(!first.is_empty() && first.iter().all(|t| "yes".starts_with(t) || "no".starts_with(t)), "{first:?}");
        // Without a token that opens thoughts there are none.
        let mut bound = Constraint::new(matcher());
        let thoughts = Tracker::new(Thinking::MayOpen, &Thoughts::default(), Some(tokenizer));
        assert_eq!(allowed(&mut bound, &thoughts), first);
        assert!(!bound.is_finished());
    }

    #[test]
    fn a_token_is_allowed_where_the_mask_has_its_bit() {
        let engine = Engine::embedded(LoadOptions::default()).unwrap();
        let tokenizer = engine.tokenizer().unwrap();
        let schema = r#"{ "type": "object", "properties": { "name": { "type": "string" }, "n": { "type": "integer" } },
            "required": ["name", "n"], "additionalProperties": false }"#;
        let vocab = tokenizer.vocab_size() as u32;
        let cases = [
            (Grammar::Regex("[a-z]{3,9} [0-9]+".into()), "little 73"),
            (Grammar::JsonSchema(schema.into()), r#"{"name": "Lily \"x\" and Tom", "n": 12}"#),
            (Grammar::Gbnf("root ::= (\"once\" | \"on\" | [^x]) \" \" root | \".\"".into()), "on once o ."),
        ];
        for (grammar, text) in cases {
            let matcher = || engine.grammars().unwrap().compile(&grammar).unwrap();
            let (mut asked, mut masked, none) = (Constraint::new(matcher()), Constraint::new(matcher()), no_thoughts());
            let mut steps = 0;
            let single = |byte| (0..vocab).find(|id| tokenizer.token_bytes(*id) == [byte]).unwrap();
            for token in text.bytes().map(single) {
                for token in 0..vocab {
                    let words = masked.allowed(&none).unwrap().unwrap();
                    let set = words[token as usize / 32] >> (token % 32) & 1 == 1;
                    assert_eq!(asked.allows(token, &none).unwrap(), set, "{grammar:?}, step {steps}, token {token}");
                }
                // What is forced may be cut into other tokens than bytes.
                if !asked.allows(token, &none).unwrap() {
                    continue;
                }
                for constraint in [&mut asked, &mut masked] {
                    constraint.accept(token).unwrap();
                    constraint.forced().unwrap();
                }
                steps += 1;
            }
            assert!(steps > 3, "{grammar:?}: {steps}");
        }
    }

    #[test]
    fn a_mask_computed_elsewhere_is_the_same() {
        let engine = Engine::embedded(LoadOptions::default()).unwrap();
        let grammar = Grammar::Regex("[a-z]{3,9} [0-9]+".into());
        let matcher = || engine.grammars().unwrap().compile(&grammar).unwrap();
        let masks = Masks::start().unwrap();
        let (mut here, mut away, none) = (Constraint::new(matcher()), Constraint::new(matcher()), no_thoughts());
        for token in engine.tokenizer().unwrap().encode("little 7", Default::default()).unwrap().into_iter().skip(1) {
            away.look_ahead(&masks);
            away.look_ahead(&masks);
            assert_eq!(here.allowed(&none).unwrap(), away.allowed(&none).unwrap());
            away.look_ahead(&masks);
            let answers = [&mut here, &mut away].map(|c| c.accept(token).is_ok().then(|| c.forced().unwrap()));
            assert_eq!(answers[0], answers[1]);
        }
    }
}
