//! Raw PCM from a pipe: signed 16-bit little-endian, mono, 16 kHz.

use std::io::{self, Read};

/// A pipe of raw samples.
pub struct Pcm<R> {
    from: R,
    bytes: Vec<u8>,
    /// The first byte of a sample whose second has not come yet.
    odd: Option<u8>,
}

impl<R: Read> Pcm<R> {
    pub fn new(from: R) -> Self {
        Self { from, bytes: vec![0; 8192], odd: None }
    }

    /// Waits for samples and appends them; `false` once the pipe has ended.
    pub fn read(&mut self, out: &mut Vec<f32>) -> io::Result<bool> {
        let n = loop {
            match self.from.read(&mut self.bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                n => break n?,
            }
        };
        let mut rest = &self.bytes[..n];
        if let (Some(low), Some((high, after))) = (self.odd, rest.split_first()) {
            out.push(sample([low, *high]));
            rest = after;
            self.odd = None;
        }
        let pairs = rest.chunks_exact(2);
        self.odd = pairs.remainder().first().copied().or(self.odd);
        out.extend(pairs.map(|b| sample([b[0], b[1]])));
        Ok(n > 0)
    }
}

fn sample(bytes: [u8; 2]) -> f32 {
    f32::from(i16::from_le_bytes(bytes)) / 32768.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn samples_may_be_split_anywhere() {
        let bytes = [0x00, 0x40, 0x00, 0xc0, 0xff, 0x7f, 0x00, 0x80];
        for at_once in 1..=8 {
            let (mut pcm, mut out) = (Pcm::new(Slow(&bytes, at_once)), Vec::new());
            while pcm.read(&mut out).unwrap() {}
            assert_eq!(out, [0.5, -0.5, 32767.0 / 32768.0, -1.0], "{at_once} at once");
        }
    }
}
