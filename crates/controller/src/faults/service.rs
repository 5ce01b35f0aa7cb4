//! The service behind one target: its load, its pods, what waits. Time passes when somebody looks. In: replicas asked
//! for, trouble, time. Out: pods as the API server lists them, and the truth that signals measure.

use std::fmt::Write;

use rlscaler_core::queue::{
    Service as Station, fluid_step, late_share_behind, mean_wait_secs, smallest_replicas,
};
use serde_json::{Value, json};

use super::dice::Dice;
use super::schedule::PodTrouble;
use super::will::at;

/// What one pod serves: 4 requests at once, 50 ms each, late after 250 ms.
pub(crate) const STATION: Station =
    Station { workers: 4, service_secs: 0.05, target_secs: 0.25, variability: 1.0 };
/// CPU request of one pod, cores; a busy pod uses it up.
const POD_CORES: f64 = 1.0;
/// Cores of a pod that has nothing to do.
const IDLE_CORES: f64 = 0.02;
/// Seconds a pod takes to go.
const GOING_SECS: f64 = 5.0;
/// Start-up times as long as this under [`PodTrouble::SlowStart`].
const SLOW: f64 = 5.0;
/// Requests that would wait longer give up, seconds.
const PATIENCE_SECS: f64 = 10.0;
/// Pods that can be placed while the cluster is full, or the quota used up.
const ROOM: usize = 6;

/// The workload and its pods.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// `None`: deleted.
    pub(crate) target: Option<Target>,
    pods: Vec<Pod>,
    /// Pods the quota refused at the last look.
    refused: u32,
    revision: u32,
    made: u32,
    pub(crate) busy_pods: f64,
    backlog: f64,
    startup_secs: f64,
    looked_secs: f64,
    dice: Dice,
}

/// The Deployment.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) uid: String,
    pub(crate) replicas: u32,
    /// Field manager of the last change of the replicas.
    pub(crate) writer: &'static str,
}

struct Pod {
    number: u32,
    revision: u32,
    created_secs: f64,
    /// Infinite while it cannot become ready.
    ready_secs: f64,
    unschedulable: bool,
    crashing: bool,
    gone_secs: Option<f64>,
}

/// What is true of the service now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) qps: f64,
    /// `None` while nobody answers or nobody asks.
    pub(crate) latency_secs: Option<f64>,
    pub(crate) on_time: Option<f64>,
    pub(crate) cores: f64,
    pub(crate) ready: u32,
}

impl Workload {
    pub(crate) fn new(
        name: &'static str,
        replicas: u32,
        busy_pods: f64,
        startup_secs: f64,
        seed: u64,
    ) -> Self {
        let target = Target { uid: format!("{name}-uid-0"), replicas, writer: "kubectl" };
        let mut workload = Self {
            name,
            target: Some(target),
            pods: Vec::new(),
            refused: 0,
            revision: 1,
            made: 0,
            busy_pods,
            backlog: 0.0,
            startup_secs,
            looked_secs: -300.0,
            dice: Dice::new(seed, name),
        };
        workload.pass(-300.0, &[]);
        workload.pass(0.0, &[]);
        workload
    }

    /// Requests per second.
    pub(crate) fn qps(&self) -> f64 {
        self.busy_pods * STATION.rate_per_replica()
    }

    /// The fewest replicas that keep all but 1 % of the requests in time.
    pub(crate) fn needed(&self) -> u32 {
        let busy_workers = self.busy_pods * f64::from(STATION.workers);
        smallest_replicas(&STATION, busy_workers, 0.01, 10_000)
    }

