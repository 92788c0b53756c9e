//! The models that are served: found by name, loaded when first asked for, and let go when others need their memory.

mod catalog;
mod generator;
mod reader;
#[cfg(feature = "audio")]
mod scribe;
mod snapshots;
mod turns;

pub use catalog::{Catalog, Entry, Source};
pub use generator::Generator;
pub use reader::{Item, Reader};
#[cfg(feature = "audio")]
pub use scribe::{Recording, Said, Scribe, end as said_to_the_end};

use crate::Options;
use crate::problem::{Kind, Problem};
use akunu::{Engine, LoadOptions, Needs, Purpose, Reading};
use akunu_formats::ModelFile;
use snapshots::Snapshots;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A loaded model that somebody uses: it stays while this is there.
pub type InUse<T> = Arc<T>;

/// What a model is loaded for: one file may be loaded for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Generate,
    Embed,
    Rank,
    #[cfg(feature = "audio")]
    Transcribe,
}

/// How long a model stays after its last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Until another one needs its memory.
    UntilNeeded,
    For(Duration),
}

struct Resident {
    entry: usize,
    role: Role,
    needs: Needs,
    used: Instant,
    keep: Keep,
    /// Somebody waits for its time to be over.
    watched: bool,
    what: Arc<dyn Any + Send + Sync>,
}

/// A model that is loaded, for lists.
pub struct Loaded {
    pub entry: usize,
    pub needs: Needs,
    /// How long it stays if nobody uses it; `None`: until another one needs its memory.
    pub stays: Option<Duration>,
    pub generator: Option<InUse<Generator>>,
}

pub struct Models {
    pub catalog: Catalog,
    options: Arc<Options>,
    resident: Mutex<Vec<Resident>>,
    pub snapshots: Snapshots,
    /// Held while one is loaded.
    loading: Arc<tokio::sync::Mutex<()>>,
}

impl Models {
    pub fn new(catalog: Catalog, options: Arc<Options>) -> Self {
        Self { catalog, options, resident: Mutex::default(), snapshots: Snapshots::default(), loading: Arc::default() }
    }

    /// The model that writes.
    pub async fn generator(self: &Arc<Self>, name: Option<&str>) -> Result<InUse<Generator>, Problem> {
        let entry = self.find(name, &[Purpose::Generate]).await?;
        let models = self.clone();
        let load = move |entry: &_, file, options: &_| Generator::load(entry, file, options, &models.snapshots);
        self.get(entry, Role::Generate, load).await
    }

    /// The model that makes vectors.
    pub async fn embedder(self: &Arc<Self>, name: Option<&str>) -> Result<InUse<Reader>, Problem> {
        let entry = self.find(name, &[Purpose::Embed, Purpose::Generate]).await?;
        self.get(entry, Role::Embed, |entry, file, options| {
            Reader::load(entry, file, options, Reading::Embedding(None))
        })
        .await
    }

    /// The model that scores pairs of texts.
    pub async fn ranker(self: &Arc<Self>, name: Option<&str>) -> Result<InUse<Reader>, Problem> {
        let entry = self.find(name, &[Purpose::Rank]).await?;
        self.get(entry, Role::Rank, |entry, file, options| Reader::load(entry, file, options, Reading::Scores)).await
    }

    /// The model that writes down speech.
    #[cfg(feature = "audio")]
    pub async fn scribe(self: &Arc<Self>, name: Option<&str>) -> Result<InUse<Scribe>, Problem> {
        let entry = self.find(name, &[Purpose::Transcribe]).await?;
        self.get(entry, Role::Transcribe, Scribe::load).await
    }

    /// The model to use. The first time, headers of files are read.
    async fn find(self: &Arc<Self>, name: Option<&str>, purposes: &'static [Purpose]) -> Result<usize, Problem> {
        if self.catalog.is_read() {
            return self.catalog.find(name, purposes);
        }
        let (models, name) = (self.clone(), name.map(str::to_owned));
        tokio::task::spawn_blocking(move || models.catalog.find(name.as_deref(), purposes)).await?
    }

    /// A model stays for so long after each of its requests.
    pub fn keep<T>(self: &Arc<Self>, model: &InUse<T>, keep: Keep) {
        let mut resident = self.lock();
        let is_it = |r: &&mut Resident| Arc::as_ptr(&r.what).cast::<()>() == Arc::as_ptr(model).cast();
        let Some(it) = resident.iter_mut().find(is_it) else { return };
        it.keep = keep;
        if keep != Keep::UntilNeeded && !std::mem::replace(&mut it.watched, true) {
            tokio::spawn(self.clone().watch(it.entry, it.role));
        }
    }

