//! Condition types, their reasons, and reasons of events: closed enums, so that a dashboard can list them and a typing
//! error does not compile. HPA's names are reused where they fit.

/// An enum whose variants are written as they are spelled.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $(#[doc = $meaning:literal] $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $meaning] $variant,)* }

        impl $name {
            /// All of them, in the order in which they are listed.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// As written in Kubernetes objects and metrics.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)* }
            }

            /// What it says, for the reference page.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $($name::$variant => $meaning,)* }.trim_ascii()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names! {
    /// Conditions of a policy, in the order of status.
    ConditionType {
        /// The policy is valid and its target exists. Signals have a condition of their own.
        Ready,
        /// The scale can be read and written.
        AbleToScale,
        /// Some signal tells the load.
        ScalingActive,
        /// Something keeps the number from being what was asked.
        ScalingLimited,
        /// A person's will is in force.
        Paused,
        /// The declared fallback is in force.
        Fallback,
        /// A model drives; False: the planner does, and why.
        ModelReady,
        /// Somebody else writes the replicas too.
        ReplicasConflict,
        /// Latency is over its target and more replicas would not lower it.
        ScalingWontHelp,
    }
}

names! {
    /// Reasons of conditions.
    ConditionReason {
        /// Ready: nothing to complain about.
        ValidPolicy,
        /// Ready: the message lists every fault with its field.
        InvalidPolicy,
        /// AbleToScale: the scale was read.
        SucceededGetScale,
        /// AbleToScale, Ready: the scale could not be read.
        FailedGetScale,
        /// AbleToScale: the scale was written.
        SucceededRescale,
        /// AbleToScale: the scale could not be written.
        FailedUpdateScale,
        /// AbleToScale: nothing stands in the way.
        ReadyForNewScale,
        /// AbleToScale: a recent higher answer is kept.
        ScaleDownStabilized,
        /// AbleToScale: a scale-down had to be undone and is held off.
        ScaleDownHeldOff,
        /// AbleToScale: a recent lower answer is kept.
        ScaleUpStabilized,
        /// AbleToScale: mode Shadow, nothing is ever written.
        ShadowMode,
        /// ScalingActive: the load could be read.
        ValidMetricFound,
        /// ScalingActive: no signal tells the load.
        NoSignal,
        /// ScalingActive: 0 replicas by somebody else's hand.
        ScalingDisabled,
        /// ScalingActive: the target's selector matches pods of another workload of ours, too.
        AmbiguousSelector,
        /// ScalingActive: the target's selector is missing or cannot be parsed.
        InvalidSelector,
        /// ScalingLimited: the number is what was asked.
        DesiredWithinRange,
        /// ScalingLimited: `maxReplicas`.
        TooManyReplicas,
        /// ScalingLimited: `minReplicas`.
        TooFewReplicas,
        /// ScalingLimited: `behavior.scaleUp`.
        ScaleUpLimit,
        /// ScalingLimited: `behavior.scaleDown`.
        ScaleDownLimit,
        /// ScalingLimited: pods cannot be placed.
        CapacityUnavailable,
        /// ScalingLimited: pods of a rollout crash, more of them would not serve.
        RolloutUnhealthy,
        /// Paused: automatic.
        Automatic,
        /// Paused: pinned.
        Pinned,
        /// Paused: paused.
        PausedByUser,
        /// Paused: never down.
        ScaleDownPaused,
        /// Paused: never up.
        ScaleUpPaused,
        /// Paused: an override is still written down although its time is over.
        OverrideExpired,
        /// Paused: an annotation could not be read, which pauses.
        OverrideInvalid,
        /// Fallback: signals are read, or not lost for long enough.
        FallbackNotNeeded,
        /// Fallback: none is declared.
        FallbackNotDeclared,
        /// Fallback: in force.
        FallbackActive,
        /// ModelReady: a trained model drives.
        ModelLoaded,
        /// ModelReady: the model is zero-initialised and answers exactly as the planner.
        ModelUntrained,
        /// ModelReady: no model of this name is loaded.
        ModelNotFound,
        /// ModelReady: the model was trained on another set of features.
        SchemaMismatch,
        /// ModelReady: the features are far outside what the model was trained on; the planner drives.
        OutOfDistribution,
        /// ModelReady: forecasts fall short far more than they used to; the planner drives.
        ForecastDrift,
        /// ModelReady: the model gave no usable answer; the planner drives.
        ModelRejected,
        /// ModelReady: too little is known of this service yet.
        InsufficientHistory,
        /// ReplicasConflict: nobody else writes.
        NoConflict,
        /// ReplicasConflict: an HPA has the same target.
        HorizontalPodAutoscaler,
        /// ReplicasConflict: a ScaledObject has the same target.
        ScaledObject,
        /// ReplicasConflict: an older policy has the same target.
        OlderPolicy,
        /// ReplicasConflict: another field manager keeps rewriting the replicas.
        OtherWriter,
        /// ReplicasConflict: there is one, and `rlscaler.io/ignore-conflicts` says to scale all the same.
        ConflictIgnored,
        /// ScalingWontHelp: latency follows load, as it should.
        ScalingHelps,
        /// ScalingWontHelp: latency is over its target while CPU is idle.
        LatencyWithoutLoad,
        /// Any: nothing is known yet.
        NotYetKnown,
    }
}

