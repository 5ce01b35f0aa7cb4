//! Everything a signal may come from, made once from the operator's configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::config::{Config, ConfigFault, SourceConfig};
use crate::fault::ReadFault;
use crate::history::{HistoryReport, HistoryWindow};
use crate::http::Endpoint;
use crate::report::SignalReport;
use crate::request::{SignalRequest, Tick};

/// Where the controller gets its signals: [`Sources`] in a cluster, [`crate::Fixed`] in tests.
pub trait ReadSignals: Send + Sync {
    /// Reads all signals of one policy at the same time. Never fails as a whole: each signal has its own state.
    fn read<'a>(&'a self, request: &'a SignalRequest, tick: Tick<'a>) -> BoxFuture<'a, SignalReport>;

    /// Reads what the sources remember, for a policy whose brain is new or was restarted.
    fn history<'a>(
        &'a self,
        request: &'a SignalRequest,
        now: Timestamp,
        window: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport>;
}

/// The named sources and the metrics API.
#[derive(Clone)]
pub struct Sources {
    endpoints: Arc<BTreeMap<String, Endpoint>>,
    kube: Option<kube::Client>,
}

impl Sources {
    /// Connects to nothing yet. Without a Kubernetes client every CPU signal is missing.
    ///
    /// # Errors
    /// All faults of the configuration.
    pub fn from_config(config: &Config, kube: Option<kube::Client>) -> Result<Self, Vec<ConfigFault>> {
        config.validate()?;
        let mut endpoints = BTreeMap::new();
        for (index, source) in config.sources.iter().enumerate() {
            let endpoint = Endpoint::new(source.clone())
                .map_err(|message| vec![ConfigFault { field: format!("sources[{index}].url"), message }])?;
            endpoints.insert(source.name.clone(), endpoint);
        }
        Ok(Self { endpoints: Arc::new(endpoints), kube })
    }

    /// What is configured, sorted by name.
    pub fn configured(&self) -> impl Iterator<Item = &SourceConfig> {
        self.endpoints.values().map(Endpoint::config)
    }

    pub(crate) fn kube(&self) -> Option<&kube::Client> {
        self.kube.as_ref()
    }

    /// The source, if there is one of this name and the namespace may use it.
    pub(crate) fn find(&self, name: &str, namespace: &str) -> Result<&Endpoint, ReadFault> {
        let Some(endpoint) = self.endpoints.get(name) else {
            // Only those the namespace may use: which other tenants there are is nobody's business.
            let usable = self.configured().filter(|source| source.allows(namespace));
            let known = usable.map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            return Err(ReadFault::UnknownSource { name: crate::fault::printable(name), known });
        };
        if !endpoint.config().allows(namespace) {
            return Err(ReadFault::NotAllowed {
                source_name: name.to_owned(),
                namespace: namespace.to_owned(),
            });
        }
        Ok(endpoint)
    }
}

impl ReadSignals for Sources {
    fn read<'a>(&'a self, request: &'a SignalRequest, tick: Tick<'a>) -> BoxFuture<'a, SignalReport> {
        Box::pin(crate::read::read(self, request, tick))
    }

    fn history<'a>(
        &'a self,
        request: &'a SignalRequest,
        now: Timestamp,
        window: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport> {
        Box::pin(crate::history::history(self, request, now, window))
    }
}
