//! References are told apart, and what is elsewhere comes through the fetcher alone.

use std::path::PathBuf;

use futures::future::BoxFuture;
use slipway_source::{
    ChartReference, FetchError, FetchedChart, Fetcher, LoadError, OfflineFetcher, RepositoryLogin,
    SourcePath, SourceReference, fetch_source, shown_address,
};

#[test]
fn paths_and_charts_of_elsewhere_are_told_apart() {
    for (text, repository, is_elsewhere) in [
        ("./chart", None, false),
        ("/srv/chart", None, false),
        ("chart", None, false),
        ("demo-1.0.0.tgz", None, false),
        ("repo/name", None, true),
        ("src/lib.rs", None, false),
        ("oci://host/name", None, true),
        ("https://host/name.tgz", None, true),
        ("name", Some("https://host"), true),
    ] {
        let parsed = SourceReference::parse(text, repository, Some("^1"));
        match parsed {
            SourceReference::Path(path) => {
                assert!(!is_elsewhere, "{text}");
                assert_eq!(path, PathBuf::from(text));
            }
            SourceReference::Chart(chart) => {
                assert!(is_elsewhere, "{text}");
                assert_eq!((chart.name.as_str(), chart.version.as_deref()), (text, Some("^1")));
                assert_eq!(chart.repository.as_deref(), repository);
            }
        }
    }
}

#[test]
fn nothing_printed_of_a_reference_is_a_credential() {
    let login = RepositoryLogin { username: "me".into(), password: "hunter22".into() };
    let chart = ChartReference {
        name: "https://me:hunter22@host/x.tgz".into(),
        version: Some("1.0.0".into()),
        login: Some(login),
        repository: None,
    };
    assert_eq!(chart.to_string(), "https://host/x.tgz:1.0.0");
    let debug = format!("{:?}", chart.login);
    assert!(debug.contains("me") && !debug.contains("hunter22"), "{debug}");
    assert_eq!(shown_address("plain"), "plain");
    let named =
        ChartReference { name: "web".into(), repository: Some("https://host".into()), ..Default::default() };
    assert_eq!(named.to_string(), "web@latest");
}

/// A network with one chart.
struct Shelf;

impl Fetcher for Shelf {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let found =
            FetchedChart { path: format!("/cache/{}.tgz", chart.name).into(), notes: vec!["Pulled".into()] };
        Box::pin(std::future::ready(Ok(found)))
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        OfflineFetcher.fetch_file(url)
    }
}

#[tokio::test]
async fn a_chart_of_elsewhere_comes_through_the_fetcher() {
    let reference = SourceReference::parse("repo/web", None, None);
    let fetched = fetch_source(&reference, &Shelf).await.expect("is there");
    assert_eq!(fetched.path, SourcePath::Chart("/cache/repo/web.tgz".into()));
    assert_eq!(fetched.notes, ["Pulled"]);
    let error = fetch_source(&reference, &OfflineFetcher).await.expect_err("there is no network");
    assert!(matches!(&error, LoadError::Fetch(error) if error.permanent), "{error:?}");
    assert!(error.to_string().contains("repo/web"), "{error}");
    let missing = fetch_source(&SourceReference::Path("nowhere".into()), &Shelf).await;
    assert!(matches!(missing, Err(LoadError::Problems(_))), "{missing:?}");
}
