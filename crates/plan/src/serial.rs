//! Bound programs as bytes: written, and loaded back with every count checked.

use crate::bind::Bound;
use crate::record::{Addr, Record};

const MAGIC: [u8; 8] = *b"AKUNUBP4";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SerialError {
    #[error("not a bound program of this version")]
    Magic,
    #[error("a bound program of {expected} bytes, but {found} are there")]
    Length { expected: u64, found: u64 },
}

impl Bound {
    /// `[magic][records][constants][arena bytes][logits][logits stride]` as u64s, then the records,
    /// then the constants; little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [
            self.records.len() as u64,
            self.constants.len() as u64,
            self.arena_bytes as u64,
            self.logits.0,
            self.logits_stride as u64,
        ];
        let mut out = MAGIC.to_vec();
        head.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(bytemuck::cast_slice::<Record, u8>(&self.records));
        out.extend(bytemuck::cast_slice::<f32, u8>(&self.constants));
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Bound, SerialError> {
        let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or(SerialError::Magic)?;
        let (head, body) = rest.split_at_checked(40).ok_or(SerialError::Magic)?;
        if magic != MAGIC {
            return Err(SerialError::Magic);
        }
        let word = |i: usize| head[8 * i..8 * i + 8].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
        let expected = word(0)
            .checked_mul(size_of::<Record>() as u64)
            .zip(word(1).checked_mul(4))
            .and_then(|(r, c)| r.checked_add(c))
            .unwrap_or(u64::MAX);
        if expected != body.len() as u64 {
            return Err(SerialError::Length { expected, found: body.len() as u64 });
        }
        let (records, constants) = body.split_at(word(0) as usize * size_of::<Record>());
        Ok(Bound {
            records: records.chunks_exact(size_of::<Record>()).map(bytemuck::pod_read_unaligned).collect(),
            constants: constants.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect(),
            arena_bytes: word(2) as usize,
            logits: Addr(word(3)),
            logits_stride: word(4) as usize,
        })
    }
}
