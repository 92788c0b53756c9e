//! The check of step variables, once per submission: some comparisons per row.

use super::{KV_BLOCK, RowVars, StepHeader, StepLayout, StepVars};
use crate::proof::Proof;

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
    #[error("row {row} does not go on where its text is: a text's rows stand together, from its first to its last")]
    Text { row: usize },
}

impl Proof {
    /// Whether `steps` steps of this program may run from these variables. Block-table entries are checked where they are
    /// used.
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
        if self.rounds {
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
        if self.whole_texts {
            return check_texts(vars.rows());
        }
        let context = layout.table_blocks * KV_BLOCK;
        for (row, vars) in vars.rows().iter().enumerate() {
            let sequence = vars.sequence as usize;
            if sequence >= layout.sequences {
                return Err(StepError::Sequence { row, sequence, sequences: layout.sequences });
            }
            let last = if self.advances { steps.saturating_sub(1) } else { 0 };
            // Hidden places are those of the block before the row's own place.
            let inside = vars.place() % KV_BLOCK;
            let beyond =
                vars.hidden_places().checked_shr(inside as u32).unwrap_or(0) != 0 || vars.ahead as usize > inside;
            if beyond || self.rounds && (vars.ahead != 0 || vars.hidden_places() != 0) {
                return Err(StepError::Hidden { row });
            }
            let position = vars.place().saturating_add(last);
            if position >= context {
                return Err(StepError::ContextFull { row, position, context });
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
        left = vars.length - vars.position - 1;
    }
    match left {
        0 => Ok(()),
        _ => Err(StepError::Text { row: rows.len() }),
    }
}
