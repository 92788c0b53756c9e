//! A model that reads: vectors, scores.

use super::Entry;
use crate::Options;
use crate::problem::{Kind, Problem};
use akunu::{Embedder, LoadOptions, Reading, Text, TooLong};
use akunu_formats::ModelFile;
use std::sync::{Arc, Mutex};

pub struct Reader {
    pub name: String,
    embedder: Mutex<Embedder>,
    pub width: usize,
}

/// What to read.
pub enum Item {
    Text(String),
    Tokens(Vec<u32>),
    Pair(String, String),
}

/// What came out, in the order of the items.
pub struct Read {
    pub vectors: Vec<Vec<f32>>,
    pub tokens: usize,
}

impl Reader {
    pub fn load(entry: &Entry, file: ModelFile, options: &Options, reading: Reading) -> Result<Self, Problem> {
        // Its own context: vectors of texts have nothing to do with that of conversations.
        let load = LoadOptions { context: None, ..options.load.clone() };
        let embedder = Embedder::from_file(file, load, reading)?;
        Ok(Self { name: entry.name.clone(), width: embedder.width(), embedder: Mutex::new(embedder) })
    }

    /// How many numbers a vector is to have, of what was asked and what there are.
    pub fn dimensions(&self, asked: Option<usize>) -> Result<usize, Problem> {
        match asked.unwrap_or(self.width) {
            width if (1..=self.width).contains(&width) => Ok(width),
            _ => Err(Problem::field("dimensions", format!("dimensions must be between 1 and {}", self.width))),
        }
    }

    /// Reads items, one request after the other.
    pub async fn read(self: Arc<Self>, items: Vec<Item>, too_long: TooLong) -> Result<Read, Problem> {
        tokio::task::spawn_blocking(move || self.read_here(&items, too_long)).await?
    }

    fn read_here(&self, items: &[Item], too_long: TooLong) -> Result<Read, Problem> {
        let broken = |_| Problem::new(Kind::Internal, "an earlier request broke this model; it must be loaded again");
        let mut embedder = self.embedder.lock().map_err(broken)?;
        let texts: Vec<Text> = items
            .iter()
            .map(|item| match item {
                Item::Text(text) => embedder.text(text, too_long),
                Item::Tokens(tokens) => Ok(Text { tokens: tokens.clone(), second: tokens.len() }),
                Item::Pair(a, b) => embedder.pair(a, b, too_long),
            })
            .collect::<Result<_, _>>()?;
        let mut vectors = vec![Vec::new(); texts.len()];
        embedder.read(&texts, |i, vector| vectors[i] = vector.to_vec())?;
        Ok(Read { vectors, tokens: texts.iter().map(|t| t.tokens.len()).sum() })
    }
}
