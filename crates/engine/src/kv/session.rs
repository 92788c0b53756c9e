//! A conversation's place in the KV cache as a file, so that it goes on where it was after a restart.
//!
//! `[magic][version][fingerprint of the model and its cache][positions][tokens][note][blocks by group]`, little-endian.
//! The file is checked for the model, the cache's layout and its own length before anything is taken from it.

use crate::{Engine, Error, Sequence};
use akunu_formats::{Output, open_regular};
use akunu_limits::{Over, over};
use akunu_plan::{KV_BLOCK, NO_BLOCK};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const MAGIC: &[u8; 8] = b"akunuses";
const VERSION: u32 = 1;
/// More than any note needs.
const LONGEST_NOTE: u64 = 64 << 20;
/// Bytes of every tensor that the fingerprint looks at.
const SAMPLE: usize = 256;

/// What a session file held.
pub struct Session {
    /// Where it stands in the engine's KV cache.
    pub sequence: Sequence,
    /// The text; the sequence holds the beginning of it.
    pub tokens: Vec<u32>,
    /// What the writer added: the messages of a chat, for example.
    pub note: String,
}

/// Why a session file cannot be used; every variant says it in one sentence.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SessionError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is not a session file")]
    NotASession,
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    Version(u32),
    #[error("it was written with another model or another KV cache type")]
    OtherModel,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it has {positions} positions, and the context is {context}")]
    TooLong { positions: u64, context: usize },
    #[error("it has {tokens} tokens, over {over}")]
    TooManyTokens { tokens: u64, over: Over },
    #[error("the KV cache has no room for it")]
    NoRoom,
}

