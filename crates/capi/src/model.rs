//! Models that write text: loading them, and what there is to know without running them.

use crate::call::{Failure, call, lock};
use crate::memory::{self, Out, Report, Text, name};
use crate::types::*;
use crate::{convert, handle};
use akunu::{About, ChatTemplate, DEFAULT_CONTEXT, Device, Draft, Engine, Grammars, ModelFile, Purpose, Tokenizer};
use std::ffi::c_char;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// A loaded model. What does not run it needs no lock, so that callbacks can tokenize.
pub(crate) struct Model {
    /// `None` once a service has it.
    engine: Mutex<Option<Engine>>,
    info: akunu_model_info,
    tokenizer: Option<Tokenizer>,
    template: Result<ChatTemplate, String>,
    grammars: OnceLock<Grammars>,
    path: String,
    /// That have a place in its KV cache.
    pub sessions: AtomicUsize,
}

/// A model that drafts, with its place in the text.
pub(crate) struct DraftModel(pub Mutex<Draft>);

impl Model {
    fn new(engine: Engine) -> Result<Self, Failure> {
        let file = engine.file();
        let tokenizer = engine.tokenizer().cloned();
        let template = ChatTemplate::from_model_file(file).map_err(|error| error.to_string());
        let path = file.path().display().to_string();
        let mut info = describe(&About::read(file)?, tokenizer.as_ref(), template.is_ok());
        info.context = engine.context() as u32;
        let (engine, grammars) = (Mutex::new(Some(engine)), OnceLock::new());
        Ok(Self { engine, info, tokenizer, template, grammars, path, sessions: AtomicUsize::new(0) })
    }

    /// Runs something on the engine, which nobody else uses meanwhile.
    pub fn run<R>(&self, run: impl FnOnce(&mut Engine) -> Result<R, Failure>) -> Result<R, Failure> {
        match lock("model", &self.engine)?.as_mut() {
            Some(engine) => run(engine),
            None => Err(Failure::new(AKUNU_ERROR_BUSY, "the model runs in a service: submit requests to that")),
        }
    }

    /// The engine, for a service.
    pub fn take_engine(&self) -> Result<Engine, Failure> {
        let busy = |why| Failure::new(AKUNU_ERROR_BUSY, why);
        let mut engine = lock("model", &self.engine)?;
        // With the engine in hand nobody begins another.
        match self.sessions.load(Ordering::Acquire) {
            0 => engine.take().ok_or_else(|| busy("the model runs in another service".to_owned())),
            sessions => Err(busy(format!("the model has sessions, {sessions} of them: free them first"))),
        }
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.tokenizer.as_ref().ok_or_else(|| akunu::Error::NoTokenizer { path: self.path.clone() }.into())
    }

    pub fn template(&self) -> Result<&ChatTemplate, Failure> {
        self.template.as_ref().map_err(|why| Failure::new(AKUNU_ERROR_TEMPLATE, format_args!("{}: {why}", self.path)))
    }

    pub fn grammars(&self) -> Result<&Grammars, Failure> {
        if let Some(grammars) = self.grammars.get() {
            return Ok(grammars);
        }
        let made = Grammars::new(self.tokenizer()?, self.vocab());
        let made = made.map_err(|error| Failure::new(AKUNU_ERROR_GRAMMAR, error))?;
        Ok(self.grammars.get_or_init(|| made))
    }

    pub fn vocab(&self) -> usize {
        self.info.vocab as usize
    }
}

fn describe(about: &About, tokenizer: Option<&Tokenizer>, has_chat_template: bool) -> akunu_model_info {
    let token = |of: fn(&Tokenizer) -> Option<u32>| tokenizer.and_then(of).unwrap_or(AKUNU_NO_TOKEN);
    akunu_model_info {
        size: size_of::<akunu_model_info>() as u32,
        purpose: match about.purpose {
            Purpose::Generate => AKUNU_PURPOSE_GENERATE,
            Purpose::Embed => AKUNU_PURPOSE_EMBED,
            Purpose::Rank => AKUNU_PURPOSE_RANK,
            Purpose::Transcribe => AKUNU_PURPOSE_TRANSCRIBE,
        },
        parameters: about.parameters,
        bytes: about.bytes,
        context: about.context as u32,
        trained_context: about.context as u32,
        width: about.width as u32,
        layers: about.layers as u32,
        vocab: about.vocab as u32,
        bos_token: token(Tokenizer::bos),
        eos_token: token(Tokenizer::eos),
        has_chat_template: has_chat_template.into(),
        architecture: name(about.architecture),
        format: name(about.format.format().name),
    }
}

