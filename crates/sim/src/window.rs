//! A short window of a service's life as a function that can be differentiated: what a sequence of replica orders
//! costs, and how much more or less each of them would have made it cost.
//!
//! In: a load per slot, the orders, the weights of the three terms. Out: the terms and, by a hand-written adjoint,
//! the derivative of their weighted sum with respect to every order. Never: randomness. The queue is the brain's own
//! ([`rlscaler_core::queue`]), so learning and deciding believe in the same world.
//!
//! Within the window an order takes effect downwards at once and upwards after the start-up time: what is ready is
//! the smallest of the orders of the last start-up time. Where an order stands on a whole number of replicas, its
//! [`Lean`] says which side's derivative it gets; several that share the minimum get their parts of what a step
//! in all of them together would see. At every other kink the derivative is the mean over the sides.

use rlscaler_core::queue::{LateShares, Service};

/// Ready replicas below which the pressure term no longer grows, so that nothing divides by zero.
const READY_MIN: f64 = 0.25;

/// What the window is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window<'a> {
    /// The service, as it really is.
    pub service: Service,
    /// Offered load of each slot, in busy pods.
    pub load: &'a [f64],
    /// Length of a slot, seconds.
    pub slot_secs: f64,
    /// Slots from an order to its pods being ready.
    pub startup_slots: usize,
    /// A request that would wait longer gives up, seconds.
    pub timeout_secs: f64,
    /// Slots at the start that are simulated and not counted.
    pub burn_in: usize,
    /// Weight of the logarithm of over-utilisation in the lateness: where everything is late already, it is what
    /// tells more replicas from fewer.
    pub softness: f64,
}

/// Weights of the terms in the sum that is differentiated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Per mean ordered replica.
    pub replicas: f64,
    /// Per unit of lateness.
    pub lateness: f64,
    /// Per mean replica changed and slot.
    pub change: f64,
    /// Of what the window hands on to what comes after it; nothing where only the window counts.
    pub end: State,
}

/// What is under way where a slot begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct State {
    /// Replicas that serve, unless fewer are ordered.
    pub ready: f64,
    /// Replicas ordered last.
    pub ordered: f64,
    /// Work that waits, busy-pod seconds.
    pub backlog: f64,
}

/// What the counted part of a window cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Mean of the orders; pods that are starting are paid for.
    pub replicas: f64,
    /// Share of offered requests that came late, 0..1.
    pub late_share: f64,
    /// The late share plus the soft term, which is what is differentiated.
    pub lateness: f64,
    /// Mean of the absolute change from slot to slot.
    pub change: f64,
    /// What is under way after the last slot.
    pub end: State,
}

impl Cost {
    /// The weighted sum.
    #[must_use]
    pub fn total(&self, weights: &Weights) -> f64 {
        let counted = weights.replicas * self.replicas
            + weights.lateness * self.lateness
            + weights.change * self.change;
        let State { ready, ordered, backlog } = self.end;
        counted + weights.end.ready * ready + weights.end.ordered * ordered + weights.end.backlog * backlog
    }
}

/// Which side's derivative an order on a whole number of replicas gets: the weights of the two. The mean over both would charge
/// a small service for counts that it is not near: a single pod for no pod at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lean {
    /// Of the derivative to the left: to fewer.
    pub down: f64,
    /// Of the derivative to the right: to more.
    pub up: f64,
}

impl Lean {
    /// What a derivative that is the same on both sides is multiplied with.
    fn sum(self) -> f64 {
        self.down + self.up
    }
}

/// What happened in one slot, kept for the way back.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    ready: f64,
    backlog: f64,
    late: Late,
}

/// The late share of a slot and its derivatives.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    share: f64,
    per_ready: Sides,
    per_backlog: f64,
}

/// A derivative to the left and to the right.
#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    down: f64,
    up: f64,
}

impl Sides {
    /// Where there is no kink.
    fn both(derivative: f64) -> Self {
        Self { down: derivative, up: derivative }
    }

    /// `self + factor * other`.
    fn plus(self, factor: f64, other: Self) -> Self {
        Self { down: self.down + factor * other.down, up: self.up + factor * other.up }
    }

    fn of(self, lean: Lean) -> f64 {
        lean.down * self.down + lean.up * self.up
    }
}

