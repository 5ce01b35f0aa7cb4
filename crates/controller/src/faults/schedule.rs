//! What happens in one run: a setting and a list of acts, all drawn from one seed. Plain data, so that acts can be left
//! out to find the few that matter.

use super::dice::Dice;
use super::will::{Annotated, Wish, Written};

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    pub(crate) acts: Vec<Act>,
    /// When all trouble ends, seconds.
    pub(crate) faulty_secs: f64,
}

/// The policy and the service under it.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) interval_secs: u32,
    pub(crate) start_replicas: u32,
    pub(crate) fallback: Option<(u32, u32)>,
    pub(crate) behavior: Behaviour,
    pub(crate) capacity_declared: bool,
    pub(crate) startup_declared: bool,
    pub(crate) startup_secs: f64,
    pub(crate) signals: Declared,
    /// Load in busy pods.
    pub(crate) busy_pods: f64,
    /// A model that answers anything between 0.7 and 1.5 at random, now and then no number; else the planner.
    pub(crate) erratic_model: bool,
    /// A second service beside it that nothing happens to.
    pub(crate) neighbour: bool,
    /// The sources can tell the age of what they answer.
    pub(crate) ages_known: bool,
}

/// Which signals the policy asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Declared {
    pub(crate) qps: bool,
    pub(crate) latency: bool,
    pub(crate) sla: bool,
    pub(crate) cpu: bool,
}

/// The policy's `behavior`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Behaviour {
    Absent,
    Windows,
    Rates,
}

impl Behaviour {
    /// The window of `scaleDown`, 30 s where nothing else is written.
    pub(crate) fn down_window_secs(self) -> f64 {
        match self {
            Self::Absent => 30.0,
            Self::Windows => 90.0,
            Self::Rates => 0.0,
        }
    }
}

/// One act, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act {
    pub(crate) secs: f64,
    /// At the first such call after `secs`, before or after it is carried out; else at `secs`.
    pub(crate) call: Option<(Call, Side)>,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Before,
    After,
}

/// A call to the API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Call {
    ReadScale,
    ListPods,
    ListReplicaSets,
    ReadTarget,
    WriteScale,
    WriteStatus,
    WriteEvent,
}

