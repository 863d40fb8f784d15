//! Many nodes and references at once: one read a path, one login, bounded concurrency.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use slipway_secrets::{
    CacheUse, FetchOutcomes, FetchedSecret, ListEntry, Locator, LoginInfo, NodeContext, Provider,
    ProviderError, ProviderName, ProviderType, SecretContent, SecretReference,
};

use crate::support::{reference, run};

/// Counts reads and how many run at once.
#[derive(Default)]
struct CountingProvider {
    reads: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Provider for CountingProvider {
    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.reads.fetch_add(locators.len(), Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            let secret = |locator: &Locator| {
                let fields = (0..20)
                    .map(|key| (format!("k{key}"), format!("value-{}-{key}", locator.path).into()))
                    .collect();
                Arc::new(FetchedSecret {
                    content: SecretContent::fields(serde_json::Value::Object(fields)),
                    version: None,
                    lease: None,
                })
            };
            locators.iter().map(|locator| (locator.clone(), Ok(secret(locator)))).collect()
        }
        .boxed()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async { Ok(LoginInfo::default()) }.boxed()
    }
}

fn set(paths: usize, keys: usize) -> BTreeSet<SecretReference> {
    (0..paths)
        .flat_map(|path| (0..keys).map(move |key| reference(&format!("secret://p/app/{path}#k{key}"))))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_references_of_64_nodes_are_fifty_reads() {
    let run = run("secrets: {}", &[]);
    let provider = Arc::new(CountingProvider::default());
    run.resolver.insert_provider(ProviderName::parse("p").unwrap(), ProviderType::Vault, provider.clone());
    let wanted = set(50, 20);
    let nodes = (0..64).map(|node| {
        let resolver =
            run.resolver.for_node(NodeContext { node: Some(format!("n{node}")), ..NodeContext::default() });
        let wanted = wanted.clone();
        tokio::spawn(async move { resolver.resolve(&wanted).await.unwrap().len() })
    });
    for count in join_all(nodes).await {
        assert_eq!(count.unwrap(), 1000);
    }
    assert_eq!(provider.reads.load(Ordering::SeqCst), 50);
    let lines = run.audit.0.lock().unwrap();
    assert_eq!(lines.len(), 64 * 1000, "one line a reference and node");
    let fetched: BTreeSet<&str> =
        lines.iter().filter(|line| line.cache == CacheUse::Miss).map(|line| line.path.as_str()).collect();
    assert_eq!(fetched.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_references_stay_within_the_limit_of_concurrency() {
    let run = run("secrets: {limits: {concurrency: 8}}", &[]);
    let provider = Arc::new(CountingProvider::default());
    run.resolver.insert_provider(ProviderName::parse("p").unwrap(), ProviderType::Vault, provider.clone());
    let resolved = run.resolver.resolve(&set(10_000, 1)).await.unwrap();
    assert_eq!(resolved.len(), 10_000);
    assert_eq!(provider.reads.load(Ordering::SeqCst), 10_000);
    assert!(provider.most.load(Ordering::SeqCst) <= 8);
}

#[tokio::test]
async fn a_cancelled_node_does_not_hold_up_the_others() {
    let run = run("secrets: {}", &[]);
    let provider = Arc::new(CountingProvider::default());
    run.resolver.insert_provider(ProviderName::parse("p").unwrap(), ProviderType::Vault, provider.clone());
    let wanted = set(20, 1);
    let first = run.resolver.resolve(&wanted);
    // Polled once, then dropped in the middle of its reads.
    assert!(first.now_or_never().is_none());
    assert_eq!(run.resolver.resolve(&wanted).await.unwrap().len(), 20);
    assert_eq!(provider.reads.load(Ordering::SeqCst), 20);
}
