//! From a URL and Hadoop's settings to a client: which builder, which credentials.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, RetryConfig};

use super::Store;
use crate::StoreOptions;
use crate::fault::Fault;
use crate::location::scheme;

/// A request may take so long with all its bytes; then it is tried again from where it was.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Which kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Google,
    Azure,
    Http,
}

impl Scheme {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "s3" | "s3a" | "s3n" => Some(Scheme::S3),
            "gs" => Some(Scheme::Google),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Scheme::Azure),
            "http" | "https" => Some(Scheme::Http),
            _ => None,
        }
    }

    /// Where credentials come from.
    pub(crate) fn credentials(self) -> &'static str {
        match self {
            Scheme::S3 => {
                "set spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key, or \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) in the environment, \
                 to keys that may do this"
            }
            Scheme::Google => {
                "set GOOGLE_APPLICATION_CREDENTIALS in the environment, or \
                 spark.hadoop.fs.gs.auth.service.account.json.keyfile, to the file of an account that may \
                 do this"
            }
            Scheme::Azure => {
                "set spark.hadoop.fs.azure.account.key, or AZURE_STORAGE_ACCOUNT_NAME and \
                 AZURE_STORAGE_ACCOUNT_KEY in the environment, to an account that may do this"
            }
            Scheme::Http => "the server wants credentials, which http(s) URLs cannot give",
        }
    }

    /// What to look at when a store cannot be reached or fails.
    pub(crate) fn reach(self) -> &'static str {
        match self {
            Scheme::S3 => {
                "spark.hadoop.fs.s3a.endpoint (AWS_ENDPOINT) and \
                 spark.hadoop.fs.s3a.endpoint.region (AWS_REGION) say where the store is"
            }
            Scheme::Google | Scheme::Azure | Scheme::Http => "is the store there, and reachable?",
        }
    }
}

/// Scheme, what comes before the key, and the key.
pub(super) fn split(url: &str) -> io::Result<(Scheme, String, String)> {
    let name = scheme(url).unwrap_or_default();
    let kind = Scheme::of(name).ok_or_else(|| {
        Fault::refused(format!(
            "{name}:// is not supported; use a path, file://, s3:// (s3a://), gs://, az:// (abfss://), \
             http:// or https://"
        ))
    })?;
    let rest = &url[name.len() + "://".len()..];
    let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(Fault::refused(format!("{url} names no bucket, container or server")));
    }
    let base = format!("{}://{authority}", name.to_ascii_lowercase());
    Ok((kind, base, key.trim_matches('/').to_owned()))
}

/// Makes a client; nothing is asked of the store yet.
pub(super) fn connect(
    scheme: Scheme,
    base: &str,
    options: &Arc<StoreOptions>,
) -> io::Result<Store> {
    let wrong = |error: object_store::Error| {
        Fault::refused(format!("{base} cannot be used: {error}; {}", scheme.credentials()))
    };
    Ok(match scheme {
        Scheme::S3 => {
            let client = Arc::new(s3(base, options).build().map_err(wrong)?);
            Store { objects: client.clone(), uploads: Some(client), scheme }
        }
        Scheme::Google => {
            let client = Arc::new(google(base, options).build().map_err(wrong)?);
            Store { objects: client.clone(), uploads: Some(client), scheme }
        }
        Scheme::Azure => {
            let client = Arc::new(azure(base, options).build().map_err(wrong)?);
            Store { objects: client.clone(), uploads: Some(client), scheme }
        }
        Scheme::Http => {
            let builder = HttpBuilder::new().with_url(base).with_retry(retries(options));
            let client = builder.with_client_options(network().with_allow_http(true)).build();
            Store { objects: Arc::new(client.map_err(wrong)?), uploads: None, scheme }
        }
    })
}

fn network() -> ClientOptions {
    ClientOptions::new().with_timeout(REQUEST_TIMEOUT)
}

fn retries(options: &StoreOptions) -> RetryConfig {
    let attempts = options.get("fs.s3a.attempts.maximum").and_then(|text| text.parse().ok());
    let default = RetryConfig::default();
    RetryConfig { max_retries: attempts.unwrap_or(default.max_retries), ..default }
}

