//! Whom credentials are sent to, where downloads land, and how long a server is waited for.

use std::sync::Arc;
use std::time::Duration;

use slipway_chart::deps::{self, DependencyFetcher, UpdateOptions};
use slipway_chart::net::{
    AccessOptions, ClientOptions, Credentials, HelmHome, HttpClient, Login, NetworkLimits, NetworkOptions,
    OciReference, ProvenanceMode, RemoteCharts, RemoteSchemas, check_login, pull, push, tags,
};
use slipway_chart::repo::RepositoryEntry;
use slipway_chart::{
    Chart, ChartError, ChartFile, LoadOptions, Notices, PackageOptions, RenderOptions, SchemaSource, package,
};

use crate::hosts::{Host, Reply, Seen, Stall, stall};

const BASIC: &str = "Basic dTpw";

fn login() -> Login {
    Login { username: "u".into(), password: "p".into() }
}

fn identity() -> Login {
    Login { username: "<token>".into(), password: "p".into() }
}

fn chart(name: &str, version: &str) -> Chart {
    let text = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let files = vec![ChartFile { name: "Chart.yaml".into(), data: text.as_bytes().into() }];
    Chart::from_files(files, &LoadOptions::default(), &mut Notices::new()).unwrap()
}

fn remote(folder: &std::path::Path, access: AccessOptions) -> RemoteCharts {
    let home = HelmHome {
        repositories: folder.join("repositories.yaml"),
        cache: folder.join("cache"),
        registry: folder.join("registry/config.json"),
        docker: None,
    };
    RemoteCharts::new(home, access, Arc::new(|_, _| None))
}

fn ok(content: impl Into<Vec<u8>>) -> Reply {
    ("200 OK", String::new(), content.into())
}

fn plain() -> HttpClient {
    HttpClient::new(&ClientOptions { plain_http: true, ..ClientOptions::default() }).unwrap()
}

