//! HTTP itself: connections, bodies, streams, who may ask.

pub mod address;
pub mod bodies;
pub mod body;
#[cfg(feature = "audio")]
pub mod form;
pub mod guard;
pub mod listen;
pub mod outer;
pub mod rate;
pub mod stream;
#[cfg_attr(not(feature = "tls"), path = "tls_absent.rs")]
pub mod tls;
pub mod unread;
