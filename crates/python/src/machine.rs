//! What there is: devices, what a file holds and needs, and the command line.

use crate::errors::exception;
use crate::given::{self, Given};
use crate::signals::interruptible;
use crate::source;
use akunu::{Device, Engine, Limits, LoadOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Something that models can run on, or why they cannot.
#[pyclass(frozen, get_all, module = "akunu", name = "Device")]
pub struct DeviceInfo {
    /// What `Model(device=…)` takes.
    name: String,
    /// Why it cannot be used; None where it can.
    unavailable: Option<&'static str>,
    /// The hardware's own name.
    hardware: String,
    /// The kernels in use, such as an instruction-set level.
    level: &'static str,
    /// Threads that a step keeps busy.
    threads: usize,
    /// Bytes that a model could use.
    free_memory: Option<u64>,
}

#[pymethods]
impl DeviceInfo {
    fn __repr__(&self) -> String {
        match self.unavailable {
            Some(why) => format!("Device({:?}, unavailable={why:?})", self.name),
            None => format!("Device({:?}, level={:?}, threads={})", self.name, self.level, self.threads),
        }
    }
}

/// Every device that this build knows of.
#[pyfunction]
pub fn devices() -> PyResult<Vec<DeviceInfo>> {
    let each = |device: Device| {
        let (name, unavailable) = (device.to_string(), device.unavailable());
        if unavailable.is_some() {
            let hardware = String::new();
            return Ok(DeviceInfo { name, unavailable, hardware, level: "", threads: 0, free_memory: None });
        }
        let info = device.open(&LoadOptions::default()).map_err(exception)?.info();
        Ok(DeviceInfo {
            name,
            unavailable,
            hardware: info.device,
            level: info.level,
            threads: info.threads,
            free_memory: info.free_memory,
        })
    };
    Device::ALL.into_iter().map(each).collect()
}

/// What a file says of its model.
#[pyclass(frozen, get_all, module = "akunu")]
pub struct About {
    /// `generate`, `embed`, `rank` or `transcribe`.
    purpose: &'static str,
    /// Such as `llama`.
    architecture: &'static str,
    /// Numbers in all of its tensors.
    parameters: u64,
    /// Bytes of its tensors.
    bytes: u64,
    /// The number format that most of its bytes have.
    format: &'static str,
    /// The longest context that it was made for.
    context: usize,
    /// Values of an embedding.
    width: usize,
    /// Tokens in its vocabulary.
    vocab: usize,
    /// Layers.
    layers: usize,
}

/// What a model file holds, without loading it.
#[pyfunction]
pub fn about(py: Python<'_>, path: Option<PathBuf>) -> PyResult<About> {
    py.detach(|| {
        let file = source::open(path.as_deref(), Limits::default())?;
        let about = akunu::About::read(&file).map_err(exception)?;
        Ok(About {
            purpose: about.purpose.name(),
            architecture: about.architecture,
            parameters: about.parameters,
            bytes: about.bytes,
            format: about.format.format().name,
            context: about.context,
            width: about.width,
            vocab: about.vocab,
            layers: about.layers,
        })
    })
}

/// Bytes that a model would need.
#[pyclass(frozen, get_all, module = "akunu")]
pub struct Estimate {
    /// Read from the file.
    weights: u64,
    /// The KV cache.
    kv: u64,
    /// Activations, logits and constants.
    scratch: u64,
    /// All of them.
    total: u64,
    /// What the device has free.
    free: Option<u64>,
    /// The longest context that would fit, up to the model's own.
    longest_context: usize,
}

/// What a model would need, without loading it.
#[pyfunction]
pub fn estimate(py: Python<'_>, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Estimate> {
    let given = Given::new(options)?;
    let options = given::load_options(&given)?;
    given.finish()?;
    interruptible(py, move || {
        let file = source::open(path.as_deref(), options.limits)?;
        let own = akunu::About::read(&file).map_err(exception)?.context;
        let context = options.context.unwrap_or(own.min(akunu::DEFAULT_CONTEXT));
        let (footprint, free) = Engine::footprint(&file, &options).map_err(exception)?;
        let needs = footprint.needs(context);
        Ok(Estimate {
            weights: needs.weights,
            kv: needs.kv,
            scratch: needs.scratch,
            total: needs.total(),
            free,
            longest_context: free.map_or(own, |free| footprint.longest(free, own)),
        })
    })
}

/// Runs the whole command line; its exit status.
#[pyfunction]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| akunu_cli::run(&arguments));
    // An exit code does not tell its number.
    (0..=u8::MAX).find(|&status| ExitCode::from(status) == code).unwrap_or(1)
}
