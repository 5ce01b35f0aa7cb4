//! The operator's configuration: which sources there are and who may use them. Written by whoever runs the operator,
//! never by the author of a policy.
//!
//! In: anything serde can deserialize (the caller reads the YAML). Out: [`SourceConfig`]s that passed every check, or
//! all faults at once, each naming its field.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reqwest::Url;
use serde::Deserialize;
use thiserror::Error;

use crate::address;

/// Most sources one operator may have.
pub const MAX_SOURCES: usize = 64;
/// Longest wait for one answer that may be configured, seconds.
pub const MAX_TIMEOUT_SECS: u32 = 120;
/// Most queries one source may be asked to run at once.
pub const MAX_CONCURRENCY: usize = 256;
/// Longest name of a source, as for any Kubernetes label value.
const MAX_NAME_CHARS: usize = 63;

/// The operator's configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Where signals may come from.
    #[serde(default)]
    pub sources: Vec<SourceConfig>,
}

/// One Prometheus, or anything that answers its HTTP API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceConfig {
    /// What policies call it.
    pub name: String,
    /// Base URL, `http` or `https`, without the `/api/v1` of the API; a path before that is kept.
    pub url: String,
    /// Longest wait for one answer, 1..=120 s.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
    /// Most queries in flight at once, 1..=256.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// File with a bearer token, read anew for every query, sent to `url` and nowhere else.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// PEM file with the only CAs that are trusted for this source; the system's when absent. Read anew when it changes.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Namespaces whose policies may name this source; `"*"` (the default) means all, an empty list none.
    #[serde(default = "everybody")]
    pub allowed_namespaces: Vec<String>,
    /// Label that every selector of every query is bound to, with the policy's namespace as its value.
    #[serde(default)]
    pub enforce_namespace_label: Option<String>,
}

fn default_timeout_seconds() -> u32 {
    5
}

fn default_concurrency() -> usize {
    16
}

fn everybody() -> Vec<String> {
    vec!["*".to_owned()]
}

/// One thing wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {message}")]
pub struct ConfigFault {
    /// Path of the field, for example `sources[1].url`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Config {
    /// Checks everything that can be known without the network, and reports all of it.
    ///
    /// # Errors
    /// One [`ConfigFault`] for each field that is wrong.
    pub fn validate(&self) -> Result<(), Vec<ConfigFault>> {
        let mut faults = Vec::new();
        if MAX_SOURCES < self.sources.len() {
            faults.push(fault(
                "sources",
                format!("{} sources, at most {MAX_SOURCES} are supported", self.sources.len()),
            ));
        }
        let mut names = BTreeSet::new();
        for (index, source) in self.sources.iter().enumerate() {
            let at = |field: &str| format!("sources[{index}].{field}");
            if !names.insert(&source.name) {
                faults.push(fault(at("name"), format!("{:?} is used twice", source.name)));
            }
            check_source(source, &at, &mut faults);
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

impl SourceConfig {
    /// A source with the defaults, for tests and demos.
    #[must_use]
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            timeout_seconds: default_timeout_seconds(),
            concurrency: default_concurrency(),
            bearer_token_file: None,
            ca_file: None,
            allowed_namespaces: everybody(),
            enforce_namespace_label: None,
        }
    }

    /// Whether a policy in `namespace` may name this source.
    #[must_use]
    pub fn allows(&self, namespace: &str) -> bool {
        self.allowed_namespaces.iter().any(|allowed| allowed == "*" || allowed == namespace)
    }
}

fn fault(field: impl Into<String>, message: impl Into<String>) -> ConfigFault {
    ConfigFault { field: field.into(), message: message.into() }
}

fn check_source(source: &SourceConfig, at: &dyn Fn(&str) -> String, faults: &mut Vec<ConfigFault>) {
    let SourceConfig {
        name,
        url,
        timeout_seconds,
        concurrency,
        bearer_token_file,
        ca_file,
        allowed_namespaces,
        enforce_namespace_label,
    } = source;
    if !is_dns_name(name) || MAX_NAME_CHARS < name.len() {
        faults
            .push(fault(at("name"), format!("{name:?} must be 1 to {MAX_NAME_CHARS} of a-z, 0-9, '-', '.'")));
    }
    if let Err(message) = check_url(url) {
        faults.push(fault(at("url"), message));
    }
    if !(1..=MAX_TIMEOUT_SECS).contains(timeout_seconds) {
        faults
            .push(fault(at("timeoutSeconds"), format!("{timeout_seconds} is not in 1..={MAX_TIMEOUT_SECS}")));
    }
    if !(1..=MAX_CONCURRENCY).contains(concurrency) {
        faults.push(fault(at("concurrency"), format!("{concurrency} is not in 1..={MAX_CONCURRENCY}")));
    }
    for (field, path) in [("bearerTokenFile", bearer_token_file), ("caFile", ca_file)] {
        if path.as_deref().is_some_and(|path| !path.is_absolute()) {
            faults.push(fault(at(field), "must be an absolute path"));
        }
    }
    if ca_file.is_some() && url.starts_with("http://") {
        faults.push(fault(at("caFile"), "has no meaning for an http URL; write https, or leave it out"));
    }
    for (index, namespace) in allowed_namespaces.iter().enumerate() {
        if namespace != "*" && !is_dns_name(namespace) {
            let message =
                format!("{namespace:?} is neither a namespace nor \"*\"; patterns are not supported");
            faults.push(fault(at(&format!("allowedNamespaces[{index}]")), message));
        }
    }
    if let Some(label) = enforce_namespace_label
        && (!is_label_name(label) || label.starts_with("__"))
    {
        faults.push(fault(
            at("enforceNamespaceLabel"),
            format!("{label:?} is not a label name such as namespace"),
        ));
    }
}

/// The base URL of a source, or what is wrong with it.
pub(crate) fn check_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{:?} is not http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not carry a user or password; use bearerTokenFile".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end with its path, without '?' or '#'".to_owned());
    }
    let host = url.host_str().ok_or_else(|| "has no host".to_owned())?;
    address::check_host(host)?;
    Ok(url)
}

