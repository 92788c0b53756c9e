//! HTTP itself: connections, bodies, streams, who may ask.

pub mod body;
pub mod guard;
pub mod listen;
pub mod outer;
pub mod rate;
pub mod stream;
