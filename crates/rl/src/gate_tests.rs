//! What the gate lets through, by example and by property.

use proptest::prelude::*;

use super::*;

fn score(reward: f64, replica_hours: f64, late_share: f64) -> Score {
    Score { reward, replica_hours, late_share, worst_day_late: late_share }
}

fn pair(load: usize, candidate: Score, current: Score) -> Pair {
    Pair {
        load: format!("load {load}"),
        cell: format!("load {load} / web"),
        seed: 1,
        allowed_late: 0.01,
        candidate,
        current,
        planner: score(0.5, 11.0, 0.02),
        hpas: vec![("hpa:60".into(), score(0.4, 50.0, 0.001))],
    }
}

/// Eight loads of different cost and reward on which the candidate is cheaper and better.
fn good() -> Vec<Pair> {
    let of = |load: usize| {
        let at = load as f64;
        let current = score(0.5 + 0.01 * at, 10.0 + at, 0.005);
        pair(load, score(0.52 + 0.01 * at, 9.0 + 0.9 * at, 0.005), current)
    };
    (0..8).map(of).collect()
}

fn codes(pairs: &[Pair]) -> Vec<&'static str> {
    judge(pairs, &GateSettings::default()).reasons.iter().map(Refusal::code).collect()
}

#[test]
fn who_is_cheaper_and_no_worse_is_accepted() {
    let judgement = judge(&good(), &GateSettings::default());
    assert_eq!((judgement.verdict, judgement.reasons.as_slice()), (Verdict::Accept, &[][..]));
    assert!(0.0 < judgement.saving.unwrap().low && 0.0 < judgement.reward.unwrap().low);
}

#[test]
fn one_cell_is_enough_to_be_refused() {
    let with = |change: &dyn Fn(&mut Pair)| {
        let mut pairs = good();
        change(&mut pairs[3]);
        codes(&pairs)
    };
    assert_eq!(with(&|pair: &mut Pair| pair.candidate.late_share = 0.010_1), ["SlaWorse"]);
    assert_eq!(
        with(&|pair: &mut Pair| pair.candidate.late_share = 0.01),
        [""; 0],
        "what is allowed is not too late"
    );
    assert_eq!(with(&|pair: &mut Pair| pair.candidate.worst_day_late = 0.021), ["WorstDay"]);
    assert_eq!(
        with(&|pair: &mut Pair| pair.candidate.worst_day_late = 0.02),
        [""; 0],
        "as bad as the planner"
    );
    let hpa = |pair: &mut Pair, late: f64| {
        pair.current.late_share = 0.004;
        pair.hpas[0].1 = score(0.0, 11.0, late);
    };
    assert_eq!(with(&|pair| hpa(pair, 0.004)), ["Dominated"]);
    assert_eq!(with(&|pair| hpa(pair, 0.005)), [""; 0], "as late is not fewer late");
    assert_eq!(with(&|pair| hpa(pair, 0.003)), [""; 0], "so is the current model");
    assert_eq!(with(&|pair: &mut Pair| pair.candidate.reward = f64::NAN), ["Broken"]);
    assert_eq!(with(&|pair: &mut Pair| pair.candidate.replica_hours = 0.0), ["Broken"]);
    assert_eq!(with(&|pair: &mut Pair| pair.planner.late_share = 1.5), ["Broken"]);
}

#[test]
fn a_cell_that_misses_the_sla_anyway_may_not_become_later() {
    let with = |late: f64| {
        let mut pairs = good();
        pairs[3].current.late_share = 0.015;
        pairs[3].candidate.late_share = late;
        codes(&pairs)
    };
    assert_eq!(with(0.015), [""; 0]);
    assert_eq!(with(0.015_05), [""; 0], "within the slack");
    assert_eq!(with(0.015_2), ["SlaWorse"]);
}

#[test]
fn a_gain_on_one_side_does_not_buy_a_loss_on_the_other() {
    let with = |reward: f64, hours: f64| {
        let mut pairs = good();
        for pair in &mut pairs {
            pair.candidate.reward = pair.current.reward + reward;
            pair.candidate.replica_hours = pair.current.replica_hours * hours;
        }
        codes(&pairs)
    };
    assert_eq!(with(0.1, 1.02), ["CostRises"]);
    assert_eq!(with(0.1, 1.009), [""; 0], "within the slack");
    assert_eq!(with(-0.01, 0.5), ["RewardFalls"]);
    assert_eq!(with(0.0, 0.9), [""; 0]);
}

