//! The models policies may name, and models from files.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rlscaler_controller::{LoadedModel, Models};
use rlscaler_core::Policy;
use rlscaler_rl::builtin::BUILTIN_NAME;
use rlscaler_rl::{ModelFault, ModelKind};

use crate::Unusable;
use crate::suite::fault_chain;

/// Ending of the weights' file.
const WEIGHTS: &str = "safetensors";

/// Ending of the manifest.
const MANIFEST: &str = "json";

/// Most of a file that is read; the shipped model has some ten thousand weights.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The built-in model under its name.
pub(crate) fn builtin() -> Models {
    let model = rlscaler_rl::builtin();
    let trained = match model.manifest().kind {
        ModelKind::ZeroInitialised => false,
        ModelKind::Trained | ModelKind::Ppo => true,
    };
    let loaded = LoadedModel { policy: Arc::new(model), trained };
    Models {
        default: BUILTIN_NAME.to_owned(),
        by_name: BTreeMap::from([(BUILTIN_NAME.to_owned(), Ok(loaded))]),
    }
}

/// What competes, of whatever kind, from its two files: the weights (`.safetensors`) and the manifest (`.json`) beside
/// them. `path` is the weights' file, both without their endings, or a folder that holds one such pair.
pub(crate) fn policy_from_files(path: &Path) -> Result<Arc<dyn Policy>, Unusable> {
    with_files(path, rlscaler_rl::load_policy)
}

/// The same, where it must be of the kind that is served: to look into it.
#[cfg(test)]
pub(crate) fn from_files(path: &Path) -> Result<rlscaler_rl::Model, Unusable> {
    with_files(path, rlscaler_rl::Model::load)
}

fn with_files<Found>(
    path: &Path,
    load: impl FnOnce(&[u8], &[u8]) -> Result<Found, ModelFault>,
) -> Result<Found, Unusable> {
    let weights_file = weights_file(path)?;
    let manifest_file = weights_file.with_extension(MANIFEST);
    let weights = read(&weights_file)?;
    let manifest = read(&manifest_file)?;
    let fault = |fault: ModelFault| {
        Unusable(format!("{}: not a model for this build: {}", weights_file.display(), fault_chain(&fault)))
    };
    load(&weights, &manifest).map_err(fault)
}

fn weights_file(path: &Path) -> Result<PathBuf, Unusable> {
    let with_ending = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
    if path.extension().is_some_and(|ending| ending == WEIGHTS) {
        return Ok(path.to_owned());
    }
    if !path.is_dir() {
        return Ok(with_ending(WEIGHTS));
    }
    let cannot = |error: std::io::Error| Unusable(format!("{}: cannot be read: {error}", path.display()));
    let mut pairs = Vec::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if file.extension().is_some_and(|ending| ending == WEIGHTS) && file.with_extension(MANIFEST).exists()
        {
            pairs.push(file);
        }
    }
    match pairs.as_slice() {
        [only] => Ok(only.clone()),
        pairs => Err(Unusable(format!(
            "{}: expected a folder with one model, NAME.safetensors and NAME.json, found {}",
            path.display(),
            pairs.len()
        ))),
    }
}

/// At most [`MAX_FILE_BYTES`] of a file.
fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
    let cannot = |error: std::io::Error| Unusable(format!("{}: cannot be read: {error}", file.display()));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(cannot)?;
    opened.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_file_stem_or_folder() {
        let folder = std::env::temp_dir().join(format!("rlscaler-model-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (weights, manifest) = rlscaler_rl::builtin::zero_initialised_files();
        std::fs::write(folder.join("checkpoint.safetensors"), b"no manifest, no model").unwrap();
        std::fs::write(folder.join("a.safetensors"), &weights).unwrap();
        std::fs::write(folder.join("a.json"), &manifest).unwrap();
        for path in [folder.clone(), folder.join("a"), folder.join("a.safetensors")] {
            assert!(from_files(&path).is_ok(), "{}", path.display());
        }
        std::fs::write(folder.join("b.safetensors"), &weights[1..]).unwrap();
        std::fs::write(folder.join("b.json"), &manifest).unwrap();
        for (path, named) in [
            (folder.clone(), "found 2"),
            (folder.join("b"), "b.safetensors: not a model"),
            (folder.join("c"), "c.safetensors: cannot be read"),
        ] {
            let fault = from_files(&path).unwrap_err().to_string();
            assert!(fault.contains(named), "{fault}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
