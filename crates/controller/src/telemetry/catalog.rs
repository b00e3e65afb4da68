//! Every metric by name: what is registered is made from it, and docs/reference/metrics.md is held to it.

/// One metric, with the help text that Prometheus shows.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    /// A sentence without its full stop.
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    /// Returns the name of the kind in Prometheus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! catalog {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Metric = Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every metric, in the order of the reference.
        pub const METRICS: &[&Metric] = &[$(&$constant),*];
    };
}

catalog! {
    BUILD: Gauge "cutover_build_info" ["version"]
        "Always 1; the version of the program";
    LEADER: Gauge "cutover_leader" []
        "1 while this process holds the Lease and works, 0 while it stands by";
    READY: Gauge "cutover_ready" ["part"]
        "1 for each part of /readyz that is ready, 0 for each that is not";
    SYNC_PASSES: Counter "cutover_sync_passes_total" ["sync", "result"]
        "Passes of a sync that looked at objects, by result: clean, problems or error";
    SYNC_OBJECTS: Gauge "cutover_sync_objects" ["sync", "state"]
        "Objects in Git after the last pass, by state: in_sync, waiting, held_back, drifted or failed";
    SYNC_PENDING: Gauge "cutover_sync_pending_seconds" ["sync"]
        "How long the oldest revision that is not wholly applied has been known; 0 when everything is applied";
    PUSH_TO_APPLIED: Histogram "cutover_push_to_applied_seconds" ["sync"]
        "From a push until everything that it changes is applied; at the most, as the time of a push is known only from the commit and \
         from the fetch before";
    DRIFT: Counter "cutover_drift_corrected_total" ["sync"]
        "Objects that were written because they had been changed or deleted in the control plane, not because Git had changed";
    GIT: Counter "cutover_git_operations_total" ["operation", "result"]
        "Conversations with Git by operation (fetch, publish) and result (ok, error)";
    GIT_SUCCESS: Gauge "cutover_git_last_success_timestamp_seconds" ["operation"]
        "When a conversation with Git last succeeded, in seconds since 1970";
    API: Counter "cutover_api_requests_total" ["target", "verb", "code"]
        "Requests to the Karmada API server by target (control_plane, member), verb and HTTP status; error: there was no answer";
    API_TIME: Histogram "cutover_api_request_duration_seconds" ["target", "verb"]
        "How long an answer of the Karmada API server took; of a watch, its first byte";
    INTENTS: Gauge "cutover_intents" ["kind", "phase"]
        "Intents by kind and phase; known to the leader alone";
    WAITING: Gauge "cutover_intents_waiting" ["kind", "reason", "manual"]
        "Intents that wait, by kind and reason code; manual is true where only a person ends the wait";
    ENDED: Counter "cutover_intents_ended_total" ["kind", "phase"]
        "Attempts of intents that have ended, by kind and last phase";
    PHASES: Histogram "cutover_intent_phase_duration_seconds" ["kind", "phase"]
        "How long a phase of an intent took";
    DOWNTIME: Histogram "cutover_migration_downtime_seconds" []
        "How long no copy of a migrated workload was seen running, at the most";
}
