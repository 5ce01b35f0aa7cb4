//! A model file is accepted only when everything in it is as it should be, and every fault is told apart.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rlscaler_rl::manifest::{Manifest, ModelKind, Versions, schema_hash_text};
use rlscaler_rl::model_file::{
    MANIFEST_BYTES_MAX, ModelFault, NAME_CHARS_MAX, Schema, WEIGHTS_BYTES_MAX, content_hash, read, write,
};
use rlscaler_rl::weights::{Weights, layout};
use rlscaler_sim::seed::Seed;
use safetensors::tensor::{Dtype, TensorView};

const SCHEMA: Schema = Schema { features: 5, hash: 0xfeed };

fn weights() -> Weights {
    Weights::zero_initialised(SCHEMA.features, Seed(3))
}

fn manifest(bytes: &[u8]) -> Manifest {
    Manifest {
        name: "test".into(),
        kind: ModelKind::Trained,
        schema_hash: schema_hash_text(SCHEMA.hash),
        content_hash: content_hash(bytes),
        versions: Versions::current(),
        settings: BTreeMap::from([("batch".into(), 192.into())]),
        seed: 3,
        commit: Some("0123abc".into()),
        scores: BTreeMap::from([("validation".into(), 0.75)]),
        left_out: vec![],
    }
}

/// Reads `bytes` under a manifest that vouches for them.
fn read_vouched(bytes: &[u8]) -> Result<Weights, ModelFault> {
    read(bytes, manifest(bytes).to_json().as_bytes(), SCHEMA).map(|(weights, _)| weights)
}

/// One tensor under construction: name, type, dimensions, bytes.
type RawTensor = (String, Dtype, Vec<usize>, Vec<u8>);

fn raw_tensors() -> Vec<RawTensor> {
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shapes = layout(SCHEMA.features);
    let pairs = shapes.into_iter().zip(weights().values().to_vec());
    pairs.map(|(shape, values)| (shape.name.into(), Dtype::F32, shape.dims, bytes(&values))).collect()
}

