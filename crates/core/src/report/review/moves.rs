//! What the intents of a change would do: the steps with what to expect of each, and what stands in the way as far as can be
//! seen before anything is begun.

use jiff::Timestamp;

use super::links::Places;
use super::page::{code, inline};
use crate::api::{self, Finding, Migration, MigrationSpec, MigrationStatus, OnFailure, Phase, Strategy};
use crate::intent::Snapshot;
use crate::intent::migration::{Input, source_notes, step};
use crate::plan::{Forecast, ForecastStep, Outcome as Outlined};
use crate::profile;
use crate::report::Earlier;
use cutover_karmada::name::{ClusterName, Location, ObjectKey};

/// A migration that a change would begin.
#[derive(Clone, Debug)]
pub struct Move {
    pub intent: ObjectKey,
    pub at: Option<Location>,
    pub workload: ObjectKey,
    pub spec: MigrationSpec,
    pub preview: Preview,
    pub template: Template,
    /// What else the policy places that places the workload.
    pub neighbours: Neighbours,
    /// How long earlier moves stopped what they moved, if any are on record.
    pub earlier: Option<Earlier>,
}

/// What the same change does to the template of the workload that moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// Nothing.
    #[default]
    Same,
    /// It waits for the migration, which takes it along.
    HeldBack,
    /// It is applied where the workload runs, before the migration begins.
    InPlace,
}

/// The policy that places a workload, and how many others it places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    pub policy: Option<String>,
    pub workloads: Vec<String>,
}

/// What could be seen of a migration before it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    pub source: Option<ClusterName>,
    pub stateful: bool,
    /// The target's copy can be created without running.
    pub born_held: bool,
    /// What the source has done so far that the target does again.
    pub repeats: Vec<String>,
    pub verdict: Verdict,
}

/// What Preflight would say, were it now.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Clear,
    /// It runs in the target already.
    There,
    Blocked(Vec<Finding>),
    /// It would wait, for this.
    Waits(String),
    /// It is under way: most of its spec is not obeyed any more.
    UnderWay(Phase),
    /// Nobody could be asked.
    Unknown(String),
}

impl Default for Verdict {
    fn default() -> Self {
        Self::Unknown("no control plane was asked".to_owned())
    }
}

impl Verdict {
    /// Returns whether the steps are still to come, as far as is known.
    const fn has_steps(&self) -> bool {
        matches!(self, Self::Clear | Self::Waits(_) | Self::Unknown(_))
    }
}

impl Move {
    /// Returns a migration of which nothing is known but what it asks for.
    pub fn new(migration: &Migration, at: Option<Location>) -> Self {
        let metadata = &migration.metadata;
        let namespace = metadata.namespace.clone();
        Self {
            intent: ObjectKey {
                group: api::GROUP.to_owned(),
                kind: "Migration".to_owned(),
                namespace: namespace.clone(),
                name: metadata.name.clone().unwrap_or_default(),
            },
            at,
            workload: migration.spec.workload.key(namespace.as_deref()),
            preview: Preview::unseen(&migration.spec),
            spec: migration.spec.clone(),
            template: Template::default(),
            neighbours: Neighbours::default(),
            earlier: None,
        }
    }

    /// Returns the same in plain words, for a plan.
    pub fn forecast(&self) -> Forecast {
        let said = |finding: &Finding| crate::report::finding_text(finding);
        let (outcome, because) = match &self.preview.verdict {
            Verdict::Clear => (Outlined::Begins, Vec::new()),
            Verdict::There => (
                Outlined::Nothing,
                vec![format!("Karmada lists it in {} already", self.spec.to)],
            ),
            Verdict::Blocked(findings) => (Outlined::Refused, findings.iter().map(said).collect()),
            Verdict::Waits(why) => (Outlined::Waits, vec![why.clone()]),
            Verdict::UnderWay(phase) => (Outlined::UnderWay, vec![phase.to_string()]),
            Verdict::Unknown(why) => (Outlined::Unknown, vec![why.clone()]),
        };
        let shows = self.preview.verdict.has_steps();
        let rows = rows(self, &PLAIN).into_iter().filter(|_| shows);
        let steps = rows.map(|(phase, what, effect)| {
            let gate = if gated(&self.spec, phase) {
                "waits for an approval; "
            } else {
                ""
            };
            ForecastStep::new(phase.name(), format!("{gate}{what}; {effect}"))
        });
        let mut remarks = Vec::new();
        remarks.extend(self.expected_downtime().filter(|_| shows));
        remarks.extend(self.preview.repeats.iter().filter(|_| shows).cloned());
        if self.template == Template::InPlace {
            remarks.push(
                "its template changes as well, and nothing holds that back: it is changed where it runs"
                    .to_owned(),
            );
        }
        Forecast {
            outcome,
            because,
            steps: steps.collect(),
            remarks,
            from: self.preview.source.clone(),
            moves: Vec::new(),
        }
    }

