//! One policy's signals, all at once, none waited for longer than the tick allows.
//!
//! In: the request, the sources, the tick. Out: a [`SignalReport`]. The story: plan the queries (pure), ask (reads),
//! judge each answer by sign, unit, age and idleness (pure). A fault in one signal touches no other.

use std::time::Duration;

use futures::future::join;
use rlscaler_core::text::exact;
use tokio::time::timeout;

use crate::fault::ReadFault;
use crate::histogram::{self, Buckets};
use crate::http::Endpoint;
use crate::judge::{
    Age, CLOCK_SKEW_SECS, Outcome, Value, age_by, constant_price, empty_is_zero, hints, judge, pods_note,
    report, seconds, shown, unit_name,
};
use crate::metrics_api;
use crate::prometheus::{self, ByLabel};
use crate::promql::{self, Confinement};
use crate::report::{Hint, SignalName, SignalReport};
use crate::request::{
    CpuRequest, HistogramRequest, OnEmpty, PriceRequest, QueryRequest, SignalRequest, Tick,
};
use crate::sources::Sources;

/// Reads everything the policy asks for.
pub(crate) async fn read(sources: &Sources, request: &SignalRequest, tick: Tick<'_>) -> SignalReport {
    let ask = Ask { sources, request, tick };
    let (histogram, qps, latency, sla, errors, cpu, price) = futures::join!(
        ask.histogram(),
        ask.query(SignalName::Qps, request.qps.as_ref()),
        ask.query(SignalName::Latency, request.latency.as_ref()),
        ask.query(SignalName::Sla, request.sla.as_ref()),
        ask.query(SignalName::Errors, request.errors.as_ref()),
        ask.cpu(),
        ask.price(),
    );
    let [from_qps, from_latency, from_sla] = histogram.map_or([None, None, None], |three| three.map(Some));
    let (cpu, cpu_pods) = cpu.unzip();
    let outcomes = [qps.or(from_qps), latency.or(from_latency), sla.or(from_sla), errors, cpu, price];
    let report = report(outcomes.into_iter().flatten().collect(), request.target_secs);
    SignalReport { cpu_pods: cpu_pods.flatten(), ..report }
}

/// What every question needs.
#[derive(Clone, Copy)]
struct Ask<'a> {
    sources: &'a Sources,
    request: &'a SignalRequest,
    tick: Tick<'a>,
}

/// Queries as they are sent, and to whom.
struct Plan<'a> {
    endpoint: &'a Endpoint,
    query: String,
    freshness: Option<String>,
}

/// Finds the source and admits the queries. Pure.
fn plan<'a>(
    sources: &'a Sources,
    namespace: &str,
    source: &str,
    query: &str,
    freshness: Option<&str>,
) -> Result<Plan<'a>, ReadFault> {
    let endpoint = sources.find(source, namespace)?;
    let confinement = confinement(endpoint, namespace);
    let query = promql::admit(query, confinement)?;
    let freshness = freshness.map(|freshness| promql::admit(freshness, confinement));
    let freshness = freshness.transpose().map_err(|fault| fault.of_freshness_query())?;
    Ok(Plan { endpoint, query, freshness })
}

/// What the source demands of every selector.
fn confinement<'a>(endpoint: &'a Endpoint, namespace: &'a str) -> Option<Confinement<'a>> {
    let label = endpoint.config().enforce_namespace_label.as_deref();
    label.map(|label| Confinement { label, value: namespace })
}

/// One query of a policy, confined as its source demands, for a range of so many points.
pub(crate) fn planned<'a>(
    sources: &'a Sources,
    namespace: &str,
    source: &str,
    query: &str,
    points: u64,
) -> Result<(&'a Endpoint, String), ReadFault> {
    let endpoint = sources.find(source, namespace)?;
    let query = promql::admit_for(points, query, confinement(endpoint, namespace))?;
    Ok((endpoint, query))
}

async fn within<T>(
    deadline: Duration,
    reading: impl Future<Output = Result<T, ReadFault>>,
) -> Result<T, ReadFault> {
    let late = ReadFault::TimedOut { secs: deadline.as_secs_f64() };
    timeout(deadline, reading).await.unwrap_or(Err(late))
}

