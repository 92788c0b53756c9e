//! The check of step variables, once per submission: some comparisons per row.

use super::{KV_BLOCK, NO_BLOCK, RowVars, StepHeader, StepLayout, StepVars};
use crate::proof::Proof;

/// KV blocks of a group that a step of several sequences can write: one or two a sequence, and one every [`KV_BLOCK`] rows.
const MAX_WRITTEN: usize = 256;

/// Why step variables were refused. Nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error("the step variables' header does not describe this memory's layout")]
    Header,
    #[error("the step has {asked} {what}, the program at most {most}")]
    TooMany { what: &'static str, asked: usize, most: usize },
    #[error("output {output} asks for row {row} of {rows}")]
    OutputRow { output: usize, row: usize, rows: usize },
    #[error(
        "row {row} hides places, or is stored ahead of its position, beyond the block of its own place or in a program for prompts"
    )]
    Hidden { row: usize },
    #[error("row {row} belongs to sequence {sequence} of {sequences}")]
    Sequence { row: usize, sequence: usize, sequences: usize },
    #[error("row {row} would reach position {position}; the context ends at {context}")]
    ContextFull { row: usize, position: usize, context: usize },
    #[error("row {row} does not come after the row before it, by sequence and place")]
    Order { row: usize },
    #[error("KV block {block} would be written in two places of the block tables")]
    SharedBlock { block: u32 },
    #[error("a chain of steps has an output row twice, or one that is stored ahead of its position or hides places")]
    Chain,
    #[error("row {row} does not go on where its text is: a text's rows stand together, from its first to its last")]
    Text { row: usize },
}

impl Proof {
    /// Whether `steps` steps of this program may run from these variables: every row reads inside its context, and no two
    /// rows write to the same place. Block-table entries are checked where they are used.
    pub fn check_steps(&self, vars: &StepVars<'_>, layout: &StepLayout, steps: usize) -> Result<(), StepError> {
        let header = vars.header();
        let (rows, outputs) = (header.rows as usize, header.outputs as usize);
        let emitted = header.emitted_steps as usize;
        let expected = StepHeader {
            rows: header.rows,
            outputs: header.outputs,
            emitted_steps: header.emitted_steps,
            ended: header.ended,
            ..layout.header()
        };
        if bytemuck::bytes_of(&expected) != bytemuck::bytes_of(&header) {
            return Err(StepError::Header);
        }
        let limit =
            |what, asked, most| if asked <= most { Ok(()) } else { Err(StepError::TooMany { what, asked, most }) };
        limit("rows", rows, self.rows.min(layout.max_rows))?;
        limit("outputs", outputs, self.outputs.min(layout.max_outputs))?;
        // Neither kernels for prefill nor rows that look at each other know of a row that has moved on.
        if self.rounds || self.whole_texts {
            limit("steps", steps, 1)?;
        }
        if self.advances {
            limit("steps", emitted.saturating_add(steps), layout.max_chain)?;
        }
        for (output, &row) in vars.outputs().iter().enumerate() {
            if row as usize >= rows {
                return Err(StepError::OutputRow { output, row: row as usize, rows });
            }
        }
        let chain = self.advances && steps > 1;
        if chain && !vars.outputs().is_sorted_by(|a, b| a < b) {
            return Err(StepError::Chain);
        }
        if self.whole_texts {
            check_texts(vars.rows())?;
        }
        if !self.kv_read && self.kv_written == 0 {
            return Ok(());
        }
        let context = layout.table_blocks * KV_BLOCK;
        let last = if self.advances { steps.saturating_sub(1) } else { 0 };
        let mut before = None;
        for (row, vars) in vars.rows().iter().enumerate() {
            let sequence = vars.sequence as usize;
            if sequence >= layout.sequences {
                return Err(StepError::Sequence { row, sequence, sequences: layout.sequences });
            }
            // Hidden places are those of the block before the row's own place.
            let inside = vars.place() % KV_BLOCK;
            let beyond =
                vars.hidden_places().checked_shr(inside as u32).unwrap_or(0) != 0 || vars.ahead as usize > inside;
            if beyond || self.rounds && (vars.ahead != 0 || vars.hidden_places() != 0) {
                return Err(StepError::Hidden { row });
            }
            if chain && (vars.ahead != 0 || vars.hidden_places() != 0) {
                return Err(StepError::Chain);
            }
            let position = vars.place().saturating_add(last);
            if position >= context {
                return Err(StepError::ContextFull { row, position, context });
            }
            // The rows of a sequence stand together, so that no two write to one place.
            let at = Some((sequence, vars.place()));
            if self.kv_written != 0 && at <= before {
                return Err(StepError::Order { row });
            }
            before = at;
        }
        self.check_written(vars, layout.groups, last)
    }