    /// Says how long earlier moves stopped what they moved. One that starts first stops nothing.
    fn expected_downtime(&self) -> Option<String> {
        let stops = self.spec.strategy == Strategy::StopFirst;
        self.earlier.as_ref().filter(|_| stops).map(Earlier::described)
    }

    pub(super) fn source(&self) -> Option<&ClusterName> {
        self.preview.source.as_ref().or(self.spec.from.as_ref())
    }
}

impl Preview {
    fn unseen(spec: &MigrationSpec) -> Self {
        Self {
            source: None,
            verdict: Verdict::default(),
            ..Self::by_profile(spec, &[])
        }
    }

    fn by_profile(spec: &MigrationSpec, given: &[api::WorkloadProfile]) -> Self {
        let found = profile::find(given, spec.profile.as_deref(), &spec.workload.gvk());
        let found = found.ok().flatten().map(|profile| profile.spec);
        Self {
            stateful: found.as_ref().is_none_or(|profile| profile.stateful),
            born_held: found.as_ref().is_none_or(|profile| profile.born_held),
            ..Self::default()
        }
    }

    /// Asks the machine itself what Preflight would come to in a world as it is now. Nothing that the machine answers is
    /// carried out.
    pub fn judge(migration: &Migration, snapshot: &Snapshot, now: Timestamp) -> Self {
        let spec = &migration.spec;
        let given = snapshot
            .plane
            .profiles
            .get()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let binding = snapshot.plane.binding.get().ok().and_then(Option::as_ref);
        let source = binding.and_then(|binding| match binding.spec.clusters.as_slice() {
            [only] => Some(only.name.clone()),
            _ => None,
        });
        Self {
            repeats: repeats(spec, given, source.as_ref(), snapshot),
            source,
            verdict: verdict(migration, snapshot, now),
            ..Self::by_profile(spec, given)
        }
    }
}

/// Returns what the target would do again; nothing where the source's copy can't be seen.
fn repeats(
    spec: &MigrationSpec,
    given: &[api::WorkloadProfile],
    source: Option<&ClusterName>,
    snapshot: &Snapshot,
) -> Vec<String> {
    let notes = || {
        let source = source.filter(|source| **source != spec.to)?;
        let copy = snapshot.members.get(source)?.object.get().ok()?.as_ref()?;
        let found = profile::find(given, spec.profile.as_deref(), &spec.workload.gvk()).ok()??;
        let compiled = profile::Profile::compile("in force", &found.spec).ok()?;
        Some(source_notes(&compiled, copy, source, &spec.to))
    };
    notes().unwrap_or_default()
}

fn verdict(migration: &Migration, snapshot: &Snapshot, now: Timestamp) -> Verdict {
    if let Some(status) = &migration.status
        && status.common.started_at.is_some()
        && !status.phase.is_terminal()
    {
        return Verdict::UnderWay(status.phase);
    }
    let metadata = &migration.metadata;
    let mut status = MigrationStatus::default();
    // From the first pass to the one that would leave Preflight, what each writes into the journal is taken as written.
    for _ in 0..PASSES {
        status = step(&Input {
            uid: metadata.uid.as_deref().unwrap_or("not-there-yet"),
            namespace: metadata.namespace.as_deref(),
            name: metadata.name.as_deref().unwrap_or_default(),
            generation: 1,
            revision: None,
            deleting: false,
            overtaken: None,
            has_finalizer: true,
            spec: &migration.spec,
            status: &status,
            trouble: None,
            ahead: None,
            snapshot,
            now,
        })
        .status;
        let goes_on = matches!(status.phase, Phase::Pending | Phase::Preflight);
        if !goes_on || status.common.waiting_for.is_some() {
            break;
        }
    }
    match status.phase {
        Phase::Completed => Verdict::There,
        Phase::Failed => Verdict::Blocked(status.common.findings),
        Phase::Pending | Phase::Preflight => Verdict::Waits(
            status
                .common
                .waiting_for
                .map_or_else(|| "cutover checks again".to_owned(), |wait| wait.reason),
        ),
        phase if phase.is_terminal() => Verdict::Unknown(format!("it would end as {phase}")),
        _ => Verdict::Clear,
    }
}

