//! A controller that is killed again and again, with a real Gitea: one commit and one pull request for each bundle and environment.
//!
//! Every life is a process of its own that ends by a signal it cannot catch, and the next one has an empty cache. It ends right
//! after one of its changes of the cluster, the repository or a pull request, or right before one. The changes of a promotion that
//! nobody disturbs are the points to kill at; each is killed at on both sides.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{Bundle, BundlePhase, BundleSpec, StepState, list};
use tokio::time::Instant;

use crate::gitea::{Gitea, labels};
use crate::life::{LEASE, LifeProcess, Turn};
use crate::relay::{DECLARED, Death, KillPoint, LifeRecord, Relay, Side};
use crate::rig::{NAMESPACE, Rig, deployment, environment_files};
use crate::{Failure, PATIENCE, PAUSE, case};

const REPOSITORY: &str = "killed";
const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];

/// The pipeline whose versions are taken back.
const RETURNING: &str = "returning";

/// The random kills unless `KILLS` says otherwise.
const KILLS: usize = 20;
/// The merges that are cut off.
const CUTS: u32 = 10;
/// The longest a life lasts that is killed at a random time.
const LONGEST_LIFE: u64 = 2_500;

/// The kills to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillPart {
    All,
    Random,
    /// Merges that are cut off.
    Cuts,
    /// Versions that are taken back.
    Rollbacks,
    /// Processes that take over from each other.
    Replicas,
}

/// What lives are led for.
#[derive(Clone, Copy)]
enum Goal<'a> {
    /// The bundle is verified.
    Verified(&'a str),
    /// The bundle has failed, and the one that takes it back is verified.
    TakenBack(&'a str),
}

/// How far the goal is.
enum Reach {
    Reached,
    OnTheWay,
    Missed(String),
}

/// The end of one life.
enum LifeEnd {
    Killed(LifeRecord),
    GoalReached(LifeRecord),
}

/// A pipeline whose controller is killed.
struct Trial<'a> {
    gitea: &'a Gitea,
    rig: &'a Rig,
    relay: &'a Relay,
    pipeline: &'static str,
    minor: u32,
    lives: u32,
}

/// Plays all of it, or one part alone.
pub(crate) async fn run(gitea: &Gitea, part: KillPart) -> Result<(), Failure> {
    let kills = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let rig = Rig::prepare().await?;
    rig.create_credentials(gitea).await?;
    let relay = Relay::start(rig.sandbox.service(), &gitea.root).await?;
    let promotion = async {
        if !matches!(part, KillPart::Rollbacks | KillPart::Replicas) {
            promote(gitea, &rig, &relay, part, kills).await?;
        }
        if matches!(part, KillPart::All | KillPart::Rollbacks) {
            take_back(gitea, &rig, &relay).await?;
        }
        if matches!(part, KillPart::All | KillPart::Replicas) {
            replicas(gitea, &rig, &relay).await?;
        }
        Ok(())
    };
    tokio::select! {
        result = promotion => result,
        () = review(gitea) => Ok(()),
    }
}

