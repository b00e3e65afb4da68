//! What is said beside commits, against servers that answer as GitHub, GitLab and Gitea do.

use std::time::Duration;

use cutover::forge::{Api, Backoff, CommitStatus, Commits, RetryPolicy, Teller, Telling, Token};
use cutover::repo::Secret;
use cutover::report::{Host, Outcome};

use crate::support::forges::{Forge, Said, TOKEN};

const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";
const HOSTS: [Host; 3] = [Host::GitHub, Host::GitLab, Host::Gitea];

fn policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 3,
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_secs(5)),
        timeout: Duration::from_secs(10),
    }
}

fn commits(forge: &Forge, token: Token) -> Commits {
    let api = Api::new(&forge.api(), None, policy()).unwrap();
    Commits::new(api, &forge.web(), token).unwrap()
}

fn start(forge: &Forge) -> (Teller, Telling) {
    let token = Token::Given(Secret::new(TOKEN));
    Teller::start(commits(forge, token), Duration::from_millis(1))
}

fn status(revision: &str, outcome: Outcome, note: &str) -> CommitStatus {
    CommitStatus {
        revision: revision.parse().unwrap(),
        name: "cutover/sync/main".to_owned(),
        outcome,
        note: note.to_owned(),
        link: Some("https://git.example.com/shop/fleet/STATUS.md".to_owned()),
    }
}

async fn end(teller: Teller, telling: Telling) {
    drop(teller);
    telling.end(Duration::from_secs(30)).await;
}

fn states(said: &[Said]) -> Vec<&str> {
    said.iter().map(|said| said.state.as_str()).collect()
}

#[tokio::test]
async fn each_host_is_told_in_its_own_words() {
    for host in HOSTS {
        let forge = Forge::start(host).await;
        let (teller, telling) = start(&forge);
        let long = "ä".repeat(300);
        for (count, (outcome, note)) in [
            (Outcome::Pending, "waits"),
            (Outcome::Failure, long.as_str()),
            (Outcome::Success, "in sync"),
        ]
        .into_iter()
        .enumerate()
        {
            teller.tell(vec![status(ONE, outcome, note)]);
            forge.said(count + 1).await;
        }
        end(teller, telling).await;
        let said = forge.said(3).await;
        let expected: &[&str] = match host {
            Host::GitLab => &["running", "failed", "success"],
            _ => &["pending", "failure", "success"],
        };
        assert_eq!(states(&said), expected, "{host}");
        assert_eq!(said[0].revision, ONE);
        assert_eq!(said[0].name, "cutover/sync/main");
        assert_eq!(
            said[0].link.as_deref(),
            Some("https://git.example.com/shop/fleet/STATUS.md")
        );
        assert_eq!(said[1].note.chars().count(), 140, "{host}");
    }
}

#[tokio::test]
async fn what_is_said_already_costs_nothing_and_what_is_new_is_said() {
    for host in HOSTS {
        let forge = Forge::start(host).await;
        let (teller, telling) = start(&forge);
        for _ in 0..10 {
            teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
        }
        forge.said(1).await;
        teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
        teller.tell(vec![status(TWO, Outcome::Success, "in sync")]);
        end(teller, telling).await;
        let said = forge.said(2).await;
        let revisions: Vec<_> = said.iter().map(|said| said.revision.as_str()).collect();
        assert_eq!(revisions, [ONE, TWO], "{host}");
    }
}

#[tokio::test]
async fn a_newer_word_takes_the_place_of_one_that_nobody_has_said_yet() {
    let forge = Forge::start(Host::GitHub).await;
    forge.trouble(503, &[]);
    let (teller, telling) = start(&forge);
    teller.tell(vec![status(ONE, Outcome::Pending, "one")]);
    // Nothing has been sent: the task has had no turn.
    teller.tell(vec![status(ONE, Outcome::Pending, "two")]);
    teller.tell(vec![status(ONE, Outcome::Success, "three")]);
    end(teller, telling).await;
    let said = forge.said(1).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].note, "three");
}

#[tokio::test]
async fn trouble_that_passes_is_waited_out_as_long_as_the_host_asks_for() {
    for host in HOSTS {
        let forge = Forge::start(host).await;
        forge.trouble(503, &[]);
        forge.trouble(429, &[("retry-after", "0")]);
        forge.trouble(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")]);
        for _ in 0..5 {
            forge.trouble(500, &[]);
        }
        let (teller, telling) = start(&forge);
        teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
        end(teller, telling).await;
        assert_eq!(
            forge.answers(),
            [503, 429, 403, 500, 500, 500, 500, 500, 201],
            "{host}"
        );
    }
}

#[tokio::test]
async fn a_status_that_is_refused_is_not_sent_again_and_holds_up_no_other() {
    let forge = Forge::start(Host::GitHub).await;
    forge.has(&[TWO]);
    let (teller, telling) = start(&forge);
    teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
    teller.tell(vec![status(TWO, Outcome::Success, "in sync")]);
    end(teller, telling).await;
    assert_eq!(forge.answers(), [422, 201]);
    assert_eq!(forge.said(1).await[0].revision, TWO);
}

#[tokio::test]
async fn a_commit_that_the_host_has_not_got_yet_is_said_of_later_and_holds_up_no_other() {
    for host in [Host::GitLab, Host::Gitea] {
        let forge = Forge::start(host).await;
        forge.has(&[TWO]);
        let (teller, telling) = start(&forge);
        teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
        forge.answered(1).await;
        teller.tell(vec![status(TWO, Outcome::Success, "in sync")]);
        forge.said(1).await;
        forge.has(&[ONE, TWO]);
        end(teller, telling).await;
        let said = forge.said(2).await;
        let revisions: Vec<_> = said.iter().map(|said| said.revision.as_str()).collect();
        assert_eq!(revisions, [TWO, ONE], "{host}");
        assert!(forge.answers().contains(&404), "{host}");
    }
}

#[tokio::test]
async fn a_token_that_is_wrong_is_read_again_until_it_is_right() {
    for host in HOSTS {
        let forge = Forge::start(host).await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "wrong-swordfish\n").unwrap();
        let commits = commits(&forge, Token::File(file.clone()));
        let refused = commits.say(&status(ONE, Outcome::Success, "in sync")).await;
        let refused = refused.unwrap_err();
        assert!(refused.is_permission(), "{refused}");
        assert!(!format!("{refused} {refused:?}").contains("swordfish"));
        let (teller, telling) = Teller::start(commits, Duration::from_millis(1));
        teller.tell(vec![status(ONE, Outcome::Success, "in sync")]);
        forge.answered(3).await;
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        end(teller, telling).await;
        assert_eq!(forge.said(1).await.len(), 1, "{host}");
    }
}