/// Working memory, so that what is followed again in one window finds its queue known.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    slots: Vec<Slot>,
    /// What is known of each slot's queue; other orders in the same window ask for it again.
    shares: Vec<LateShares>,
}

impl Scratch {
    /// Late shares of this slot, those of before where they are still about the same queue.
    fn shares(&mut self, service: &Service, load: f64, slot: usize) -> &mut LateShares {
        let busy_workers = load * f64::from(service.workers);
        if self.shares.len() == slot {
            self.shares.push(LateShares::new(service, busy_workers));
        }
        let shares = &mut self.shares[slot];
        if !shares.are_of(service, busy_workers) {
            *shares = LateShares::new(service, busy_workers);
        }
        shares
    }
}

/// The cost of `orders` over the window; `orders` and `window.load` have the same length.
#[must_use]
pub fn cost(window: &Window<'_>, orders: &[f64], scratch: &mut Scratch) -> Cost {
    simulate(window, orders, scratch);
    count(window, orders, scratch)
}

/// What is under way where `slot` begins; one past the last is the end of the window. `scratch`: as the last run of the
/// same window and orders left it.
#[must_use]
pub fn state_before(window: &Window<'_>, orders: &[f64], slot: usize, scratch: &Scratch) -> State {
    let Some(last) = slot.checked_sub(1) else { return State::default() };
    let backlog = match scratch.slots.get(slot) {
        Some(state) => state.backlog,
        None => backlog_after(window, window.load[last], &scratch.slots[last]),
    };
    State { ready: smallest(&orders[under_way(window, slot)]), ordered: orders[last], backlog }
}

/// What each counted slot adds to the weighted sum, the end apart; nothing for those that are not counted.
#[must_use]
pub fn by_slot(window: &Window<'_>, orders: &[f64], weights: &Weights, scratch: &mut Scratch) -> Vec<f64> {
    simulate(window, orders, scratch);
    let slots_counted = (orders.len().saturating_sub(window.burn_in)).max(1) as f64;
    let offered = offered(window);
    let of_slot = |slot: usize| {
        if slot < window.burn_in {
            return 0.0;
        }
        let (load, state) = (window.load[slot], &scratch.slots[slot]);
        let spent = weights.replicas * orders[slot] + weights.change * change(orders, slot).abs();
        let late = load * (state.late.share + pressure(window, load, state).0);
        spent / slots_counted + if 0.0 < offered { weights.lateness * late / offered } else { 0.0 }
    };
    (0..orders.len()).map(of_slot).collect()
}

/// The cost of `orders`, and into `gradient` the derivative of its weighted sum with respect to each of them, by its
/// lean.
#[must_use]
pub fn cost_and_gradient(
    window: &Window<'_>,
    (orders, leans): (&[f64], &[Lean]),
    weights: &Weights,
    scratch: &mut Scratch,
    gradient: &mut [f64],
) -> Cost {
    simulate(window, orders, scratch);
    assert_eq!(orders.len(), leans.len(), "one lean per order");
    gradient.fill(0.0);
    add_spending(window, orders, weights, gradient);
    for (pull, lean) in gradient.iter_mut().zip(leans) {
        *pull *= lean.sum();
    }
    add_end(window, (orders, leans), weights, gradient);
    add_lateness(window, (orders, leans), weights, &scratch.slots, gradient);
    count(window, orders, scratch)
}

fn simulate(window: &Window<'_>, orders: &[f64], scratch: &mut Scratch) {
    assert_eq!(orders.len(), window.load.len(), "one order per slot");
    scratch.slots.clear();
    let mut backlog = 0.0;
    for (slot, &load) in window.load.iter().enumerate() {
        let ready = smallest(&orders[recent(window, slot)]);
        let shares = scratch.shares(&window.service, load, slot);
        let late = late(&window.service, shares, (load, backlog), ready, window.slot_secs);
        let state = Slot { ready, backlog, late };
        scratch.slots.push(state);
        backlog = backlog_after(window, load, &state);
    }
}

fn backlog_after(window: &Window<'_>, load: f64, state: &Slot) -> f64 {
    let waiting = state.backlog + (load - state.ready) * window.slot_secs;
    waiting.min(state.ready * window.timeout_secs).max(0.0)
}