names! {
    /// Reasons of events.
    EventReason {
        /// Normal: the scale was written.
        SuccessfulRescale,
        /// Warning: the objective was no longer met after a scale-down of ours, which is undone and held off.
        ScaleDownUndone,
        /// Warning: the scale could not be written.
        FailedRescale,
        /// Warning: the scale could not be read.
        FailedGetScale,
        /// Warning: the policy is refused.
        InvalidPolicy,
        /// Normal: what Auto would have done.
        ShadowDecision,
        /// Normal: a person's will took effect.
        OverrideApplied,
        /// Normal: a person's will ended.
        OverrideReleased,
        /// Warning: an override is still written down although its time is over.
        OverrideExpired,
        /// Warning: an annotation could not be read, which pauses.
        OverrideInvalid,
        /// Warning: an annotation with our prefix that means nothing.
        UnknownAnnotation,
        /// Warning: a pin was moved into min..max.
        OverrideClamped,
        /// Warning: in Shadow nothing is written, overrides included.
        OverrideIgnoredInShadow,
        /// Warning: somebody else writes the replicas.
        ReplicasConflict,
        /// Warning: a VerticalPodAutoscaler changes the CPU requests of the same pods.
        VerticalPodAutoscaler,
        /// Warning: pods of a rollout crash.
        RolloutUnhealthy,
        /// Warning: pods cannot be placed.
        CapacityUnavailable,
        /// Warning: a signal cannot be acted on.
        SignalLost,
        /// Normal: it can again.
        SignalRecovered,
        /// Warning: the declared fallback took effect.
        FallbackActive,
        /// Normal: the fallback ended.
        FallbackEnded,
        /// Warning: the planner drives in place of the model.
        ModelRejected,
        /// Warning: more replicas would not lower the latency.
        ScalingWontHelp,
        /// Warning: the memory in status could not be read; windows start anew.
        MemoryLost,
    }
}

impl From<rlscaler_core::driving::Doubt> for ConditionReason {
    fn from(doubt: rlscaler_core::driving::Doubt) -> Self {
        use rlscaler_core::driving::Doubt;
        match doubt {
            Doubt::OutOfDistribution => Self::OutOfDistribution,
            Doubt::ForecastDrift => Self::ForecastDrift,
            Doubt::SchemaMismatch => Self::SchemaMismatch,
            Doubt::NotANumber | Doubt::Failed => Self::ModelRejected,
        }
    }
}

impl From<rlscaler_core::decision::Limited> for ConditionReason {
    fn from(limited: rlscaler_core::decision::Limited) -> Self {
        use rlscaler_core::decision::Limited;
        match limited {
            Limited::TooManyReplicas => Self::TooManyReplicas,
            Limited::TooFewReplicas => Self::TooFewReplicas,
            Limited::ScaleUpLimit => Self::ScaleUpLimit,
            Limited::ScaleDownLimit => Self::ScaleDownLimit,
            Limited::CapacityUnavailable => Self::CapacityUnavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits_a_condition() {
        let names = ConditionType::ALL.iter().map(|name| name.as_str());
        let names = names.chain(ConditionReason::ALL.iter().map(|name| name.as_str()));
        for name in names.chain(EventReason::ALL.iter().map(|name| name.as_str())) {
            assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric()) && name.len() <= 64, "{name}");
        }
    }
}
