//! The comment on a pull request, against a server that answers as GitHub does.

use std::time::Duration;

use cutover::error::Kind;
use cutover::forge::{Api, Backoff, Error, GitHub, PullRequest, RETRY_POLICY, RetryPolicy, Sticky};
use cutover::repo::Secret;

use crate::support::github::{self, BOT, FORK, PERSON, REPOSITORY, Trouble};

const MARKER: &str = "<!-- cutover review: plan -->";
const LIST: &str = "GET /repos/shop/fleet/issues/7/comments?per_page=100";
const POST: &str = "POST /repos/shop/fleet/issues/7/comments";

fn open(server: &github::GitHub, token: &str) -> GitHub {
    let policy = RetryPolicy {
        attempts: 4,
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_secs(5)),
        timeout: Duration::from_secs(10),
    };
    let api = Api::new(&server.url(), Some(&Secret::new(token)), policy).unwrap();
    GitHub::new(api, REPOSITORY).unwrap()
}

fn pull_request() -> PullRequest {
    PullRequest {
        number: 7,
        base: "abc".to_owned(),
        from_fork: false,
    }
}

async fn comment(github: &GitHub, text: &str) -> Result<Sticky, Error> {
    github
        .comment(&pull_request(), MARKER, &format!("{MARKER}\n{text}\n"))
        .await
}

fn bodies(server: &github::GitHub) -> Vec<String> {
    server.comments().into_iter().map(|(_, body)| body).collect()
}

#[tokio::test]
async fn there_is_one_comment_that_is_made_once_and_changed_from_then_on() {
    let server = github::GitHub::start().await;
    let github = open(&server, BOT);
    assert!(matches!(comment(&github, "one").await, Ok(Sticky::Created(url)) if url.ends_with("-1")));
    assert_eq!(server.requests(), [LIST, POST]);
    assert!(matches!(comment(&github, "two").await, Ok(Sticky::Updated(url)) if url.ends_with("-1")));
    assert_eq!(
        server.requests(),
        [LIST, "PATCH /repos/shop/fleet/issues/comments/1"]
    );
    assert!(matches!(comment(&github, "two").await, Ok(Sticky::Unchanged(_))));
    assert_eq!(server.requests(), [LIST]);
    assert_eq!(bodies(&server), [format!("{MARKER}\ntwo\n")]);
}

#[tokio::test]
async fn it_is_found_on_any_page() {
    let server = github::GitHub::start().await;
    for number in 0..250 {
        server.say("alice", "User", &format!("comment {number}"));
    }
    server.say("github-actions[bot]", "Bot", &format!("{MARKER}\nold"));
    for number in 0..10 {
        server.say("alice", "User", &format!("and {number}"));
    }
    assert!(matches!(
        comment(&open(&server, BOT), "new").await,
        Ok(Sticky::Updated(_))
    ));
    assert_eq!(server.comments().len(), 261);
    assert_eq!(
        server.comments()[250],
        ("github-actions[bot]".to_owned(), format!("{MARKER}\nnew\n"))
    );
    assert_eq!(server.requests().len(), 4, "three pages and the change");
}

#[tokio::test]
async fn a_comment_of_somebody_else_is_not_changed_whatever_it_begins_with() {
    let server = github::GitHub::start().await;
    server.say("mallory", "User", &format!("{MARKER}\nall is well"));
    assert!(matches!(
        comment(&open(&server, BOT), "mine").await,
        Ok(Sticky::Created(_))
    ));
    // A person's own comment is theirs to change, by their token.
    let theirs = open(&server, PERSON);
    server.say("alice", "User", &format!("quotes {MARKER}"));
    server.say("alice", "User", &format!("{MARKER}\nby hand"));
    server.requests();
    // The bot's comes first, and a bot's is one of ours.
    assert!(matches!(comment(&theirs, "hers").await, Ok(Sticky::Updated(_))));
    let said = bodies(&server);
    assert_eq!(said[0], format!("{MARKER}\nall is well"));
    assert_eq!(said[1], format!("{MARKER}\nhers\n"));
    assert_eq!(
        said[2..],
        [format!("quotes {MARKER}"), format!("{MARKER}\nby hand")]
    );

    let server = github::GitHub::start().await;
    server.say("mallory", "User", MARKER);
    server.say("alice", "User", &format!("{MARKER}\nold"));
    assert!(matches!(
        comment(&open(&server, PERSON), "new").await,
        Ok(Sticky::Updated(_))
    ));
    assert_eq!(bodies(&server), [MARKER.to_owned(), format!("{MARKER}\nnew\n")]);
}