impl Ask<'_> {
    async fn query(self, name: SignalName, query: Option<&QueryRequest>) -> Option<Outcome> {
        let query = query?;
        let mut outcome = Outcome {
            name,
            query: query.query.clone(),
            unit: unit_name(name, query.unit),
            raw: None,
            max_age_secs: query.max_age_secs,
            partial: None,
            read: Err(ReadFault::Empty),
            hints: Vec::new(),
        };
        let namespace = &self.request.namespace;
        match plan(self.sources, namespace, &query.source, &query.query, query.freshness_query.as_deref()) {
            Ok(plan) => {
                outcome.query.clone_from(&plan.query);
                let number = prometheus::number(plan.endpoint, &plan.query);
                let (number, age) = within2(self.tick.deadline, number, age_of(&plan)).await;
                if let Ok(number) = &number {
                    outcome.raw = Some(number.raw.clone());
                    outcome.partial.clone_from(&number.partial);
                    outcome.hints =
                        hints(name, &query.source, number.evaluated_secs, &number.warnings, self.tick.now);
                } else if let Err(ReadFault::Infinite { raw } | ReadFault::NotNumeric { raw }) = &number {
                    outcome.raw = Some(raw.clone());
                } else if number == Err(ReadFault::NotANumber) {
                    outcome.raw = Some("NaN".to_owned());
                }
                outcome.read = judge(query, name, number, age);
            }
            Err(fault) => outcome.read = Err(fault),
        }
        Some(outcome)
    }

    async fn price(self) -> Option<Outcome> {
        let mut outcome = match self.request.price.as_ref()? {
            PriceRequest::Query(query) => self.query(SignalName::Price, Some(query)).await?,
            PriceRequest::Constant(price) => constant_price(*price),
        };
        if outcome.read.as_ref().is_ok_and(|value| value.value <= 0.0) {
            outcome.read = Err(ReadFault::ZeroPrice);
        }
        if let Err(fault) = &outcome.read {
            outcome.hints.push(Hint::PriceUnusable { why: fault.to_string() });
        }
        Some(outcome)
    }

    /// The signal, and how many pods it is the sum of.
    async fn cpu(self) -> Option<(Outcome, Option<u32>)> {
        let CpuRequest::Resource { label_selector, max_age_secs } = &self.request.cpu else { return None };
        let Tick { now, deadline, pods } = self.tick;
        let namespace = &self.request.namespace;
        let listed = async {
            if pods.is_empty() {
                return Err(ReadFault::NoReadyPods);
            }
            let client = self.sources.kube().ok_or_else(|| ReadFault::MetricsApi {
                why: "there is no Kubernetes client".to_owned(),
                transient: false,
            })?;
            metrics_api::list(client, namespace, label_selector).await
        };
        let used =
            within(deadline, listed).await.and_then(|list| metrics_api::sum(pods, &list, now, *max_age_secs));
        let mut hints = Vec::new();
        if let Ok(used) = &used {
            let ahead_secs = seconds(used.sample_time) - seconds(now);
            if CLOCK_SKEW_SECS < ahead_secs {
                hints.push(Hint::ClockSkew { source: "metrics.k8s.io".to_owned(), ahead_secs });
            }
        }
        let cpu_pods = used.as_ref().ok().map(metrics_api::CpuUse::pods);
        let outcome = Outcome {
            name: SignalName::Cpu,
            query: metrics_api::shown_query(namespace, label_selector),
            unit: SignalName::Cpu.unit(),
            raw: used.as_ref().ok().map(|used| shown(used.cores)),
            max_age_secs: *max_age_secs,
            partial: None,
            read: used.map(|used| Value {
                value: used.cores,
                age: Age::Known {
                    secs: (seconds(now) - seconds(used.sample_time)).max(0.0),
                    sample_time: Some(used.sample_time),
                },
                note: pods_note(&used),
            }),
            hints,
        };
        Some((outcome, cpu_pods))
    }

    async fn histogram(self) -> Option<[Outcome; 3]> {
        let request = self.request.requests.as_ref()?;
        let planned = histogram::queries(request).and_then(|queries| {
            let namespace = &self.request.namespace;
            plan(self.sources, namespace, &request.source, &queries.buckets, Some(&queries.freshness))
        });
        let plan = match planned {
            Ok(plan) => plan,
            Err(fault) => return Some(self.three(request, &request.metric, |_| Err(fault.clone()))),
        };
        let buckets = prometheus::by_label(plan.endpoint, &plan.query, "le");
        let (answer, age) = within2(self.tick.deadline, buckets, age_of(&plan)).await;
        let hints = answer.as_ref().map_or(Vec::new(), |ByLabel { evaluated_secs, warnings, .. }| {
            hints(SignalName::Qps, &request.source, *evaluated_secs, warnings, self.tick.now)
        });
        let partial = answer.as_ref().ok().and_then(|answer| answer.partial.clone());
        let read = answer.and_then(|answer| Buckets::read(&answer, request.unit));
        let mut three = self.three(request, &plan.query, |name| self.of_buckets(name, request, &read, &age));
        three.iter_mut().for_each(|outcome| outcome.partial.clone_from(&partial));
        three[0].hints = hints;
        Some(three)
    }

    fn three(
        self,
        request: &HistogramRequest,
        query: &str,
        read: impl Fn(SignalName) -> Result<Value, ReadFault>,
    ) -> [Outcome; 3] {
        let percentile = self.request.percentile;
        [SignalName::Qps, SignalName::Latency, SignalName::Sla].map(|name| {
            let read = read(name);
            // Each can be run by hand: the largest cumulative rate is the rate of all requests.
            let query = match name {
                SignalName::Qps => format!("max({query})"),
                SignalName::Latency => format!("histogram_quantile({percentile}, {query})"),
                _ => query.to_owned(),
            };
            Outcome {
                name,
                query,
                unit: name.unit(),
                raw: read.as_ref().ok().map(|value| shown(value.value)),
                max_age_secs: request.max_age_secs,
                partial: None,
                read,
                hints: Vec::new(),
            }
        })
    }

    fn of_buckets(
        self,
        name: SignalName,
        request: &HistogramRequest,
        read: &Result<Buckets, ReadFault>,
        age: &Result<Age, ReadFault>,
    ) -> Result<Value, ReadFault> {
        let buckets = match read {
            Ok(buckets) => buckets,
            Err(ReadFault::Empty) if request.on_empty == OnEmpty::Zero && name == SignalName::Qps => {
                return Ok(empty_is_zero());
            }
            Err(fault) => return Err(fault.clone()),
        };
        let age = age.clone().map_err(|fault| ReadFault::Freshness(Box::new(fault)))?;
        let (value, note) = match name {
            SignalName::Qps => (buckets.total(), None),
            SignalName::Latency => (buckets.quantile(self.request.percentile)?, None),
            _ => {
                let within = buckets.within(self.request.target_secs)?;
                let note = within.between.map(|(lower, upper)| {
                    let target = self.request.target_secs;
                    format!(
                        "the target of {target} s lies between the buckets {} s and {} s: interpolated",
                        exact(lower),
                        exact(upper)
                    )
                });
                (within.ratio, note)
            }
        };
        Ok(Value { value, age, note })
    }
}

/// Asks both at the same time under one deadline; the one in time counts although the other is late.
async fn within2<A, B>(
    deadline: Duration,
    one: impl Future<Output = Result<A, ReadFault>>,
    other: impl Future<Output = Result<B, ReadFault>>,
) -> (Result<A, ReadFault>, Result<B, ReadFault>) {
    join(within(deadline, one), within(deadline, other)).await
}

async fn age_of(plan: &Plan<'_>) -> Result<Age, ReadFault> {
    let Some(freshness) = &plan.freshness else { return Ok(Age::Unknown) };
    match prometheus::number(plan.endpoint, freshness).await {
        Ok(newest) => age_by(&newest),
        Err(ReadFault::Empty) => Ok(Age::BeyondLookback),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
