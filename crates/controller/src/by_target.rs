//! Who lays claim to which target, found by the target: with thousands of policies and autoscalers no tick may look at
//! all of them. Pure.

use std::collections::HashMap;
use std::hash::Hash;

use crate::replica::target::TargetRef;

/// A target in the cluster. Versions of one group are the same object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetKey {
    namespace: String,
    group: String,
    kind: String,
    name: String,
}

impl TargetKey {
    /// The key of a target in a namespace.
    #[must_use]
    pub fn new(namespace: &str, target: &TargetRef) -> Self {
        let (group, kind, name) = (target.group().to_owned(), target.kind.clone(), target.name.clone());
        Self { namespace: namespace.to_owned(), group, kind, name }
    }
}

/// Claimants `K` by their targets; each has one target and something `V` to be known about it.
#[derive(Debug)]
pub struct ByTarget<K, V> {
    targets: HashMap<K, TargetKey>,
    claims: HashMap<TargetKey, HashMap<K, V>>,
}

impl<K, V> Default for ByTarget<K, V> {
    fn default() -> Self {
        Self { targets: HashMap::new(), claims: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V> ByTarget<K, V> {
    /// The claimant has this target now, whatever it had before.
    pub fn insert(&mut self, claimant: K, target: TargetKey, claim: V) {
        self.remove(&claimant);
        self.targets.insert(claimant.clone(), target.clone());
        self.claims.entry(target).or_default().insert(claimant, claim);
    }

    /// The claimant is gone, or claims nothing any more.
    pub fn remove(&mut self, claimant: &K) {
        let Some(target) = self.targets.remove(claimant) else { return };
        if let Some(claims) = self.claims.get_mut(&target) {
            claims.remove(claimant);
            if claims.is_empty() {
                self.claims.remove(&target);
            }
        }
    }

    /// Removes every claimant that is not among the living.
    pub fn retain(&mut self, living: impl Fn(&K) -> bool) {
        let dead: Vec<K> = self.targets.keys().filter(|claimant| !living(claimant)).cloned().collect();
        dead.iter().for_each(|claimant| self.remove(claimant));
    }

    /// All claims on a target, in no order.
    pub fn of(&self, target: &TargetKey) -> impl Iterator<Item = (&K, &V)> {
        self.claims.get(target).into_iter().flatten()
    }

    /// Claimants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True when there are none; nothing is kept of those that went.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.claims.is_empty()
    }
}