#[tokio::test]
async fn gitlab_which_will_not_have_the_same_state_twice_is_not_asked_twice() {
    let forge = Forge::start(Host::GitLab).await;
    let (teller, telling) = start(&forge);
    for note in ["waits for a", "waits for b"] {
        teller.tell(vec![status(ONE, Outcome::Pending, note)]);
        forge.answered(if note.ends_with('a') { 1 } else { 2 }).await;
    }
    end(teller, telling).await;
    assert_eq!(forge.answers(), [201, 400]);
}

mod with_a_reconciler {
    use cutover::cluster::{Cluster, Limits};
    use cutover::reconcile::{self, Options, Statuses};
    use cutover::sandbox::World;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::notify::with_a_reconciler::{MOVE, SHOP, world};
    use crate::support::git::{Origin, options};

    fn told(
        world: &World,
        origin: &Origin,
        state: &std::path::Path,
        forge: &Forge,
        teller: Teller,
    ) -> Options {
        let cluster = Cluster::from_client(world.client(), Limits::default());
        Options {
            web: Some(forge.web()),
            statuses: Some(Statuses {
                teller,
                name: "cutover".to_owned(),
                link: None,
            }),
            ..Options::new(options(origin.url(), state), cluster)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_says_whether_it_is_in_force_and_how_what_it_asked_for_has_ended() {
        let forge = Forge::start(Host::Gitea).await;
        let world = world();
        let origin = Origin::with(&[("shop.yaml", SHOP), ("move.yaml", MOVE), ("bad.yaml", "a: [")]);
        let first = origin.tip("main").unwrap();
        let (teller, telling) = start(&forge);
        let state = tempfile::tempdir().unwrap();
        let options = told(&world, &origin, state.path(), &forge, teller);
        let cancel = CancellationToken::new();
        let running = tokio::spawn(reconcile::run(options, cancel.clone()));
        let is = |said: &[Said], revision: &str, name: &str, state: &str| {
            let mut said = said.iter();
            said.any(|said| {
                (said.revision.as_str(), said.name.as_str(), said.state.as_str()) == (revision, name, state)
            })
        };
        let sync = "cutover/sync/main";
        let said = forge
            .until(|said| is(said, first.as_str(), sync, "failure"))
            .await;
        let failure = said
            .iter()
            .find(|said| said.name == sync && said.state == "failure");
        let failure = failure.unwrap();
        assert!(failure.note.starts_with("bad.yaml:"), "{failure:?}");
        let page = format!("{}/shop/fleet/src/branch/cutover-status/STATUS.md", forge.address);
        assert_eq!(failure.link.as_deref(), Some(page.as_str()));
        let migration = "cutover/Migration/shop/nothing-to-mars";
        let said = forge
            .until(|said| is(said, first.as_str(), migration, "failure"))
            .await;
        let failed = said.iter().find(|said| said.name == migration).unwrap();
        assert!(failed.note.starts_with("Failed: "), "{failed:?}");
        let headline = "Migration shop/nothing-to-mars failed; 1 problem in the desired state";
        let of_all = |said: &Said, note: &str| {
            said.name == "cutover/status" && said.state == "failure" && said.note == note
        };
        forge
            .until(|said| said.iter().any(|said| of_all(said, headline)))
            .await;
        let second = origin.commit("main", &[("bad.yaml", "")]);
        forge
            .until(|said| is(said, second.as_str(), sync, "success"))
            .await;
        let headline = "Migration shop/nothing-to-mars failed";
        forge
            .until(|said| {
                said.iter()
                    .any(|said| said.revision == second.as_str() && of_all(said, headline))
            })
            .await;
        cancel.cancel();
        running.await.unwrap().unwrap();
        telling.end(Duration::from_secs(30)).await;
        let said = forge.said(0).await;
        let of_migration = said.iter().filter(|said| said.name == migration).count();
        assert_eq!(
            of_migration, 1,
            "a new commit says nothing new of an old one: {said:#?}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_host_that_never_answers_holds_up_nothing() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", silent.local_addr().unwrap());
        let world = world();
        let origin = Origin::with(&[("shop.yaml", SHOP)]);
        let state = tempfile::tempdir().unwrap();
        let mut forge = Forge::start(Host::GitHub).await;
        forge.address = address;
        let (teller, telling) = start(&forge);
        let options = told(&world, &origin, state.path(), &forge, teller);
        let once = reconcile::once(options, CancellationToken::new());
        let summary = tokio::time::timeout(Duration::from_secs(30), once).await;
        assert!(summary.expect("it waits for the host").unwrap().is_clean());
        telling.end(Duration::from_millis(1)).await;
    }
}
