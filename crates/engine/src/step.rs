//! What goes into a step: the next tokens of sequences, and which of their rows give logits.

use crate::Sequence;

/// Which rows of a part give logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None.
    None,
    /// The last.
    Last,
    /// This many at the end.
    Tail(usize),
    /// Every one.
    All,
    /// At this many at the end the backend chooses tokens, and nobody reads the logits.
    Tokens(usize),
}

/// The next tokens of one sequence in a step.
///
/// The tokens of prompts and those that decoding adds are computed by different programs, because many rows at once are
/// faster where they may be rounded more. What a row gives depends on which of the two it is in, and on nothing else.
pub struct StepInput<'a> {
    /// Where they go.
    pub sequence: &'a mut Sequence,
    /// What comes next in it.
    pub tokens: &'a [u32],
    /// Which of these rows give logits.
    pub outputs: Outputs,
    /// Whether they are a prompt's. A step has prompts or decodes, not both.
    pub prompt: bool,
}

impl StepInput<'_> {
    pub(crate) fn outputs(&self) -> usize {
        match self.outputs {
            Outputs::None => 0,
            Outputs::Last => self.tokens.len().min(1),
            Outputs::Tail(n) | Outputs::Tokens(n) => self.tokens.len().min(n),
            Outputs::All => self.tokens.len(),
        }
    }
}
