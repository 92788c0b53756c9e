//! The sources of all shaders, inside the binary.

use crate::{kernels, source};

/// Sources by their path below `shaders`.
pub type Sources = &'static [(&'static str, &'static str)];

/// `sources!["norm/norm.metal"]`
macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $path)))),*]
    };
}
pub(crate) use sources;

/// What kernels include.
static HEADERS: Sources = sources![
    "activation/activation.h",
    "akunu.h",
    "formats/all.h",
    "formats/blocks.h",
    "formats/float.h",
    "formats/format.h",
    "formats/grids.h",
    "formats/iq.h",
    "formats/k_quants.h",
    "formats/levels.h",
    "formats/mlx.h",
    "formats/ternary.h",
    "kv_cache/place.h",
    "kv_cache/read.h",
    "kv_cache/write.h",
    "params.h",
    "rope/head.h",
    "steps.h",
];

/// All of them.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    kernels::CATEGORIES.iter().map(|category| category.sources).chain([HEADERS]).flatten().copied()
}

/// The source of a file with all that it includes, for these formats.
pub fn whole(path: &str, formats: &[(&str, &str)]) -> Result<String, String> {
    let read = |path: &str| all().find(|(p, _)| *p == path).map(|(_, text)| text.to_owned());
    source::whole(path, formats, &read)
}
