//! What models that were let go remembered: it waits in host memory, within the budget of all models, until they come back.

use super::catalog::Stamp;
use akunu::Snapshot;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one model remembered.
pub struct Kept {
    pub model: String,
    /// Of its file, as it was loaded.
    pub stamp: Stamp,
    pub snapshot: Snapshot,
}

/// The oldest first; of each model one.
#[derive(Default)]
pub struct Snapshots(Mutex<Vec<Kept>>);

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn keep(&self, kept: Kept) {
        let mut all = self.lock();
        all.retain(|other| other.model != kept.model);
        all.push(kept);
    }

    /// What a model remembered, where its file is the same; in any case it is kept no longer.
    pub fn take(&self, model: &str, stamp: &Stamp) -> Option<Snapshot> {
        let mut all = self.lock();
        let at = all.iter().position(|kept| kept.model == model)?;
        let kept = all.remove(at);
        (kept.stamp == *stamp).then_some(kept.snapshot)
    }

    /// Lets the oldest go until all have room in `most` bytes; that of `coming` is the last to go.
    pub fn shrink(&self, most: u64, coming: &str) {
        let mut all = self.lock();
        while all.iter().map(|kept| kept.snapshot.bytes()).sum::<u64>() > most {
            let other = all.iter().position(|kept| kept.model != coming);
            let gone = all.remove(other.unwrap_or(0));
            tracing::info!(model = gone.model, bytes = gone.snapshot.bytes(), "snapshot dropped");
        }
    }

    /// The bytes of each.
    pub fn bytes(&self) -> Vec<(String, u64)> {
        self.lock().iter().map(|kept| (kept.model.clone(), kept.snapshot.bytes())).collect()
    }

    /// The bytes of one; 0 where there is none.
    pub fn bytes_of(&self, model: &str) -> u64 {
        self.lock().iter().filter(|kept| kept.model == model).map(|kept| kept.snapshot.bytes()).sum()
    }
}