/// Work offered in the counted slots.
fn offered(window: &Window<'_>) -> f64 {
    window.load.iter().skip(window.burn_in).sum()
}

fn count(window: &Window<'_>, orders: &[f64], scratch: &Scratch) -> Cost {
    let counted = window.burn_in..orders.len();
    let slots_counted = counted.len().max(1) as f64;
    let end = state_before(window, orders, orders.len(), scratch);
    let mut cost = Cost { end, ..Cost::default() };
    let mut offered = 0.0;
    for slot in counted {
        let (load, state) = (window.load[slot], &scratch.slots[slot]);
        cost.replicas += orders[slot] / slots_counted;
        cost.change += change(orders, slot).abs() / slots_counted;
        cost.late_share += load * state.late.share;
        cost.lateness += load * (state.late.share + pressure(window, load, state).0);
        offered += load;
    }
    if 0.0 < offered {
        cost.late_share /= offered;
        cost.lateness /= offered;
    }
    cost
}

/// Derivatives of what orders cost by themselves: replicas and changes.
fn add_spending(window: &Window<'_>, orders: &[f64], weights: &Weights, gradient: &mut [f64]) {
    let slots_counted = (orders.len().saturating_sub(window.burn_in)).max(1) as f64;
    for slot in window.burn_in..orders.len() {
        gradient[slot] += weights.replicas / slots_counted;
        let difference = change(orders, slot);
        if difference != 0.0 {
            let pull = weights.change * difference.signum() / slots_counted;
            gradient[slot] += pull;
            gradient[slot - 1] -= pull;
        }
    }
}

/// Derivatives of what is under way after the last slot, but for the backlog, which the lateness carries.
fn add_end(window: &Window<'_>, (orders, leans): (&[f64], &[Lean]), weights: &Weights, gradient: &mut [f64]) {
    let under_way = under_way(window, orders.len());
    let of_them = (&orders[under_way.clone()], &leans[under_way.clone()]);
    share_among_smallest(
        of_them,
        smallest(of_them.0),
        Sides::both(weights.end.ready),
        &mut gradient[under_way],
    );
    if let Some((last, lean)) = gradient.last_mut().zip(leans.last()) {
        *last += weights.end.ordered * lean.sum();
    }
}

/// Derivatives of the lateness and of the backlog at the end: backwards through the slots, carrying what a second of backlog will cost.
fn add_lateness(
    window: &Window<'_>,
    (orders, leans): (&[f64], &[Lean]),
    weights: &Weights,
    slots: &[Slot],
    gradient: &mut [f64],
) {
    let offered = offered(window);
    let mut per_next_backlog = weights.end.backlog;
    for slot in (0..slots.len()).rev() {
        let (load, state) = (window.load[slot], &slots[slot]);
        let (next_per_backlog, next_per_ready) = backlog_derivatives(window, load, state);
        let mut per_ready = Sides::both(per_next_backlog * next_per_ready);
        let mut per_backlog = per_next_backlog * next_per_backlog;
        if window.burn_in <= slot && 0.0 < offered {
            let weight = weights.lateness * load / offered;
            let (_, pressure_per_ready, pressure_per_backlog) = pressure(window, load, state);
            per_ready =
                per_ready.plus(weight, state.late.per_ready).plus(weight, Sides::both(pressure_per_ready));
            per_backlog += weight * (state.late.per_backlog + pressure_per_backlog);
        }
        let recent = recent(window, slot);
        let of_them = (&orders[recent.clone()], &leans[recent.clone()]);
        share_among_smallest(of_them, state.ready, per_ready, &mut gradient[recent]);
        per_next_backlog = per_backlog;
    }
}

/// How the next slot's backlog depends on this one's and on what is ready.
fn backlog_derivatives(window: &Window<'_>, load: f64, state: &Slot) -> (f64, f64) {
    let waiting = state.backlog + (load - state.ready) * window.slot_secs;
    let cap = state.ready * window.timeout_secs;
    let grows = side(waiting, 0.0) * side(cap, waiting);
    let capped = side(waiting, 0.0) * side(waiting, cap);
    (grows, capped * window.timeout_secs - grows * window.slot_secs)
}

/// 1 above the kink, 0 below it, and the mean of the sides on it.
fn side(value: f64, kink: f64) -> f64 {
    if value == kink { 0.5 } else { f64::from(u8::from(kink < value)) }
}