/// Direct, by a pull request for the record, and by one that a person merges.
async fn promote(
    gitea: &Gitea,
    rig: &Rig,
    relay: &Relay,
    part: KillPart,
    kills: usize,
) -> Result<(), Failure> {
    gitea.create_repository(REPOSITORY, &environment_files(&ENVIRONMENTS)).await?;
    gitea.allow_manual_merge(REPOSITORY).await?;
    let health = json!({"type": "none"});
    let environments = json!([{"name": "dev", "health": health}, {"name": "staging", "pr": true, "health": health},
        {"name": "prod", "approval": "pr-review", "health": health}]);
    let url = format!("{}/{}/{REPOSITORY}.git", relay.gitea, gitea.user);
    rig.create_pipeline_at(REPOSITORY, &url, environments).await?;
    let mut trial = Trial { gitea, rig, relay, pipeline: REPOSITORY, minor: 0, lives: 0 };
    if part == KillPart::All {
        trial.kill_at_every_change(|bundle| Goal::Verified(bundle)).await?;
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    if matches!(part, KillPart::All | KillPart::Cuts) {
        trial.cut_merges(&mut random).await?;
    }
    if part == KillPart::Cuts {
        return Ok(());
    }
    let (mut done, mut promotions) = (0, 0);
    while done < kills {
        let (bundle, version) = trial.next_bundle().await?;
        done += trial.kill_randomly(Goal::Verified(&bundle), &mut random, kills - done).await?;
        trial.check(&version).await?;
        promotions += 1;
    }
    case(&format!("{done} random kills in {promotions} promotions"), true, ())
}

/// A version that fails after its push is taken back once, wherever the controller dies meanwhile.
async fn take_back(gitea: &Gitea, rig: &Rig, relay: &Relay) -> Result<(), Failure> {
    gitea.create_repository(RETURNING, &environment_files(&["prod"])).await?;
    // The cluster stays at the first version: nobody syncs the others.
    let mut workload = deployment("prod");
    workload["metadata"]["name"] = json!(RETURNING);
    rig.create(workload).await?;
    let health = json!({"type": "resource", "timeout": "3s"});
    let url = format!("{}/{}/{RETURNING}.git", relay.gitea, gitea.user);
    rig.create_pipeline_at(RETURNING, &url, json!([{"name": "prod", "health": health}])).await?;
    let mut trial = Trial { gitea, rig, relay, pipeline: RETURNING, minor: 0, lives: 0 };
    let first = rig.create_bundle(RETURNING, "1.0.0").await?;
    trial.live_to_the_end(Goal::Verified(&first)).await?;
    trial.kill_at_every_change(|bundle| Goal::TakenBack(bundle)).await
}

impl Trial<'_> {
    async fn next_bundle(&mut self) -> Result<(String, String), Failure> {
        self.minor += 1;
        let version = format!("1.{}.0", self.minor);
        Ok((self.rig.create_bundle(self.pipeline, &version).await?, version))
    }

    /// Kills before and after each change of an undisturbed promotion.
    async fn kill_at_every_change(
        &mut self,
        goal: impl for<'g> Fn(&'g str) -> Goal<'g>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let (mut covered, mut kills) = (BTreeSet::new(), 0);
        // Every life but the last makes one change: the next one dies at the change after it.
        for (side, first) in [(Side::After, 1), (Side::Before, 2)] {
            let (bundle, version) = self.next_bundle().await?;
            let died = self.kill_step_by_step(goal(&bundle), first, side).await?;
            self.check(&version).await?;
            kills += died.len();
            covered.extend(died);
        }
        let points = self.find_points(&goal).await?;
        let in_a_row = kills;
        let all =
            points.iter().flat_map(|point| [Side::Before, Side::After].map(|side| (point.clone(), side)));
        let mut missing: BTreeSet<KillPoint> = all.filter(|wanted| !covered.contains(wanted)).collect();
        while !missing.is_empty() {
            let (bundle, version) = self.next_bundle().await?;
            let left = missing.len();
            while let LifeEnd::Killed(record) =
                self.live(goal(&bundle), Death::AtOneOf(missing.clone()), None).await?
            {
                missing.retain(|point| Some(point) != record.died_at.as_ref());
                kills += 1;
            }
            self.check(&version).await?;
            if missing.len() == left {
                return Err(format!("these did not happen again: {missing:?}").into());
            }
        }
        let took = began.elapsed().as_secs();
        let pipeline = self.pipeline;
        case(
            &format!(
                "{pipeline}: each of {} changes killed before and after ({kills} kills, {in_a_row} of them in a row, {took} s)",
                points.len()
            ),
            true,
            (),
        )
    }

    /// The changes of promotions that nobody disturbs: those that happen every time.
    async fn find_points(
        &mut self,
        goal: &impl for<'g> Fn(&'g str) -> Goal<'g>,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut points = Vec::new();
        for _ in 0..2 {
            let (bundle, version) = self.next_bundle().await?;
            points.push(BTreeSet::from_iter(self.live_to_the_end(goal(&bundle)).await?));
            self.check(&version).await?;
        }
        Ok(points.into_iter().reduce(|all, one| &all & &one).unwrap_or_default())
    }

    /// Ends each life at its first or second change until the goal is reached; returns where they died.
    async fn kill_step_by_step(
        &mut self,
        goal: Goal<'_>,
        first: usize,
        side: Side,
    ) -> Result<Vec<KillPoint>, Failure> {
        let (mut died, mut number) = (Vec::<KillPoint>::new(), first);
        let end = Instant::now() + PATIENCE * 4;
        while Instant::now() < end {
            match self.live(goal, Death::At(number, side), None).await? {
                LifeEnd::GoalReached(_) => return Ok(died),
                LifeEnd::Killed(record) => {
                    let at = record.died_at.ok_or("a life ended by itself")?;
                    // Where somebody died before, a life gets a change further: what is done outside is done again until
                    // the cluster knows of it.
                    number =
                        match (died.contains(&at), at.0.starts_with("gitea ") || at.0.starts_with("push ")) {
                            (true, _) => number + 1,
                            (false, true) => number,
                            (false, false) => first,
                        };
                    died.push(at);
                }
            }
        }
        Err(format!("the goal is out of reach after {} kills, the last at {:?}", died.len(), died.last())
            .into())
    }

    /// Ends lives at random changes and at random times; returns how many.
    async fn kill_randomly(
        &mut self,
        goal: Goal<'_>,
        random: &mut Random,
        most: usize,
    ) -> Result<usize, Failure> {
        let mut kills = 0;
        while kills < most {
            let (death, limit) = match random.below(3) {
                0 => (Death::Never, Some(Duration::from_millis(random.below(LONGEST_LIFE)))),
                1 => (Death::At(random.below(12) as usize + 1, Side::After), None),
                _ => (Death::At(random.below(12) as usize + 2, Side::Before), None),
            };
            match self.live(goal, death, limit).await? {
                LifeEnd::Killed(_) => kills += 1,
                LifeEnd::GoalReached(_) => return Ok(kills),
            }
        }
        self.live_to_the_end(goal).await?;
        Ok(kills)
    }

    /// Ends lives while Gitea is at a merge they asked for. It pushes the merge and is told by the push to write it down; when its
    /// client goes away in between, the second half is lost and has to be told.
    async fn cut_merges(&mut self, random: &mut Random) -> Result<(), Failure> {
        let mut declared = 0;
        let (bundle, version) = self.next_bundle().await?;
        self.live_to_the_end(Goal::Verified(&bundle)).await?;
        self.check(&version).await?;
        for _ in 0..CUTS {
            let (bundle, version) = self.next_bundle().await?;
            // Gitea pushes in the second third of a merge.
            let whole = self.relay.merge_time().ok_or("no merge was seen")?;
            let delay = whole.mul_f64(0.2 + 0.006 * random.below(100) as f64);
            let LifeEnd::Killed(_) = self.live(Goal::Verified(&bundle), Death::InMerge(delay), None).await?
            else {
                return Err(format!("{bundle}: no merge was cut off").into());
            };
            let changes = self.live_to_the_end(Goal::Verified(&bundle)).await?;
            declared += changes.iter().filter(|change| change.ends_with(DECLARED)).count();
            self.check(&version).await?;
        }
        case(&format!("{CUTS} merges were cut off, {declared} of them after their push"), true, ())
    }

    /// Leads lives nobody ends; returns the changes.
    async fn live_to_the_end(&mut self, goal: Goal<'_>) -> Result<Vec<String>, Failure> {
        match self.live(goal, Death::Never, None).await? {
            LifeEnd::GoalReached(record) => Ok(record.changes),
            LifeEnd::Killed(_) => Err("a life that nobody ends has ended".into()),
        }
    }

    /// One life of a controller.
    async fn live(
        &mut self,
        goal: Goal<'_>,
        death: Death,
        limit: Option<Duration>,
    ) -> Result<LifeEnd, Failure> {
        self.lives += 1;
        let directory = self.rig.place.path().join(format!("{}-{}", self.pipeline, self.lives));
        let fatal = self.relay.begin(death);
        let process = LifeProcess::start(&self.relay.cluster, &directory, Turn::AtOnce)?;
        let time_is_up = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let was_killed = tokio::select! {
            () = fatal.cancelled() => true,
            () = time_is_up => true,
            reached = wait_for_end(&self.rig.cluster, goal) => {
                reached?;
                false
            }
        };
        // A process that reached its goal is let finish what comes after it, and dies like the others.
        if !was_killed {
            self.settle(goal).await?;
        }
        drop(process);
        let record = self.relay.end().await;
        let _ = std::fs::remove_dir_all(directory);
        Ok(match was_killed {
            true => LifeEnd::Killed(record),
            false => LifeEnd::GoalReached(record),
        })
    }

    /// Waits until branches of what has ended are gone.
    async fn settle(&self, goal: Goal<'_>) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            let branches = self.gitea.branches(self.pipeline).await?;
            if branches == ["main"] {
                return Ok(());
            }
            if Instant::now() > end {
                let (Goal::Verified(name) | Goal::TakenBack(name)) = goal;
                return Err(format!("{name}: branches are left: {branches:?}").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One commit and at most one pull request for each environment, and the right end.
    async fn check(&self, version: &str) -> Result<(), Failure> {
        match self.pipeline {
            RETURNING => self.check_taken_back(version).await,
            _ => self.check_promoted(version).await,
        }
    }

    async fn check_promoted(&self, version: &str) -> Result<(), Failure> {
        let subjects = self.gitea.subjects(REPOSITORY, "main").await?;
        let pulls = self.gitea.pull_requests(REPOSITORY, "all").await?;
        for environment in ENVIRONMENTS {
            let wanted = format!("[kardinal] Promote {REPOSITORY} {version} to {environment}");
            let count = subjects.iter().filter(|subject| **subject == wanted).count();
            if count != 1 {
                return Err(format!("{count} commits `{wanted}`: {subjects:?}").into());
            }
            let own: Vec<&Value> =
                pulls.iter().filter(|pull| pull["title"].as_str() == Some(wanted.as_str())).collect();
            let is_merged = own.iter().all(|pull| {
                let merge = format!("Merge pull request '{wanted}' (#{})", pull["number"]);
                let merges = subjects.iter().filter(|subject| subject.starts_with(&merge)).count();
                pull["merged"] == true && merges == 1
            });
            if own.len() != usize::from(environment != "dev") || !is_merged {
                return Err(
                    format!("{} pull requests for {version} in {environment}: {own:?}", own.len()).into()
                );
            }
            for pull in own {
                self.check_pull_request(pull).await?;
            }
            let path = format!("environments/{environment}/kustomization.yaml");
            let text = self.gitea.file(REPOSITORY, &path).await?;
            if !text.contains(&format!("newTag: \"{version}\" # set by promotion")) {
                return Err(format!("{environment} is not at {version}: {text}").into());
            }
            let step = self.rig.step(&bundle_name(REPOSITORY, version), environment).await?;
            let Some(step) = step.filter(|step| step.state() == StepState::Verified) else {
                return Err(format!("{version} in {environment} is not verified").into());
            };
            if step.status.merge_sha.is_some() != (environment != "dev") {
                return Err(format!("{version} in {environment}: {:?}", step.status).into());
            }
        }
        if pulls.iter().any(|pull| pull["state"] == "open") {
            return Err(format!("pull requests are open after {version}").into());
        }
        Ok(())
    }

    /// Labelled, and with one table of gates.
    async fn check_pull_request(&self, pull: &Value) -> Result<(), Failure> {
        let labels = labels(pull);
        let comments = self.gitea.comments(REPOSITORY, pull["number"].as_u64().unwrap_or_default()).await?;
        let tables = comments.iter().filter(|text| text.contains("kardinal:gates")).count();
        if !labels.contains(&"kardinal") || !labels.contains(&"kardinal/promotion") || tables != 1 {
            return Err(format!("{}: {labels:?} and {tables} tables of gates", pull["title"]).into());
        }
        Ok(())
    }

    async fn check_taken_back(&self, version: &str) -> Result<(), Failure> {
        let subjects = self.gitea.subjects(RETURNING, "main").await?;
        let promoted = format!("[kardinal] Promote {RETURNING} {version} to prod");
        let count = subjects.iter().filter(|subject| **subject == promoted).count();
        let rolled_back =
            subjects.iter().filter(|subject| subject.starts_with("[kardinal] Rollback")).count();
        let name = bundle_name(RETURNING, version);
        let is_of_it = |bundle: &Bundle| {
            let provenance = bundle.spec.provenance.as_ref();
            provenance.is_some_and(|from| from.rollback_of.as_deref() == Some(name.as_str()))
        };
        let bundles = self.rig.bundles().await?;
        let rollbacks = bundles.iter().filter(|bundle| is_of_it(bundle)).count();
        let text = self.gitea.file(RETURNING, "environments/prod/kustomization.yaml").await?;
        let is_back = text.contains("\"1.0.0\"");
        // One of each for every version so far.
        if (count, rolled_back, rollbacks, is_back) != (1, self.minor as usize, 1, true) {
            return Err(format!(
                "{version}: {count} promoted, {rolled_back} and {rollbacks} taken back: {subjects:?}\n{text}"
            )
            .into());
        }
        Ok(())
    }
}

fn bundle_name(pipeline: &str, version: &str) -> String {
    format!("{pipeline}-{}", version.replace('.', "-"))
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Approves and merges whatever waits for a person.
async fn review(gitea: &Gitea) {
    loop {
        for repository in [REPOSITORY, REPLICATED] {
            for pull in gitea.pull_requests(repository, "open").await.unwrap_or_default() {
                let is_prod = pull["head"]["ref"].as_str().is_some_and(|name| name.contains("/prod/"));
                if let Some(number) = pull["number"].as_u64().filter(|_| is_prod) {
                    let _ = gitea.merge(repository, number, "merge").await;
                }
            }
        }
        tokio::time::sleep(PAUSE * 3).await;
    }
}

/// Says how far a goal is.
async fn reach(cluster: &Cluster, goal: Goal<'_>) -> Result<Reach, Failure> {
    let all = list::<BundleSpec>(cluster, Some(NAMESPACE), &ListOptions::default()).await?;
    let (Goal::Verified(name) | Goal::TakenBack(name)) = goal;
    let Some(bundle) = all.iter().find(|bundle| bundle.name() == name) else {
        return Err(format!("there is no bundle {name}").into());
    };
    let takes_back = |other: &&Bundle| {
        other.spec.provenance.as_ref().is_some_and(|from| from.rollback_of.as_deref() == Some(name))
    };
    Ok(match (goal, bundle.phase()) {
        (_, BundlePhase::Available | BundlePhase::Promoting) => Reach::OnTheWay,
        (Goal::Verified(_), BundlePhase::Verified) => Reach::Reached,
        (Goal::TakenBack(_), BundlePhase::Failed) => match all.iter().find(takes_back).map(Bundle::phase) {
            Some(BundlePhase::Verified) => Reach::Reached,
            None | Some(BundlePhase::Available | BundlePhase::Promoting) => Reach::OnTheWay,
            Some(other) => Reach::Missed(format!("the rollback of {name} is {other:?}")),
        },
        (_, other) => Reach::Missed(format!("{name} is {other:?}: {:?}", bundle.status)),
    })
}

/// Waits until a goal is reached.
async fn wait_for_end(cluster: &Cluster, goal: Goal<'_>) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        match reach(cluster, goal).await? {
            Reach::Reached => return Ok(()),
            Reach::Missed(why) => return Err(why.into()),
            Reach::OnTheWay if Instant::now() > end => {
                let (Goal::Verified(name) | Goal::TakenBack(name)) = goal;
                return Err(format!("{name}: the goal was not reached in time").into());
            }
            Reach::OnTheWay => tokio::time::sleep(PAUSE).await,
        }
    }
}

const REPLICATED: &str = "replicated";
/// The number of times the process that leads is killed, unless `TAKEOVERS` says otherwise.
const TAKEOVERS: u32 = 3;

/// D02: two processes of which one leads; it is killed in the middle of promotions.
async fn replicas(gitea: &Gitea, rig: &Rig, relay: &Relay) -> Result<(), Failure> {
    gitea.create_repository(REPLICATED, &environment_files(&ENVIRONMENTS)).await?;
    gitea.allow_manual_merge(REPLICATED).await?;
    let takeovers = std::env::var("TAKEOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(TAKEOVERS);
    let health = json!({"type": "none"});
    let environments = json!([{"name": "dev", "health": health}, {"name": "staging", "pr": true, "health": health},
        {"name": "prod", "approval": "pr-review", "health": health}]);
    let url = format!("{}/{}/{REPLICATED}.git", relay.gitea, gitea.user);
    rig.create_pipeline_at(REPLICATED, &url, environments).await?;
    let place = |number: u32| rig.place.path().join(format!("replica-{number}"));
    let start = |number: u32| LifeProcess::start(&relay.cluster, &place(number), Turn::Elected);
    let mut leader = start(0)?;
    wait_for_leader(rig, |holder| holder == leader.identity()).await?;
    let mut longest = Duration::ZERO;
    for round in 1..=takeovers {
        let standby = start(round)?;
        let version = format!("1.{round}.0");
        // At another change each time; a promotion has more than fifty.
        let fatal = relay.begin(Death::At(3 + (9 * round as usize) % 48, Side::After));
        let bundle = rig.create_bundle(REPLICATED, &version).await?;
        tokio::time::timeout(PATIENCE, fatal.cancelled()).await?;
        leader = standby;
        let killed_at = Instant::now();
        relay.end().await;
        wait_for_leader(rig, |holder| holder == leader.identity()).await?;
        longest = longest.max(killed_at.elapsed());
        wait_for_end(&rig.cluster, Goal::Verified(&bundle)).await?;
        let subjects = gitea.subjects(REPLICATED, "main").await?;
        let pulls = gitea.pull_requests(REPLICATED, "all").await?;
        for environment in ENVIRONMENTS {
            let wanted = format!("[kardinal] Promote {REPLICATED} {version} to {environment}");
            let commits = subjects.iter().filter(|subject| **subject == wanted).count();
            let own = pulls.iter().filter(|pull| pull["title"].as_str() == Some(wanted.as_str())).count();
            if (commits, own) != (1, usize::from(environment != "dev")) {
                return Err(format!("{commits} commits and {own} pull requests: {wanted}").into());
            }
            let is_merged = |pull: &Value| pull["title"] != wanted.as_str() || pull["merged"] == true;
            if !pulls.iter().all(is_merged) {
                return Err(format!("is not merged: {wanted}").into());
            }
        }
    }
    drop(leader);
    case(
        &format!("{takeovers} times another process goes on for one that was killed (at most {longest:.1?})"),
        longest <= Duration::from_secs(15),
        longest,
    )
}

/// Waits until the Lease has a holder.
async fn wait_for_leader(rig: &Rig, is_wanted: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let at = ObjectRef::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), Some(NAMESPACE), LEASE);
    let end = Instant::now() + PATIENCE;
    loop {
        let lease = rig.cluster.get(&at).await?.unwrap_or_default();
        if lease["spec"]["holderIdentity"].as_str().is_some_and(&is_wanted) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("the Lease is still that of another: {lease}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