    /// Whether every block that the rows write belongs to one sequence alone, also `last` steps later. Nothing is allocated.
    fn check_written(&self, vars: &StepVars<'_>, groups: usize, last: usize) -> Result<(), StepError> {
        let rows = vars.rows();
        let several = rows.first().zip(rows.last()).is_some_and(|(first, last)| first.sequence != last.sequence);
        if self.kv_written == 0 || !several {
            return Ok(());
        }
        for group in (0..groups).filter(|g| self.kv_written >> g & 1 == 1) {
            let (mut written, mut count) = ([(0, 0); MAX_WRITTEN], 0);
            let mut before: Option<(u32, usize)> = None;
            for row in rows {
                let (first, end) = (row.place() / KV_BLOCK, (row.place() + last) / KV_BLOCK);
                // Rows that stand in one block write it once.
                let seen = before.filter(|b| b.0 == row.sequence).map_or(0, |b| b.1 + 1);
                for &block in &vars.table(group, row.sequence as usize)[first.max(seen)..end + 1] {
                    let too_many = StepError::TooMany { what: "blocks to write", asked: count + 1, most: MAX_WRITTEN };
                    *written.get_mut(count).ok_or(too_many)? = (block, row.sequence);
                    count += usize::from(block != NO_BLOCK);
                }
                before = Some((row.sequence, end));
            }
            written[..count].sort_unstable();
            if let Some(pair) = written[..count].windows(2).find(|w| w[0].0 == w[1].0) {
                return Err(StepError::SharedBlock { block: pair[0].0 });
            }
        }
        Ok(())
    }
}

