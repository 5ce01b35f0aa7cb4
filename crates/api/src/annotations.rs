//! Names of the annotations people put on a policy.

/// Every annotation of ours starts with this.
pub const PREFIX: &str = "rlscaler.io/";
/// `"true"`: leave the target as it is. `"false"`: automatic, whatever `spec.override` says.
pub const PAUSE: &str = "rlscaler.io/pause";
/// Exactly this many replicas.
pub const REPLICAS: &str = "rlscaler.io/replicas";
/// `"true"`: never down.
pub const PAUSE_SCALE_DOWN: &str = "rlscaler.io/pause-scale-down";
/// `"true"`: never up.
pub const PAUSE_SCALE_UP: &str = "rlscaler.io/pause-scale-up";
/// Why; shown in status and events.
pub const OVERRIDE_REASON: &str = "rlscaler.io/override-reason";
/// RFC 3339; the override of the annotations ends then.
pub const OVERRIDE_UNTIL: &str = "rlscaler.io/override-until";
/// `"true"`: a pin may leave min..max.
pub const ALLOW_OUT_OF_BOUNDS: &str = "rlscaler.io/allow-out-of-bounds";
/// `"true"`: scale although another autoscaler has the same target. For experts.
pub const IGNORE_CONFLICTS: &str = "rlscaler.io/ignore-conflicts";

/// All of them.
pub const ALL: [&str; 8] = [
    PAUSE,
    REPLICAS,
    PAUSE_SCALE_DOWN,
    PAUSE_SCALE_UP,
    OVERRIDE_REASON,
    OVERRIDE_UNTIL,
    ALLOW_OUT_OF_BOUNDS,
    IGNORE_CONFLICTS,
];

/// What each takes and does, for the reference page.
pub const MEANINGS: [(&str, &str, &str); 8] = [
    (
        PAUSE,
        "`true`, `false`",
        "`true` leaves the target as it is. `false` is an explicit \"automatic\" and outranks a paused `spec.override`.",
    ),
    (REPLICAS, "0..100000", "Pin: exactly this many replicas, also while every source of signals is down."),
    (PAUSE_SCALE_DOWN, "`true`, `false`", "`true`: never down."),
    (PAUSE_SCALE_UP, "`true`, `false`", "`true`: never up."),
    (OVERRIDE_REASON, "text", "Why; shown in status and events, cut to 256 characters."),
    (OVERRIDE_UNTIL, "RFC 3339", "The override of the annotations ends then by itself."),
    (ALLOW_OUT_OF_BOUNDS, "`true`, `false`", "`true`: a pin may leave minReplicas..maxReplicas."),
    (IGNORE_CONFLICTS, "`true`", "Scale although another autoscaler has the same target. For experts."),
];
