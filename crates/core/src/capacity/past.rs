//! What a request costs in CPU, as the past tells it before anything was seen live.
//!
//! In: load and cores of the past, each with its own times. Out: cores per request, or nothing. How many pods ran is not
//! known, so what they use idly is booked on the requests; where that is least, with busy pods, the ratio is lowest,
//! and the lower quartile is believed.

use crate::observation::History;

/// Real seconds before the newest sample that are looked at: a day. Older releases cost otherwise.
const SPAN_SECS: f64 = 86_400.0;
/// Fewer pairs prove nothing: ten minutes of a history of one sample a minute.
const PAIRS_MIN: usize = 10;
/// Most pairs, the newest: one a minute for a day.
const PAIRS_MAX: usize = 1_440;
/// Real seconds between two samples that still tell of the same load: a window of rates.
const APART_SECS: f64 = 30.0;
/// Loads below this are idle, requests per second: what is used then is not used by requests.
const LOAD_MIN: f64 = 0.1;

/// Cores per request in the last day of the past. `time_factor`: see [`crate::Settings::time_factor`]. One pass, whatever
/// the order of the samples; those that are no numbers are skipped.
pub(super) fn cores_per_load(history: &History, time_factor: f64) -> Option<f64> {
    let finite = |(time_secs, value): &&(f64, f64)| time_secs.is_finite() && value.is_finite();
    let mut loads = history.qps.iter().rev().filter(finite).peekable();
    let mut cores = history.cpu.iter().rev().filter(finite).peekable();
    let oldest_secs = loads.peek()?.0 - SPAN_SECS / time_factor;
    let mut ratios = Vec::new();
    while let (Some(&&(load_secs, load)), Some(&&(cores_secs, used))) = (loads.peek(), cores.peek()) {
        if load_secs < oldest_secs || ratios.len() == PAIRS_MAX {
            break;
        }
        let apart_secs = load_secs - cores_secs;
        let tells = apart_secs.abs() <= APART_SECS / time_factor;
        if tells && LOAD_MIN <= load && 0.0 < used {
            ratios.push(used / load);
        }
        if tells || 0.0 < apart_secs {
            loads.next();
        }
        if tells || apart_secs <= 0.0 {
            cores.next();
        }
    }
    if ratios.len() < PAIRS_MIN {
        return None;
    }
    let place = ratios.len() / 4;
    let (_, quartile, _) = ratios.select_nth_unstable_by(place, f64::total_cmp);
    Some(*quartile)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two minutes apart, `cores_late_secs` between the load and its cores.
    fn past(samples: u32, cores_late_secs: f64, cost: impl Fn(u32) -> f64) -> History {
        let mut history = History::default();
        for place in 0..samples {
            let time_secs = 120.0 * f64::from(place);
            let load = 300.0 + 200.0 * (f64::from(place) / 30.0).sin();
            history.qps.push((time_secs, load));
            history.cpu.push((time_secs + cores_late_secs, load * cost(place)));
        }
        history
    }

    fn check(history: &History, expected: Option<f64>) {
        let found = cores_per_load(history, 1.0);
        let same = found.zip(expected).is_some_and(|(found, expected)| (found - expected).abs() < 1e-12);
        assert!(same || found == expected, "{found:?}, not {expected:?}");
    }

    #[test]
    fn the_past_tells_what_a_request_costs() {
        check(&past(600, 0.0, |_| 0.018), Some(0.018));
        check(&past(600, 30.0, |_| 0.018), Some(0.018));
    }

    #[test]
    fn a_handful_of_samples_tells_nothing() {
        let few = PAIRS_MIN as u32;
        check(&past(few, 0.0, |_| 0.018), Some(0.018));
        check(&past(few - 1, 0.0, |_| 0.018), None);
        check(&History { cpu: Vec::new(), ..past(600, 0.0, |_| 0.018) }, None);
        check(&History { qps: Vec::new(), ..past(600, 0.0, |_| 0.018) }, None);
    }

    #[test]
    fn samples_of_other_times_are_no_pairs() {
        check(&past(600, 31.0, |_| 0.018), None);
        // Cores every four minutes: every other load has none.
        let mut sparse = past(600, 0.0, |_| 0.018);
        sparse.cpu.retain(|(time_secs, _)| time_secs % 240.0 == 0.0);
        check(&sparse, Some(0.018));
    }

    #[test]
    fn storms_gaps_and_nonsense_do_not_change_it() {
        let mut history = past(600, 0.0, |place| match place % 8 {
            0 => 0.2,
            1 => 0.0,
            2 => f64::NAN,
            3 => 0.000_1,
            _ => 0.018,
        });
        history.qps[590].1 = f64::INFINITY;
        history.qps[591].0 = f64::NAN;
        check(&history, Some(0.018));
    }

    #[test]
    fn what_pods_use_idly_at_night_is_no_cost_of_requests() {
        // Ten pods that use 50 millicores each whatever they do; a third of the day is busy.
        let mut history = History::default();
        for minute in 0..1_440 {
            let load = if minute % 3 == 0 { 500.0 } else { 5.0 };
            history.qps.push((60.0 * f64::from(minute), load));
            history.cpu.push((60.0 * f64::from(minute), 0.5 + 0.01 * load));
        }
        check(&history, Some(0.011));
    }

    #[test]
    fn only_the_last_day_counts() {
        let release = |place| if place < 3 * 720 { 0.01 } else { 0.02 };
        check(&past(4 * 720, 0.0, release), Some(0.02));
    }
}
