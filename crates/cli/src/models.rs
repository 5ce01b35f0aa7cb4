//! The models policies may name.

use std::collections::BTreeMap;
use std::sync::Arc;

use rlscaler_controller::{LoadedModel, Models};
use rlscaler_rl::ModelKind;
use rlscaler_rl::builtin::BUILTIN_NAME;

/// The built-in model under its name.
pub(crate) fn builtin() -> Models {
    let model = rlscaler_rl::builtin();
    let trained = match model.manifest().kind {
        ModelKind::ZeroInitialised => false,
        ModelKind::Trained => true,
    };
    let loaded = LoadedModel { policy: Arc::new(model), trained };
    Models {
        default: BUILTIN_NAME.to_owned(),
        by_name: BTreeMap::from([(BUILTIN_NAME.to_owned(), Ok(loaded))]),
    }
}
