//! The null backend: binds any program and replays it without computing anything.
//!
//! It shows what the machinery around the kernels costs, and lets programs of models that fit no
//! machine be built, bound and printed.

use crate::bind::{Bound, Choice, NoKernel, bind as bind_records};
use crate::op::OpKind;
use crate::program::Program;
use crate::rules::Chosen;
use crate::steps::StepVars;

pub fn bind(program: &Program) -> Result<Bound, NoKernel> {
    bind_records(program, |_, op| Ok(Choice { kernel: op.kind as u32, units: 1, grain: 1, weight_layout: 0 }))
}

/// Walks the records `times` times; every output row's token is 0.
pub fn replay(bound: &Bound, steps: &mut StepVars<'_>, times: usize) {
    for _ in 0..times {
        for record in &bound.records {
            if record.kind() == Some(OpKind::Advance) {
                let outputs = steps.header().outputs as usize;
                steps.advance(&vec![Chosen::default(); outputs]);
            }
        }
    }
}
