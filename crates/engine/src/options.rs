//! How to load a model.

use akunu_cpu::Level;
use akunu_dtype::DType;

/// What quantized weights are multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    #[default]
    Int8,
    /// Slower, exact: for comparing engines.
    F32,
}

#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// `None`: as many as this process may use.
    pub threads: Option<usize>,
    /// `None`: the best the machine has, or what `AKUNU_CPU` says.
    pub level: Option<Level>,
    /// Number format of the KV cache: `F32`, `F16` or `Q8_0`.
    pub kv: DType,
    pub activations: Activations,
    /// Positions a sequence can have; `None`: the model's own, up to [`DEFAULT_CONTEXT`].
    pub context: Option<usize>,
    /// Rows of a prefill step.
    pub chunk: usize,
    /// Sequences the KV cache has room for at full length.
    pub sequences: usize,
    /// Positions it has room for beyond those: for the prefix cache.
    pub extra_positions: usize,
    /// Bytes that it may need; `None`: what the machine has free.
    pub memory: Option<u64>,
    /// See `arch::Model::round_constants`.
    pub round_constants: bool,
}

/// The context of a model that was made for a longer one, where nobody asks for more.
pub const DEFAULT_CONTEXT: usize = 8192;

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            threads: None,
            level: None,
            kv: DType::F16,
            activations: Activations::default(),
            context: None,
            chunk: 512,
            sequences: 1,
            extra_positions: 0,
            memory: None,
            round_constants: false,
        }
    }
}

impl LoadOptions {
    /// Whether the backend will have tiles for many rows.
    pub(crate) fn has_tiles(&self) -> bool {
        self.level.or_else(|| Level::from_environment().ok()).is_some_and(Level::has_tiles)
    }
}
