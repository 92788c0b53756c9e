//! Pre-tokenization: cutting a normalized text into the words that a model encodes one by one.

use crate::budget::{Budget, Spent};
use crate::error::Error;
use crate::pattern::{Pattern, Scan};

/// What happens to a match of a split pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// It is left out.
    Removed,
    /// It is a word of its own.
    Isolated,
    /// It is a word together with the matches that touch it.
    Contiguous,
    /// It ends the word before it.
    MergedWithPrevious,
    /// It begins the word after it.
    MergedWithNext,
}

/// When a space is put before the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepend {
    Always,
    /// Only at the very start of what is encoded.
    First,
    Never,
}

/// One step of pre-tokenization: takes a piece, gives smaller ones.
pub(crate) enum Step {
    Split {
        pattern: Pattern,
        behavior: Behavior,
        invert: bool,
    },
    /// Runs of digits in threes counted from the right; where `whole_number`, only runs that no word character follows.
    DigitGroups {
        whole_number: bool,
    },
    /// White space at the end of the piece is a word.
    TrailingSpace,
    /// A space before the piece where there is none.
    PrefixSpace,
    /// SentencePiece's `▁` for spaces.
    Metaspace {
        replacement: char,
        prepend: Prepend,
        split: bool,
    },
}

impl Step {
    pub fn pattern(pattern: &str) -> Result<Step, Error> {
        // Unanchored, this one would look at every run of white space once per character of it.
        if pattern == r"\s+$" {
            return Ok(Step::TrailingSpace);
        }
        Ok(Step::Split { pattern: Pattern::new(pattern)?, behavior: Behavior::Isolated, invert: false })
    }
}

/// Steps of the budget that a step costs for each byte it reads, and a new text for each byte of it.
const READ: usize = 2;
const WRITTEN: usize = 4;

/// What takes the words, and may stop the text.
type Sink<'s> = dyn FnMut(&str) -> Result<(), Spent> + 's;

/// Runs `steps` over `piece` and gives `sink` the words in order. `first`: the piece starts the text.
pub(crate) fn split(
    steps: &[Step],
    piece: &str,
    first: bool,
    budget: &Budget,
    sink: &mut Sink<'_>,
) -> Result<(), Spent> {
    if piece.is_empty() {
        return Ok(());
    }
    let Some((step, rest)) = steps.split_first() else { return sink(piece) };
    budget.spend(READ * piece.len())?;
    let mut scan = Scan::new(piece, budget);
    match step {
        Step::Split { pattern, behavior: Behavior::Isolated, invert: false } => segments(
            piece,
            |at| pattern.match_at(at, &mut scan),
            |start, end, _| split(rest, &piece[start..end], first && start == 0, budget, sink),
        ),
        Step::Split { pattern, behavior, invert } => {
            let mut grouping = Grouping { behavior: *behavior, pending: None, after_match: false };
            let mut emit =
                |(start, end): (usize, usize)| split(rest, &piece[start..end], first && start == 0, budget, sink);
            segments(
                piece,
                |at| pattern.match_at(at, &mut scan),
                |start, end, is_match| grouping.push(start, end, is_match != *invert).map_or(Ok(()), &mut emit),
            )?;
            grouping.pending.map_or(Ok(()), emit)
        }
        Step::DigitGroups { whole_number } => {
            let mut run_end = 0;
            segments(
                piece,
                |at| Ok(digit_group(piece, at, &mut run_end, *whole_number)),
                |start, end, _| split(rest, &piece[start..end], first && start == 0, budget, sink),
            )
        }
        Step::TrailingSpace => {
            let (body, space) = piece.split_at(piece.trim_end().len());
            split(rest, body, first, budget, sink)?;
            split(rest, space, first && body.is_empty(), budget, sink)
        }
        Step::PrefixSpace => {
            if piece.starts_with(' ') {
                return split(rest, piece, first, budget, sink);
            }
            budget.spend(WRITTEN * piece.len())?;
            split(rest, &format!(" {piece}"), first, budget, sink)
        }
        Step::Metaspace { replacement, prepend, split: at_spaces } => {
            budget.spend(WRITTEN * piece.len())?;
            let mut text = String::with_capacity(piece.len() + piece.len() / 4 + 3);
            let wanted = *prepend == Prepend::Always || *prepend == Prepend::First && first;
            if wanted && !piece.starts_with([' ', *replacement]) {
                text.push(*replacement);
            }
            text.extend(piece.chars().map(|c| if c == ' ' { *replacement } else { c }));
            if !at_spaces {
                return split(rest, &text, first, budget, sink);
            }
            let mut start = 0;
            for (at, _) in text.match_indices(*replacement).filter(|&(at, _)| at > 0) {
                split(rest, &text[start..at], first && start == 0, budget, sink)?;
                start = at;
            }
            split(rest, &text[start..], first && start == 0, budget, sink)
        }
    }
}

