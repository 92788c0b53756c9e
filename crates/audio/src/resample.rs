//! Resampling to 16 kHz: a windowed sinc, as a bank of filters, one per phase between two input samples.

use crate::SAMPLE_RATE;

/// Zero crossings of the sinc on each side.
const CROSSINGS: f64 = 32.0;
/// Kaiser window: 90 dB below in the stop band.
const BETA: f64 = 9.0;
/// The pass band ends this far below the lower of the two Nyquist frequencies.
const PASS: f64 = 0.95;
/// More phases than this are interpolated between.
const MAX_PHASES: usize = 1024;

/// Converts a mono stream from any rate to [`SAMPLE_RATE`].
pub struct Resampler {
    /// Input samples per output sample, as a reduced fraction.
    step: (usize, usize),
    taps: usize,
    phases: usize,
    /// `[phases + 1][taps]`: filter `p` for an output that lies `p / phases` after an input sample.
    bank: Vec<f32>,
    /// Input from `first` on; positions are those of the stream with `taps / 2` zeros before it.
    input: Vec<f32>,
    first: usize,
    /// The next output lies at input position `next.0 + next.1 / step.1`.
    next: (usize, usize),
    taken: usize,
    given: usize,
}

impl Resampler {
    pub fn new(rate: u32) -> Self {
        let rate = rate.max(1) as usize;
        let common = gcd(rate, SAMPLE_RATE);
        let step = (rate / common, SAMPLE_RATE / common);
        // Below 1 the filter is wider, so that what 16 kHz cannot hold is gone before it folds back.
        let cutoff = (SAMPLE_RATE as f64 / rate as f64).min(1.0);
        let half = if step == (1, 1) { 0 } else { (CROSSINGS / cutoff).ceil() as usize };
        let phases = step.1.min(MAX_PHASES);
        let taps = if half == 0 { 1 } else { 2 * half };
        let mut bank = Vec::with_capacity((phases + 1) * taps);
        for phase in 0..=phases {
            let at = phase as f64 / phases as f64;
            let row: Vec<f64> = match half {
                0 => vec![1.0],
                _ => (0..taps).map(|t| weight(t as f64 - (half as f64 - 1.0) - at, cutoff)).collect(),
            };
            let total: f64 = row.iter().sum();
            bank.extend(row.iter().map(|w| (w / total) as f32));
        }
        let input = vec![0.0; half.saturating_sub(1)];
        Self { step, taps, phases, bank, input, first: 0, next: (0, 0), taken: 0, given: 0 }
    }

    /// Takes samples in and appends what they complete.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.taken += samples.len();
        if self.taps == 1 {
            self.given += samples.len();
            out.extend_from_slice(samples);
            return;
        }
        self.input.extend_from_slice(samples);
        self.drain(out, usize::MAX);
    }

    /// Appends what is left: as many samples as the recording is long.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        if self.taps > 1 {
            let total = (self.taken as u128 * self.step.1 as u128).div_ceil(self.step.0 as u128) as usize;
            self.input.resize(self.input.len() + self.taps, 0.0);
            self.drain(out, total);
        }
    }

    fn drain(&mut self, out: &mut Vec<f32>, total: usize) {
        while self.given < total {
            let start = self.next.0 - self.first;
            let Some(input) = self.input.get(start..start + self.taps) else { break };
            let at = self.next.1 * self.phases;
            let (phase, rest) = (at / self.step.1, at % self.step.1);
            let mut value = dot(input, &self.bank[phase * self.taps..][..self.taps]);
            if rest > 0 {
                let after = dot(input, &self.bank[(phase + 1) * self.taps..][..self.taps]);
                value += (after - value) * (rest as f32 / self.step.1 as f32);
            }
            out.push(value);
            self.given += 1;
            let numerator = self.next.1 + self.step.0;
            self.next = (self.next.0 + numerator / self.step.1, numerator % self.step.1);
        }
        let used = (self.next.0 - self.first).min(self.input.len());
        self.input.drain(..used);
        self.first += used;
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Sixteen sums, so that the compiler may use vectors.
    let mut sums = [0.0f32; 16];
    let (a, b) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The filter `x` input samples from its middle.
fn weight(x: f64, cutoff: f64) -> f64 {
    let reach = CROSSINGS / cutoff;
    if x.abs() >= reach {
        return 0.0;
    }
    let z = std::f64::consts::PI * x * cutoff * PASS;
    let sinc = if z == 0.0 { 1.0 } else { z.sin() / z };
    sinc * bessel(BETA * (1.0 - (x / reach).powi(2)).sqrt()) / bessel(BETA)
}

/// The modified Bessel function of order zero, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..64 {
        term *= (x / (2.0 * k as f64)).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resample(rate: u32, samples: &[f32], packet: usize) -> Vec<f32> {
        let (mut resampler, mut out) = (Resampler::new(rate), Vec::new());
        samples.chunks(packet).for_each(|c| resampler.push(c, &mut out));
        resampler.finish(&mut out);
        out
    }

    fn tone(rate: u32, hz: f64, samples: usize) -> Vec<f32> {
        (0..samples).map(|i| (2.0 * std::f64::consts::PI * hz * i as f64 / f64::from(rate)).sin() as f32).collect()
    }

    #[test]
    fn tones_below_the_pass_band_come_out_as_they_are() {
        for rate in [4_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 12_347] {
            for hz in [50.0, 440.0, 0.4 * f64::from(rate.min(16_000))] {
                let out = resample(rate, &tone(rate, hz, rate as usize), 1000);
                assert_eq!(out.len(), SAMPLE_RATE, "{rate} Hz");
                let want = tone(16_000, hz, SAMPLE_RATE);
                // Near the ends there is silence instead of a tone.
                let worst = (1000..15_000).map(|i| (out[i] - want[i]).abs()).fold(0.0, f32::max);
                assert!(worst < 2e-3, "{hz} Hz at {rate}: off by {worst}");
            }
        }
    }

    #[test]
    fn what_16_khz_cannot_hold_is_gone() {
        for (rate, hz) in [(44_100, 9_000.0), (48_000, 12_000.0), (96_000, 30_000.0)] {
            let out = resample(rate, &tone(rate, hz, rate as usize), 4096);
            let worst = out[1000..15_000].iter().fold(0.0f32, |a, b| a.max(b.abs()));
            assert!(worst < 1e-3, "{hz} Hz at {rate} leaves {worst}");
        }
    }

    #[test]
    fn packets_do_not_show() {
        let samples = tone(44_100, 1234.0, 20_000);
        assert_eq!(resample(44_100, &samples, 1), resample(44_100, &samples, 20_000));
    }
}
