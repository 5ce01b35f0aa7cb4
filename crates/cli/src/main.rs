//! `rlscaler`: the only product binary. Wiring, flags, telemetry; no logic.
fn main() {}
