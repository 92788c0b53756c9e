//! The KV cache: which blocks hold what of whom.

pub(crate) mod blocks;
pub(crate) mod prefix;
pub(crate) mod sequence;
pub(crate) mod session;
mod shift;
pub(crate) mod snapshot;
