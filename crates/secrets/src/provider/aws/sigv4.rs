//! Signature version 4: proves to AWS who sends a request without sending the key.

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::digest::{hmac_sha256, sha256_hex};

/// Keys to sign with.
#[derive(Clone, Debug)]
pub(crate) struct AwsKeys {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: SecretString,
    pub(crate) session_token: Option<SecretString>,
    pub(crate) expires: Option<Timestamp>,
}

/// The service a signature is good for, and when.
pub(crate) struct SigningScope<'s> {
    pub(crate) region: &'s str,
    pub(crate) service: &'s str,
    pub(crate) now: Timestamp,
}

/// The given headers with those of the signature: `Host`, `X-Amz-Date`, the session's token, `Authorization`.
pub(crate) fn signed_headers(
    scope: &SigningScope<'_>,
    keys: &AwsKeys,
    method: &str,
    url: &Url,
    headers: &[(String, String)],
    content: &[u8],
) -> Vec<(String, String)> {
    let time = scope.now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let mut all = headers.to_vec();
    all.push(("Host".to_owned(), host(url)));
    all.push(("X-Amz-Date".to_owned(), time.clone()));
    if let Some(token) = &keys.session_token {
        all.push(("X-Amz-Security-Token".to_owned(), token.expose_secret().to_owned()));
    }
    let mut canonical: Vec<(String, String)> = all
        .iter()
        .map(|(name, value)| (name.to_lowercase(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    canonical.sort();
    let names: Vec<&str> = canonical.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let lines: String = canonical.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let path = if url.path().is_empty() { "/" } else { url.path() };
    let request = format!("{method}\n{path}\n{}\n{lines}\n{names}\n{}", query(url), sha256_hex(content));
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{place}\n{}", sha256_hex(request.as_bytes()));
    let start = format!("AWS4{}", keys.secret_access_key.expose_secret());
    let parts = [date, scope.region, scope.service, "aws4_request"];
    let key = parts.iter().fold(start.into_bytes(), |key, part| hmac_sha256(&key, part.as_bytes()).to_vec());
    let signature = data_encoding::HEXLOWER.encode(&hmac_sha256(&key, to_sign.as_bytes()));
    let id = &keys.access_key_id;
    let value =
        format!("AWS4-HMAC-SHA256 Credential={id}/{place}, SignedHeaders={names}, Signature={signature}");
    all.push(("Authorization".to_owned(), value));
    all
}

/// Host and port as the `Host` header has them.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The query's pairs in order.
fn query(url: &Url) -> String {
    let mut pairs: Vec<&str> =
        url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's documentation of signing (a GET of IAM's ListUsers).
    #[test]
    fn signs_as_the_documentation_does() {
        let keys = AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            session_token: None,
            expires: None,
        };
        let url = Url::parse("https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08").unwrap();
        let headers =
            [("Content-Type".to_owned(), "application/x-www-form-urlencoded; charset=utf-8".to_owned())];
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let scope = SigningScope { region: "us-east-1", service: "iam", now };
        let signed = signed_headers(&scope, &keys, "GET", &url, &headers, b"");
        let (_, authorization) = signed.iter().find(|(name, _)| name == "Authorization").unwrap();
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }
}
