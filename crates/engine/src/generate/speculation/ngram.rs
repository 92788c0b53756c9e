//! Prompt look-up: where did the text's last tokens come before, and how did it go on then?

use std::collections::HashMap;

/// Tokens that must be the same for a place to be looked at.
const KEY: usize = 3;
/// Places looked at, newest first; of these the one with the longest match is taken.
const PLACES: usize = 24;
/// Where a longer match says no more.
const LONGEST: usize = 32;
const NONE: u32 = u32::MAX;

/// Every place of a growing text, by the tokens before it.
#[derive(Default)]
pub struct Ngrams {
    /// The newest place after these tokens.
    newest: HashMap<[u32; KEY], u32>,
    /// By place: the place before it with the same tokens before it.
    older: Vec<u32>,
}

impl Ngrams {
    /// Drafts up to `most` tokens after `text`; how many tokens the place was found by, 0 where there is none. `others`
    /// gets drafts of the other places that begin differently, up to `branches`.
    pub fn find(
        &mut self,
        text: &[u32],
        most: usize,
        draft: &mut Vec<u32>,
        branches: usize,
        others: &mut Vec<Vec<u32>>,
    ) -> usize {
        draft.clear();
        others.clear();
        self.grow(text);
        let Some(key) = text.last_chunk::<KEY>() else { return 0 };
        let mut place = self.newest.get(key).copied().unwrap_or(NONE);
        let mut best = (0, 0);
        let mut places = [0; PLACES];
        let mut found = 0;
        for _ in 0..PLACES {
            if place == NONE {
                break;
            }
            let at = place as usize;
            places[found] = at;
            found += 1;
            let matched =
                text[..at].iter().rev().zip(text.iter().rev()).take(LONGEST).take_while(|(a, b)| a == b).count();
            if matched > best.0 {
                best = (matched, at);
            }
            if matched == LONGEST {
                break;
            }
            place = self.older[at];
        }
        let (matched, at) = best;
        if matched == 0 {
            return 0;
        }
        for &other in &places[..found] {
            let begins = |draft: &[u32]| draft.first() == Some(&text[other]);
            if others.len() < branches && text[other] != text[at] && !others.iter().any(|o| begins(o)) {
                others.push(text[other..].iter().take(most).copied().collect());
            }
        }
        for i in 0..most {
            // A text that repeats itself goes on with its own draft.
            let next = text.get(at + i).or_else(|| draft.get(at + i - text.len())).copied();
            let Some(next) = next else { break };
            draft.push(next);
        }
        matched
    }

    /// Enters the places before the text's end.
    fn grow(&mut self, text: &[u32]) {
        while self.older.len() < text.len() {
            let place = self.older.len();
            let older = match text[..place].last_chunk::<KEY>() {
                Some(key) => self.newest.insert(*key, place as u32).unwrap_or(NONE),
                None => NONE,
            };
            self.older.push(older);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(text: &[u32], most: usize) -> (usize, Vec<u32>) {
        let (mut draft, mut others) = (Vec::new(), Vec::new());
        let mut ngrams = Ngrams::default();
        // The text grows token by token, as it does when it is written.
        for end in 1..text.len() {
            ngrams.find(&text[..end], most, &mut draft, 2, &mut others);
        }
        let matched = ngrams.find(text, most, &mut draft, 2, &mut others);
        assert!(others.iter().all(|o| o.first() != draft.first() && !o.is_empty()));
        (matched, draft)
    }

    #[test]
    fn what_came_after_the_same_tokens_is_drafted() {
        assert_eq!(draft(&[1, 2, 3, 4, 5, 6, 1, 2, 3], 3), (3, vec![4, 5, 6]));
        assert_eq!(draft(&[1, 2, 3, 4, 5, 6, 7, 2, 3], 3), (0, vec![]));
        assert_eq!(draft(&[1, 2], 3), (0, vec![]));
        assert_eq!(draft(&[], 3), (0, vec![]));
    }

    #[test]
    fn the_longest_match_wins_over_the_newest() {
        let text = [9, 8, 1, 2, 3, 40, 0, 1, 2, 3, 50, 9, 8, 1, 2, 3];
        assert_eq!(draft(&text, 1), (5, vec![40]));
        let text = [1, 2, 3, 40, 0, 1, 2, 3, 50, 0, 7, 1, 2, 3];
        assert_eq!(draft(&text, 1), (3, vec![50]));
    }

    #[test]
    fn other_places_give_other_drafts() {
        let text = [1, 2, 3, 40, 41, 0, 1, 2, 3, 50, 51, 0, 1, 2, 3, 40, 60, 7, 1, 2, 3];
        let (mut draft, mut others) = (Vec::new(), Vec::new());
        Ngrams::default().find(&text, 2, &mut draft, 2, &mut others);
        assert_eq!((draft, others), (vec![40, 60], vec![vec![50, 51]]));
    }

    #[test]
    fn a_loop_goes_on_as_long_as_is_asked() {
        assert_eq!(draft(&[7, 7, 7, 7], 5), (3, vec![7; 5]));
        assert_eq!(draft(&[1, 2, 3, 1, 2, 3, 1], 5).1, [2, 3, 1, 2, 3]);
    }
}
