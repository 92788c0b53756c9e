//! The KV cache of the reference executor: the bytes that records and sessions speak of, in the declared number format.

use crate::backend::{KvPool, LoadError};
use crate::op::KvParams;
use crate::steps::KV_BLOCK;
use akunu_dtype::{DType, Format, Planes, PlanesMut};

/// By KV group: its blocks, one after the other.
pub struct Kv {
    pools: Vec<KvPool>,
    bytes: Vec<Vec<u8>>,
}

/// Where the key or the value of one head at one place of a block lies.
#[derive(Clone, Copy)]
pub struct Place {
    pub block: u32,
    pub is_value: bool,
    pub head: usize,
    pub position: usize,
}

impl Kv {
    /// Zeros.
    pub fn new(pools: &[KvPool]) -> Result<Self, LoadError> {
        let what = "KV cache";
        let zeros = |pool: &KvPool| {
            let all = pool.block_bytes as u128 * pool.blocks as u128;
            let bytes = pool.bytes().ok_or(LoadError::TooLarge { what, bytes: all })?;
            // Zeroed memory cannot be asked for without a panic: whether there is as much is tried first.
            let mut trial: Vec<u8> = Vec::new();
            trial.try_reserve_exact(bytes).map_err(|_| LoadError::OutOfMemory { what, bytes })?;
            drop(std::hint::black_box(trial));
            Ok(vec![0; bytes])
        };
        let bytes = pools.iter().map(zeros).collect::<Result<_, LoadError>>()?;
        Ok(Self { pools: pools.to_vec(), bytes })
    }

    pub fn group(&self, group: usize) -> &[u8] {
        self.bytes.get(group).map_or(&[], Vec::as_slice)
    }

    pub fn group_mut(&mut self, group: usize) -> &mut [u8] {
        self.bytes.get_mut(group).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Where a row of `d` values lies in its group; `None` where there is no such block.
    fn range(&self, kv: &KvParams, place: Place, d: usize) -> Option<(&'static Format, std::ops::Range<usize>)> {
        let dtype = DType::from_index(u8::try_from(kv.dtype).ok()?)?;
        let pool = self.pools.get(kv.group as usize)?;
        if place.block as usize >= pool.blocks {
            return None;
        }
        let half = if place.is_value { kv.value_offset } else { 0 };
        let at = place.block as usize * pool.block_bytes
            + (kv.layer_offset + half) as usize
            + place.head * kv.head_bytes as usize
            + place.position % KV_BLOCK * kv.row_bytes as usize;
        Some((dtype.format(), at..at + dtype.row_bytes(d)?))
    }

    pub fn write(&mut self, kv: &KvParams, place: Place, values: &[f32]) {
        let Some((format, range)) = self.range(kv, place, values.len()) else { return };
        let bytes = self.group_mut(kv.group as usize).get_mut(range);
        if let Some((bytes, encode)) = bytes.zip(format.encode) {
            encode(values, PlanesMut { data: bytes, scales: &mut [], biases: &mut [] });
        }
    }

    /// `None` where there is no such block.
    pub fn read(&self, kv: &KvParams, place: Place, d: usize) -> Option<Vec<f32>> {
        let (format, range) = self.range(kv, place, d)?;
        let mut values = vec![0.0; d];
        let data = self.group(kv.group as usize).get(range)?;
        (format.decode)(Planes { data, scales: &[], biases: &[] }, &mut values);
        Some(values)
    }
}