    /// Lets a model go when its time is over.
    async fn watch(self: Arc<Self>, entry: usize, role: Role) {
        // While it is used, nobody says when that ends.
        const LOOK: Duration = Duration::from_millis(100);
        loop {
            let gone = {
                let mut resident = self.lock();
                let Some(at) = resident.iter().position(|r| r.entry == entry && r.role == role) else { return };
                let it = &mut resident[at];
                let Keep::For(keep) = it.keep else {
                    it.watched = false;
                    return;
                };
                if Arc::strong_count(&it.what) > 1 {
                    it.used = Instant::now();
                }
                (it.used.elapsed() >= keep && Arc::strong_count(&it.what) == 1).then(|| resident.swap_remove(at))
            };
            match gone {
                Some(gone) => return self.end(gone).await,
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Its threads end first.
    async fn end(&self, gone: Resident) {
        tracing::info!(model = self.catalog.entry(gone.entry).name, "let go");
        // A panic while it ends leaves nothing to do.
        let _ = tokio::task::spawn_blocking(move || drop(gone)).await;
    }

    /// Lets the model that writes go, where nobody uses it, with all that it remembers.
    pub async fn let_go(self: &Arc<Self>, name: Option<&str>) -> Result<(), Problem> {
        let entry = self.find(name, &[Purpose::Generate]).await?;
        let idle = |r: &mut Resident| r.entry == entry && Arc::strong_count(&r.what) == 1;
        let gone: Vec<Resident> = self.lock().extract_if(.., idle).collect();
        for gone in gone {
            self.end(gone).await;
        }
        Ok(())
    }

    /// What is loaded now.
    pub fn loaded(&self) -> Vec<Loaded> {
        self.lock()
            .iter()
            .map(|r| Loaded {
                entry: r.entry,
                needs: r.needs,
                stays: match r.keep {
                    Keep::UntilNeeded => None,
                    Keep::For(keep) => Some(keep.saturating_sub(r.used.elapsed())),
                },
                generator: r.what.clone().downcast().ok(),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Resident>> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here<T: Any + Send + Sync>(&self, entry: usize, role: Role) -> Option<InUse<T>> {
        let mut resident = self.lock();
        let found = resident.iter_mut().find(|r| r.entry == entry && r.role == role)?;
        found.used = Instant::now();
        found.what.clone().downcast().ok()
    }

    async fn get<T: Any + Send + Sync>(
        self: &Arc<Self>,
        entry: usize,
        role: Role,
        load: impl FnOnce(&Entry, ModelFile, &Options) -> Result<T, Problem> + Send + 'static,
    ) -> Result<InUse<T>, Problem> {
        if let Some(here) = self.here(entry, role) {
            return Ok(here);
        }
        let one_at_a_time = self.loading.clone().lock_owned().await;
        if let Some(here) = self.here(entry, role) {
            return Ok(here);
        }
        let models = self.clone();
        let needed = tokio::task::spawn_blocking(move || models.needs(entry, role)).await??;
        self.make_room(needed.total(), entry).await?;
        let models = self.clone();
        // Goes on where who asked goes away: what was remembered would be lost, and the next one would begin anew.
        tokio::task::spawn_blocking(move || {
            let (of, began) = (models.catalog.entry(entry), Instant::now());
            let what = load(of, of.open()?, &models.options).map(Arc::new)?;
            let (bytes, seconds) = (needed.total(), began.elapsed().as_secs_f64());
            tracing::info!(model = of.name, role = ?role, bytes, seconds, "loaded");
            let (used, keep) = (Instant::now(), Keep::UntilNeeded);
            models.lock().push(Resident { entry, role, needs: needed, used, keep, watched: false, what: what.clone() });
            drop(one_at_a_time);
            Ok(what)
        })
        .await?
    }

    /// What a model will need.
    fn needs(&self, entry: usize, role: Role) -> Result<Needs, Problem> {
        let file = self.catalog.entry(entry).open()?;
        let weights: u64 = file.tensors().iter().map(|t| (t.data.len + t.scales.len + t.biases.len) as u64).sum();
        Ok(match role {
            Role::Generate => {
                let options = generator::load_options(&self.options);
                let (footprint, _) = Engine::footprint(&file, &options)?;
                footprint.needs(footprint_context(&file, &options)?)
            }
            _ => Needs { weights, kv: 0, scratch: 64 << 20 },
        })
    }

    /// Lets idle models go until there is room for the one that comes, and waits for those that are not idle. What they
    /// remember stays where there is room for it besides.
    async fn make_room(self: &Arc<Self>, needed: u64, coming: usize) -> Result<(), Problem> {
        let Some(memory) = self.options.memory else { return Ok(()) };
        if needed > memory {
            let sentence = format!("the model needs {needed} bytes, and all models together may have {memory}");
            return Err(Problem::new(Kind::Overloaded, sentence));
        }
        let coming = &self.catalog.entry(coming).name;
        let until = Instant::now() + self.options.limits.patience;
        loop {
            let gone = {
                let mut resident = self.lock();
                let bytes = |resident: &[Resident]| resident.iter().map(|r| r.needs.total()).sum::<u64>();
                if let Some(room) = memory.checked_sub(bytes(&resident) + needed) {
                    self.snapshots.shrink(room, coming);
                    return Ok(());
                }
                let idle = resident.iter().enumerate().filter(|(_, r)| Arc::strong_count(&r.what) == 1);
                let oldest = idle.min_by_key(|(_, r)| r.used).map(|(at, _)| at);
                oldest.map(|at| (resident.swap_remove(at), memory.saturating_sub(bytes(&resident) + needed)))
            };
            match gone {
                Some((gone, room)) => {
                    tracing::info!(model = self.catalog.entry(gone.entry).name, "let go");
                    let (models, room) = (self.clone(), room.saturating_sub(self.snapshots.bytes_of(coming)));
                    tokio::task::spawn_blocking(move || models.leave(gone, room)).await?;
                }
                None if Instant::now() >= until => {
                    let sentence = "all models that are loaded are in use, and there is no room for another";
                    return Err(Problem::new(Kind::Overloaded, sentence).retry_after(5));
                }
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Ends a model that nobody uses; up to `room` bytes of what it remembers are kept.
    fn leave(&self, gone: Resident, room: u64) {
        let generator = gone.what.downcast::<Generator>().ok().and_then(Arc::into_inner);
        if let Some(kept) = generator.and_then(|generator| generator.let_go(room)) {
            tracing::info!(model = kept.model, bytes = kept.snapshot.bytes(), "snapshot kept");
            self.snapshots.keep(kept);
        }
    }
}

/// The context that an engine will have.
fn footprint_context(file: &ModelFile, options: &LoadOptions) -> Result<usize, Problem> {
    let own = akunu::About::read(file)?.context;
    Ok(options.context.unwrap_or(own.min(akunu::DEFAULT_CONTEXT)))
}
