//! Traces that ship with the program: real workloads whose licences allow it (attribution in `traces/README.md`),
//! packed with gzip.

use flate2::read::GzDecoder;

use super::{Trace, read};

macro_rules! bundle {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../../traces/", $name, ".csv.gz")))),+]
    };
}

const TRACES: &[(&str, &[u8])] = bundle![
    "autothrottle_bursty_1s",
    "autothrottle_diurnal_1s",
    "autothrottle_noisy_1s",
    "azure_llm_2023_conv_10s",
    "crane_input10_noisy_1min",
    "crane_input13_diurnal_1min",
    "crane_input6_rare_bursts_1min",
    "crane_input9_smooth_diurnal_1min",
    "mooncake_conversation_10s",
];

/// Names of the bundled traces, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|(name, _)| *name)
}

/// The bundled trace whose name is `name` or begins with `name` and `_`; `None` when there is none.
#[must_use]
pub fn load(name: &str) -> Option<Trace> {
    let matches =
        |full: &str| full == name || full.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    let mut found = TRACES.iter().filter(|(full, _)| matches(full));
    let (full, packed) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let unpacked = std::io::BufReader::new(GzDecoder::new(*packed));
    let trace = read::read_from(Box::new(unpacked), full, full);
    Some(trace.expect("every bundled trace is read by a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_trace_can_be_read_and_is_found_by_a_short_name() {
        for name in names() {
            assert!(100 < load(name).unwrap().rates().len(), "{name}");
        }
        assert_eq!(load("crane_input6").unwrap().name(), "crane_input6_rare_bursts_1min");
        assert!(load("crane").is_none() && load("autothrottle").is_none());
        let bytes: usize = TRACES.iter().map(|(_, packed)| packed.len()).sum();
        assert!(bytes <= 1_500_000, "{bytes} bytes bundled");
    }
}