/// More than it takes to get through Preflight.
const PASSES: usize = 8;

/// A step, what is done in it, and what to expect.
type Row = (Phase, String, String);

/// How a text is marked up.
struct Ink {
    code: fn(&str) -> String,
    loud: fn(&str) -> String,
}

const MARKDOWN: Ink = Ink {
    code,
    loud: |text| format!("**{text}**"),
};
const PLAIN: Ink = Ink {
    code: str::to_owned,
    loud: str::to_owned,
};

/// Returns the part about one migration. The blockers of one that would fail stand before it.
pub(super) fn section(one: &Move, places: Places<'_>) -> String {
    let spec = &one.spec;
    let source = one
        .source()
        .map_or_else(|| "where it runs".to_owned(), |source| code(source.as_str()));
    let mut text = format!(
        "\n#### {}{}\n\nMoves {} from {source} to {}; {}.\n\n{}\n",
        inline(&one.intent.to_string()),
        places.bracketed(one.at.as_ref()),
        code(&one.workload.to_string()),
        code(spec.to.as_str()),
        match spec.on_failure {
            OnFailure::RollBack => "if it fails, it is rolled back",
            OnFailure::Hold => "if it fails, everything stays held until a person says `abort`",
        },
        preview(one)
    );
    if one.preview.verdict.has_steps() {
        text.push_str(&steps(one));
    }
    if one.template == Template::InPlace {
        text.push_str(
            "\n⚠️ Its template changes as well, and nothing holds that back: it is changed where it runs, before the migration \
             begins. Keep workload and migration in one sync, or push one after the other.\n",
        );
    }
    if !matches!(one.preview.verdict, Verdict::Blocked(_)) {
        text.push_str(&neighbours(one));
    }
    text
}

/// Returns the table of the steps, and how long earlier moves took.
fn steps(one: &Move) -> String {
    let mut text = match one.expected_downtime() {
        Some(expected) => format!("\n⏱️ {}\n", inline(&expected)),
        None => String::new(),
    };
    for note in &one.preview.repeats {
        text.push_str(&format!("\n⚠️ {}\n", inline(note)));
    }
    text.push_str("\n| step | what is done | what to expect |\n|---|---|---|\n");
    for (phase, what, effect) in rows(one, &MARKDOWN) {
        let gate = if gated(&one.spec, phase) {
            "✋ waits for an approval; "
        } else {
            ""
        };
        text.push_str(&format!("| {phase} | {gate}{what} | {effect} |\n"));
    }
    text
}

fn gated(spec: &MigrationSpec, phase: Phase) -> bool {
    let mut gates = spec.approval.iter().flat_map(|gate| &gate.before);
    gates.any(|gated| *gated == phase)
}

fn preview(one: &Move) -> String {
    match &one.preview.verdict {
        Verdict::Clear => "✅ Nothing is seen now that blocks it.".to_owned(),
        Verdict::There => format!(
            "✅ Karmada lists it in {} already: nothing is moved, and it ends when the copy there is seen healthy.",
            code(one.spec.to.as_str())
        ),
        Verdict::Blocked(_) => {
            "⛔ It would fail in Preflight, with nothing touched; above is why.".to_owned()
        }
        Verdict::Waits(reason) => format!("⏳ It would wait: {}.", inline(reason)),
        Verdict::UnderWay(phase) => format!(
            "🔄 It is under way ({phase}): `paused`, `abort` and approvals take effect, other changes do not."
        ),
        Verdict::Unknown(why) => format!("❔ What blocks it is not known: {}.", inline(why)),
    }
}

