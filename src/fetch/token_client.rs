//! Requests to token services, which receive logins.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Certificate, Response};
use url::Url;

use super::FetchError;
use super::connection::{self, STALLED, same_origin};

/// A request to a token service.
pub(super) enum TokenRequest {
    /// The parameters are in the URL; the value of the header `Authorization`, if there is a login.
    Query(Option<String>),
    /// Fields, which contain a secret.
    Form(String),
}

/// A client for token services. It follows redirects only on the same server.
#[derive(Clone)]
pub(super) struct TokenClient(reqwest::Client);

impl TokenClient {
    /// Creates a client that trusts these authorities in addition to the system's.
    ///
    /// # Errors
    /// The system has no certificates.
    pub fn new(certificates: &[Certificate]) -> Result<Self, FetchError> {
        connection::client(same_origin(), STALLED, certificates).map(Self)
    }

    /// Asks a token service. Not limited per host, because the caller may hold a permission.
    pub async fn ask(&self, url: &Url, request: TokenRequest) -> Result<Response, reqwest::Error> {
        let request = match request {
            TokenRequest::Query(authorization) => {
                let request = self.0.get(url.clone());
                match authorization {
                    Some(authorization) => request.header(AUTHORIZATION, authorization),
                    None => request,
                }
            }
            TokenRequest::Form(form) => {
                let kind = "application/x-www-form-urlencoded";
                let request = self.0.post(url.clone()).body(form);
                request.header(CONTENT_TYPE, kind)
            }
        };
        request.send().await
    }
}
