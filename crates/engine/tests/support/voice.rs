//! Weights of a voice detector that no one trained.

use akunu::DType;
use akunu_formats::safetensors;
use akunu_testkit::TempDir;
use std::path::PathBuf;

/// Name, shape and values.
pub struct Tensors(pub Vec<(&'static str, Vec<usize>, Vec<f32>)>);

impl Tensors {
    pub fn get(&self, name: &str) -> &[f32] {
        &self.0.iter().find(|t| t.0 == name).unwrap().2
    }

    pub fn write(&self, dir: &TempDir) -> PathBuf {
        let bytes: Vec<Vec<u8>> = self.0.iter().map(|t| t.2.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
        let tensors: Vec<(&str, DType, &[usize], &[u8])> =
            self.0.iter().zip(&bytes).map(|(t, bytes)| (t.0, DType::F32, &t.1[..], &bytes[..])).collect();
        let path = dir.join("voice.safetensors");
        safetensors::write(&path, &tensors).unwrap();
        path
    }
}

/// Values between -`size` and `size`.
pub fn noise(count: usize, size: f32) -> Vec<f32> {
    let mut state = count as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| size * next()).collect()
}

/// All tensors; `bias` moves the result towards speech or silence.
pub fn random(bias: f32) -> Tensors {
    let shapes: [(&str, &[usize], f32); 15] = [
        ("stft_conv.weight", &[258, 1, 256], 0.2),
        ("conv1.weight", &[128, 129, 3], 0.1),
        ("conv1.bias", &[128], 0.1),
        ("conv2.weight", &[64, 128, 3], 0.1),
        ("conv2.bias", &[64], 0.1),
        ("conv3.weight", &[64, 64, 3], 0.1),
        ("conv3.bias", &[64], 0.1),
        ("conv4.weight", &[128, 64, 3], 0.1),
        ("conv4.bias", &[128], 0.1),
        ("lstm_cell.weight_ih", &[512, 128], 0.1),
        ("lstm_cell.weight_hh", &[512, 128], 0.1),
        ("lstm_cell.bias_ih", &[512], 0.1),
        ("lstm_cell.bias_hh", &[512], 0.1),
        ("final_conv.weight", &[1, 128, 1], 0.5),
        ("final_conv.bias", &[1], 0.0),
    ];
    let mut tensors: Vec<(&str, Vec<usize>, Vec<f32>)> = shapes
        .into_iter()
        .map(|(name, shape, size)| (name, shape.to_vec(), noise(shape.iter().product(), size)))
        .collect();
    tensors[14].2[0] = bias;
    Tensors(tensors)
}
