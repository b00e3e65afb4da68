//! What `cutover.yaml` at the root of a repository says: which folders are synced, and how.
//!
//! Without the file, the whole repository is one sync. What a run is told by flags is not here.

mod entries;
mod glob;
mod order;
mod receivers;
mod status;
mod sync;

pub use entries::{Shape, link_target};
pub use order::in_order;
pub use receivers::{Filter, Format, Masked, Receiver, Receivers};
pub use status::{STATUS_BRANCH, Status, StatusBranches, refused_status_branch};
pub use sync::{
    Drift, DriftMode, EvacuationCause, Evacuations, EvacuationsMode, Gate, Ignore, Migrations,
    MigrationsMode, PruneLimit, Sync, UnknownKinds, missing_folders,
};

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::API_VERSION;
use crate::error;
use crate::finding::{Code, Finding};
use crate::manifest::{self, Positions};
use crate::schema::{MOST_VIOLATIONS, violations};
use cutover_base::budget::{Budget, Limit};
use cutover_karmada::name::Location;

/// The file's place in a repository.
pub const PATH: &str = "cutover.yaml";
const KIND: &str = "Config";

/// How a repository is synced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "cutover.yaml")]
pub struct Config {
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    #[schemars(extend("const" = KIND))]
    pub kind: String,
    /// What is synced. None: the whole repository, as one sync called `main`.
    #[serde(default = "sync::whole_repository")]
    #[schemars(length(min = 1))]
    pub syncs: Vec<Sync>,
    #[serde(default)]
    pub status: Status,
    /// How often Git is asked for new commits and drift is corrected, for instance `30s`.
    #[serde(default)]
    pub interval: Interval,
    #[serde(default)]
    pub author: Author,
}

/// Who makes the commits on the status branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Author {
    pub name: String,
    pub email: String,
}

impl Default for Author {
    fn default() -> Self {
        Self {
            name: "cutover".to_owned(),
            email: "cutover@localhost".to_owned(),
        }
    }
}

/// A length of time of at least a second, written as `30s`, `5m`, `1h30m`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Interval(#[schemars(with = "String")] Duration);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a length of time of at least a second: {0:?}")]
pub struct NotAnInterval(String);

impl Interval {
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

impl TryFrom<String> for Interval {
    type Error = NotAnInterval;

    fn try_from(text: String) -> Result<Self, NotAnInterval> {
        let parsed = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|length| Duration::try_from(length).ok());
        match parsed {
            Some(length) if length >= Duration::from_secs(1) => Ok(Self(length)),
            _ => Err(NotAnInterval(text)),
        }
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        format!("{}s", interval.0.as_secs())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            syncs: sync::whole_repository(),
            status: Status::default(),
            interval: Interval::default(),
            author: Author::default(),
        }
    }
}

/// Why `cutover.yaml` can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unreadable(#[from] manifest::Error),
    #[error("{}", .0.first().map_or("", |finding| finding.message.as_str()))]
    Invalid(Vec<Finding>),
}

impl Error {
    /// Returns everything that is wrong, with places.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Unreadable(error) => vec![error.into()],
            Self::Invalid(findings) => findings.clone(),
        }
    }
}

impl Error {
    /// Returns the error as people see it.
    pub fn in_file(self, path: &str) -> error::Error {
        let mut converted = error::Error::user(format!("{path}: {self}"));
        let Some(finding) = self.findings().into_iter().next() else {
            return converted;
        };
        if let Some(location) = finding.location {
            converted = converted.at(location);
        }
        match finding.hint {
            Some(hint) => converted.hint(hint),
            None => converted,
        }
    }
}

impl From<Error> for error::Error {
    fn from(error: Error) -> Self {
        error.in_file(PATH)
    }
}

