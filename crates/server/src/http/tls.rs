//! TLS in front of HTTP.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Who this server is, to clients that ask.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// From a certificate, with those that vouch for it, and its key, as PEM.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Tls> {
        let fault = |path: &Path, why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|e| fault(certificate, &e))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| fault(key, &e))?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, secret);
        Ok(Tls(TlsAcceptor::from(Arc::new(config.map_err(|e| fault(certificate, &e))?))))
    }

    /// What is said on a connection, in the clear.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
