//! Leads each service from sync to sync: inputs stand still from before the controller asks for metrics until its answer
//! is read, and only then change.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rlscaler_sim::recorded_hpa::Decision;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::log::{Entry, Event, name};
use super::objects;
use super::scene::{Past, Scene};

/// From the last change of a pod until the controller, which sees pods by a watch, may decide on it.
const SETTLE: Duration = Duration::from_secs(1);

/// All services, the clock and the cluster.
pub(super) struct Driver {
    pub(super) client: Client,
    /// Zero of the recording's times; a whole second.
    pub(super) began: Timestamp,
    pub(super) lives: Vec<Mutex<Live>>,
}

/// One service as it stands now.
pub(super) struct Live {
    pub(super) scene: Scene,
    /// From when on metrics may be served; `None`: inputs are not ready, or were served and wait for their answer.
    open: Option<Instant>,
    /// When metrics were served in the sync under way, seconds of the recording.
    served: Option<f64>,
    /// `spec.replicas` as last written or read.
    replicas: u32,
    opened: std::sync::Arc<Notify>,
}

impl Live {
    /// Not yet in the cluster.
    pub(super) fn new(scene: Scene) -> Self {
        Self { scene, open: None, served: None, replicas: 0, opened: std::sync::Arc::default() }
    }
}