/// The file at a path that ends with a NUL, or the model inside the library.
pub(crate) fn open(path: *const c_char) -> Result<ModelFile, Failure> {
    // SAFETY: the header asks for a NUL at the end of paths.
    let path = unsafe { Text::new("the path", path, AKUNU_NUL_TERMINATED) };
    let file = match path.given()? {
        Some(path) => ModelFile::open(Path::new(path)),
        None => akunu::embedded_model(),
    };
    Ok(file.map_err(akunu::Error::from)?)
}

/// Fills options with the defaults; `size` is that of the struct: `akunu_load_options_default(&options, sizeof options)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_load_options_default(options: *mut akunu_load_options, size: usize) -> akunu_status {
    // SAFETY: the caller's promise.
    call(|| unsafe { memory::write_defaults(options, size) })
}

/// Loads a GGUF file, a safetensors file, or an HF or MLX directory; with NULL the model inside the library. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_model_load(
    path: *const c_char,
    options: *const akunu_load_options,
    model: *mut akunu_model,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, model) = unsafe { (memory::read("the load options", options)?, Out::new("the model", model)) };
        model.check()?;
        let engine = Engine::from_file(open(path)?, convert::load(&options)?)?;
        model.put(handle::insert(Model::new(engine)?)?)
    })
}

/// Frees a model; it goes when the last session and call that use it do. Zero is nothing to free, and `AKUNU_OK`, here and of all
/// kinds.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_model_free(model: akunu_model) -> akunu_status {
    call(|| handle::free(model))
}

/// What a loaded model is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_model_describe(model: akunu_model, info: *mut akunu_model_info) -> akunu_status {
    // SAFETY: the caller's promise.
    call(|| unsafe { Report::new("the model info", info) }.must_put(&handle::get(model)?.info))
}

/// What a file is, without loading it; its tokens are not known then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_file_describe(path: *const c_char, info: *mut akunu_model_info) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let info = unsafe { Report::new("the model info", info) };
        let file = open(path)?;
        let template = ChatTemplate::from_model_file(&file).is_ok();
        info.must_put(&describe(&About::read(&file)?, None, template))
    })
}

/// What a file would need if it were loaded with these options, and what is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_file_memory(
    path: *const c_char,
    options: *const akunu_load_options,
    estimate: *mut akunu_memory,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, estimate) =
            unsafe { (memory::read("the load options", options)?, Report::new("the memory", estimate)) };
        let (file, options) = (open(path)?, convert::load(&options)?);
        let trained = About::read(&file)?.context;
        let (footprint, available) = Engine::footprint(&file, &options)?;
        let available = options.memory.or(available);
        let context = options.context.unwrap_or(trained.min(DEFAULT_CONTEXT)).max(1);
        let needs = footprint.needs(context);
        estimate.must_put(&akunu_memory {
            size: 0,
            context: context as u32,
            longest_context: footprint.longest(available.unwrap_or(u64::MAX), trained) as u32,
            fits: available.is_none_or(|available| needs.total() <= available).into(),
            weights: needs.weights,
            kv: needs.kv,
            scratch: needs.scratch,
            available: available.unwrap_or(0),
        })
    })
}

/// Devices that the library knows of, whether they are there or not.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_device_count() -> u32 {
    Device::ALL.len() as u32
}

/// What a device is: those numbered below `akunu_device_count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_device_describe(index: u32, info: *mut akunu_device_info) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let report = unsafe { Report::new("the device info", info) };
        let device = Device::ALL.get(index as usize);
        let device = device.ok_or_else(|| Failure::argument(format_args!("there is no device {index}")))?;
        let mut info = akunu_device_info {
            size: 0,
            available: 0,
            threads: 0,
            reserved: 0,
            free_memory: 0,
            name: name(&device.to_string()),
            description: name(device.unavailable().unwrap_or_default()),
            level: name(""),
        };
        if device.unavailable().is_none() {
            let known = device.open(&akunu::LoadOptions::default())?.info();
            info.available = 1;
            info.threads = known.threads as u32;
            info.free_memory = known.free_memory.unwrap_or(0);
            info.description = name(&known.device);
            info.level = name(known.level);
        }
        report.must_put(&info)
    })
}

/// Loads a model that drafts for larger ones of the same vocabulary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_draft_load(
    path: *const c_char,
    options: *const akunu_load_options,
    draft: *mut akunu_draft,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, draft) = unsafe { (memory::read("the load options", options)?, Out::new("the draft", draft)) };
        draft.check()?;
        let engine = Engine::from_file(open(path)?, convert::load(&options)?)?;
        draft.put(handle::insert(DraftModel(Mutex::new(Draft::new(engine))))?)
    })
}

/// Frees a draft model.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_draft_free(draft: akunu_draft) -> akunu_status {
    call(|| handle::free(draft))
}