/// A registry that asks for a login with `challenge` and then leads elsewhere by `lead`.
async fn registry(challenge: String, lead: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Host {
    Host::start(move |seen| match &seen.authorization {
        None => ("401 Unauthorized", format!("www-authenticate: {challenge}\r\n"), Vec::new()),
        Some(_) => lead(seen),
    })
    .await
}

#[tokio::test]
async fn credentials_of_a_registry_stay_with_it() {
    let basic = || "Basic realm=\"x\"".to_owned();
    // What another host answers does not matter, even if it asks for a login as well.
    let others: [fn(&Seen) -> Reply; 2] = [
        |_| ok(r#"{"tags": ["9.9.9"], "token": "t"}"#),
        |_| ("401 Unauthorized", "www-authenticate: Basic realm=\"y\"\r\n".into(), Vec::new()),
    ];
    for other in others {
        let other = Host::start(other).await;
        let elsewhere = other.address.clone();

        let to = format!("link: <http://{elsewhere}/v2/a/b/tags/list?last=1>; rel=\"next\"\r\n");
        let linking = registry(basic(), move |_| ("200 OK", to.clone(), br#"{"tags": ["1.0.0"]}"#.to_vec()));
        let to = format!("location: http://{elsewhere}/upload\r\n");
        let uploading = registry(basic(), move |seen| match seen.method.as_str() {
            "HEAD" => ("404 Not Found", String::new(), Vec::new()),
            "POST" => ("202 Accepted", to.clone(), Vec::new()),
            _ => ("201 Created", String::new(), Vec::new()),
        });
        let to = format!("location: http://{elsewhere}/moved\r\n");
        let moving = registry(basic(), move |_| ("307 Temporary Redirect", to.clone(), Vec::new()));
        let realm = format!("Bearer realm=\"http://{elsewhere}/token\"");
        let asking = registry(realm, |_| ok(""));
        let (linking, uploading, moving, asking) =
            (linking.await, uploading.await, moving.await, asking.await);

        let client = plain();
        let known = |host: &Host, login: &Login| {
            let mut credentials = Credentials::default();
            credentials.insert(&host.address, login);
            (credentials, OciReference::parse(&format!("oci://{}/a/b:1.0.0", host.address)).unwrap())
        };
        let (credentials, reference) = known(&linking, &login());
        let error = tags(&client, &credentials, &reference).await.unwrap_err().to_string();
        assert!(error.contains("goes on at another host"), "{error}");

        let (credentials, _) = known(&uploading, &login());
        let parent = format!("oci://{}/a", uploading.address);
        let metadata = chart("b", "1.0.0").metadata;
        let _ = push(&client, &credentials, &parent, &metadata, b"x", None, "2024-01-01T00:00:00Z").await;

        let (credentials, reference) = known(&moving, &login());
        pull(&client, &credentials, &reference).await.unwrap_err();
        let error = check_login(&client, &moving.address, &login()).await;
        assert!(error.is_err() || !other.saw_secrets());

        for login in [login(), identity()] {
            let (credentials, reference) = known(&asking, &login);
            let error = tags(&client, &credentials, &reference).await.unwrap_err().to_string();
            assert!(error.contains("credentials go to a registry itself or to an https address"), "{error}");
        }
        assert!(!other.saw_secrets(), "{:?}", other.seen());
        assert!(!other.seen().is_empty(), "uploads and downloads go on there, without credentials");
        for host in [&linking, &uploading, &moving] {
            assert!(host.seen().iter().any(|seen| seen.authorization.as_deref() == Some(BASIC)));
        }
    }
}

#[tokio::test]
async fn identity_tokens_are_not_carried_to_another_host_by_a_redirect() {
    let other = Host::start(|_| ok(r#"{"token": "t"}"#)).await;
    let to = format!("location: http://{}/token\r\n", other.address);
    let host = Host::start(move |seen| {
        if seen.path.starts_with("/token") {
            return ("308 Permanent Redirect", to.clone(), Vec::new());
        }
        let challenge = format!("www-authenticate: Bearer realm=\"http://{}/token\"\r\n", seen.host);
        ("401 Unauthorized", challenge, Vec::new())
    })
    .await;
    let mut credentials = Credentials::default();
    credentials.insert(&host.address, &identity());
    let reference = OciReference::parse(&format!("oci://{}/a:1.0.0", host.address)).unwrap();
    let error = pull(&plain(), &credentials, &reference).await.unwrap_err().to_string();
    assert!(error.contains("redirects what is sent to another host"), "{error}");
    assert!(host.seen().iter().any(|seen| seen.content.contains("refresh_token")), "the registry's own");
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

/// An index with one chart at an address.
fn index(url: &str) -> String {
    format!(
        "apiVersion: v1\nentries:\n  foo:\n  - {{name: foo, version: 1.0.0, apiVersion: v2, urls: [\"{url}\"]}}\n"
    )
}

#[tokio::test]
async fn credentials_of_a_repository_stay_with_it_unless_passed_on() {
    let packed = package(&chart("foo", "1.0.0"), &PackageOptions::default()).unwrap().bytes;
    let bytes = packed.clone();
    let other = Host::start(move |_| ok(bytes.clone())).await;
    let elsewhere = other.address.clone();
    let host = Host::start(move |seen| match seen.path.as_str() {
        "/named/index.yaml" => ok(index(&format!("http://{elsewhere}/named.tgz"))),
        "/moved/index.yaml" => ok(index("foo-1.0.0.tgz")),
        _ => ("302 Found", format!("location: http://{elsewhere}/moved.tgz\r\n"), Vec::new()),
    })
    .await;
    // Even a login that is passed on is not carried along by a redirect.
    for (path, pass_credentials, expected) in
        [("named", false, None), ("moved", false, None), ("moved", true, None), ("named", true, Some(BASIC))]
    {
        let folder = tempfile::tempdir().unwrap();
        let repo = format!("http://{}/{path}", host.address);
        let access =
            AccessOptions { repo, login: Some(login()), pass_credentials, ..AccessOptions::default() };
        let remote = remote(folder.path(), access);
        remote.locate("foo", ProvenanceMode::IfThere).await.unwrap();
        let seen = other.seen();
        assert!(seen.len() >= 2, "the chart and its signature come from there");
        for seen in &seen[seen.len() - 2..] {
            assert_eq!(seen.authorization.as_deref(), expected, "{path} {pass_credentials}");
        }
        let asked = host.seen();
        assert!(asked.iter().all(|seen| seen.authorization.as_deref() == Some(BASIC)), "{asked:?}");
    }
}

#[tokio::test]
async fn logins_in_addresses_stay_with_their_host() {
    let other = Host::start(|_| ok("a: 1")).await;
    let to = format!("location: http://{}/moved\r\n", other.address);
    let host = Host::start(move |seen| match seen.path.as_str() {
        "/here" => ("302 Found", format!("location: http://{}/there\r\n", seen.host), Vec::new()),
        "/there" => ok("b: 1"),
        _ => ("302 Found", to.clone(), Vec::new()),
    })
    .await;
    let client = plain();
    let address = |path: &str| format!("http://u:p@{}/{path}", host.address);
    assert_eq!(client.get(&address("values.yaml"), None).await.unwrap(), b"a: 1");
    assert_eq!(client.get(&address("here"), None).await.unwrap(), b"b: 1");
    assert!(!other.saw_secrets(), "{:?}", other.seen());
    let asked = host.seen();
    assert!(asked.iter().all(|seen| seen.authorization.as_deref() == Some(BASIC)), "{asked:?}");
}

#[tokio::test]
async fn values_files_get_the_login_of_their_own_repository_only() {
    let (here, there) = (Host::start(|_| ok("a: 1")).await, Host::start(|_| ok("a: 1")).await);
    let folder = tempfile::tempdir().unwrap();
    let repo = format!("http://{}/charts", here.address);
    let access = AccessOptions { repo, login: Some(login()), ..AccessOptions::default() };
    let remote = remote(folder.path(), access);
    remote.get(&format!("http://{}/values.yaml", here.address)).await.unwrap();
    remote.get(&format!("http://{}/values.yaml", there.address)).await.unwrap();
    assert_eq!(here.seen()[0].authorization.as_deref(), Some(BASIC));
    assert_eq!(there.seen()[0].authorization, None);
}

#[tokio::test]
async fn no_error_shows_credentials_of_an_address() {
    let host = Host::start(|seen| match seen.path.as_str() {
        path if path.starts_with("/loop") => {
            ("302 Found", "location: /loop?token=hush\r\n".into(), Vec::new())
        }
        path if path.starts_with("/bad") => ("302 Found", "location: ftp://u:hush@x/\r\n".into(), Vec::new()),
        path if path.starts_with("/large") => ok("x".repeat(100)),
        _ => ("404 Not Found", String::new(), Vec::new()),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let silent = stall(Stall::Silent).await;
    let limits = NetworkLimits { idle: Duration::from_millis(20), ..NetworkLimits::default() };
    let network = NetworkOptions { limits, ..NetworkOptions::default() };
    let client =
        HttpClient::new(&ClientOptions { network: network.clone(), ..ClientOptions::default() }).unwrap();
    let mut errors = Vec::new();
    for base in [host.address.as_str(), silent.as_str(), "127.0.0.1:1", "[bad"] {
        for path in ["none", "loop", "bad", "large"] {
            let address = format!("http://u:hush@{base}/{path}?sig=hush&X-Amz-Signature=hush");
            errors.extend(client.get_up_to(&address, None, 10).await.err().map(Into::into));
            let access = AccessOptions { repo: address.clone(), ..AccessOptions::default() };
            let repo = remote(folder.path(), access).with_network(network.clone());
            errors.extend(repo.locate("foo", ProvenanceMode::No).await.err());
            let none = remote(folder.path(), AccessOptions::default()).with_network(network.clone());
            errors.extend(none.locate(&address, ProvenanceMode::Must).await.err());
            errors.extend(none.get(&address).await.err());
        }
    }
    errors.push(OciReference::parse("oci://u:hush@host/chart").unwrap_err());
    errors.push(deps::OfflineFetcher.resolve("https://u:hush@h/", "a", "1").unwrap_err());
    assert!(errors.len() > 60, "nearly all of them fail");
    for error in errors {
        assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
    }
}

#[tokio::test]
async fn servers_that_stall_are_given_up_on_by_the_limit_that_was_passed() {
    let short = Duration::from_millis(20);
    let long = Duration::from_secs(3600);
    for (kind, scheme, limits, expected) in [
        (Stall::Silent, "http", NetworkLimits { connect: long, idle: short, total: long }, "(idle limit)"),
        (
            Stall::Silent,
            "https",
            NetworkLimits { connect: short, idle: long, total: long },
            "(connect limit)",
        ),
        (Stall::Silent, "http", NetworkLimits { connect: long, idle: long, total: short }, "(total limit)"),
        (
            Stall::SilentAfterHead,
            "http",
            NetworkLimits { connect: long, idle: short, total: long },
            "(idle limit)",
        ),
        (Stall::Endless, "http", NetworkLimits { connect: long, idle: long, total: short }, "(total limit)"),
    ] {
        let host = stall(kind).await;
        let network = NetworkOptions { limits, ..NetworkOptions::default() };
        let url = format!("{scheme}://{host}/index.yaml");
        let client = HttpClient::new(&ClientOptions { network, ..ClientOptions::default() }).unwrap();
        let error = client.get(&url, None).await.unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains(expected), "{kind:?}: {error}");
    }
    let host = stall(Stall::Endless).await;
    let error = plain().get_up_to(&format!("http://{host}/x"), None, 1000).await.unwrap_err().to_string();
    assert_eq!(error, format!("http://{host}/x is larger than 1000 bytes"));
}

#[tokio::test]
async fn whoever_waits_for_a_silent_server_can_stop() {
    let host = stall(Stall::Silent).await;
    let folder = tempfile::tempdir().unwrap();
    let network = NetworkOptions::default();
    let stop = network.stop.clone();
    let url = format!("http://{host}/charts");
    let remote = remote(folder.path(), AccessOptions { repo: url.clone(), ..AccessOptions::default() })
        .with_network(network);
    let work = tokio::spawn(async move { remote.locate("foo", ProvenanceMode::No).await });
    stop.cancel();
    assert_eq!(work.await.unwrap(), Err(ChartError::Interrupted(format!("{url}/index.yaml"))));
}

#[tokio::test]
async fn a_repository_cannot_replace_what_is_kept_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let known = remote(folder.path(), AccessOptions::default());
    std::fs::create_dir_all(&known.home.cache).unwrap();
    let kept = known.home.cache.join("stable-index.yaml");
    std::fs::write(&kept, "mine").unwrap();
    let mut paths = Vec::new();
    // Two repositories have charts of one name with different contents.
    for (version, file) in
        [("1.0.0", "stable-index.yaml"), ("1.0.0", "foo-1.0.0.tgz"), ("1.0.1", "foo-1.0.0.tgz")]
    {
        let bytes = package(&chart("foo", version), &PackageOptions::default()).unwrap().bytes;
        let host = Host::start(move |seen| match seen.path.as_str() {
            "/index.yaml" => ok(index(file)),
            _ => ok(bytes.clone()),
        })
        .await;
        let access = AccessOptions { repo: format!("http://{}", host.address), ..AccessOptions::default() };
        let found = remote(folder.path(), access).locate("foo", ProvenanceMode::IfThere).await.unwrap();
        assert!(found.path.starts_with(known.home.cache.join("charts")), "{:?}", found.path);
        assert_eq!(found.path.extension().unwrap(), "tgz");
        assert_eq!(found.provenance.unwrap().extension().unwrap(), "prov");
        paths.push(found.path);
    }
    assert_ne!(paths[1], paths[2]);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "mine");
}

#[test]
fn names_that_lead_out_of_a_directory_are_refused() {
    /// Everything is to be had.
    struct Anything;
    impl DependencyFetcher for Anything {
        fn resolve(&self, _: &str, _: &str, wanted: &str) -> Result<Option<String>, ChartError> {
            Ok(Some(wanted.to_owned()))
        }
        fn fetch(&self, _: &str, _: &str, _: &str) -> Result<Vec<u8>, ChartError> {
            Ok(b"x".to_vec())
        }
    }
    let outside = tempfile::tempdir().unwrap();
    let directory = outside.path().join("chart");
    std::fs::create_dir(&directory).unwrap();
    for (name, version) in
        [("../../evil", "1.0.0"), ("..", "1.0.0"), ("a/b", "1.0.0"), ("sub", "1/../../../evil")]
    {
        let text = format!(
            "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {{name: {name}, version: {version}, repository: \"https://h\"}}\n"
        );
        std::fs::write(directory.join("Chart.yaml"), text).unwrap();
        let error = deps::update(&directory, &Anything, &UpdateOptions::default()).unwrap_err().to_string();
        assert!(error.contains("cannot be a part of a file's name"), "{error}");
    }
    let left: Vec<_> =
        std::fs::read_dir(outside.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["chart"]);

    let known = remote(outside.path(), AccessOptions::default());
    for name in ["../up", "a/b", "..", "", "a\\b"] {
        assert!(known.home.cached_index(name).unwrap_err().to_string().contains("invalid repository name"));
        assert!(known.home.forget_index(name).is_err());
    }
}

#[tokio::test]
async fn repositories_with_bad_names_are_not_fetched_into_the_cache() {
    let host = Host::start(|_| ok(index("foo-1.0.0.tgz"))).await;
    let folder = tempfile::tempdir().unwrap();
    let remote = remote(folder.path(), AccessOptions::default());
    let url = format!("http://{}", host.address);
    let repository = RepositoryEntry { name: "../up".into(), url, ..RepositoryEntry::default() };
    assert!(remote.update(&repository).await.is_err());
    assert!(!folder.path().join("up-index.yaml").exists());
}

/// A chart whose schema refers to another one.
fn with_schema(address: &str) -> Chart {
    let schema = format!(r#"{{"properties": {{"port": {{"$ref": "{address}"}}}}}}"#);
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n".to_owned()),
        ("values.yaml", "port: 70000\n".to_owned()),
        ("values.schema.json", schema),
    ];
    let files = files.map(|(name, data)| ChartFile { name: name.into(), data: data.as_bytes().into() });
    Chart::from_files(files.into(), &LoadOptions::default(), &mut Notices::new()).unwrap()
}

fn render_error(chart: Chart, schemas: Option<Arc<dyn SchemaSource>>) -> String {
    let options = RenderOptions { schemas, ..RenderOptions::default() };
    let user = slipway_chart::UserValues::default();
    let program = slipway_chart::ChartProgram::new(chart);
    let values = user.build().unwrap();
    program.render(&values, &options).unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn schemas_elsewhere_are_fetched_only_when_allowed() {
    let host = Host::start(|seen| match seen.path.as_str() {
        "/common.json" => ok(r#"{"definitions": {"port": {"$ref": "numbers.json#/definitions/small"}}}"#),
        "/numbers.json" => {
            ok(r##"{"definitions": {"small": {"$ref": "#top"}, "x": {"$id": "#top", "maximum": 65535}}}"##)
        }
        // Each names the next.
        path => {
            let number: usize = path.trim_start_matches("/endless").parse().unwrap_or_default();
            ok(format!(r#"{{"not": {{"$ref": "endless{}"}}}}"#, number + 1))
        }
    })
    .await;
    let address = format!("http://{}", host.address);
    let common = format!("{address}/common.json#/definitions/port");
    let refused = render_error(with_schema(&common), None);
    assert!(refused.contains("is outside the chart and is not fetched"), "{refused}");
    assert!(refused.contains("hint: --allow-remote-schemas"), "{refused}");
    assert!(host.seen().is_empty(), "nothing is fetched unless it is allowed");

    let remote: Arc<dyn SchemaSource> = Arc::new(RemoteSchemas::new(NetworkOptions::default()));
    for _ in 0..2 {
        let found = render_error(with_schema(&common), Some(Arc::clone(&remote)));
        assert!(found.contains("- port: Must be less than or equal to 65535"), "{found}");
    }
    assert_eq!(host.seen().len(), 2, "each is fetched once");
    let endless = render_error(with_schema(&format!("{address}/endless0")), Some(remote));
    assert!(endless.contains("refers to more than 64 others"), "{endless}");
    let silent = stall(Stall::Silent).await;
    let limits = NetworkLimits { idle: Duration::from_millis(20), ..NetworkLimits::default() };
    let network = NetworkOptions { limits, ..NetworkOptions::default() };
    let address = format!("http://{silent}/x.json");
    let late = render_error(with_schema(&address), Some(Arc::new(RemoteSchemas::new(network))));
    assert!(late.contains("(idle limit)"), "{late}");
}
