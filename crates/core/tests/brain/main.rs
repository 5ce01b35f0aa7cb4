//! The brain from outside: observations in, decisions out.

mod declared;
mod driving;
mod explaining;
mod freshness;
mod learning;
mod neighbours;
mod overrides;
mod pods;
mod properties;
mod regression;
mod restart;
mod rules;
mod scaling;
mod service;
mod shadow;
