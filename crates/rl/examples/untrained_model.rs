//! Writes the untrained model that is compiled into the binary, `models/base.safetensors` and `models/base.json`.
//! Needed when the feature vector or the networks' shape changes: `cargo run -p rlscaler-rl --example untrained_model`.

use std::path::Path;

use rlscaler_rl::builtin::zero_initialised_files;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let (weights, manifest) = zero_initialised_files();
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("base.safetensors"), weights)?;
    std::fs::write(folder.join("base.json"), manifest)
}
