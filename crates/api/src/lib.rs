//! The wire types of rlscaler.io, and validation into the brain's settings.
//!
//! In: objects as the API server and files hold them. Out: [`validate::Validated`], the only way from wire to brain,
//! with all faults reported at once; [`overrides::Resolved`], a person's will; the CRD and its reference page.
//! Never: a client call, a clock, a floating-point number on the wire, a field without a bound.

pub mod annotations;
pub mod conditions;
pub mod crd;
pub mod limits;
pub mod memory;
pub mod overrides;
pub mod policy;
pub mod reference;
pub mod scalar;
pub mod status;
pub mod validate;
pub mod yaml;

pub use policy::{RLReplicaPolicy, RLReplicaPolicySpec};
pub use status::RLReplicaPolicyStatus;
pub use validate::{Fault, Limits, Validated, validate};
