//! What a policy's status tells the audience. In: the object as the server has it. Out: words. Pure. Read by path
//! rather than by type, so that the demo shows what `kubectl` would show.

use serde_json::Value;

/// Who drives and why, in one line; empty before the first decision.
pub(super) fn reason(policy: &Value) -> String {
    let Some(decision) = policy.pointer("/status/decision") else { return String::new() };
    let driver = decision["driver"].as_str().unwrap_or_default();
    let message = decision.pointer("/reasons/0/message").and_then(Value::as_str).unwrap_or_default();
    match (driver, message) {
        ("", message) => message.to_owned(),
        (driver, "") => driver.to_owned(),
        (driver, message) => format!("{driver}: {message}"),
    }
}

/// Whether anything has been decided yet.
pub(super) fn has_decided(policy: &Value) -> bool {
    policy.pointer("/status/decision").is_some_and(|decision| !decision.is_null())
}

/// Whether a person's will holds, or the last decision was still theirs.
pub(super) fn is_overridden(policy: &Value) -> bool {
    let will = policy.pointer("/status/override").is_some_and(|will| !will.is_null());
    will || policy.pointer("/status/decision/driver").is_some_and(|driver| driver == "override")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_policy_without_status_says_nothing_and_has_not_decided() {
        for policy in
            [json!({}), json!({"status": {}}), json!({"status": {"decision": null, "override": null}})]
        {
            assert_eq!(
                (reason(&policy).as_str(), has_decided(&policy), is_overridden(&policy)),
                ("", false, false)
            );
        }
    }

    #[test]
    fn a_will_is_over_when_it_is_gone_and_something_else_decided() {
        let policy =
            |will: Value, driver: &str| json!({"status": {"override": will, "decision": {"driver": driver}}});
        for (will, driver, overridden) in [
            (json!({"mode": "Pin"}), "override", true),
            (json!({"mode": "Pin"}), "model", true),
            (Value::Null, "override", true),
            (Value::Null, "planner", false),
        ] {
            assert_eq!(is_overridden(&policy(will, driver)), overridden, "{driver}");
        }
    }

    #[test]
    fn the_first_reason_is_the_one_shown() {
        let policy = json!({"status": {
            "decision": {"driver": "model", "reasons": [{"code": "A", "message": "why"}, {"code": "B", "message": "also"}]},
            "override": {"mode": "Pin", "replicas": 12},
        }});
        assert_eq!(
            (reason(&policy).as_str(), has_decided(&policy), is_overridden(&policy)),
            ("model: why", true, true)
        );
    }
}
