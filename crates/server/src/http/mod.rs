//! HTTP itself: connections, bodies, streams, who may ask.

pub mod body;
#[cfg(feature = "audio")]
pub mod form;
pub mod guard;
pub mod listen;
pub mod outer;
pub mod rate;
pub mod stream;
pub mod unread;
