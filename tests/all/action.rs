//! How the action gets the program: `tools/action/get.sh`, with a `gh` that knows two releases and whose provenance they have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const NEWER: &str = "2222222222222222222222222222222222222222";
const OLDER: &str = "1111111111111111111111111111111111111111";
/// Of no release.
const OTHER: &str = "3333333333333333333333333333333333333333";

/// Answers as `gh` does. An archive says by its name from which tag it is, `provenance` from which commit it was built.
const GH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "$*" >> "$STAGE/asked"
case "$*" in
    "api --paginate repos/o/cutover/releases "*) printf 'nightly\nv0.2.0\nv0.1.0\n' ;;
    "api repos/o/cutover/commits/tags/v0.2.0 "*) cat "$STAGE/v0.2.0" ;;
    "api repos/o/cutover/commits/tags/v0.1.0 "*) cat "$STAGE/v0.1.0" ;;
    "release download "*)
        mkdir -p packed/cutover
        printf '#!/bin/sh\necho "cutover of %s"\n' "$3" > packed/cutover/cutover
        chmod +x packed/cutover/cutover
        tar -czf "$7" -C packed cutover ;;
    "attestation verify "*)
        built_from=$(cat "$STAGE/provenance")
        while (($#)); do
            [[ $1 != --source-digest || $2 == "$built_from" ]] || { echo "it was built from $built_from" >&2; exit 1; }
            shift
        done ;;
    *) echo "unexpected: gh $*" >&2; exit 2 ;;
esac
"#;

struct Stage(TempDir);

impl Stage {
    fn set() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        let gh = stage.path("bin/gh");
        fs::create_dir_all(gh.parent().unwrap()).unwrap();
        fs::create_dir_all(stage.path("temp")).unwrap();
        fs::write(&gh, GH).unwrap();
        fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
        for (file, commit) in [("v0.2.0", NEWER), ("v0.1.0", OLDER), ("provenance", OLDER)] {
            fs::write(stage.path(file), commit).unwrap();
        }
        stage
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Runs the step; returns what it prints and whether it succeeds.
    fn get(&self, used_at: &str, version: &str) -> (String, bool) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/action/get.sh");
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("bash")
            .arg(script)
            .env_clear()
            .env("PATH", path)
            .env("STAGE", self.0.path())
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_PATH", self.path("path"))
            .env("ACTION_REPOSITORY", "o/cutover")
            .env("ACTION_REF", used_at)
            .env("VERSION", version)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            String::from_utf8_lossy(&said).into_owned(),
            output.status.success(),
        )
    }

    /// What the next steps of the workflow find on their path.
    fn program(&self) -> Option<String> {
        let folder = self.read("path");
        let output = Command::new(Path::new(folder.trim()).join("cutover")).output();
        Some(String::from_utf8(output.ok()?.stdout).unwrap().trim().to_owned())
    }
}

#[test]
fn a_release_is_taken_by_its_tag_or_by_its_commit() {
    for (used_at, version, wanted) in [
        ("v0.1.0", "", "v0.1.0"),
        (OLDER, "", "v0.1.0"),
        ("main", OLDER, "v0.1.0"),
        (OTHER, "v0.1.0", "v0.1.0"),
    ] {
        let stage = Stage::set();
        let (said, succeeded) = stage.get(used_at, version);
        assert!(succeeded, "{used_at} {version}: {said}");
        assert_eq!(stage.program().unwrap(), format!("cutover of {wanted}"));
        let asked = stage.read("asked");
        let verified = asked
            .lines()
            .find(|line| line.starts_with("attestation"))
            .unwrap();
        assert!(
            verified.contains("--signer-workflow o/cutover/.github/workflows/release.yml"),
            "{verified}"
        );
        assert!(
            verified.contains(&format!("--source-ref refs/tags/{wanted}")),
            "{verified}"
        );
        let by_commit = [used_at, version].contains(&OLDER);
        assert_eq!(
            verified.ends_with(&format!("--source-digest {OLDER}")),
            by_commit,
            "{verified}"
        );
    }
}

/// A tag can be moved: what it points to says nothing about who built the archive that is found under it, and from what.
#[test]
fn an_archive_that_was_built_from_another_commit_than_the_pinned_one_is_not_taken() {
    let stage = Stage::set();
    fs::write(stage.path("v0.2.0"), OTHER).unwrap();
    let (said, succeeded) = stage.get(OTHER, "");
    assert!(!succeeded && said.contains("it was built from"), "{said}");
    assert_eq!(stage.program(), None);
}

#[test]
fn what_is_neither_a_release_nor_a_commit_of_one_is_refused() {
    for (used_at, version) in [
        ("main", ""),
        ("", ""),
        (&OLDER[..12], ""),
        (OTHER, ""),
        (OLDER, "main; rm -rf /"),
        (OLDER, "v1\nv2"),
    ] {
        let stage = Stage::set();
        let (said, succeeded) = stage.get(used_at, version);
        assert!(
            !succeeded && said.starts_with("::error title=cutover::"),
            "{used_at} {version}: {said}"
        );
        assert!(!stage.read("asked").contains("download"), "{said}");
        assert_eq!(stage.program(), None);
    }
}

/// Of this project: the names of files beside their text.
fn workflows() -> Vec<(String, serde_yaml::Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let workflow = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), workflow)
    };
    files.map(read).collect()
}

#[test]
fn what_signs_or_releases_runs_nobody_elses_code_and_what_is_fetched_is_pinned() {
    let is_pinned = |used: &str| {
        let commit = used.rsplit_once('@').map_or("", |(_, commit)| commit);
        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut signing = 0;
    for (file, workflow) in workflows() {
        for (name, job) in workflow["jobs"].as_mapping().unwrap() {
            let place = format!("{file}: {}", name.as_str().unwrap());
            let may = |right: &str| job["permissions"][right] == "write";
            let signs = may("id-token") || may("attestations") || may("contents");
            signing += usize::from(signs);
            for step in job["steps"].as_sequence().unwrap() {
                let used = step["uses"].as_str();
                assert!(used.is_none_or(is_pinned), "{place}: {used:?}");
                let run = step["run"].as_str().unwrap_or_default();
                let builds = used.is_some_and(|used| used.starts_with("actions/checkout"))
                    || ["cargo", "rustup", "docker build", "npm", "pip"]
                        .iter()
                        .any(|tool| run.contains(tool));
                assert!(!(signs && builds), "{place} signs, and builds: {step:?}");
                let fetches = run.contains("curl ") || run.contains("wget ");
                assert!(!fetches || run.contains("sha256sum --check"), "{place}: {run}");
            }
        }
    }
    assert_eq!(signing, 2, "the jobs that sign and that release");
    let image = include_str!("../../deploy/image/Dockerfile");
    for from in image.lines().filter(|line| line.starts_with("FROM ")) {
        assert!(from == "FROM scratch" || from.contains("@sha256:"), "{from}");
    }
}
