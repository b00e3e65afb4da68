//! What the status branch costs: how much a repository grows by a migration and by a push, and what is left of that once its
//! old commits are one.
//!
//! `just bench-status`, or `cargo bench --bench status -- [DAYS [MIGRATIONS [PUSHES]]]`: so many days with so many of each a
//! day. Sizes are those of the remote after `git gc`. Needs `git`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;

use cutover::api::Migration;
use cutover::name::Revision;
use cutover::repo::{Branch, Draft, Files, Message, Options, Repo, Squashed, Trailer};
use cutover::report::{self, Overview, SyncOverview, TrailerKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How many migrations that have ended stay in the control plane.
const STAY: usize = 50;
const PHASES: [&str; 7] = [
    "Preflight",
    "Hold",
    "Expand",
    "Capture",
    "Handoff",
    "Verify",
    "Cleanup",
];
const BEGAN: i64 = 1_767_225_600;

fn main() {
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut args = args.map(|arg| arg.parse().expect("a number"));
    let mut next = |usual: usize| args.next().unwrap_or(usual);
    let (days, migrations, pushes) = (next(10), next(20), next(50));
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(measure(days, migrations, pushes));
}

async fn measure(days: usize, migrations: usize, pushes: usize) {
    println!("\n| | commits | size | a year of it |\n|---|--:|--:|--:|");
    let year = |bytes: u64| format!("{:.1} MiB", mib(bytes) * 365.0 / days as f64);
    for (name, migrations, pushes) in [
        ("pushes alone", 0, pushes),
        ("migrations alone", migrations, 0),
        ("both", migrations, pushes),
    ] {
        let mut branch = StatusBranch::new().await;
        for day in 0..days {
            branch.day(day, migrations, pushes).await;
        }
        let size = branch.size();
        println!(
            "| {name} | {} | {:.2} MiB | {} |",
            branch.commits,
            mib(size),
            year(size)
        );
        if migrations > 0 && pushes > 0 {
            let before = Timestamp::now() + SignedDuration::from_hours(1);
            let squashed = branch.repo.squash(before).await.unwrap();
            assert!(matches!(squashed, Squashed::Done(_)), "{squashed:?}");
            println!(
                "| once they are one commit | 1 | {:.2} MiB | |",
                mib(branch.size())
            );
        }
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

struct StatusBranch {
    root: tempfile::TempDir,
    repo: Repo,
    overview: Overview,
    kept: VecDeque<Migration>,
    made: usize,
    commits: usize,
}

impl StatusBranch {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        git(root.path(), &["init", "-q", "--bare", "fleet.git"]);
        let url = root.path().join("fleet.git");
        let options = Options::new(
            url.to_str().unwrap().parse().unwrap(),
            "main",
            root.path().join("state"),
        );
        Self {
            repo: Repo::open(options, CancellationToken::new()).await.unwrap(),
            root,
            overview: Overview {
                syncs: vec![SyncOverview {
                    name: "fleet".to_owned(),
                    in_sync: 1_200,
                    ..SyncOverview::default()
                }],
                ..Overview::default()
            },
            kept: VecDeque::new(),
            made: 0,
            commits: 0,
        }
    }

    async fn day(&mut self, day: usize, migrations: usize, pushes: usize) {
        for number in 0..migrations.max(pushes) {
            if number < pushes {
                self.push(day * 1000 + number).await;
            }
            if number < migrations {
                self.migrate(day, number).await;
            }
        }
    }

    async fn push(&mut self, number: usize) {
        let random = fastrand::Rng::with_seed(u64::try_from(number).unwrap()).u128(..);
        let revision: Revision = format!("{random:040x}").parse().unwrap();
        self.overview.revision = Some(revision.clone());
        self.overview.syncs[0].revision = Some(revision);
        self.publish().await;
    }

    async fn migrate(&mut self, day: usize, number: usize) {
        self.made += 1;
        let at = |seconds: usize| {
            let second = BEGAN + i64::try_from(day * 86_400 + number * 1_000 + seconds).unwrap();
            Timestamp::from_second(second).unwrap()
        };
        for phase in 0..=PHASES.len() {
            let migration = migration(self.made, phase, at);
            if phase > 0 {
                self.kept.pop_front();
            }
            self.kept.push_front(migration);
            self.kept.truncate(STAY);
            self.overview.migrations = self.kept.iter().cloned().collect();
            self.publish().await;
        }
    }

    /// Commits as the publisher does.
    async fn publish(&mut self) {
        let overview = self.overview.clone();
        let files = report::status_tree(&overview).unwrap();
        let ended = report::ended(&overview.migrations).unwrap();
        let draft = move |tip: &cutover::repo::Tip<'_>| {
            let mut edits: std::collections::BTreeMap<_, _> = files
                .iter()
                .map(|(path, content)| (path.clone(), Some(content.clone())))
                .collect();
            for one in &ended {
                let there = match edits.get(&one.path) {
                    Some(edited) => edited.clone(),
                    None => tip.read(&one.path)?,
                };
                if let Some(grown) = report::appended(there.as_deref(), &[one]) {
                    edits.insert(one.path.clone(), Some(grown));
                }
            }
            let before = tip.read(report::SNAPSHOT_FILE)?;
            let text = report::commit_text(before.as_deref(), &overview);
            let message = Message::new(text.subject).body(text.body);
            let message = text.trailers.into_iter().fold(message, |message, (key, value)| {
                let trailer = match key {
                    TrailerKey::Revision => Trailer::Revision,
                    TrailerKey::Intent => Trailer::Intent,
                    TrailerKey::Phase => Trailer::Phase,
                };
                message.trailer(trailer, value)
            });
            Ok(Draft {
                message,
                files: Files::Edit(edits),
            })
        };
        self.repo.publish(Branch::Status, draft).await.unwrap();
        self.commits += 1;
    }

    /// Returns how much the remote has on disk once it is tidied up.
    fn size(&self) -> u64 {
        let remote = self.root.path().join("fleet.git");
        git(&remote, &["reflog", "expire", "--expire=now", "--all"]);
        git(&remote, &["gc", "-q", "--prune=now"]);
        let packs = std::fs::read_dir(remote.join("objects/pack")).unwrap();
        packs.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }
}

fn migration(number: usize, phase: usize, at: impl Fn(usize) -> Timestamp) -> Migration {
    let steps: Vec<Value> = PHASES
        .iter()
        .take(phase + 1)
        .enumerate()
        .map(|(step, name)| {
            json!({
                "name": name, "startedAt": at(step * 7),
                "finishedAt": (step < phase).then(|| at(step * 7 + 7)),
                "evidence": [
                    format!("east: FlinkDeployment orders-{number} generation {} observed, state {}", step + 3, number % 7),
                    format!("savepoint s3://savepoints/orders-{number}/savepoint-{:012x}", number * 7919 + step),
                ],
            })
        })
        .collect();
    let ended = phase == PHASES.len();
    let name = if ended { "Completed" } else { PHASES[phase] };
    serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": format!("orders-{number}-to-west"), "namespace": "shop", "uid": format!("00000000-0000-4000-8000-{number:012}")},
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": format!("orders-{number}")},
            "from": "east", "to": "west",
        },
        "status": {
            "phase": name, "attempt": 1, "observedGeneration": 1, "source": "east", "startedAt": at(0),
            "finishedAt": ended.then(|| at(60)), "downtimeMs": ended.then_some(1250), "steps": steps,
        },
    }))
    .unwrap()
}

fn git(at: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(at).args(args).status().unwrap();
    assert!(done.success(), "git {args:?}");
}