/// Calls `emit` with every match and every gap between matches, and whether it is a match.
fn segments(
    piece: &str,
    mut find: impl FnMut(usize) -> Result<Option<usize>, Spent>,
    mut emit: impl FnMut(usize, usize, bool) -> Result<(), Spent>,
) -> Result<(), Spent> {
    let mut gap = 0;
    let mut at = 0;
    while at < piece.len() {
        match find(at)? {
            Some(end) => {
                if gap < at {
                    emit(gap, at, false)?;
                }
                emit(at, end, true)?;
                at = end;
                gap = end;
            }
            None => at += piece[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    if gap < piece.len() { emit(gap, piece.len(), false) } else { Ok(()) }
}

/// Joins matches and gaps as a behaviour says, holding back the one that may still grow and giving the one before.
struct Grouping {
    behavior: Behavior,
    pending: Option<(usize, usize)>,
    after_match: bool,
}

impl Grouping {
    fn push(&mut self, start: usize, end: usize, is_match: bool) -> Option<(usize, usize)> {
        let joins = match self.behavior {
            Behavior::Removed if is_match => return self.pending.take(),
            Behavior::Removed | Behavior::Isolated => false,
            Behavior::Contiguous => is_match == self.after_match,
            Behavior::MergedWithPrevious => is_match && !self.after_match,
            Behavior::MergedWithNext => self.after_match && !is_match,
        };
        self.after_match = is_match;
        match &mut self.pending {
            Some(pending) if joins => {
                pending.1 = end;
                None
            }
            pending => pending.replace((start, end)),
        }
    }
}

/// The end of the group of up to three digits at `at`, such that full threes follow to the end of the run. `run_end`
/// remembers the run's end between calls, so that a long run is measured once.
fn digit_group(piece: &str, at: usize, run_end: &mut usize, whole_number: bool) -> Option<usize> {
    let mut group = 3;
    if at >= *run_end {
        let run = piece[at..].find(|c: char| !c.is_numeric()).unwrap_or(piece.len() - at);
        if run == 0 {
            return None;
        }
        *run_end = at + run;
        let first = piece[at..*run_end].chars().count() % 3;
        group = if first == 0 { 3 } else { first };
    }
    let word_follows = |c: char| c.is_alphanumeric() || c == '_';
    if whole_number && piece[*run_end..].chars().next().is_some_and(word_follows) {
        return None;
    }
    Some(piece[at..*run_end].char_indices().nth(group).map_or(*run_end, |(i, _)| at + i))
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;

    fn words(steps: &[Step], text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut sink = |word: &str| {
            found.push(word.to_owned());
            Ok(())
        };
        split(steps, text, true, &Budget::new(text.len(), &Limits::default()), &mut sink).unwrap();
        found
    }

    #[test]
    fn behaviours() {
        for (behavior, invert, expected) in [
            (Behavior::Removed, false, vec!["the", "final", "countdown"]),
            (Behavior::Removed, true, vec!["-", "-", "-"]),
            (Behavior::Isolated, false, vec!["the", "-", "final", "-", "-", "countdown"]),
            (Behavior::Contiguous, false, vec!["the", "-", "final", "--", "countdown"]),
            (Behavior::MergedWithPrevious, false, vec!["the-", "final-", "-", "countdown"]),
            (Behavior::MergedWithNext, false, vec!["the", "-final", "-", "-countdown"]),
        ] {
            let pattern = Pattern::new("-").unwrap();
            let found = words(&[Step::Split { pattern, behavior, invert }], "the-final--countdown");
            assert_eq!(found, expected, "{behavior:?}");
        }
    }

    #[test]
    fn digits_group_from_the_right() {
        let any = [Step::DigitGroups { whole_number: false }];
        assert_eq!(words(&any, "a1234567b12"), ["a", "1", "234", "567", "b", "12"]);
        let whole = [Step::DigitGroups { whole_number: true }];
        assert_eq!(words(&whole, "1234567 1234x"), ["1", "234", "567", " 1234x"]);
    }

    #[test]
    fn metaspace() {
        let step = |prepend, split| [Step::Metaspace { replacement: '▁', prepend, split }];
        assert_eq!(words(&step(Prepend::Always, true), "Hey  you"), ["▁Hey", "▁", "▁you"]);
        assert_eq!(words(&step(Prepend::Never, true), " Hey you"), ["▁Hey", "▁you"]);
        assert_eq!(words(&step(Prepend::First, false), "Hey you"), ["▁Hey▁you"]);
    }
}