impl Config {
    /// Reads `cutover.yaml` within the usual limits. An empty file says the same as none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse_within(bytes, &Budget::default())
    }

    /// Reads `cutover.yaml`. An empty file says the same as none.
    pub fn parse_within(bytes: &[u8], budget: &Budget) -> Result<Self, Error> {
        let Some((value, positions)) = manifest::parse_one(PATH, bytes, budget)? else {
            return Ok(Self::default());
        };
        let syncs = value["syncs"].as_array().map_or(0, Vec::len);
        budget.check(Limit::RevisionSyncs, syncs).map_err(|over| {
            let location = positions.value("/syncs").of(PATH);
            let finding = Finding::new(Code::TooLarge, location, over.to_string()).hint(over.hint());
            Error::Invalid(vec![finding])
        })?;
        let faults: Vec<_> = violations(&value, &Self::schema())
            .iter()
            .map(|violation| {
                let finding = violation.finding(PATH, PATH, &positions);
                let number = value
                    .pointer(&violation.pointer)
                    .filter(|value| value.is_number());
                match number.filter(|_| lengths(&value).any(|at| at == violation.pointer)) {
                    Some(number) => finding.hint(format!("write a unit: {number}s")),
                    None => finding,
                }
            })
            .collect();
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        let config: Self = serde_json::from_value(value.clone()).map_err(|error| {
            // The schema fits, so it is a value that only its type can judge: a length of time.
            let at = lengths(&value).find(|at| value.pointer(at).is_some_and(is_no_interval));
            Error::Invalid(vec![fault(
                PATH,
                &positions,
                &at.unwrap_or_default(),
                error.to_string(),
            )])
        })?;
        let faults = config.faults(&positions);
        if faults.is_empty() {
            Ok(config)
        } else {
            Err(Error::Invalid(faults))
        }
    }

    /// Returns the JSON Schema of the file.
    pub fn schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Returns the sync that a file belongs to: the innermost whose folder it is in, unless that leaves it out.
    ///
    /// Only `.yaml`, `.yml` and `.json` files are looked at; `cutover.yaml`, whatever begins with a dot, and what is in the
    /// status directory, never.
    pub fn sync_of(&self, path: &str) -> Option<&Sync> {
        let (_, extension) = path.rsplit_once('.')?;
        if self.is_ignored(path) || path == PATH || !matches!(extension, "yaml" | "yml" | "json") {
            return None;
        }
        let inside = self
            .syncs
            .iter()
            .filter_map(|sync| Some((sync, sync.inside(path)?)));
        let (sync, rest) = inside.min_by_key(|(_, rest)| rest.len())?;
        (!sync.exclude.iter().any(|pattern| glob::matches(pattern, rest))).then_some(sync)
    }

    fn faults(&self, positions: &Positions) -> Vec<Finding> {
        let mut faults = Vec::new();
        let mut report = |at: String, message: String| {
            if faults.len() < MOST_VIOLATIONS {
                faults.push(fault(PATH, positions, &at, message));
            }
        };
        let syncs = sync::Syncs::of(&self.syncs);
        for (index, sync) in self.syncs.iter().enumerate() {
            sync.faults(&syncs, index, &mut |field, message| {
                report(format!("/syncs/{index}/{field}"), message);
            });
        }
        self.status.faults(&self.syncs, &mut |field, message| {
            report(format!("/status/{field}"), message);
        });
        faults
    }
}

/// Returns where a length of time may stand.
fn lengths(value: &Value) -> impl Iterator<Item = String> {
    let syncs = value["syncs"].as_array().map_or(0, Vec::len);
    let waits = (0..syncs).map(|index| format!("/syncs/{index}/wait"));
    std::iter::once("/interval".to_owned()).chain(waits)
}

fn is_no_interval(value: &Value) -> bool {
    value
        .as_str()
        .is_none_or(|text| Interval::try_from(text.to_owned()).is_err())
}