#[test]
fn a_gain_that_rests_on_one_load_is_not_enough() {
    let mut pairs = good();
    for pair in &mut pairs {
        pair.candidate = pair.current;
    }
    pairs[0].candidate.reward += 0.5;
    assert_eq!(codes(&pairs), ["NotBetter"]);
}

#[test]
fn few_loads_say_nothing_however_many_cells_they_have() {
    let mut pairs = good();
    for (place, pair) in pairs.iter_mut().enumerate() {
        pair.load = format!("load {}", place % 4);
    }
    assert_eq!(codes(&pairs), ["TooFewLoads"]);
    assert_eq!(codes(&[]), ["TooFewLoads"]);
}

fn any_score() -> impl Strategy<Value = Score> {
    (-1.0..1.0, 0.1..100.0, 0.0..0.05, 0.0..0.1).prop_map(
        |(reward, replica_hours, late_share, worst_day_late)| Score {
            reward,
            replica_hours,
            late_share,
            worst_day_late,
        },
    )
}

fn any_pair() -> impl Strategy<Value = Pair> {
    let scores = (any_score(), any_score(), any_score(), any_score());
    (0..12_usize, 1..4_u64, scores).prop_map(|(load, seed, (candidate, current, planner, hpa))| Pair {
        seed,
        planner,
        hpas: vec![("hpa:60".into(), hpa)],
        ..pair(load, candidate, current)
    })
}

fn few(seed: u64) -> GateSettings {
    GateSettings { resamples: 200, seed, ..GateSettings::default() }
}

/// Refused for not being better, whatever else may be wrong; or because too little was seen to say so.
fn is_not_better(judgement: &Judgement) -> bool {
    let said = judgement.reasons.contains(&Refusal::NotBetter) || judgement.reward.is_none();
    judgement.verdict == Verdict::Reject && said
}

proptest! {
    #[test]
    fn the_current_model_is_not_better_than_itself(
        mut pairs in prop::collection::vec(any_pair(), 1..40),
        seed in 0..100_u64,
    ) {
        for pair in &mut pairs {
            pair.candidate = pair.current;
        }
        prop_assert!(is_not_better(&judge(&pairs, &few(seed))));
    }

    #[test]
    fn who_is_worse_everywhere_is_refused(
        mut pairs in prop::collection::vec(any_pair(), 1..40),
        reward in 1e-6..0.5,
        cost in 1e-6..0.5,
        seed in 0..100_u64,
    ) {
        for pair in &mut pairs {
            pair.candidate = pair.current;
            pair.candidate.reward -= reward;
            pair.candidate.replica_hours *= 1.0 + cost;
        }
        prop_assert!(is_not_better(&judge(&pairs, &few(seed))));
    }

    #[test]
    fn the_order_of_the_cells_does_not_matter(
        (pairs, shuffled) in prop::collection::vec(any_pair(), 1..40)
            .prop_flat_map(|pairs| (Just(pairs.clone()), Just(pairs).prop_shuffle())),
        seed in 0..100_u64,
    ) {
        prop_assert_eq!(judge(&pairs, &few(seed)), judge(&shuffled, &few(seed)));
    }

    #[test]
    fn a_lower_bound_is_below_the_mean_and_within_the_values(
        pairs in prop::collection::vec(any_pair(), 12..40),
        seed in 0..100_u64,
    ) {
        let judgement = judge(&pairs, &few(seed));
        let differences = pairs.iter().map(|pair| pair.candidate.reward - pair.current.reward);
        let least = differences.fold(f64::INFINITY, f64::min);
        if let Some(Bound { mean, low }) = judgement.reward {
            prop_assert!(low <= mean + 1e-9 && least - 1e-9 <= low, "{} {} {}", least, low, mean);
        }
    }

    #[test]
    fn a_candidate_that_gets_later_is_never_accepted_for_it(
        pairs in prop::collection::vec(any_pair(), 12..40),
        place in 0..12_usize,
        seed in 0..100_u64,
    ) {
        let mut later = pairs.clone();
        later[place].candidate.late_share = 0.9;
        later[place].candidate.worst_day_late = 0.95;
        if judge(&pairs, &few(seed)).verdict == Verdict::Reject {
            prop_assert_eq!(judge(&later, &few(seed)).verdict, Verdict::Reject);
        }
    }
}
