//! Audio to what a speech model encodes: 16 kHz mono samples, and frames of log-mel energies.
//!
//! Everything streams. A [`Source`] decodes, mixes and resamples packet by packet; a [`Mel`] turns samples into
//! frames as they come; [`Features`] hands out windows of frames that only move forward. What is kept is a few
//! packets and one window, however long the recording is.

#![forbid(unsafe_code)]

mod error;
mod features;
mod mel;
mod mp4;
mod pcm;
mod resample;
mod source;

pub use error::{Error, Fault};
pub use features::{Features, Frames, window};
pub use mel::{Mel, filters, normalize};
pub use pcm::Pcm;
pub use resample::Resampler;
pub use source::Source;

/// Samples per second of everything after a [`Source`].
pub const SAMPLE_RATE: usize = 16_000;
/// Samples from one frame to the next: 100 frames a second.
pub const HOP: usize = 160;
/// Samples a frame is computed from.
pub const FRAME: usize = 400;
/// Frames per second.
pub const FRAME_RATE: usize = SAMPLE_RATE / HOP;