    /// Lets time pass up to `now_secs`.
    pub(crate) fn pass(&mut self, now_secs: f64, trouble: &[PodTrouble]) {
        let step_secs = (now_secs - self.looked_secs).max(0.0);
        self.looked_secs = now_secs;
        let ready = self.ready(now_secs);
        let step = fluid_step(&STATION, self.backlog, self.qps(), f64::from(ready), PATIENCE_SECS, step_secs);
        self.backlog = step.backlog;
        self.pods.retain(|pod| pod.gone_secs.is_none_or(|gone| now_secs < gone));
        let Some(target) = &self.target else {
            self.pods.clear();
            return;
        };
        let wanted = target.replicas as usize;
        let has = |what: PodTrouble| trouble.contains(&what);
        self.mend(now_secs, has(PodTrouble::CrashLoop), has(PodTrouble::Unschedulable));
        if has(PodTrouble::Rollout) {
            self.roll_out(now_secs, wanted);
        }
        let living = self.living();
        self.refused = 0;
        for _ in living..wanted {
            if has(PodTrouble::Quota) && ROOM <= self.living() {
                self.refused = (wanted - self.living()) as u32;
                break;
            }
            self.create(now_secs, trouble);
        }
        for _ in wanted..living.min(if has(PodTrouble::Rollout) { wanted } else { living }) {
            // The ones that are not ready go first, then the newest.
            let candidates = self.pods.iter().enumerate().filter(|(_, pod)| pod.gone_secs.is_none());
            let goes = candidates.max_by(|one, other| one.1.ready_secs.total_cmp(&other.1.ready_secs));
            let index = goes.expect("more live than are wanted").0;
            self.pods[index].gone_secs = Some(now_secs + GOING_SECS);
        }
    }

    /// What was broken or unplaced starts as soon as nothing stands in its way.
    fn mend(&mut self, now_secs: f64, crashing: bool, full: bool) {
        let startup_secs = self.startup_secs;
        for pod in &mut self.pods {
            let cured = (pod.crashing && !crashing) || (pod.unschedulable && !full);
            if cured {
                (pod.crashing, pod.unschedulable) = (false, false);
                pod.ready_secs = now_secs + startup_secs;
            }
        }
    }

    /// A new revision with a surge of a quarter: one old pod goes for each new one that is ready.
    fn roll_out(&mut self, now_secs: f64, wanted: usize) {
        let newest = self.pods.iter().map(|pod| pod.revision).max().unwrap_or(0);
        if newest == self.revision && self.pods.iter().all(|pod| pod.revision == newest) {
            self.revision += 1;
        }
        let most = wanted + wanted.div_ceil(4);
        while self.living() < most && self.of_revision(self.revision) < wanted {
            self.create(now_secs, &[]);
        }
        let revision = self.revision;
        let new_ready = self.pods.iter().filter(|pod| pod.revision == revision && pod.ready_secs <= now_secs);
        let keep_old = wanted.saturating_sub(new_ready.count());
        let mut old =
            self.pods.iter().filter(|pod| pod.revision < revision && pod.gone_secs.is_none()).count();
        for pod in self.pods.iter_mut().filter(|pod| pod.revision < revision && pod.gone_secs.is_none()) {
            if old <= keep_old {
                break;
            }
            pod.gone_secs = Some(now_secs + GOING_SECS);
            old -= 1;
        }
    }

    fn create(&mut self, now_secs: f64, trouble: &[PodTrouble]) {
        let has = |what: PodTrouble| trouble.contains(&what);
        let unschedulable = has(PodTrouble::Unschedulable) && ROOM <= self.living();
        let crashing = has(PodTrouble::CrashLoop);
        let slow = if has(PodTrouble::SlowStart) { SLOW } else { 1.0 };
        let startup_secs = self.startup_secs * slow * self.dice.between(0.8, 1.2);
        self.made += 1;
        self.pods.push(Pod {
            number: self.made,
            revision: self.revision,
            created_secs: now_secs,
            ready_secs: if unschedulable || crashing { f64::INFINITY } else { now_secs + startup_secs },
            unschedulable,
            crashing,
            gone_secs: None,
        });
    }

    fn living(&self) -> usize {
        self.pods.iter().filter(|pod| pod.gone_secs.is_none()).count()
    }

    fn of_revision(&self, revision: u32) -> usize {
        self.pods.iter().filter(|pod| pod.revision == revision && pod.gone_secs.is_none()).count()
    }

    fn ready(&self, now_secs: f64) -> u32 {
        let is_ready = |pod: &&Pod| pod.gone_secs.is_none() && pod.ready_secs <= now_secs;
        self.pods.iter().filter(is_ready).count() as u32
    }