fn is_true(options: &StoreOptions, key: &str) -> bool {
    options.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The environment first, then what is set for Spark, for this bucket or for all.
fn s3(base: &str, options: &StoreOptions) -> AmazonS3Builder {
    let bucket = base.split_once("://").map_or(base, |(_, bucket)| bucket);
    let get = |key: &str| {
        let of_bucket = options.get(&format!("fs.s3a.bucket.{bucket}.{key}"));
        of_bucket.or_else(|| options.get(&format!("fs.s3a.{key}")))
    };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries(options))
        .with_client_options(network());
    if let (Some(key), Some(secret)) = (get("access.key"), get("secret.key")) {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    }
    if let Some(token) = get("session.token") {
        builder = builder.with_token(token);
    }
    if let Some(region) = get("endpoint.region") {
        builder = builder.with_region(region);
    }
    let plain = get("connection.ssl.enabled").is_some_and(|value| value == "false");
    if let Some(endpoint) = get("endpoint") {
        let scheme = if plain { "http" } else { "https" };
        let endpoint = match endpoint.contains("://") {
            true => endpoint.to_owned(),
            false => format!("{scheme}://{endpoint}"),
        };
        builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        // With an endpoint of its own, the bucket goes into the path unless the user says otherwise.
        let in_path = get("path.style.access").is_none_or(|value| value == "true");
        builder = builder.with_virtual_hosted_style_request(!in_path);
    }
    let anonymous = get("aws.credentials.provider").is_some_and(|p| p.contains("Anonymous"));
    if anonymous { builder.with_skip_signature(true) } else { builder }
}

fn google(base: &str, options: &StoreOptions) -> GoogleCloudStorageBuilder {
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_url(base)
        .with_retry(retries(options))
        .with_client_options(network());
    let builder = match options.get("fs.gs.auth.service.account.json.keyfile") {
        Some(file) => builder.with_service_account_path(file),
        None => builder,
    };
    match is_true(options, "fs.gs.auth.null.enable") {
        true => builder.with_skip_signature(true),
        false => builder,
    }
}

fn azure(base: &str, options: &StoreOptions) -> MicrosoftAzureBuilder {
    let builder = MicrosoftAzureBuilder::from_env()
        .with_url(base)
        .with_retry(retries(options))
        .with_client_options(network());
    // Hadoop's key may name the account: fs.azure.account.key.ACCOUNT.dfs.core.windows.net
    let account = base.split_once('@').map(|(_, host)| host);
    let of_account = account.and_then(|host| options.get(&format!("fs.azure.account.key.{host}")));
    match of_account.or_else(|| options.get("fs.azure.account.key")) {
        Some(key) => builder.with_access_key(key),
        None => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_unknown_ones_say_what_can_be_used() {
        let of = |url| split(url).unwrap();
        assert_eq!(of("s3a://b/x/y/"), (Scheme::S3, "s3a://b".to_owned(), "x/y".to_owned()));
        assert_eq!(of("S3://b"), (Scheme::S3, "s3://b".to_owned(), String::new()));
        assert_eq!(of("https://h:81/a").1, "https://h:81");
        let error = split("hdfs://host/a").unwrap_err().to_string();
        assert!(error.contains("hdfs:// is not supported") && error.contains("s3://"), "{error}");
        assert!(split("s3:///a").unwrap_err().to_string().contains("names no bucket"));
    }

    #[test]
    fn every_scheme_has_a_client_with_hadoops_settings() {
        let options = StoreOptions::new(
            [
                ("fs.s3a.access.key", "key"),
                ("fs.s3a.secret.key", "secret"),
                ("fs.s3a.endpoint", "localhost:9000"),
                ("fs.s3a.connection.ssl.enabled", "false"),
                ("fs.azure.account.key.acc.dfs.core.windows.net", "c2VjcmV0"),
                ("fs.gs.auth.null.enable", "true"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let options = Arc::new(options);
        for (scheme, base) in [
            (Scheme::S3, "s3a://bucket"),
            (Scheme::Google, "gs://bucket"),
            (Scheme::Azure, "abfss://files@acc.dfs.core.windows.net"),
            (Scheme::Http, "http://host"),
        ] {
            let store = connect(scheme, base, &options).unwrap();
            assert_eq!(store.uploads.is_some(), scheme != Scheme::Http);
        }
    }
}
