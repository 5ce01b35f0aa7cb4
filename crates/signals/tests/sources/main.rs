//! Everything that can go wrong between the operator and a source, against scripted servers on the loopback.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod answers;
mod cluster;
mod limits;
mod script;
mod security;