    /// The truth at the last look.
    pub(crate) fn truth(&self) -> Truth {
        let ready = self.ready(self.looked_secs);
        let qps = self.qps();
        let busy_workers = self.busy_pods * f64::from(STATION.workers);
        let capacity = f64::from(ready) * STATION.rate_per_replica();
        let answers = 0.0 < qps && 0 < ready;
        let wait_secs = mean_wait_secs(&STATION, busy_workers, ready).min(PATIENCE_SECS) * 3.0
            + if answers { self.backlog / capacity } else { 0.0 };
        let late = late_share_behind(&STATION, busy_workers, ready, self.backlog);
        Truth {
            qps,
            latency_secs: answers.then_some(2.0 * STATION.service_secs + wait_secs),
            on_time: (0.0 < qps).then_some(1.0 - late),
            cores: (self.busy_pods + self.backlog / STATION.rate_per_replica()).min(f64::from(ready))
                * POD_CORES
                + f64::from(ready) * IDLE_CORES,
            ready,
        }
    }

    /// The pods as listed, terminating ones among them.
    pub(crate) fn list_pods(&self) -> String {
        let mut items = String::from("{\"items\":[");
        for (index, pod) in self.pods.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            items.push_str(comma);
            self.write_pod(&mut items, pod).expect("a string takes everything");
        }
        items.push_str("]}");
        items
    }

    fn write_pod(&self, out: &mut String, pod: &Pod) -> std::fmt::Result {
        let Pod { number, revision, created_secs, ready_secs, unschedulable, crashing, gone_secs } = pod;
        let name = self.name;
        write!(
            out,
            r#"{{"metadata":{{"name":"{name}-{number}","uid":"{name}-pod-{number}","creationTimestamp":"{}","#,
            at(*created_secs)
        )?;
        if gone_secs.is_some() {
            write!(out, r#""deletionTimestamp":"{}","#, at(self.looked_secs))?;
        }
        write!(
            out,
            r#""ownerReferences":[{{"kind":"ReplicaSet","name":"r","uid":"{name}-rs-{revision}","controller":true}}]}},"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"{POD_CORES}"}}}}}}]}},"status":{{"phase":"Running","conditions":["#
        )?;
        if *unschedulable {
            out.push_str(r#"{"type":"PodScheduled","status":"False","reason":"Unschedulable"},"#);
        }
        if *ready_secs <= self.looked_secs {
            write!(out, r#"{{"type":"Ready","status":"True","lastTransitionTime":"{}"}}]"#, at(*ready_secs))?;
        } else {
            out.push_str(r#"{"type":"Ready","status":"False"}]"#);
        }
        if *crashing {
            out.push_str(r#","containerStatuses":[{"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]"#);
        }
        out.push_str("}}");
        Ok(())
    }

    pub(crate) fn list_replica_sets(&self) -> Value {
        let Some(target) = &self.target else { return json!({"items": []}) };
        let owner = json!([{"kind": "Deployment", "name": self.name, "uid": target.uid, "controller": true}]);
        let revisions = self.revision.saturating_sub(9).max(1)..=self.revision;
        let items = revisions.map(|revision| {
            json!({"metadata": {"name": "r", "uid": format!("{}-rs-{revision}", self.name), "ownerReferences": owner}})
        });
        json!({"items": items.collect::<Vec<_>>()})
    }

    pub(crate) fn scale(&self, target: &Target) -> Value {
        // The API server leaves 0 out.
        let spec = if target.replicas == 0 { json!({}) } else { json!({"replicas": target.replicas}) };
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": self.name, "namespace": "shop", "uid": target.uid},
            "spec": spec, "status": {"replicas": self.living(), "selector": format!("app={}", self.name)}})
    }

    pub(crate) fn deployment(&self, target: &Target) -> Value {
        let managed = json!([{"manager": target.writer, "operation": "Update", "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        let failure =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}]);
        let conditions = if 0 < self.refused { failure } else { json!([]) };
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": "shop", "uid": target.uid, "managedFields": managed},
            "spec": {"replicas": target.replicas}, "status": {"conditions": conditions}})
    }

    /// A Deployment of the same name is created anew: other pods, another owner.
    pub(crate) fn recreate(&mut self, replicas: u32, now_secs: f64) {
        self.revision += 1;
        let uid = format!("{}-uid-{}", self.name, self.revision);
        self.target = Some(Target { uid, replicas, writer: "kubectl-create" });
        self.backlog = 0.0;
        self.looked_secs = now_secs;
    }
}
