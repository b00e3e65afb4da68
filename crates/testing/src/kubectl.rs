//! Which kubectl there is to test with.

use serde_json::Value;
use tokio::process::Command;

/// From this minor version on, kubectl reads `OpenAPI` v3 to apply, diff and explain; before, v2 in protobuf.
pub const READS_V3: u32 = 27;

/// Returns whether there is a kubectl of at least a minor version 1.x, and says so if a test has to be left out. In
/// CI one has to be there; an old distribution may have an old one.
#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests should know what was not tested"
)]
pub async fn is_there(minor: u32) -> bool {
    let found = minor_version().await;
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "kubectl has to be there in CI"
    );
    let fits = found.is_some_and(|found| found >= minor);
    if !fits {
        let found = found.map_or("not installed".to_owned(), |found| format!("1.{found}"));
        eprintln!("left out: kubectl is {found}, the test needs 1.{minor}");
    }
    fits
}

async fn minor_version() -> Option<u32> {
    let output = Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output()
        .await
        .ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches('+').parse().ok()
}
