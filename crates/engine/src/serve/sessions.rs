//! Session files of a running scheduler: what its prefix cache holds of a text, and back.

use super::scheduler::Scheduler;
use super::service::Service;
use crate::{Error, Session, SessionError};
use std::path::Path;

impl Scheduler {
    /// Writes what is remembered of a text, and a note, for [`Self::load_session`].
    pub fn save_session(&mut self, path: &Path, tokens: &[u32], note: &str) -> Result<(), Error> {
        let (sequence, _) = self.cache.attach(tokens, self.engine.sequence());
        self.engine.save_session(path, &sequence, tokens, note)
    }

    /// Remembers what a session file holds, so that a prompt which begins so goes on from there; its tokens and its note.
    pub fn load_session(&mut self, path: &Path) -> Result<(Vec<u32>, String), Error> {
        let loaded = match self.engine.load_session(path) {
            Err(Error::Session { error: SessionError::NoRoom, .. }) => {
                while self.cache.evict() {}
                self.engine.load_session(path)
            }
            loaded => loaded,
        };
        let Session { sequence, tokens, note } = loaded?;
        self.cache.insert(&tokens, &sequence, true);
        Ok((tokens, note))
    }
}

impl Service {
    /// Writes what is remembered of a text, and a note: see [`Scheduler::save_session`].
    pub fn save_session(&self, path: &Path, tokens: Vec<u32>, note: String) -> Result<(), Error> {
        let path = path.to_owned();
        self.between_steps(move |scheduler| scheduler.save_session(&path, &tokens, &note))
    }

    /// Remembers what a session file holds; its tokens and its note: see [`Scheduler::load_session`].
    pub fn load_session(&self, path: &Path) -> Result<(Vec<u32>, String), Error> {
        let path = path.to_owned();
        self.between_steps(move |scheduler| scheduler.load_session(&path))
    }
}
