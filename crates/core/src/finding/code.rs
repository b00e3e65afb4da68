//! The registry of codes. The documentation is generated from it; a code is never given another meaning.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It can't work, or does harm.
    Error,
    /// It probably isn't what was meant.
    Warning,
    /// Good to know.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// What is known about a code.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub code: Code,
    /// In words with dashes.
    pub name: &'static str,
    pub severity: Severity,
    pub explanation: &'static str,
}

macro_rules! rules {
    ($($code:ident = $number:literal, $name:literal, $severity:ident, $explanation:literal;)*) => {
        /// What a finding is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $explanation] $code = $number,)*
        }

        /// Every code, in order.
        pub const RULES: &[Rule] = &[
            $(Rule { code: Code::$code, name: $name, severity: Severity::$severity, explanation: $explanation },)*
        ];

        impl Code {
            pub const fn rule(self) -> Rule {
                match self {
                    $(Self::$code => Rule {
                        code: self,
                        name: $name,
                        severity: Severity::$severity,
                        explanation: $explanation,
                    },)*
                }
            }
        }
    };
}

rules! {
    Unreadable = 1, "unreadable", Error, "The document is not YAML or JSON that means the same to every parser.";
    DuplicateKey = 2, "duplicate-key", Error, "A key is written twice in one mapping: one of the values would be lost.";
    NotAnObject = 3, "not-an-object", Error, "The document has no valid apiVersion, kind or metadata.name.";
    TooLarge = 4, "too-large", Error, "The file is larger, deeper or has more aliases than any manifest needs.";
    DuplicateObject = 5, "duplicate-object", Error, "Two places define the same object; neither is applied.";
    UnknownField = 6, "unknown-field", Error, "The kind has no such field; the API server would drop it silently.";
    WrongValue = 7, "wrong-value", Error, "The value has the wrong type, or is none of those that are allowed.";
    MissingField = 8, "missing-field", Error, "A field that must be there is missing.";
    NoSuchKind = 9, "no-such-kind", Error, "The API group cutover.dev has no such kind, or not in that version: no API server serves it.";
    KubernetesSchema = 10, "kubernetes-schema", Warning, "The Kubernetes that cutover is built for has no such kind, field or value, or requires a field that is missing; a newer one may differ.";
    NoFolder = 11, "no-folder", Error, "A sync names a folder that the repository doesn't have: it would apply nothing.";
    UnknownWorkload = 101, "unknown-workload", Warning, "An intent names a workload that the repository doesn't define.";
    SelectsNothing = 102, "selects-nothing", Warning, "A policy selects no object of the repository.";
    UnknownProfile = 103, "unknown-profile", Error, "An intent names a profile that is neither built in nor defined.";
    UnknownPolicy = 104, "unknown-policy", Warning, "An intent names a policy that the repository doesn't define.";
    SuspendsSeveral = 105, "suspends-several", Warning, "A suspension of a policy stops every workload that the policy selects.";
    SharedPolicy = 106, "shared-policy", Error, "A workload can't be suspended alone: its policy selects others, too, and a pin can't hold it.";
    OverAlready = 107, "over-already", Warning, "The suspension ends in the past.";
    SuspendsNowhere = 108, "suspends-nowhere", Warning, "A suspension names a cluster in which the policy never places anything.";
    RivalIntents = 109, "rival-intents", Error, "Two standing intents of one kind are about the same workload.";
    TooLate = 110, "too-late", Note, "The deadline of an intent, or the end of its window, is in the past: the intent starts nothing.";
    BadExpression = 111, "bad-expression", Error, "An expression, a JSONPath or a query can't be read, or exceeds its budget: nothing is decided by it.";
    TakesTurns = 112, "takes-turns", Warning, "Several intents want the same workload: those that have not ended go one after the other.";
    ExclusiveIntents = 113, "exclusive-intents", Error, "Two intents that have not ended want what only one of them can have: the workload in different clusters.";
    LosesState = 114, "loses-state", Error, "A change of files takes a workload with state out of its clusters, and no Migration carries its state.";
    MayLoseState = 115, "may-lose-state", Warning, "A change of files may take a workload with state out of its clusters: files do not say where it runs.";
    BesideRollout = 116, "beside-rollout", Note, "An intent moves a workload whose changes a Rollout releases: the two take turns.";
    UnknownCluster = 117, "unknown-cluster", Warning, "One object alone names the cluster, and others name one whose name is nearly the same.";
    GoesNowhere = 118, "goes-nowhere", Error, "A Migration names one cluster as its source and as its target.";
    ShortTimeout = 119, "short-timeout", Note, "The time in which something must become healthy is shorter than the time for which it must stay healthy: the second begins where the first ends.";
    TwoWriters = 120, "two-writers", Error, "An intent would let two copies of a workload with state run: it is refused. A warning by a built-in profile, for the control plane may have another one.";
    BadMoves = 121, "bad-moves", Error, "An evacuation or a rebalance asks for something that can't be done.";
    UnknownKind = 122, "unknown-kind", Warning, "An intent selects a kind of which the repository defines no object.";
    ToleratesCordon = 123, "tolerates-cordon", Warning, "A policy tolerates the taint by which an evacuation keeps new work off its cluster.";
    InVain = 124, "in-vain", Warning, "A field of an evacuation has no effect together with the others.";
    NamedTwice = 131, "named-twice", Warning, "A rollout names a cluster twice: only the first place counts.";
    NoSuchWave = 132, "no-such-wave", Warning, "A rollout waits for an approval of a wave that it doesn't name.";
    BadSelector = 133, "bad-selector", Error, "A label selector of a rollout policy can't be read: everything of its kind is held.";
    RolledTwice = 134, "rolled-twice", Warning, "Another intent is in charge of a workload that a rollout policy selects.";
    BadShift = 141, "bad-shift", Error, "A replica shift asks for something that can't be done.";
    ScaledBesides = 142, "scaled-besides", Warning, "Something else sets the replicas that a shift moves, so that the shift is refused.";
    FailoverMeanwhile = 143, "failover-meanwhile", Warning, "The policy of a workload whose replicas are shifted has failover: the shift is refused.";
    AppliedTwice = 151, "applied-twice", Warning, "An object in the repository carries the marks of another tool that applies it.";
    StatusBranch = 152, "status-branch", Warning, "cutover.yaml names a status branch that a reconciler refuses unless a flag allows it.";
    UnknownAnnotation = 153, "unknown-annotation", Warning, "An annotation of cutover has a name or a value that means nothing.";
    AmbiguousProfile = 161, "ambiguous-profile", Error, "Several profiles of the repository are for one kind: an intent that names none of them does not start.";
    BadPatch = 162, "bad-patch", Error, "A patch of a profile can't be written, or a profile of a workload with state has none that holds or stops it.";
    UnknownPath = 163, "unknown-path", Error, "A profile reads or writes a field that the schema of its kind doesn't have.";
    WrongType = 164, "wrong-type", Error, "An expression of a profile is neither true nor false, or a profile compares or writes a value of another type than the schema of its kind says.";
    DoubtfulPath = 165, "doubtful-path", Warning, "A profile can do without a field that the schema of its kind doesn't have, but the schema has one of nearly that name.";
    DeadStatePath = 201, "dead-state-path", Error, "A state-preservation path matches nothing, which silently disables failover altogether.";
    OldPurgeMode = 202, "old-purge-mode", Error, "The purge mode has been renamed; Karmada refuses or ignores the old name.";
    StateNeverInjected = 203, "state-never-injected", Warning, "Preserved state is only injected with the purge mode Directly.";
    NoPropagateDeps = 204, "no-propagate-deps", Error, "Application failover needs propagateDeps: Karmada's webhook refuses the policy without it.";
    PlanContradicts = 205, "plan-contradicts", Error, "A failover plan contradicts itself, or asks for something unavailable.";
    PlanUnserved = 206, "plan-unserved", Warning, "A failover plan and the policy of its workload don't fit together.";
    PlainSecret = 301, "plain-secret", Warning, "A Secret with its values in plain text is in Git.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUT{:04}", *self as u16)
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
