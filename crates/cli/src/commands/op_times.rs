//! How long the ops of a step take, for `bench --ops` with one stream or many.

use akunu::{Engine, Error};
use anyhow::Result;

use crate::program_table::{self, Entry};
use crate::units;

/// Seconds of every op of a step with `rows` rows behind `depth` positions: the median of the repetitions of `step`, which gives
/// nanoseconds.
pub fn op_times(
    engine: &mut Engine,
    repeat: usize,
    (rows, depth): (usize, usize),
    mut step: impl FnMut(&mut Engine) -> Result<Vec<u64>, Error>,
) -> Result<(Vec<Entry>, Vec<f64>)> {
    step(engine)?;
    let runs: Vec<Vec<u64>> = (0..repeat.max(5)).map(|_| step(engine)).collect::<Result<_, _>>()?;
    let program = engine.last_program();
    let entries = program_table::entries(engine.backend(), program, engine.last_bound(), rows, depth);
    let time = |i: usize| {
        let times: Vec<f64> = runs.iter().filter_map(|r| r.get(i)).map(|&ns| ns as f64 * 1e-9).collect();
        units::median(&times)
    };
    let times = (0..entries.len()).map(time).collect();
    Ok((entries, times))
}
