//! WAV files for tests, honest and otherwise.

/// Kinds of samples: WAV's format tag and bits.
pub const U8: (u16, u16) = (1, 8);
pub const I16: (u16, u16) = (1, 16);
pub const I24: (u16, u16) = (1, 24);
pub const I32: (u16, u16) = (1, 32);
pub const F32: (u16, u16) = (3, 32);

/// A WAV file of `samples`, the same in every channel.
pub fn wav((tag, bits): (u16, u16), rate: u32, channels: u16, samples: &[f32]) -> Vec<u8> {
    let mut data = Vec::new();
    for s in samples {
        for _ in 0..channels {
            match (tag, bits) {
                U8 => data.push((s * 127.0 + 128.0) as u8),
                I16 => data.extend(((s * 32767.0) as i16).to_le_bytes()),
                I24 => data.extend(&((s * 8_388_607.0) as i32).to_le_bytes()[..3]),
                I32 => data.extend(((f64::from(*s) * 2_147_483_647.0) as i32).to_le_bytes()),
                _ => data.extend(s.to_le_bytes()),
            }
        }
    }
    let block = channels * bits / 8;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    file.extend(tag.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(block)).to_le_bytes());
    file.extend(block.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

/// One second of a tone at half of full scale.
pub fn tone(rate: u32, hz: f64) -> Vec<f32> {
    (0..rate).map(|i| 0.5 * (2.0 * std::f64::consts::PI * hz * f64::from(i) / f64::from(rate)).sin() as f32).collect()
}

/// A file of its own for one test, gone with its guard.
pub struct Temporary(pub std::path::PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("akunu-audio-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
