//! Reconcilers: observe, decide, plan, apply, report.