impl Engine {
    /// What must be the same for a stored cache to mean the same: weights by a sample of each, and the cache's layout.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let file = self.file();
        for tensor in file.tensors() {
            hash.update(format!("{} {} {:?};", tensor.name, tensor.dtype.format().name, tensor.shape));
            let bytes = file.bytes(tensor.data.file);
            let end = tensor.data.offset + tensor.data.len.min(SAMPLE);
            hash.update(bytes.get(tensor.data.offset..end).unwrap_or_default());
        }
        let program = self.decode_program();
        for op in &program.ops {
            if let akunu_plan::op::Params::Heads(heads) = op.params {
                hash.update(bytemuck::bytes_of(&heads));
            }
        }
        // Which of the file's ropes these keys were turned by.
        if self.model().config.beyond.is_some() {
            hash.update(format!("{:?};", self.model().config.ropes));
        }
        for group in &program.kv_groups {
            hash.update(format!("{:?} {} {KV_BLOCK};", group.window, group.block_bytes));
        }
        hash.finalize().into()
    }

    /// Bytes of a KV block.
    pub(crate) fn block_bytes(&self, group: usize) -> usize {
        self.decode_program().kv_groups[group].block_bytes
    }

    /// What a KV block holds.
    pub(crate) fn read_block(&self, group: usize, block: u32) -> Box<[u8]> {
        let mut stored = vec![0; self.block_bytes(group)];
        self.loaded.kv_read(group, block as usize * stored.len(), &mut stored);
        stored.into()
    }

    /// Gives a sequence a KV block that holds this, or a gap; `None` where no block is free.
    pub(crate) fn push_block(&mut self, sequence: &mut Sequence, group: usize, stored: Option<&[u8]>) -> Option<u32> {
        let block = sequence.push_block(group, stored.is_some())?;
        if let Some(stored) = stored {
            self.loaded.kv_write(group, block as usize * self.block_bytes(group), stored);
        }
        Some(block)
    }

    fn check_tokens(&self, tokens: u64) -> Result<(), SessionError> {
        let limits = self.file().limits();
        if tokens <= limits.session_tokens {
            return Ok(());
        }
        Err(SessionError::TooManyTokens { tokens, over: over!(limits, session_tokens) })
    }

    /// Writes a sequence, the text it holds the beginning of, and a note. The file appears when it is complete.
    pub fn save_session(&mut self, path: &Path, sequence: &Sequence, tokens: &[u32], note: &str) -> Result<(), Error> {
        let fits = match note.len() as u64 > LONGEST_NOTE {
            true => Err(SessionError::Damaged("its note is too long to be kept")),
            false => self.check_tokens(tokens.len() as u64),
        };
        fits.map_err(|error| Error::Session { path: path.display().to_string(), error })?;
        let fingerprint = self.fingerprint();
        let mut out = Output::create(path, true)?;
        out.write(MAGIC)?;
        out.write(&VERSION.to_le_bytes())?;
        out.write(&fingerprint)?;
        for number in [sequence.len() as u64, tokens.len() as u64, note.len() as u64] {
            out.write(&number.to_le_bytes())?;
        }
        for token in tokens {
            out.write(&token.to_le_bytes())?;
        }
        out.write(note.as_bytes())?;
        let blocks = sequence.len().div_ceil(KV_BLOCK);
        for group in 0..sequence.groups() {
            for &block in &sequence.table(group)[..blocks] {
                out.write(&[u8::from(block != NO_BLOCK)])?;
                if block != NO_BLOCK {
                    out.write(&self.read_block(group, block))?;
                }
            }
        }
        Ok(out.finish()?)
    }

    /// Takes a session back into the KV cache.
    pub fn load_session(&mut self, path: &Path) -> Result<Session, Error> {
        let (file, len) = open_regular(path)?;
        self.read_session(file, len).map_err(|error| Error::Session { path: path.display().to_string(), error })
    }

    fn read_session(&mut self, file: File, len: u64) -> Result<Session, SessionError> {
        let mut input = Input { from: BufReader::new(file), left: len };
        if input.array::<8>().map_err(|_| SessionError::NotASession)? != *MAGIC {
            return Err(SessionError::NotASession);
        }
        let version = u32::from_le_bytes(input.array()?);
        if version != VERSION {
            return Err(SessionError::Version(version));
        }
        if input.array::<32>()? != self.fingerprint() {
            return Err(SessionError::OtherModel);
        }
        let [positions, tokens, note] = [input.number()?, input.number()?, input.number()?];
        if positions > self.context() as u64 {
            return Err(SessionError::TooLong { positions, context: self.context() });
        }
        self.check_tokens(tokens)?;
        if tokens < positions || note > LONGEST_NOTE {
            return Err(SessionError::Damaged("its lengths contradict each other"));
        }
        let tokens = input.bytes(tokens.saturating_mul(4))?;
        let tokens: Vec<u32> = tokens.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let vocab = self.vocab();
        if tokens.iter().any(|t| *t as usize >= vocab) {
            return Err(SessionError::Damaged("it has tokens that are not in the vocabulary"));
        }
        let note = String::from_utf8(input.bytes(note)?).map_err(|_| SessionError::Damaged("its note is not text"))?;
        let mut sequence = self.sequence();
        let len = positions as usize;
        for group in 0..sequence.groups() {
            let mut stored = vec![0; self.block_bytes(group)];
            for _ in 0..len.div_ceil(KV_BLOCK) {
                let there = match input.array()? {
                    [0] => None,
                    [1] => {
                        input.take(stored.len() as u64)?;
                        input.from.read_exact(&mut stored)?;
                        Some(&stored[..])
                    }
                    _ => return Err(SessionError::Damaged("a block is neither there nor absent")),
                };
                self.push_block(&mut sequence, group, there).ok_or(SessionError::NoRoom)?;
            }
        }
        sequence.set_len(len);
        if sequence.truncate(len).is_none() {
            return Err(SessionError::Damaged("blocks that its next token would see are not there"));
        }
        match input.left {
            0 => Ok(Session { sequence, tokens, note }),
            _ => Err(SessionError::Damaged("it goes on after its end")),
        }
    }
}

/// A file of known length: nothing is allocated that could not be there.
struct Input {
    from: BufReader<File>,
    left: u64,
}

impl Input {
    fn take(&mut self, bytes: u64) -> Result<(), SessionError> {
        self.left = self.left.checked_sub(bytes).ok_or(SessionError::Damaged("it ends too early"))?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SessionError> {
        self.take(N as u64)?;
        let mut array = [0; N];
        self.from.read_exact(&mut array)?;
        Ok(array)
    }

    fn number(&mut self) -> Result<u64, SessionError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self, len: u64) -> Result<Vec<u8>, SessionError> {
        self.take(len)?;
        // It is in the file, so it fits the address space or reading fails.
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| SessionError::Damaged("it is too long"))?];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
