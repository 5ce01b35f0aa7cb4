//! Our HPA against the real one, on inputs never seen before. The committed recordings are replayed in `rlscaler-sim`.

use std::time::{SystemTime, UNIX_EPOCH};

/// A few seconds of a small cluster.
const DECISIONS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_hpa_and_ours_decide_alike_on_fresh_inputs() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    println!("seed {seed}");
    let replay = xtask::differential::fresh(seed, DECISIONS).await.unwrap();
    println!("{} compared, {} hung on the clock: {:?}", replay.compared, replay.unsure, replay.kinds);
    assert!(DECISIONS <= replay.compared);
    assert_eq!(replay.differences, Vec::<String>::new());
}
