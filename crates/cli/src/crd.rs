//! `rlscaler crd`: the CustomResourceDefinition, for `kubectl apply -f -`.

use std::io::Write;

/// Nothing to choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    Ok(write!(std::io::stdout(), "{}", rlscaler_api::crd::crd_yaml())?)
}
