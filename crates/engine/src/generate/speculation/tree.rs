//! Drafts that exclude each other, verified in one step: each sees only the tokens it continues.
//!
//! Nodes are fed as rows in their order. Nodes of the same depth have the same position and are stored in different
//! places; places of other branches are hidden from a row. The likeliest draft comes first and so lies where it will stay;
//! what is accepted of another one moves there afterwards. All places of a tree are in one block: then a branch adds up its
//! attention as it would alone, and the text stays the same to the bit.

use akunu_plan::RowVars;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub struct Tree {
    tokens: Vec<u32>,
    /// By node: the node before it, which is an earlier one.
    parents: Vec<u32>,
}

impl Tree {
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.parents.clear();
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether every node goes on from the one before it.
    pub fn is_chain(&self) -> bool {
        self.parents.iter().enumerate().all(|(i, p)| *p == (i as u32).wrapping_sub(1))
    }

    /// Keeps the first `n` nodes.
    pub fn truncate(&mut self, n: usize) {
        self.tokens.truncate(n);
        self.parents.truncate(n);
    }

    /// Keeps the nodes before the first that goes back.
    pub fn keep_chain(&mut self) {
        let chain = self.parents.iter().enumerate().take_while(|(i, p)| **p == (*i as u32).wrapping_sub(1)).count();
        self.truncate(chain);
    }

    /// The node that goes on from `parent` with `token`.
    pub fn child(&self, parent: Option<usize>, token: u32) -> Option<usize> {
        let parent = parent.map_or(NONE, |p| p as u32);
        (0..self.len()).find(|n| self.parents[*n] == parent && self.tokens[*n] == token)
    }

    /// Adds a draft; its beginning may be there already.
    pub fn add(&mut self, draft: &[u32]) {
        let mut at = None;
        for &token in draft {
            at = self.child(at, token).or_else(|| {
                self.tokens.push(token);
                self.parents.push(at.map_or(NONE, |p| p as u32));
                Some(self.len() - 1)
            });
        }
    }

    /// The node itself and those it goes on from, as bits.
    fn line(&self, node: usize) -> u64 {
        let mut line = 1u64 << node;
        let mut at = self.parents[node];
        while at != NONE {
            line |= 1 << at;
            at = self.parents[at as usize];
        }
        line
    }

    /// How many nodes it goes on from.
    pub fn depth(&self, node: usize) -> usize {
        self.line(node).count_ones() as usize - 1
    }

    /// Makes rows at rising positions from `first` on into the rows of the nodes.
    pub fn place(&self, first: usize, rows: &mut [RowVars]) {
        for (node, row) in rows.iter_mut().enumerate().take(self.len()) {
            let line = self.line(node);
            let depth = self.depth(node);
            row.position = (first + depth) as u32;
            row.ahead = (node - depth) as u32;
            // Bit i is the place i + 1 before: node - 1 - i.
            let before = !line & ((1u64 << node) - 1);
            let hidden = if node == 0 { 0 } else { before.reverse_bits() >> (64 - node) };
            row.hidden = [hidden as u32, (hidden >> 32) as u32];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, LoadOptions, Outputs, Sequence, StepInput};

    #[test]
    fn drafts_share_their_beginnings() {
        let mut tree = Tree::default();
        tree.add(&[5, 6, 7]);
        assert!(tree.is_chain());
        tree.add(&[5, 9]);
        tree.add(&[8]);
        assert_eq!(tree.tokens(), [5, 6, 7, 9, 8]);
        assert!(!tree.is_chain());
        assert_eq!((tree.child(None, 5), tree.child(Some(0), 9), tree.child(Some(1), 9)), (Some(0), Some(3), None));
        let mut chain = tree.clone();
        chain.keep_chain();
        assert_eq!(chain.tokens(), [5, 6, 7]);
    }

    #[test]
    fn rows_see_those_they_go_on_from() {
        let mut tree = Tree::default();
        [&[5, 6, 7][..], &[5, 9], &[8]].iter().for_each(|draft| tree.add(draft));
        let mut rows = [RowVars::default(); 5];
        tree.place(100, &mut rows);
        assert_eq!(rows.map(|r| r.position), [100, 101, 102, 101, 100]);
        assert_eq!(rows.map(|r| r.place()), [100, 101, 102, 103, 104]);
        let seen = |r: &RowVars| (100..r.place()).filter(|p| !r.hides(*p)).collect::<Vec<_>>();
        assert_eq!(rows.iter().map(seen).collect::<Vec<_>>(), [vec![], vec![100], vec![100, 101], vec![100], vec![]]);
        assert!(!rows[4].hides(99));
    }

    fn decode(engine: &mut Engine, sequence: &mut Sequence, token: u32) -> Vec<f32> {
        engine.step(&mut [StepInput { sequence, tokens: &[token], outputs: Outputs::Last, prompt: false }]).unwrap();
        engine.logits_of(0).to_vec()
    }

    /// Every branch of a tree gets the logits it would get alone, to the bit, and what is kept of it is as if computed alone.
    #[test]
    fn a_branch_is_computed_as_if_alone() {
        let windowed = akunu_testkit::fixtures::path("hf/gemma3");
        let q8 = LoadOptions { kv: akunu_dtype::DType::Q8_0, ..LoadOptions::default() };
        let engines = [
            Engine::embedded(LoadOptions { sequences: 2, ..LoadOptions::default() }),
            Engine::embedded(LoadOptions { sequences: 2, ..q8 }),
            Engine::load(&windowed, LoadOptions { sequences: 2, ..LoadOptions::default() }),
        ];
        let drafts: [&[u32]; 4] = [&[5, 6, 7, 8], &[5, 9, 10], &[11, 12], &[5, 6, 13]];
        let mut tree = Tree::default();
        drafts.iter().for_each(|draft| tree.add(draft));
        for mut engine in engines.map(Result::unwrap) {
            for held in [3, 63, 100, 116] {
                let text: Vec<u32> = (0..held as u32 + 1).map(|i| i * 37 % 500).collect();
                let (head, last) = (&text[..held], text[held]);
                let mut branched = engine.sequence();
                engine.prefill(&mut branched, head).unwrap();
                let rows: Vec<u32> = [last].iter().chain(tree.tokens()).copied().collect();
                let part = StepInput { sequence: &mut branched, tokens: &rows, outputs: Outputs::All, prompt: false };
                engine.step_with(&mut [part], 1, |vars| tree.place(held + 1, &mut vars.rows_mut()[1..])).unwrap();
                let logits: Vec<Vec<f32>> = (0..rows.len()).map(|i| engine.logits_of(i).to_vec()).collect();
                for draft in drafts {
                    let mut path: Vec<usize> = Vec::new();
                    draft.iter().for_each(|t| path.extend(tree.child(path.last().copied(), *t)));
                    let mut alone = engine.sequence();
                    engine.prefill(&mut alone, head).unwrap();
                    decode(&mut engine, &mut alone, last);
                    for (token, node) in draft.iter().zip(&path) {
                        assert_eq!(decode(&mut engine, &mut alone, *token), logits[node + 1], "{draft:?}");
                    }
                    let mut kept = branched.fork();
                    // A fork's block is copied before it is written, as a sequence's own always is.
                    decode(&mut engine, &mut kept, 0);
                    engine.gather(&kept, held + 1, &path);
                    kept.truncate(held + 1 + path.len()).unwrap();
                    let expected = decode(&mut engine, &mut alone, 99);
                    assert_eq!(decode(&mut engine, &mut kept, 99), expected, "{draft:?} after {held}");
                }
            }
        }
    }
}
