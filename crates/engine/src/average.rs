//! Moving averages of what was measured.

/// How fast old observations are forgotten.
pub const RATE: f64 = 0.1;
/// The same where something took less time than the average: what else a machine does makes steps longer, never shorter.
const SHORTER: f64 = 0.5;

/// Adds an observation in seconds; the average is 0 where nothing was measured.
pub fn record(average: &mut f64, seconds: f64) {
    let seconds = seconds.max(1e-9);
    let rate = if *average == 0.0 { 1.0 } else { [RATE, SHORTER][usize::from(seconds < *average)] };
    *average += rate * (seconds - *average);
}

/// How fast a peak is forgotten.
const FORGOTTEN: f64 = 0.02;

/// Adds an observation in seconds to what hardly any is longer than. One that is far longer than all before counts as twice them:
/// it may be the only one.
pub fn record_peak(peak: &mut f64, seconds: f64) {
    let seconds = seconds.max(1e-9);
    *peak = match *peak {
        0.0 => seconds,
        peak if seconds > peak => seconds.min(2.0 * peak),
        peak => peak + FORGOTTEN * (seconds - peak),
    };
}