/// Rows that look at each other: runs of positions `0..length`, neighbouring runs of different sequences.
fn check_texts(rows: &[RowVars]) -> Result<(), StepError> {
    let mut left = 0;
    for (row, vars) in rows.iter().enumerate() {
        let before = row.checked_sub(1).map(|r| rows[r]);
        let goes_on = before.is_some_and(|b| b.sequence == vars.sequence);
        let right = match before {
            Some(b) if goes_on => vars.position == b.position + 1 && vars.length == b.length,
            _ => left == 0 && vars.position == 0,
        };
        if !right || vars.position >= vars.length {
            return Err(StepError::Text { row });
        }
        if vars.ahead != 0 || vars.hidden_places() != 0 {
            return Err(StepError::Hidden { row });
        }
        left = vars.length - vars.position - 1;
    }
    match left {
        0 => Ok(()),
        _ => Err(StepError::Text { row: rows.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: StepLayout =
        StepLayout { max_rows: 4, max_outputs: 4, groups: 1, sequences: 2, table_blocks: 3, max_chain: 8 };

    /// A program that decodes.
    fn decoder() -> Proof {
        Proof {
            rows: 4,
            outputs: 4,
            advances: true,
            whole_texts: false,
            rounds: false,
            rows_apart: true,
            kv_read: true,
            kv_written: 1,
            phases: Vec::new(),
        }
    }

    /// Two sequences with blocks of their own; a row each, at positions 5 and 70.
    fn check(proof: &Proof, steps: usize, change: impl FnOnce(&mut StepVars<'_>)) -> Result<(), StepError> {
        let mut words = vec![0; LAYOUT.bytes() / 4];
        let mut vars = StepVars::new(&mut words);
        *vars.header_mut() = LAYOUT.header();
        vars.begin(2, 2);
        vars.rows_mut()[0] = RowVars { position: 5, sequence: 0, ..RowVars::default() };
        vars.rows_mut()[1] = RowVars { position: 70, sequence: 1, ..RowVars::default() };
        vars.outputs_mut().copy_from_slice(&[0, 1]);
        vars.table_mut(0, 0).copy_from_slice(&[3, 4, NO_BLOCK]);
        vars.table_mut(0, 1).copy_from_slice(&[5, 6, NO_BLOCK]);
        change(&mut vars);
        proof.check_steps(&vars, &LAYOUT, steps)
    }

    #[test]
    fn two_sequences_may_share_what_they_read_and_not_what_they_write() {
        assert_eq!(check(&decoder(), 4, |_| {}), Ok(()));
        assert_eq!(check(&decoder(), 1, |v| v.table_mut(0, 1)[0] = 3), Ok(()), "a past in common");
        let shared = Err(StepError::SharedBlock { block: 3 });
        assert_eq!(check(&decoder(), 1, |v| v.table_mut(0, 1)[1] = 3), shared);
        // The chain reaches the second block of the first sequence.
        let later = |v: &mut StepVars<'_>| {
            v.rows_mut()[0].position = 62;
            v.table_mut(0, 0)[1] = 6;
        };
        assert_eq!(check(&decoder(), 2, later), Ok(()));
        assert_eq!(check(&decoder(), 3, later), Err(StepError::SharedBlock { block: 6 }));
        let reader = Proof { kv_written: 0, ..decoder() };
        assert_eq!(check(&reader, 1, |v| v.table_mut(0, 1)[1] = 3), Ok(()));
    }

    #[test]
    fn two_rows_never_have_one_place() {
        let same = |v: &mut StepVars<'_>| v.rows_mut()[1] = v.rows()[0];
        assert_eq!(check(&decoder(), 1, same), Err(StepError::Order { row: 1 }));
        // At one position, but stored apart.
        let apart = |v: &mut StepVars<'_>| {
            v.rows_mut()[1] = v.rows()[0];
            v.rows_mut()[1].ahead = 1;
        };
        assert_eq!(check(&decoder(), 1, apart), Ok(()));
        assert_eq!(check(&decoder(), 2, apart), Err(StepError::Chain));
        let back = |v: &mut StepVars<'_>| v.rows_mut()[0].sequence = 1;
        assert_eq!(check(&decoder(), 1, back), Ok(()), "5 and 70 of one sequence");
        let swapped = |v: &mut StepVars<'_>| v.rows_mut().swap(0, 1);
        assert_eq!(check(&decoder(), 1, swapped), Err(StepError::Order { row: 1 }));
    }

    #[test]
    fn a_chain_moves_every_row_once_a_step() {
        let twice = |v: &mut StepVars<'_>| v.outputs_mut()[1] = 0;
        assert_eq!(check(&decoder(), 1, twice), Ok(()));
        assert_eq!(check(&decoder(), 2, twice), Err(StepError::Chain));
        let texts = Proof { whole_texts: true, kv_read: false, kv_written: 0, ..decoder() };
        let whole = |v: &mut StepVars<'_>| {
            for (row, vars) in v.rows_mut().iter_mut().enumerate() {
                *vars = RowVars { position: row as u32, length: 2, ..RowVars::default() };
            }
        };
        assert_eq!(check(&texts, 1, whole), Ok(()));
        assert!(matches!(check(&texts, 2, whole), Err(StepError::TooMany { what: "steps", .. })));
    }

    #[test]
    fn rows_of_whole_texts_lie_where_they_are() {
        let texts = Proof { whole_texts: true, advances: false, kv_read: false, kv_written: 0, ..decoder() };
        let one = |change: fn(&mut RowVars)| {
            check(&texts, 1, |v| {
                for (row, vars) in v.rows_mut().iter_mut().enumerate() {
                    *vars = RowVars { position: row as u32, length: 2, ..RowVars::default() };
                }
                change(&mut v.rows_mut()[0]);
            })
        };
        assert_eq!(one(|_| {}), Ok(()));
        assert_eq!(one(|row| row.ahead = 1 << 20), Err(StepError::Hidden { row: 0 }));
        assert_eq!(one(|row| row.hidden[1] = 1), Err(StepError::Hidden { row: 0 }));
        // An encoder's sequence has a block table.
        let encoder = Proof { kv_written: 1, ..texts.clone() };
        let far = |v: &mut StepVars<'_>| {
            for (row, vars) in v.rows_mut().iter_mut().enumerate() {
                *vars = RowVars { position: row as u32, length: 2, sequence: 9, ..RowVars::default() };
            }
        };
        assert_eq!(check(&texts, 1, far), Ok(()));
        assert_eq!(check(&encoder, 1, far), Err(StepError::Sequence { row: 0, sequence: 9, sequences: 2 }));
    }
}