fn is_dns_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`
pub(crate) fn is_label_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A path for a message.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut SourceConfig), expected: &[&str]) {
        let mut source = SourceConfig::new("default", "http://prometheus.monitoring:9090");
        change(&mut source);
        let faults = Config { sources: vec![source] }.validate().err().unwrap_or_default();
        let fields: Vec<_> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, expected, "{faults:?}");
    }

    #[test]
    fn the_defaults_are_valid() {
        check(|_| {}, &[]);
    }

    #[test]
    fn every_field_is_checked_at_its_edges() {
        check(|s| s.name = String::new(), &["sources[0].name"]);
        check(|s| s.name = "a".repeat(63), &[]);
        check(|s| s.name = "a".repeat(64), &["sources[0].name"]);
        check(|s| s.name = "Default".into(), &["sources[0].name"]);
        check(|s| s.timeout_seconds = 0, &["sources[0].timeoutSeconds"]);
        check(|s| s.timeout_seconds = 1, &[]);
        check(|s| s.timeout_seconds = 120, &[]);
        check(|s| s.timeout_seconds = 121, &["sources[0].timeoutSeconds"]);
        check(|s| s.concurrency = 0, &["sources[0].concurrency"]);
        check(|s| s.concurrency = 257, &["sources[0].concurrency"]);
        check(|s| s.bearer_token_file = Some("token".into()), &["sources[0].bearerTokenFile"]);
        check(|s| s.ca_file = Some("/ca.pem".into()), &["sources[0].caFile"]);
        check(
            |s| s.allowed_namespaces = vec!["shop".into(), "team-*".into()],
            &["sources[0].allowedNamespaces[1]"],
        );
        check(|s| s.enforce_namespace_label = Some("a-b".into()), &["sources[0].enforceNamespaceLabel"]);
        check(|s| s.enforce_namespace_label = Some("__name__".into()), &["sources[0].enforceNamespaceLabel"]);
        check(|s| s.enforce_namespace_label = Some("namespace".into()), &[]);
    }

    // Case 94: a source never points at a cloud's metadata service, however its address is written.
    #[test]
    fn a_url_that_leads_to_metadata_or_carries_more_than_an_address_is_refused() {
        for url in [
            "ftp://prometheus",
            "prometheus:9090",
            "file:///etc/passwd",
            "http://",
            "http://user@prometheus",
            "http://user:secret@prometheus",
            "http://prometheus/?x=1",
            "http://prometheus/#x",
            "http://169.254.169.254/latest",
            "http://169.254.1.1",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://[::ffff:169.254.169.254]/",
            "http://[::169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://METADATA.google.internal./",
            "http://0.0.0.0:9090",
            "http://[::]:9090",
            "http://224.0.0.1",
            "http://255.255.255.255",
        ] {
            check(|s| s.url = url.into(), &["sources[0].url"]);
        }
        for url in
            ["https://prom.example/tenant/a", "http://127.0.0.1:1", "http://[::1]:9", "http://10.0.0.1"]
        {
            check(|s| s.url = url.into(), &[]);
        }
    }

    #[test]
    fn all_faults_are_reported_together_with_the_source_they_belong_to() {
        let mut second = SourceConfig::new("default", "nonsense");
        second.concurrency = 0;
        let config = Config { sources: vec![SourceConfig::new("default", "http://a"), second] };
        let faults = config.validate().unwrap_err();
        let fields: Vec<_> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["sources[1].name", "sources[1].url", "sources[1].concurrency"]);
    }

    #[test]
    fn an_unknown_key_is_refused_and_defaults_are_filled_in() {
        let text = r#"{"sources": [{"name": "default", "url": "http://a"}]}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!(config.sources, vec![SourceConfig::new("default", "http://a")]);
        let text = r#"{"sources": [{"name": "default", "url": "http://a", "headers": {}}]}"#;
        assert!(serde_json::from_str::<Config>(text).unwrap_err().to_string().contains("headers"));
    }

    #[test]
    fn an_empty_list_of_namespaces_allows_nobody() {
        let mut source = SourceConfig::new("default", "http://a");
        assert!(source.allows("shop"));
        source.allowed_namespaces = vec!["shop".into()];
        assert!(source.allows("shop"));
        for other in [
            "",
            "*",
            "sho",
            "shop2",
            "shop-2",
            "Shop",
            "shop ",
            " shop",
            "shop.",
            "shop\0",
            "shop\u{200b}",
            "s\u{4bb}op",
        ] {
            assert!(!source.allows(other), "{other:?}");
        }
        source.allowed_namespaces.clear();
        assert!(!source.allows("shop"));
    }
}