fn file_of(tensors: &[RawTensor]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, dtype, dims, bytes)| (name, TensorView::new(*dtype, dims.clone(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// A file with one tensor changed.
fn file_with(name: &str, change: impl FnOnce(&mut RawTensor)) -> Vec<u8> {
    let mut tensors = raw_tensors();
    change(tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap());
    file_of(&tensors)
}

#[test]
fn what_was_written_is_read_back_and_the_manifest_with_it() {
    let bytes = write(&weights());
    let (read_weights, read_manifest) = read(&bytes, manifest(&bytes).to_json().as_bytes(), SCHEMA).unwrap();
    assert_eq!(read_weights, weights());
    assert_eq!(read_manifest, manifest(&bytes));
    assert_eq!(bytes, write(&read_weights), "the same weights give the same bytes");
}

#[test]
fn a_missing_tensor_is_named() {
    let mut tensors = raw_tensors();
    tensors.retain(|tensor| tensor.0 != "actor.gates");
    let fault = read_vouched(&file_of(&tensors)).unwrap_err();
    assert!(matches!(fault, ModelFault::MissingTensor { name: "actor.gates" }), "{fault}");
}

#[test]
fn a_tensor_nobody_uses_is_refused_and_its_name_made_printable() {
    let mut tensors = raw_tensors();
    tensors.push(("evil\n\u{7}".into(), Dtype::F32, vec![1], vec![0; 4]));
    let fault = read_vouched(&file_of(&tensors)).unwrap_err();
    assert!(matches!(&fault, ModelFault::UnknownTensor { name } if name == "evil  "), "{fault}");
}

#[test]
fn the_right_number_of_values_in_the_wrong_shape_is_refused() {
    let fault = read_vouched(&file_with("actor.output.weight", |tensor| tensor.2.reverse())).unwrap_err();
    assert!(matches!(fault, ModelFault::WrongShape { name: "actor.output.weight", .. }), "{fault}");
}

#[test]
fn integers_in_place_of_floats_are_refused() {
    let fault = read_vouched(&file_with("critic.first.bias", |tensor| tensor.1 = Dtype::I32)).unwrap_err();
    assert!(matches!(fault, ModelFault::WrongType { name: "critic.first.bias", .. }), "{fault}");
}

#[test]
fn one_value_that_is_not_finite_is_refused() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let bytes =
            file_with("actor.second.weight", |tensor| tensor.3[8..12].copy_from_slice(&value.to_le_bytes()));
        let fault = read_vouched(&bytes).unwrap_err();
        assert!(matches!(fault, ModelFault::NotFinite { name: "actor.second.weight" }), "{fault}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_as_cut() {
    let bytes = write(&weights());
    let header_end = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    for kept in [0, 1, 7, 8, 9, header_end - 1] {
        let fault = read_vouched(&bytes[..kept]).unwrap_err();
        assert!(matches!(fault, ModelFault::Truncated { bytes, .. } if bytes == kept), "{kept}: {fault}");
    }
    for kept in [header_end, header_end + 1, bytes.len() - 1] {
        let fault = read_vouched(&bytes[..kept]).unwrap_err();
        assert!(matches!(fault, ModelFault::LengthMismatch { bytes } if bytes == kept), "{kept}: {fault}");
    }
}

#[test]
fn a_file_with_bytes_appended_is_refused() {
    let mut bytes = write(&weights());
    bytes.push(0);
    let fault = read_vouched(&bytes).unwrap_err();
    assert!(matches!(fault, ModelFault::LengthMismatch { .. }), "{fault}");
}

#[test]
fn a_header_that_announces_more_than_any_memory_is_refused_as_cut() {
    let mut bytes = write(&weights());
    bytes[..8].fill(0xff);
    let fault = read_vouched(&bytes).unwrap_err();
    assert!(matches!(fault, ModelFault::Truncated { announced: u64::MAX, .. }), "{fault}");
}

#[test]
fn weights_past_the_size_limit_are_not_parsed_and_those_at_it_are() {
    let past = read_vouched(&vec![0; WEIGHTS_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(past, ModelFault::WeightsTooLarge { .. }), "{past}");
    let at = read_vouched(&vec![0; WEIGHTS_BYTES_MAX]).unwrap_err();
    assert!(matches!(at, ModelFault::WeightsUnreadable(_)), "{at}");
}

#[test]
fn a_single_changed_bit_is_found_by_the_hash() {
    let bytes = write(&weights());
    let page = manifest(&bytes).to_json();
    let mut changed = bytes;
    *changed.last_mut().unwrap() ^= 1;
    let fault = read(&changed, page.as_bytes(), SCHEMA).unwrap_err();
    assert!(matches!(fault, ModelFault::HashMismatch { .. }), "{fault}");
}

#[test]
fn a_model_for_other_features_is_a_schema_mismatch_before_its_tensors_are_looked_at() {
    let bytes = write(&weights());
    let other = Schema { features: 6, hash: 0xbeef };
    let fault = read(&bytes, manifest(&bytes).to_json().as_bytes(), other).unwrap_err();
    let message = "the model was made for features 000000000000feed, this operator computes 000000000000beef";
    assert_eq!(fault.to_string(), message);
}

#[test]
fn a_manifest_is_read_strictly() {
    let bytes = write(&weights());
    let good = manifest(&bytes).to_json();
    let cases = [
        ("not JSON", "{".to_string()),
        ("empty", String::new()),
        ("a field missing", good.replacen("\"seed\": 3,", "", 1)),
        ("a field unknown", good.replacen("\"seed\": 3,", "\"seed\": 3, \"sed\": 3,", 1)),
        ("a field twice", good.replacen("\"seed\": 3,", "\"seed\": 3, \"seed\": 4,", 1)),
        ("an unknown kind", good.replacen("\"trained\"", "\"dreamt\"", 1)),
        ("a negative seed", good.replacen("\"seed\": 3", "\"seed\": -3", 1)),
    ];
    for (what, page) in cases {
        let fault = read(&bytes, page.as_bytes(), SCHEMA).unwrap_err();
        assert!(matches!(fault, ModelFault::ManifestUnreadable(_)), "{what}: {fault}");
    }
}

#[test]
fn a_manifest_past_its_limits_is_refused() {
    let bytes = write(&weights());
    let page = manifest(&bytes).to_json();
    let padded = |length: usize| format!("{page}{}", " ".repeat(length - page.len()));
    assert!(read(&bytes, padded(MANIFEST_BYTES_MAX).as_bytes(), SCHEMA).is_ok());
    let fault = read(&bytes, padded(MANIFEST_BYTES_MAX + 1).as_bytes(), SCHEMA).unwrap_err();
    assert!(matches!(fault, ModelFault::ManifestTooLarge { .. }), "{fault}");

    for (chars, accepted) in [(0, false), (1, true), (NAME_CHARS_MAX, true), (NAME_CHARS_MAX + 1, false)] {
        let named = Manifest { name: "n".repeat(chars), ..manifest(&bytes) };
        let outcome = read(&bytes, named.to_json().as_bytes(), SCHEMA);
        assert_eq!(outcome.is_ok(), accepted, "{chars} characters");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(read_vouched(&bytes).is_err());
        prop_assert!(read(&write(&weights()), &bytes, SCHEMA).is_err());
    }

    #[test]
    fn an_arbitrary_header_is_refused_without_a_panic(header in "[{}\\[\\]\":,a-z0-9_.F-]{0,200}", tail in 0usize..50) {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; tail]);
        prop_assert!(read_vouched(&bytes).is_err());
    }

    #[test]
    fn a_good_file_with_bytes_overwritten_is_read_as_it_is_or_refused(
        at in any::<prop::sample::Index>(),
        patch in prop::collection::vec(any::<u8>(), 1..16),
    ) {
        let mut bytes = write(&weights());
        let start = at.index(bytes.len());
        for (target, value) in bytes[start..].iter_mut().zip(patch) {
            *target = value;
        }
        if let Ok(read_weights) = read_vouched(&bytes) {
            prop_assert!(read_weights.values().iter().flatten().all(|value| value.is_finite()));
        }
    }
}