fn fault(path: &str, positions: &Positions, pointer: &str, message: String) -> Finding {
    let location: Location = positions.value(pointer).of(path);
    Finding::new(Code::WrongValue, location, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn complaints(text: &str) -> String {
        let findings = Config::parse(text.as_bytes()).unwrap_err().findings();
        findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    const HEAD: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\n";

    #[test]
    fn no_file_is_one_sync_of_everything() {
        let config = Config::parse(b"# nothing\n").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config, Config::parse(HEAD.as_bytes()).unwrap());
        let synced = |path: &str| config.sync_of(path).map(|sync| sync.name.as_str());
        for path in ["a.yaml", "deep/er/b.yml", "c.json", "sub/cutover.yaml"] {
            assert_eq!(synced(path), Some("main"), "{path}");
        }
        for path in [
            "cutover.yaml",
            "README.md",
            "LICENSE",
            ".github/workflows/a.yaml",
            "x/.hidden.yaml",
            "yaml",
        ] {
            assert_eq!(synced(path), None, "{path}");
        }
    }

    #[test]
    fn one_sync_evacuates_clusters_and_says_how_in_words_that_are_known() {
        let config = |text: &str| format!("{HEAD}syncs: [{{name: a, gate: {{evacuations: {text}}}}}]\n");
        let parsed = Config::parse(config("{mode: Ask, causes: [Cordon]}").as_bytes()).unwrap();
        let own = &parsed.syncs[0].gate.evacuations;
        assert_eq!(
            (own.mode, &*own.causes),
            (EvacuationsMode::Ask, &[EvacuationCause::Cordon][..])
        );
        assert_eq!(own.max_parallel, 2);
        for (text, told) in [
            ("{mode: auto}", "cutover.yaml:3"),
            ("{mode: auto}", "Auto"),
            ("{causes: [Cordn]}", "Cordon"),
            ("{causes: []}", "causes"),
            ("{modus: Ask}", "mode"),
        ] {
            let complaints = complaints(&config(text));
            assert!(complaints.contains(told), "{text}: {complaints}");
        }
        let two = |first: &str| {
            format!(
                "{HEAD}syncs:\n- {{name: a, path: a, gate: {{evacuations: {{mode: {first}}}}}}}\n\
                 - {{name: b, path: b, gate: {{evacuations: {{mode: Auto}}}}}}\n"
            )
        };
        assert!(Config::parse(two("Manual").as_bytes()).is_ok());
        let complaints = complaints(&two("Ask"));
        assert!(
            complaints.contains("sync \"a\" evacuates clusters already"),
            "{complaints}"
        );
    }

    #[test]
    fn status_has_a_branch_of_its_own_or_a_folder_that_nobody_syncs() {
        let status = |text: &str| Config::parse(format!("{HEAD}status: {text}\n").as_bytes()).unwrap();
        for (text, branch, synced) in [
            ("{}", "cutover-status", Some("main")),
            ("{branch: told}", "told", Some("main")),
            ("{directory: fleet/told}", "main", None),
            ("{branch: told, directory: fleet/told}", "told", Some("main")),
        ] {
            let config = status(text);
            assert_eq!(config.status.branch_beside("main"), branch, "{text}");
            let sync = config.sync_of("fleet/told/intents/a.yaml");
            assert_eq!(sync.map(|sync| sync.name.as_str()), synced, "{text}");
            assert!(config.sync_of("fleet/told.yaml").is_some());
            assert!(config.sync_of("fleet/tolder/a.yaml").is_some());
        }
        insta::assert_snapshot!(complaints(&format!("{HEAD}status: {{directory: ../x}}\n")), @r#"
        error[CUT0007]: "../x" is not a folder of the branch
          --> cutover.yaml:3:21
        "#);
        insta::assert_snapshot!(complaints(&format!("{HEAD}status: {{directory: x, keepDays: 30}}\n")), @r#"
        error[CUT0007]: the history of the branch that is synced is not rewritten
          --> cutover.yaml:3:34
        "#);
        insta::assert_snapshot!(complaints(&format!(
            "{HEAD}status: {{directory: a}}\nsyncs: [{{name: b, path: a/b}}]\n"
        )), @r#"
        error[CUT0007]: "a" has the files of the sync "b"
          --> cutover.yaml:3:21
        "#);
    }

    #[test]
    fn syncs_that_wait_for_themselves_or_for_nobody_are_refused() {
        let text = format!(
            "{HEAD}syncs:\n- {{name: a, path: a, dependsOn: [b]}}\n- {{name: b, path: b, dependsOn: [a]}}\n\
             - {{name: c, path: ./a/, dependsOn: [a, x]}}\n- {{name: c, path: d}}\n"
        );
        insta::assert_snapshot!(complaints(&text), @r#"
        error[CUT0007]: "a" waits for itself
          --> cutover.yaml:4:33
        error[CUT0007]: "b" waits for itself
          --> cutover.yaml:5:33
        error[CUT0007]: "a" and "c" have the same path
          --> cutover.yaml:6:19
        error[CUT0007]: no sync is called "x"
          --> cutover.yaml:6:40
        error[CUT0007]: two syncs are called "c"
          --> cutover.yaml:7:10
        "#);
    }

    #[test]
    fn a_file_of_three_thousand_syncs_is_refused_unless_the_limit_is_raised() {
        let mut text = format!("{HEAD}syncs:\n- {{name: s0, path: s0}}\n");
        for place in 1..3_000 {
            text.push_str(&format!(
                "- {{name: s{place}, path: s{place}, dependsOn: [s{}]}}\n",
                place - 1
            ));
        }
        insta::assert_snapshot!(complaints(&text), @"
        error[CUT0004]: more than 500 syncs in cutover.yaml (limit revision-syncs)
          --> cutover.yaml:4:3
        hint: name fewer, or raise the limit where cutover runs: --budget revision-syncs=1000
        ");
        let budget = Budget::default().with(Limit::RevisionSyncs, 3_000);
        let config = Config::parse_within(text.as_bytes(), &budget).unwrap();
        assert_eq!(in_order(&config.syncs).len(), 3_000);
    }

    #[test]
    fn a_file_of_nothing_but_unknown_fields_is_told_in_brief() {
        let text: String = (0..100_000).map(|field| format!("f{field}: 1\n")).collect();
        let findings = Config::parse(format!("{HEAD}{text}").as_bytes())
            .unwrap_err()
            .findings();
        assert_eq!(findings.len(), MOST_VIOLATIONS);
    }

    #[test]
    fn the_innermost_sync_takes_a_file() {
        let text = format!(
            "{HEAD}interval: 1m30s\nsyncs:\n- {{name: all, exclude: ['**/values*.yaml']}}\n\
             - {{name: team, path: teams/a/, exclude: ['charts/**'], prune: true, namespace: a}}\n"
        );
        let config = Config::parse(text.as_bytes()).unwrap();
        assert_eq!(config.interval.duration(), Duration::from_secs(90));
        let synced = |path: &str| config.sync_of(path).map(|sync| sync.name.as_str());
        assert_eq!(synced("teams/a/x.yaml"), Some("team"));
        assert_eq!(synced("teams/ab/x.yaml"), Some("all"));
        assert_eq!(synced("teams/a/charts/x.yaml"), None);
        assert_eq!(synced("teams/b/values-1.yaml"), None);
        assert_eq!(synced("values.yaml"), None);
        assert_eq!(synced("teams/a/values.yaml"), Some("team"));
    }

    #[test]
    fn mistakes_are_placed_and_hinted_at() {
        insta::assert_snapshot!(complaints(&format!("{HEAD}syncs:\n- name: a\n  excludes: []\n  prune: 'yes'\n")), @"
        error[CUT0006]: syncs[0].excludes is not a field of cutover.yaml
          --> cutover.yaml:5:3
        hint: did you mean exclude?
        error[CUT0007]: syncs[0].prune must be true or false, not a string
          --> cutover.yaml:6:10
        ");
        insta::assert_snapshot!(complaints("apiVersion: cutover.dev/v1\nkind: Config\n"), @r#"
        error[CUT0007]: apiVersion can't be "cutover.dev/v1"
          --> cutover.yaml:1:13
        hint: one of cutover.dev/v1alpha1
        "#);
        insta::assert_snapshot!(complaints(&format!("{HEAD}syncs:\n- path: a\n")), @"
        error[CUT0008]: syncs[0].name is missing
          --> cutover.yaml:4:3
        ");
        insta::assert_snapshot!(complaints(&format!("{HEAD}syncs:\n- {{name: a}}\n- {{name: a, path: ../b}}\n- {{name: C, path: ./}}")), @r#"
        error[CUT0007]: "../b" is not a folder of the repository
          --> cutover.yaml:5:19
        error[CUT0007]: two syncs are called "a"
          --> cutover.yaml:5:10
        error[CUT0007]: "C" is not lower-case letters, digits and `-`
          --> cutover.yaml:6:10
        error[CUT0007]: "a" and "C" have the same path
          --> cutover.yaml:6:19
        "#);
        insta::assert_snapshot!(complaints(&format!("{HEAD}interval: soon\n")), @r#"
        error[CUT0007]: not a length of time of at least a second: "soon"
          --> cutover.yaml:3:11
        "#);
        insta::assert_snapshot!(complaints(&format!("{HEAD}interval: 30\n")), @"
        error[CUT0007]: interval must be a string, not a number
          --> cutover.yaml:3:11
        hint: write a unit: 30s
        ");
        insta::assert_snapshot!(complaints(&format!("{HEAD}---\n{HEAD}")), @"
        error[CUT0001]: more than one document
          --> cutover.yaml:4:1
        hint: keep one document in this file
        ");
    }

    #[test]
    fn syncs_wait_for_others_but_never_for_themselves() {
        insta::assert_snapshot!(complaints(&format!(
            "{HEAD}syncs:\n- name: a\n  path: a\n  wait: 10\u{b5}\n"
        )), @r#"
        error[CUT0007]: not a length of time of at least a second: "10µ"
          --> cutover.yaml:6:9
        "#);
        insta::assert_snapshot!(complaints(&format!(
            "{HEAD}syncs:\n- {{name: a, path: a, dependsOn: [b]}}\n- {{name: b, path: b, dependsOn: [c, a]}}\n"
        )), @r#"
        error[CUT0007]: "a" waits for itself
          --> cutover.yaml:4:33
        error[CUT0007]: no sync is called "c"
          --> cutover.yaml:5:34
        error[CUT0007]: "b" waits for itself
          --> cutover.yaml:5:33
        "#);
    }

    #[test]
    fn an_ignore_rule_says_what_it_ignores() {
        insta::assert_snapshot!(complaints(&format!(
            "{HEAD}syncs:\n- name: a\n  drift:\n    mode: warn\n"
        )), @r#"
        error[CUT0007]: syncs[0].drift.mode can't be "warn"
          --> cutover.yaml:6:11
        hint: did you mean Warn?
        "#);
        insta::assert_snapshot!(complaints(&format!(
            "{HEAD}syncs:\n- name: a\n  drift:\n    ignore:\n    - kind: Deployment\n    - pointers: [spec]\n"
        )), @r#"
        error[CUT0007]: it names neither pointers nor managers
          --> cutover.yaml:7:7
        error[CUT0007]: "spec" is no JSON pointer: it begins with a slash
          --> cutover.yaml:8:18
        "#);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let config = Config::default();
        let text = serde_yaml::to_string(&config).unwrap();
        assert_eq!(Config::parse(text.as_bytes()).unwrap(), config);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_text_is_a_configuration_or_findings_with_a_place_in_it(
            lines in prop::collection::vec(
                "( ){0,3}(- )?(syncs|name|path|prune|exclude|dependsOn|status|branch|keepDays|interval|[a-z*&?]{0,3}):? ?\
                 ([a-z./*-]{0,6}|[0-9]{1,4}[smhd]?|\\[|\\{|true|'|\"|\\.\\./a|)",
                0..12,
            ),
        ) {
            let text = format!("{HEAD}{}\n", lines.join("\n"));
            if let Err(error) = Config::parse(text.as_bytes()) {
                let findings = error.findings();
                prop_assert!(!findings.is_empty(), "{}", text);
            }
        }

        /// What is in force decides what is pruned: no two syncs own a file, and a path that leads out is owned by none.
        #[test]
        fn of_a_configuration_that_is_taken_each_file_has_one_owner_at_most(
            paths in prop::collection::vec("(a|b|a/b|\\.|a/b/c|\\.\\./a|/a|)", 1..5),
            file in "(a/|b/|c/){0,3}[a-c]\\.(yaml|json|md)",
        ) {
            let syncs: String = paths
                .iter()
                .enumerate()
                .map(|(number, path)| format!("- {{name: s{number}, path: '{path}'}}\n"))
                .collect();
            let Ok(config) = Config::parse(format!("{HEAD}syncs:\n{syncs}").as_bytes()) else { return Ok(()) };
            let names: BTreeSet<&str> = config.syncs.iter().map(|sync| sync.name.as_str()).collect();
            prop_assert_eq!(names.len(), config.syncs.len());
            prop_assert!(config.syncs.iter().all(|sync| !sync.folder().contains("..") && !sync.folder().starts_with('/')));
            // The one whose folder is nearest.
            let nearest = config.syncs.iter().filter(|sync| sync.inside(&file).is_some());
            let nearest = nearest.max_by_key(|sync| sync.folder().len()).map(|sync| &sync.name);
            let owner = config.sync_of(&file).map(|sync| &sync.name);
            prop_assert!(owner.is_none() || owner == nearest, "{:?} {:?} of {}", owner, nearest, file);
        }
    }
}