pub(super) fn finding(finding: &Finding) -> String {
    let hint = finding
        .hint
        .as_ref()
        .map(|hint| format!(" ({})", inline(hint)))
        .unwrap_or_default();
    format!(
        "- **{}**: {}{hint}",
        inline(&finding.code),
        inline(&finding.message)
    )
}

fn rows(one: &Move, ink: &Ink) -> Vec<Row> {
    let from = one
        .source()
        .map_or_else(|| "the source".to_owned(), |source| (ink.code)(source.as_str()));
    let to = (ink.code)(one.spec.to.as_str());
    let preparation = [
        (
            Phase::Preflight,
            "everything that could block it is checked".to_owned(),
            "nothing is written".to_owned(),
        ),
        (
            Phase::Hold,
            "the scheduler and failover are kept off; a pin says who may run".to_owned(),
            format!("it runs on in {from}"),
        ),
    ];
    let mut rows = Vec::from(preparation);
    rows.extend(expansion(one, &from, &to));
    rows.extend(capture(one, ink));
    rows.extend(arrival(one, &from, &to));
    rows
}

/// The target gets a copy; not where one can't be created without running.
fn expansion(one: &Move, from: &str, to: &str) -> Option<Row> {
    let (what, effect) = match one.spec.strategy {
        Strategy::StartFirst => (format!("a copy is brought to {to}"), "both run".to_owned()),
        Strategy::StopFirst if one.preview.born_held => (
            format!("a copy is brought to {to}, held"),
            format!("it runs on in {from} alone"),
        ),
        Strategy::StopFirst => return None,
    };
    Some((Phase::Expand, what, effect))
}

/// The source stops, unless the target starts first.
fn capture(one: &Move, ink: &Ink) -> Option<Row> {
    if one.spec.strategy == Strategy::StartFirst {
        return None;
    }
    let state = if one.preview.stateful {
        "it is stopped with its state"
    } else {
        "it is stopped"
    };
    Some((
        Phase::Capture,
        format!("{state}; its stop is proved"),
        (ink.loud)("no copy runs from here on"),
    ))
}

fn arrival(one: &Move, from: &str, to: &str) -> [Row; 3] {
    let verify = &one.spec.verify;
    [
        (
            Phase::Handoff,
            handoff(one, to),
            format!("it starts in {to}; healthy within {}", verify.timeout),
        ),
        (
            Phase::Verify,
            format!("{to} is watched{}", checks(&one.spec)),
            format!("healthy for {} without a break", verify.healthy_for),
        ),
        (
            Phase::Cleanup,
            format!("past the commit point: {from} is left, the pin goes, the scheduler is let back"),
            format!("it runs in {to} alone"),
        ),
    ]
}

fn handoff(one: &Move, to: &str) -> String {
    let spec = &one.spec;
    let from = if one.preview.stateful && spec.strategy == Strategy::StopFirst {
        ", from exactly that state, which is recorded in Git"
    } else {
        ""
    };
    let along = if !spec.changes.patches.is_empty() {
        ", with the patches of the intent"
    } else if one.template == Template::HeldBack && spec.changes.template {
        ", with what this changes of its template"
    } else {
        ""
    };
    format!("{to} may run{from}{along}")
}

fn checks(spec: &MigrationSpec) -> String {
    match spec.verify.checks.len() {
        0 => String::new(),
        1 => ", and a check of the intent".to_owned(),
        more => format!(", and {more} checks of the intent"),
    }
}

/// How many neighbours are named.
const NAMED: usize = 8;

fn neighbours(one: &Move) -> String {
    let Some(policy) = &one.neighbours.policy else {
        return String::new();
    };
    let others = &one.neighbours.workloads;
    if others.is_empty() {
        return format!("\n{} places nothing else.\n", code(policy));
    }
    let named: Vec<String> = others.iter().take(NAMED).map(|other| code(other)).collect();
    let more = others
        .len()
        .checked_sub(NAMED + 1)
        .map(|more| format!(" and {} more", more + 1))
        .unwrap_or_default();
    format!(
        "\n{} also places {}{more}: the migration holds one binding, so they stay, and are scheduled as before.\n",
        code(policy),
        named.join(", ")
    )
}