impl Driver {
    /// The state of a service. Never held across an await.
    pub(super) fn live(&self, number: usize) -> MutexGuard<'_, Live> {
        self.lives[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a service into the cluster, its HPA last and when the pods are settled, so that no first sync has to wait.
    ///
    /// # Errors
    /// When the API server refuses an object.
    pub(super) async fn set(&self, number: usize) -> Result<()> {
        let (deployment, pods, hpa) = {
            let mut live = self.live(number);
            live.replicas = live.scene.first_replicas();
            let scene = &live.scene;
            let pods: Vec<Value> = (0..scene.pods.len()).map(|index| objects::pod(scene, index)).collect();
            (objects::deployment(scene, live.replicas), pods, objects::hpa(scene))
        };
        let create = PostParams::default();
        let deployments: Api<Deployment> = Api::default_namespaced(self.client.clone());
        deployments.create(&create, &serde_json::from_value(deployment)?).await?;
        let api = self.pods();
        for pod in &pods {
            api.create(&create, &serde_json::from_value(pod.clone())?).await?;
        }
        self.write_pods(number, &(0..pods.len()).collect::<Vec<_>>()).await?;
        tokio::time::sleep(SETTLE).await;
        self.open(number, Instant::now());
        let hpas: Api<HorizontalPodAutoscaler> = Api::default_namespaced(self.client.clone());
        hpas.create(&create, &serde_json::from_value(hpa)?).await?;
        Ok(())
    }

    /// The metrics of a service, once its inputs are ready; `None`: the metrics server fails this time.
    pub(super) async fn serve(&self, number: usize) -> Option<Value> {
        loop {
            let (open, opened) = {
                let mut live = self.live(number);
                if live.open.is_some_and(|open| open <= Instant::now()) {
                    live.open = None;
                    live.served = Some(self.secs(Timestamp::now()));
                    let scene = &live.scene;
                    return (!scene.outage).then(|| objects::metrics(scene, self.began));
                }
                (live.open, live.opened.clone())
            };
            match open {
                Some(open) => tokio::time::sleep_until(open).await,
                None => opened.notified().await,
            }
        }
    }

    /// Takes each sync down and prepares the next one, until the log ends.
    ///
    /// # Errors
    /// When the API server refuses something, or shows other replicas than the controller said.
    pub(super) async fn lead(
        self: std::sync::Arc<Self>,
        number: usize,
        mut entries: mpsc::UnboundedReceiver<Entry>,
        decided: mpsc::UnboundedSender<Decision>,
    ) -> Result<()> {
        let mut past = Past::default();
        let mut proposed = None;
        while let Some(Entry { time, event, .. }) = entries.recv().await {
            let time = self.secs(time);
            if let Event::Proposed(wanted) = event {
                proposed = Some((time, wanted));
                continue;
            }
            let decision = self.take_down(number, &mut past, proposed.take(), time, event).await?;
            // A closed channel means that there are enough.
            let _ = decided.send(decision);
            self.prepare(number).await?;
        }
        Ok(())
    }

    async fn take_down(
        &self,
        number: usize,
        past: &mut Past,
        proposed: Option<(f64, u32)>,
        ended: f64,
        event: Event,
    ) -> Result<Decision> {
        let (current, desired) = match event {
            Event::Rescaled { current, desired } => (current, desired),
            Event::Kept(replicas) => (replicas, replicas),
            Event::Failed | Event::Proposed(_) => {
                let seen = self.seen_replicas(number).await?;
                (seen, seen)
            }
        };
        let answered = self.replicas(number).await?;
        let mut live = self.live(number);
        let served = live.served.take();
        // What we wrote last may have come just after the controller looked.
        ensure!(
            answered == desired || (current == desired && answered == live.replicas),
            "{}: the log says {desired} replicas, the API server {answered}",
            name(number)
        );
        let pods = served.map(|_| live.scene.seen()).unwrap_or_default();
        let time = proposed.map_or(ended, |(time, _)| time);
        let scaled = (current != desired).then_some(ended);
        let unsure = past.unsure(&live.scene, &pods, served, time);
        past.remember(&live.scene, time, proposed.is_some(), scaled);
        live.replicas = answered;
        Ok(Decision {
            service: number,
            time,
            current,
            pods,
            wanted: proposed.map(|(_, wanted)| wanted),
            desired,
            scaled,
            unsure,
        })
    }

    /// Changes inputs for the next sync; pods first, as replicas out of bounds are answered without looking at pods.
    async fn prepare(&self, number: usize) -> Result<()> {
        let change = {
            let mut live = self.live(number);
            if live.open.is_some() && live.replicas != 0 {
                return Ok(()); // already prepared, and not yet looked at: this sync asked for no metrics
            }
            live.open = None;
            let now = self.secs(Timestamp::now()).round() as i64;
            let replicas = live.replicas;
            live.scene.next(now, replicas)
        };
        self.write_pods(number, &change.pods).await?;
        let settled = if change.pods.is_empty() { Instant::now() } else { Instant::now() + SETTLE };
        if let Some(replicas) = change.replicas {
            self.live(number).replicas = replicas;
            let patch = json!({"spec": {"replicas": replicas}});
            let deployments: Api<Deployment> = Api::default_namespaced(self.client.clone());
            deployments
                .patch(&name(number), &PatchParams::default(), &Patch::Merge(patch))
                .await
                .context("changing replicas")?;
        }
        self.open(number, settled);
        Ok(())
    }

    fn open(&self, number: usize, from: Instant) {
        let mut live = self.live(number);
        live.open = Some(from);
        live.opened.notify_one();
    }

    async fn write_pods(&self, number: usize, indices: &[usize]) -> Result<()> {
        let writes: Vec<(String, Value, bool)> = {
            let scene = &self.live(number).scene;
            let write = |index: usize| {
                let pod = &scene.pods[index];
                (objects::pod_name(number, index), objects::pod_status(pod, self.began), pod.deleted)
            };
            indices.iter().map(|&index| write(index)).collect()
        };
        let api = &self.pods();
        try_join_all(writes.into_iter().map(async |(name, status, deleted)| {
            let params = PatchParams::default();
            api.patch_status(&name, &params, &Patch::Merge(status)).await.context("changing a pod")?;
            if deleted {
                api.delete(&name, &DeleteParams::default()).await.context("deleting a pod")?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(())
    }

    /// `spec.replicas` as the controller saw it in its last sync.
    async fn seen_replicas(&self, number: usize) -> Result<u32> {
        let hpas: Api<HorizontalPodAutoscaler> = Api::default_namespaced(self.client.clone());
        let hpa = hpas.get(&name(number)).await.context("reading the HPA")?;
        let seen = hpa.status.and_then(|status| status.current_replicas).unwrap_or_default();
        u32::try_from(seen).context("negative replicas")
    }

    async fn replicas(&self, number: usize) -> Result<u32> {
        let deployments: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let scale = deployments.get_scale(&name(number)).await.context("reading the scale")?;
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or_default(); // 0 is left out
        u32::try_from(replicas).context("negative replicas")
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    fn secs(&self, time: Timestamp) -> f64 {
        const DIGITS: f64 = 1e6; // of the log
        let secs = time.duration_since(self.began).as_secs_f64();
        (secs * DIGITS).round() / DIGITS
    }
}