/// Slots whose orders decide what is ready in `slot`.
fn recent(window: &Window<'_>, slot: usize) -> std::ops::RangeInclusive<usize> {
    slot.saturating_sub(window.startup_slots)..=slot
}

/// Slots before `slot` whose orders decide what serves where it begins.
fn under_way(window: &Window<'_>, slot: usize) -> std::ops::Range<usize> {
    slot.saturating_sub(window.startup_slots.max(1))..slot
}

fn smallest(orders: &[f64]) -> f64 {
    orders.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Each that shares the minimum gets its own side's derivative over their number.
fn share_among_smallest(
    (orders, leans): (&[f64], &[Lean]),
    smallest: f64,
    derivative: Sides,
    gradient: &mut [f64],
) {
    if derivative.down == 0.0 && derivative.up == 0.0 {
        return;
    }
    let sharing = orders.iter().filter(|&&order| order == smallest).count() as f64;
    for ((order, lean), gradient) in orders.iter().zip(leans).zip(gradient) {
        if *order == smallest {
            *gradient += derivative.of(*lean) / sharing;
        }
    }
}

fn change(orders: &[f64], slot: usize) -> f64 {
    if slot == 0 { 0.0 } else { orders[slot] - orders[slot - 1] }
}

/// `softness * relu(ln(demand / ready))`, where demand includes the backlog spread over the slot; then its
/// derivatives with respect to ready replicas and to the backlog.
fn pressure(window: &Window<'_>, load: f64, state: &Slot) -> (f64, f64, f64) {
    let demand = load + state.backlog / window.slot_secs;
    let ready = state.ready.max(READY_MIN);
    if demand < ready || demand <= 0.0 {
        return (0.0, 0.0, 0.0);
    }
    let weight = window.softness * side(demand, ready);
    let per_ready = if state.ready < READY_MIN { 0.0 } else { -weight / ready };
    (window.softness * (demand / ready).ln(), per_ready, weight / (demand * window.slot_secs))
}

/// Late share of a slot with `ready` replicas that begins behind `backlog` busy-pod seconds of work: all are late until
/// the backlog no longer takes longer than the slack, the tail of the queue from then on. So it counts how long an
/// overload lasts to the second, and every replica that shortens it shows in the derivative.
fn late(
    service: &Service,
    shares: &mut LateShares,
    (load, backlog): (f64, f64),
    ready: f64,
    slot_secs: f64,
) -> Late {
    if load <= 0.0 {
        return Late::default();
    }
    let all = Late { share: 1.0, ..Late::default() };
    if ready <= 0.0 {
        return all;
    }
    let beyond = backlog - service.slack_secs() * ready;
    let steady = steady_late(shares, ready);
    if beyond <= 0.0 {
        return steady;
    }
    let spare = ready - load;
    if spare * slot_secs <= beyond {
        return all;
    }
    let until = beyond / (spare * slot_secs);
    let per_backlog = 1.0 / (spare * slot_secs);
    let until_per_ready = -(until / spare + service.slack_secs() * per_backlog);
    Late {
        share: until + (1.0 - until) * steady.share,
        per_ready: Sides::both((1.0 - steady.share) * until_per_ready).plus(1.0 - until, steady.per_ready),
        per_backlog: (1.0 - steady.share) * per_backlog,
    }
}

/// The tail of the queue with nothing waiting at first. Between whole numbers of replicas it is interpolated linearly.
fn steady_late(shares: &mut LateShares, ready: f64) -> Late {
    let below = ready.floor();
    let fraction = ready - below;
    let here = below as u32;
    let left = shares.with(if fraction == 0.0 { here.saturating_sub(1) } else { here });
    if left < NEGLIGIBLE {
        return Late { share: left, ..Late::default() };
    }
    let right = shares.with(here + 1);
    let (share, per_ready) = if fraction == 0.0 {
        let share = shares.with(here);
        (share, Sides { down: share - left, up: right - share })
    } else {
        (left + fraction * (right - left), Sides::both(right - left))
    };
    Late { share, per_ready, per_backlog: 0.0 }
}

/// A late share below which its derivatives are not worth computing.
const NEGLIGIBLE: f64 = 1e-9;

#[cfg(test)]
mod tests;