impl Call {
    const ALL: [Self; 7] = [
        Self::ReadScale,
        Self::ListPods,
        Self::ListReplicaSets,
        Self::ReadTarget,
        Self::WriteScale,
        Self::WriteStatus,
        Self::WriteEvent,
    ];
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Signals { which: Which, how: How, share: f64, secs: f64 },
    Api { on: Option<Call>, how: Trouble, share: f64, secs: f64 },
    Restart { pause_secs: f64, graceful: bool },
    Second { secs: f64 },
    ClockStep { by_secs: f64 },
    WatchLag { lag_secs: f64, secs: f64 },
    Person(Person),
    TargetGone { secs: f64, replicas: u32 },
    Pods { how: PodTrouble, secs: f64 },
    Rival { secs: f64 },
    Panic { site: Site, secs: f64 },
    Load { busy_pods: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Which {
    All,
    Qps,
    Latency,
    Sla,
    Cpu,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum How {
    Missing,
    Stale,
    Invalid,
    NotANumber,
    Infinite,
    Negative,
    Zero,
    /// Milliseconds given as seconds.
    WrongUnit,
    Absurd,
    /// No answer before the deadline.
    Slow,
}

/// What the API server does to a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Trouble {
    /// Refused, nothing done.
    Code(u16),
    /// The connection breaks, nothing done.
    Reset,
    /// No answer ever, nothing done.
    Hang,
    /// Done, and an error answered.
    DoneBut(u16),
    /// Done, and the connection breaks.
    DoneButReset,
    /// Done, and no answer ever.
    DoneButHang,
    /// Done so much later, perhaps when the caller has given up.
    Late(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PodTrouble {
    CrashLoop,
    Unschedulable,
    Quota,
    SlowStart,
    Rollout,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Site {
    Signals,
    Model,
}

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Person {
    Scale(u32),
    Bounds(u32, u32),
    Mode { auto: bool },
    Spec(Option<Written>),
    Annotate(Option<Annotated>, Option<f64>),
    Insist(bool),
    Break,
    Recreate,
    Fallback(Option<(u32, u32)>),
}

impl Schedule {
    pub(crate) fn draw(seed: u64) -> Self {
        let dice = &mut Dice::new(seed, "schedule");
        let setting = Setting::draw(dice);
        let interval_secs = f64::from(setting.interval_secs);
        let faulty_secs = interval_secs * f64::from(dice.count(12, 36));
        let mut acts: Vec<Act> = (0..dice.count(2, 10)).map(|_| act(dice, &setting, faulty_secs)).collect();
        acts.sort_by(|one, other| one.secs.total_cmp(&other.secs));
        Self { seed, setting, acts, faulty_secs }
    }

    /// The same with some acts left out.
    pub(crate) fn only(&self, keep: &[bool]) -> Self {
        let acts = self.acts.iter().zip(keep).filter(|(_, keep)| **keep).map(|(act, _)| *act).collect();
        Self { acts, ..self.clone() }
    }
}

impl Setting {
    fn draw(dice: &mut Dice) -> Self {
        let all = Declared { qps: true, latency: true, sla: true, cpu: true };
        let signals = dice.pick(&[
            Declared { sla: false, cpu: false, ..all },
            Declared { sla: false, cpu: false, ..all },
            Declared { sla: false, ..all },
            all,
            Declared { latency: false, sla: false, cpu: false, ..all },
            Declared { qps: false, sla: false, ..all },
        ]);
        let to_zero = signals.qps && dice.chance(0.15);
        let min = if to_zero { 0 } else { dice.count(1, 4) };
        let max = min + dice.count(4, 36);
        let interval_secs = dice.pick(&[15, 15, 20, 30]);
        let busy_pods = match () {
            () if to_zero && dice.chance(0.3) => 0.0,
            () => dice.between(0.3, 0.8 * f64::from(max)),
        };
        // The model is one for all, and the neighbour is to be left alone.
        let neighbour = dice.chance(0.12);
        Self {
            min,
            max,
            interval_secs,
            start_replicas: dice.count(min.max(1), max),
            fallback: dice.chance(0.5).then(|| (dice.count(45, 180), dice.count(0, max))),
            behavior: dice.pick(&[
                Behaviour::Absent,
                Behaviour::Absent,
                Behaviour::Windows,
                Behaviour::Rates,
            ]),
            capacity_declared: dice.chance(0.75),
            startup_declared: dice.chance(0.5),
            startup_secs: dice.between(3.0, 40.0),
            signals,
            busy_pods,
            erratic_model: !neighbour && dice.chance(0.2),
            neighbour,
            ages_known: dice.chance(0.6),
        }
    }
}

fn act(dice: &mut Dice, setting: &Setting, faulty_secs: f64) -> Act {
    let secs = dice.between(0.0, faulty_secs);
    let lasts = dice.pick(&[1.0, 2.0, 5.0, 12.0]) * f64::from(setting.interval_secs) * dice.between(0.5, 1.5);
    let what = match dice.count(0, 99) {
        0..=19 => signals(dice, lasts),
        20..=39 => api(dice, lasts),
        40..=51 => {
            What::Restart { pause_secs: dice.pick(&[0.0, 0.5, 20.0, 130.0]), graceful: dice.chance(0.3) }
        }
        52..=56 => What::Second { secs: lasts.min(60.0) },
        57..=60 => What::ClockStep { by_secs: dice.pick(&[-3600.0, -120.0, -20.0, 20.0, 120.0, 3600.0]) },
        61..=62 => What::WatchLag { lag_secs: dice.between(1.0, 20.0), secs: lasts },
        63..=84 => What::Person(person(dice, setting, secs)),
        85..=87 => What::TargetGone { secs: lasts.min(90.0), replicas: dice.count(1, setting.max) },
        88..=92 => What::Pods {
            how: dice.pick(&[
                PodTrouble::CrashLoop,
                PodTrouble::Unschedulable,
                PodTrouble::Quota,
                PodTrouble::SlowStart,
                PodTrouble::Rollout,
            ]),
            secs: lasts,
        },
        93..=94 => What::Rival { secs: lasts },
        95..=96 => What::Panic { site: dice.pick(&[Site::Signals, Site::Model]), secs: lasts },
        _ => What::Load { busy_pods: dice.between(0.0, 0.8 * f64::from(setting.max)) },
    };
    let tied = matches!(
        what,
        What::Restart { .. } | What::Person(_) | What::TargetGone { .. } | What::ClockStep { .. }
    );
    let call = (tied && dice.chance(0.5))
        .then(|| (dice.pick(&Call::ALL), if dice.chance(0.5) { Side::Before } else { Side::After }));
    Act { secs, call, what }
}

fn signals(dice: &mut Dice, secs: f64) -> What {
    What::Signals {
        which: dice.pick(&[Which::All, Which::All, Which::Qps, Which::Latency, Which::Sla, Which::Cpu]),
        how: dice.pick(&[
            How::Missing,
            How::Missing,
            How::Stale,
            How::Invalid,
            How::NotANumber,
            How::Infinite,
            How::Negative,
            How::Zero,
            How::Zero,
            How::WrongUnit,
            How::Absurd,
            How::Slow,
        ]),
        share: dice.pick(&[1.0, 1.0, 0.5]),
        secs,
    }
}

fn api(dice: &mut Dice, secs: f64) -> What {
    let late = dice.between(1.0, 14.0);
    What::Api {
        on: dice.chance(0.8).then(|| dice.pick(&Call::ALL)),
        how: dice.pick(&[
            Trouble::Code(500),
            Trouble::Code(409),
            Trouble::Code(404),
            Trouble::Code(429),
            Trouble::Code(403),
            Trouble::Code(422),
            Trouble::Reset,
            Trouble::Hang,
            Trouble::DoneBut(500),
            Trouble::DoneBut(504),
            Trouble::DoneButReset,
            Trouble::DoneButHang,
            Trouble::Late(late),
        ]),
        share: dice.pick(&[1.0, 0.5, 0.5]),
        secs,
    }
}

fn person(dice: &mut Dice, setting: &Setting, secs: f64) -> Person {
    let until = |dice: &mut Dice| dice.chance(0.4).then(|| secs + dice.between(-30.0, 240.0));
    match dice.count(0, 99) {
        0..=24 => Person::Scale(match dice.count(0, 4) {
            0 => 0,
            1 => setting.max + dice.count(1, 10),
            _ => dice.count(1, setting.max),
        }),
        25..=36 => {
            let min = if setting.min == 0 { 0 } else { dice.count(1, 6) };
            Person::Bounds(min, min + dice.count(2, 30))
        }
        37..=42 => Person::Mode { auto: dice.chance(0.6) },
        43..=57 => {
            let replicas = dice.count(0, setting.max + 4);
            let wish = dice.pick(&[
                Wish::Pin { replicas, beyond: false },
                Wish::Pin { replicas, beyond: false },
                Wish::Pause,
                Wish::NoDown,
                Wish::NoUp,
            ]);
            let until_secs = until(dice);
            Person::Spec(dice.chance(0.75).then_some(Written { wish, until_secs }))
        }
        58..=82 => {
            let annotated = Annotated::any(dice);
            let until = until(dice);
            Person::Annotate(dice.chance(0.75).then_some(annotated), until)
        }
        83..=85 => Person::Insist(dice.chance(0.5)),
        86..=88 => Person::Break,
        89..=94 => Person::Recreate,
        _ => {
            let fallback = dice.chance(0.7).then(|| (dice.count(45, 180), dice.count(0, setting.max + 4)));
            Person::Fallback(fallback)
        }
    }
}
