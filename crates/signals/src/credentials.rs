//! Token and CA files of a source. Only files named in the operator's configuration are ever opened, and what they
//! hold goes to that source's URL only.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use reqwest::header::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;

use crate::address::CheckedResolver;
use crate::config::{SourceConfig, shown};
use crate::fault::ReadFault;

/// Largest token or CA bundle that is read, bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Idle connections kept to one source; more are opened as needed and closed again.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// `Authorization` for one request. The file is read for each: it is small, and a rotated token counts at once.
///
/// # Errors
/// [`ReadFault::Credentials`] naming the file.
pub(crate) async fn bearer(path: &Path) -> Result<HeaderValue, ReadFault> {
    let token = read_file(path).await?;
    let token = token.trim_ascii();
    if token.is_empty() {
        return Err(fault(path, "it is empty"));
    }
    let header = [b"Bearer ", token].concat();
    let mut header =
        HeaderValue::from_bytes(&header).map_err(|_| fault(path, "it is not a token of one line"))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn read_file(path: &Path) -> Result<Vec<u8>, ReadFault> {
    let file = tokio::fs::File::open(path).await.map_err(|error| fault(path, error))?;
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).await.map_err(|error| fault(path, error))?;
    if MAX_FILE_BYTES < content.len() as u64 {
        return Err(fault(path, format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(content)
}

fn fault(path: &Path, why: impl std::fmt::Display) -> ReadFault {
    ReadFault::Credentials { why: format!("{}: {why}", shown(path)) }
}

/// The HTTP client of one source, made anew when its CA file changes.
#[derive(Debug, Default)]
pub(crate) struct ClientCell {
    made: Mutex<Option<(Option<SystemTime>, reqwest::Client)>>,
}

impl ClientCell {
    /// The client, with the CA file as it is now.
    ///
    /// # Errors
    /// [`ReadFault::Credentials`] when the CA file cannot be used.
    pub(crate) async fn client(&self, source: &SourceConfig) -> Result<reqwest::Client, ReadFault> {
        let stamp = match &source.ca_file {
            Some(path) => {
                let metadata = tokio::fs::metadata(path).await.map_err(|error| fault(path, error))?;
                Some(metadata.modified().map_err(|error| fault(path, error))?)
            }
            None => None,
        };
        if let Some((made_for, client)) = &*self.made.lock().unwrap_or_else(PoisonError::into_inner)
            && *made_for == stamp
        {
            return Ok(client.clone());
        }
        let client = make_client(source).await?;
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some((stamp, client.clone()));
        Ok(client)
    }
}

async fn make_client(source: &SourceConfig) -> Result<reqwest::Client, ReadFault> {
    let roots = match &source.ca_file {
        Some(path) => private_roots(path, &read_file(path).await?)?,
        None if source.url.starts_with("https") => system_roots()?,
        None => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ReadFault::Credentials { why: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        // A proxy of the environment would see the token.
        .no_proxy()
        .dns_resolver(CheckedResolver)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .user_agent(concat!("rlscaler/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| ReadFault::Credentials { why: error.to_string() })
}

fn private_roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, ReadFault> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| fault(path, format!("not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| fault(path, format!("not a certificate: {error}")))?;
    }
    if roots.is_empty() {
        return Err(fault(path, "it holds no certificate"));
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, ReadFault> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(ReadFault::Credentials {
            why: "the system has no CA certificates; set caFile".to_owned(),
        });
    }
    Ok(roots)
}
