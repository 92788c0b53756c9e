//! Averages of what was measured lately.

/// How fast old observations are forgotten.
pub const RATE: f64 = 0.1;
/// And where something took less time than is known: what else a machine does makes steps longer, never shorter.
const SHORTER: f64 = 0.5;

/// Something took so many seconds; 0 is known where nothing was measured.
pub fn took(known: &mut f64, seconds: f64) {
    let seconds = seconds.max(1e-9);
    let rate = if *known == 0.0 { 1.0 } else { [RATE, SHORTER][usize::from(seconds < *known)] };
    *known += rate * (seconds - *known);
}
