//! The boundary around a tick.

use rlscaler_core::policy::Action as Answer;
use rlscaler_core::{Features, Policy, PolicyFault};

use super::*;
use crate::fake::Stage;
use crate::models::LoadedModel;

/// A model with a bug.
struct Panics;

impl Policy for Panics {
    fn act(&self, _: &Features) -> Result<Answer, PolicyFault> {
        panic!("index out of bounds in the third layer")
    }

    fn describe(&self) -> String {
        "buggy".to_owned()
    }
}

#[tokio::test]
async fn a_panic_in_one_policy_s_tick_holds_that_policy_is_counted_and_told() {
    let stage = Stage::new(640.0);
    let ctx = Arc::new(stage.operator_with(LoadedModel { policy: Arc::new(Panics), trained: true }));
    let policy = Arc::new(DeserializeGuard(Ok(stage.policy(|_| {}))));
    for _ in 0..2 {
        let Ok(action) = guarded_tick(policy.clone(), ctx.clone()).await;
        assert_eq!(action, Action::requeue(PAUSE_AFTER_PANIC));
    }
    assert_eq!(ctx.metrics.panics.get(), 2);
    assert_eq!(stage.replicas(), 3);
    let events = stage.events();
    let told = events.iter().filter(|event| event.contains("third layer")).count();
    assert_eq!(told, 1, "{events:?}");
}

#[tokio::test]
async fn a_policy_that_cannot_be_read_is_told_so_and_left_alone() {
    let stage = Stage::new(640.0);
    let ctx = Arc::new(stage.operator());
    let mut object = serde_json::to_value(stage.policy(|_| {})).unwrap();
    object["spec"]["mode"] = "Turbo".into();
    let policy: Guarded = serde_json::from_value(object).unwrap();
    let Ok(action) = guarded_tick(Arc::new(policy), ctx).await;
    assert_eq!(action, Action::await_change());
    assert_eq!(stage.writes(), ["event"]);
    assert!(stage.events()[0].contains("Turbo"), "{:?}", stage.events());
}
