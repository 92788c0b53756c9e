//! `matching.rs` of a build without the feature `grammar`: there is no matcher, and asking for one is an error.

use std::convert::Infallible;

use super::Grammar;
use crate::{Error, Tokenizer};

pub const ABSENT: &str = "this build is without grammars (feature `grammar`)";

/// Nobody has one.
pub struct Grammars(Infallible);

impl Grammars {
    pub fn new(_: &Tokenizer, _: usize) -> Result<Self, Error> {
        Err(Error::Grammar(ABSENT.to_owned()))
    }

    pub fn compile(&self, _: &Grammar) -> Result<Matcher, Error> {
        match self.0 {}
    }
}

/// Nobody has one.
#[derive(Clone, Debug)]
pub struct Matcher(Infallible);

impl Matcher {
    pub fn allowed(&mut self) -> Result<&[u32], Error> {
        match self.0 {}
    }

    pub fn allows(&mut self, _: u32) -> bool {
        match self.0 {}
    }

    pub fn accept(&mut self, _: u32) -> Result<(), Error> {
        match self.0 {}
    }

    pub fn forced(&mut self) -> Vec<u32> {
        match self.0 {}
    }

    pub fn is_finished(&self) -> bool {
        match self.0 {}
    }

    pub fn may_end(&mut self) -> bool {
        match self.0 {}
    }
}
