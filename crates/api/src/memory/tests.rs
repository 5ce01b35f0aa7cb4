//! What is written is read back as it was, and what cannot be trusted is refused.

use rlscaler_core::memory::ShadowSums;

use super::*;

/// Every field another, with all its bits.
fn sums(of: f64) -> ShadowSums {
    ShadowSums {
        secs: of,
        real: of + 1.0,
        would_be: of + 2.0,
        hpa: of + 3.0,
        hpa_secs: of + 4.0,
        offered: of + 5.0,
        predicted_late: of + 6.0,
        would_be_late: of + 7.0,
        measured_offered: of + 8.0,
        measured_late: of + 9.0,
        measured_predicted: of + 10.0,
        busy_secs: of + 11.0,
        busy_seen: of + 12.0,
        busy_declared: of + 13.0,
    }
}

/// As full as it can be, with numbers that need all their bits.
fn full() -> Memory {
    let at = |index: usize| 1_764_485_712.0 + index as f64 / 3.0;
    let events: Vec<_> =
        (0..MAX_EVENTS).map(|index| ScaleEvent { time_secs: at(index), change: 12 }).collect();
    let recommendations =
        (0..MAX_RECOMMENDATIONS).map(|index| Recommendation { time_secs: at(index), low: 11, high: 123 });
    let scaling = ScalingMemory {
        recommendations: recommendations.collect(),
        ups: events.clone(),
        downs: events,
        pace: (3.5, 99.5),
    };
    let buckets = (0..MAX_BUCKETS).map(|index| BudgetBucket {
        index: index as i64,
        late: at(index),
        offered: at(index),
    });
    Memory {
        started_secs: 1.0 / 3.0,
        typical_age_secs: Some(200.0 / 3.0),
        scaling: scaling.clone(),
        hpa: scaling.clone(),
        failing_since_secs: Some(at(1)),
        regression: RegressionMemory {
            downs: vec![OwnDown { time_secs: at(1), from: 12, to: 11, load: at(2) }; MAX_DOWNS],
            hold_off: Some(HoldOffMemory { replicas: 12, load: at(1), since_secs: at(2), until_secs: at(3) }),
            undone: 3,
            ..RegressionMemory::default()
        },
        shadow: Some(ShadowMemory {
            scaling: scaling.clone(),
            orders: vec![(at(1), 12); core_shadow::MAX_ORDERS],
            counts: vec![(at(1), 12, 13); core_shadow::MAX_COUNTS],
            whole: sums(at(1)),
            buckets: (0..core_shadow::MAX_BUCKETS).map(|index| (index as i64, sums(at(index)))).collect(),
            ..ShadowMemory::default()
        }),
        capacity: CapacityMemory { sums: [0.1, 0.2, 1e-300, 1e300, -0.0], ..CapacityMemory::default() },
        budget: BudgetMemory { buckets: buckets.collect(), ..BudgetMemory::default() },
        driving: DrivingMemory {
            doubt: Some(Doubt::ForecastDrift),
            calm_secs: at(2),
            strikes: 3,
            takeovers: 7,
            clean_secs: at(3),
            fast: [at(4), 1e-300],
            slow: [at(5), 1.0 / 3.0],
        },
        forecast: ForecastMemory {
            slots: vec![1.0 / 3.0; 64],
            open_forecasts: vec![0.1; 64],
            ..ForecastMemory::default()
        },
        ..Memory::default()
    }
}

#[test]
fn what_is_written_is_read_back_bit_for_bit() {
    for memory in [Memory::default(), full()] {
        assert_eq!(from_status(&to_status(&memory)).expect("readable"), memory);
    }
}

#[test]
fn a_full_memory_fits() {
    let bytes = to_status(&full()).state.len();
    assert!(bytes < MAX_MEMORY_BYTES / 2, "{bytes} bytes");
}

#[test]
fn a_memory_that_cannot_be_trusted_is_refused() {
    let good = to_status(&full());
    let state = |state: &str| MemoryStatus { version: VERSION, state: state.to_owned(), rewrites: None };
    for (status, what) in [
        (MemoryStatus { version: 2, ..good.clone() }, "version"),
        (state(&" ".repeat(MAX_MEMORY_BYTES + 1)), "bytes"),
        (state("{\"started\": null}"), "parsed"),
        (state("{\"started\": \"yesterday\"}"), "parsed"),
        (state(&good.state[..good.state.len() / 2]), "parsed"),
        (state(&format!("{{\"hpa\": {{\"ups\": {:?}}}}}", vec![[1; 2]; MAX_EVENTS + 1])), "entries"),
    ] {
        let fault = from_status(&status).expect_err(what).to_string();
        assert!(fault.contains(what), "{fault}");
    }
}

#[test]
fn a_doubt_that_only_a_newer_operator_knows_is_a_doubt() {
    let text = r#"{"driving": {"doubt": "MoonPhase", "strikes": 2}}"#;
    let memory = from_status(&MemoryStatus { version: VERSION, state: text.to_owned(), rewrites: None })
        .expect("readable");
    assert_eq!((memory.driving.doubt, memory.driving.strikes), (Some(Doubt::Failed), 2));
}

#[test]
fn a_memory_of_another_release_keeps_what_both_know() {
    let text = r#"{"started": 5.0, "invented": [1], "hpa": {"ups": [[1.5, 2]], "sideways": 3}}"#;
    let memory = from_status(&MemoryStatus { version: VERSION, state: text.to_owned(), rewrites: None })
        .expect("readable");
    assert_eq!(memory.started_secs, 5.0);
    assert_eq!(memory.hpa.ups, [ScaleEvent { time_secs: 1.5, change: 2 }]);
}