#[tokio::test]
async fn a_token_that_may_not_write_is_no_error_and_no_secret_is_told() {
    let server = github::GitHub::start().await;
    for token in [FORK, "ghp_nobody-swordfish"] {
        let github = open(&server, token);
        let Ok(Sticky::NotAllowed(why)) = comment(&github, "text").await else {
            panic!("{token}")
        };
        assert!(
            !why.contains("swordfish") && !format!("{github:?}").contains("swordfish"),
            "{why}"
        );
    }
    assert_eq!(server.comments(), []);
    let elsewhere = Api::new(&server.url(), Some(&Secret::new(BOT)), RETRY_POLICY).unwrap();
    let elsewhere = GitHub::new(elsewhere, "shop/hidden").unwrap();
    assert!(matches!(
        comment(&elsewhere, "text").await,
        Ok(Sticky::NotAllowed(_))
    ));
}

#[tokio::test]
async fn a_comment_that_was_made_without_an_answer_is_not_made_twice() {
    let server = github::GitHub::start().await;
    let github = open(&server, BOT);
    // The list is answered, then the comment is made and the answer is lost.
    server.trouble(Trouble::Answer(200, Vec::new(), "not a list"));
    assert!(matches!(
        comment(&github, "text").await,
        Err(Error::NotUnderstood { .. })
    ));
    let listed = |trouble| {
        server.trouble(Trouble::Answer(502, Vec::new(), "Bad Gateway"));
        server.trouble(Trouble::Answer(
            429,
            vec![("retry-after", "0".to_owned())],
            "slow down",
        ));
        server.trouble(Trouble::Answer(
            403,
            vec![
                ("x-ratelimit-remaining", "0".to_owned()),
                ("x-ratelimit-reset", "1".to_owned()),
            ],
            "API rate limit exceeded",
        ));
        server.trouble(trouble);
    };
    listed(Trouble::DoneBut(503));
    server.requests();
    // The fourth try to list fails, too: patience ends.
    assert!(matches!(
        comment(&github, "text").await,
        Err(Error::Unclear { .. })
    ));
    assert_eq!(server.requests(), [LIST; 4]);

    // Now the request that makes it is done, and answered as if not.
    let posted = comment_after_a_list(&server, &github).await;
    assert!(matches!(posted, Ok(Sticky::Unchanged(_))), "{posted:?}");
    assert_eq!(server.comments().len(), 1);
}

/// The comment is made in the second request, whose answer is a 502.
async fn comment_after_a_list(server: &github::GitHub, github: &GitHub) -> Result<Sticky, Error> {
    server.trouble(Trouble::Answer(500, Vec::new(), "once"));
    server.skip_one_then(Trouble::DoneBut(502));
    comment(github, "text").await
}

#[tokio::test]
async fn who_asks_to_be_left_alone_for_long_is_left_alone() {
    let server = github::GitHub::start().await;
    server.trouble(Trouble::Answer(
        403,
        vec![("retry-after", "3600".to_owned())],
        "You have exceeded a secondary rate limit",
    ));
    let error = comment(&open(&server, BOT), "text").await.unwrap_err();
    assert!(matches!(error, Error::Limited { wait, .. } if wait == Duration::from_hours(1)));
    assert_eq!(server.requests().len(), 1);
    let error = cutover::error::Error::from(error);
    assert_eq!(error.kind(), Kind::Unreachable);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_asked_a_few_times() {
    let policy = RetryPolicy {
        attempts: 2,
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_secs(5)),
        ..RETRY_POLICY
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let api = Api::new(&format!("http://{address}"), None, policy).unwrap();
    let error = comment(&GitHub::new(api, REPOSITORY).unwrap(), "text").await;
    assert!(matches!(error, Err(Error::Unreachable { .. })), "{error:?}");
}

#[test]
fn a_repository_that_is_none_is_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _guard = runtime.enter();
    for name in ["", "a", "a/b/c", "a/..", "a/b?x", "a/b c", "/b", "a/"] {
        let api = Api::new("https://api.github.com", None, RETRY_POLICY).unwrap();
        assert!(GitHub::new(api, name).is_err(), "{name}");
    }
}
