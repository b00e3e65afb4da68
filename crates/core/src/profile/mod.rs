//! Evaluates a `WorkloadProfile` on an object: patches to hold, suspend and start it, and expressions that judge it.
//!
//! An expression that cannot be evaluated is an error, never a no: what follows from it is decided by the caller.

pub mod catalog;
mod evaluation;
mod expression;
mod immovable;
mod labels;
mod last_known;
mod mistake;
mod mistakes;
mod needs;
pub mod outline;
mod patches;
mod path;
mod pods;
mod query;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde_json::Value;

use crate::api::{
    CaptureRule, Check, Finding, NeededObject, PatchOp, Requirement, SecretHandles, WorkloadProfile,
    WorkloadProfileSpec, reference,
};
use cutover_karmada::LabelSelector;
use cutover_karmada::name::{ClusterName, Gvk};
pub use evaluation::{Evaluated, Says, evaluate, field};
use expression::Expression;
pub use expression::{Found, Seen};
pub use immovable::{IMMOVABLE, Immovable, StateAt, immovable, no_profile, why_immovable};
use last_known::KnownRule;
pub use last_known::Newest;
pub use mistake::Mistake;
pub(crate) use mistakes::trees;
pub use mistakes::{Misfit, mistakes, mistakes_of_checks};
use needs::Need;
pub use patches::patch_mistakes;
pub(crate) use patches::{is_item, why_not_created};
use path::Path;
pub(crate) use path::{Link, links};
use pods::pods_of;
pub use pods::{needs_cluster, selectors_in};
use template::is_plain;
pub use template::{ELSEWHERE, Site, Variables};

/// Why a profile cannot be used, or not on this object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("profile {profile}: {field}: {message}")]
    Invalid {
        profile: String,
        field: &'static str,
        message: String,
    },
    #[error("{field} cannot be evaluated: {message}")]
    Evaluation { field: &'static str, message: String },
    #[error("{path} is not a JSONPath: {message}")]
    Path { path: String, message: String },
    #[error("${{{0}}} is not known here")]
    Variable(String),
    #[error("${{{0}}} is a secret, and the journal does not have its value, which is kept nowhere else")]
    Secret(String),
    #[error("the object has no label selector at {0}")]
    NoSelector(String),
}

/// Why a stopped copy gives no state handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCapture {
    #[error("{name}: nothing at {path}")]
    Missing { name: String, path: String },
    #[error("{name}: what stands at {path} is no text, and no handle")]
    NotText { name: String, path: String },
    #[error("{name}: {value} was not made by this suspension or is not portable")]
    Invalid { name: String, value: String },
    #[error(transparent)]
    Error(#[from] Error),
}

/// What a patch of a profile is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Hold,
    Suspend,
    Start,
    Restart,
    RestartFrom,
}

/// A profile whose expressions and paths have been compiled; clones share them.
#[derive(Clone, Debug)]
pub struct Profile(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    spec: Arc<WorkloadProfileSpec>,
    observed: Expression,
    suspended: Expression,
    healthy: Expression,
    failed: Option<Expression>,
    finished: Option<Expression>,
    ran: Option<Expression>,
    capture: Vec<Rule>,
    last_known: Vec<KnownRule>,
    in_use: Option<Path>,
    /// What is in use is a secret.
    uses_secret: bool,
    run_id: Option<Path>,
    requires: Vec<Expression>,
    needs: Vec<Need>,
    repeats: Vec<Path>,
    starts_over: Option<(LabelSelector, Option<Expression>)>,
}

/// Where a handle is looked for.
#[derive(Debug)]
struct Rule {
    name: String,
    required: bool,
    secret: bool,
    path: Path,
    valid: Option<Expression>,
}

/// The code of the finding about a kind that several profiles are for.
pub const AMBIGUOUS: &str = "AmbiguousProfile";

/// How many compiled profiles are kept: a control plane has a few, whatever the number of its workloads.
const KEPT: usize = 32;

/// What was compiled lately, the newest last. Every proof of every pass asks for a profile, mostly for the same one.
static COMPILED: RwLock<Vec<Profile>> = RwLock::new(Vec::new());

impl Compiled {
    #[expect(clippy::too_many_lines, reason = "one line for each field")]
    fn of(name: &str, spec: &WorkloadProfileSpec) -> Result<Self, Error> {
        mistakes::check_count(spec).map_err(|message| Error::Invalid {
            profile: name.to_owned(),
            field: "spec",
            message,
        })?;
        if let Some(why) = mistakes::why_unwatched(spec) {
            return Err(Error::Invalid {
                profile: name.to_owned(),
                field: "settleFor",
                message: why.to_owned(),
            });
        }
        let compile = |field, source: &str| {
            Expression::compile(field, source).map_err(|message| Error::Invalid {
                profile: name.to_owned(),
                field,
                message,
            })
        };
        let optional = |field, source: &Option<String>| {
            source.as_deref().map(|source| compile(field, source)).transpose()
        };
        let rule = |rule: &CaptureRule| -> Result<Rule, Error> {
            Ok(Rule {
                name: rule.name.clone(),
                required: rule.required,
                secret: spec.is_secret(&rule.name),
                path: Path::parse(&rule.json_path)?,
                valid: optional("capture.validWhen", &rule.valid_when)?,
            })
        };
        let last_known = spec
            .last_known
            .iter()
            .map(|rule| KnownRule::compile(name, rule, spec.is_secret(&rule.name)));
        let path = |source: &Option<String>| source.as_deref().map(Path::parse).transpose();
        let starts_over = spec.starts_over.as_ref().map(|rule| {
            let selector = rule.label_selector.parse().map_err(|error| Error::Invalid {
                profile: name.to_owned(),
                field: "startsOver.labelSelector",
                message: format!("{error}"),
            });
            Ok((selector?, optional("startsOver.unless", &rule.unless)?))
        });
        Ok(Self {
            starts_over: starts_over.transpose()?,
            observed: compile("observedWhen", &spec.observed_when)?,
            suspended: compile("suspendedWhen", &spec.suspended_when)?,
            healthy: compile("healthyWhen", &spec.healthy_when)?,
            failed: optional("failedWhen", &spec.failed_when)?,
            finished: optional("finishedWhen", &spec.finished_when)?,
            ran: optional("ranWhen", &spec.ran_when)?,
            capture: spec.capture.iter().map(rule).collect::<Result<_, Error>>()?,
            last_known: last_known.collect::<Result<_, _>>()?,
            in_use: path(&spec.in_use)?,
            uses_secret: uses_secret(spec),
            run_id: path(&spec.run_id)?,
            requires: spec
                .requires
                .iter()
                .map(|requirement| compile("requires.cel", &requirement.cel))
                .collect::<Result<_, _>>()?,
            needs: spec
                .needs
                .iter()
                .map(|need| Need::compile(name, need))
                .collect::<Result<_, _>>()?,
            repeats: spec
                .repeats
                .iter()
                .map(|rule| Path::parse(&rule.json_path))
                .collect::<Result<_, _>>()?,
            spec: Arc::new(spec.clone()),
        })
    }
}

impl Profile {
    /// Compiles the expressions and paths of a profile. What was compiled lately is taken as it is.
    pub fn compile(name: &str, spec: &WorkloadProfileSpec) -> Result<Self, Error> {
        let kept = COMPILED.read().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&Self| std::ptr::eq(Arc::as_ptr(&known.0.spec), spec);
        let is_equal = |known: &&Self| *known.0.spec == *spec;
        if let Some(known) = kept.iter().find(is_it).or_else(|| kept.iter().find(is_equal)) {
            return Ok(known.clone());
        }
        drop(kept);
        // Nobody else waits meanwhile; that two compile the same once is no harm.
        let compiled = Self(Arc::new(Compiled::of(name, spec)?));
        let mut kept = COMPILED.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(compiled.clone());
        Ok(compiled)
    }

    /// Returns what a template lacks for this profile to move it.
    pub fn unmet(&self, template: &Value) -> Result<Vec<&Requirement>, Error> {
        let mut unmet = Vec::new();
        for (requirement, expression) in self.0.spec.requires.iter().zip(&self.0.requires) {
            if !expression.holds(template)? {
                unmet.push(requirement);
            }
        }
        Ok(unmet)
    }

    /// Returns the names that a template has for objects that a copy needs, each with the objects it is one of; of a path that fails
    /// on this template, the path.
    pub fn needs<'a>(&'a self, template: &'a Value) -> Vec<(&'a NeededObject, &'a str)> {
        let needs = self.0.spec.needs.iter().zip(&self.0.needs);
        needs
            .flat_map(|(need, compiled)| {
                let names = compiled.names(need, template);
                names.into_iter().map(move |name| (need, name))
            })
            .collect()
    }

    /// Returns the objects that a copy needs by their labels, each with the label selector that finds them in a cluster.
    pub fn selected(&self, site: Site<'_>) -> Vec<(&NeededObject, Result<String, Error>)> {
        let needs = self.0.spec.needs.iter();
        needs
            .filter_map(|need| Some((need, labels::selector(need.label_selector.as_deref()?, site))))
            .collect()
    }

    pub fn spec(&self) -> &Arc<WorkloadProfileSpec> {
        &self.0.spec
    }

    /// Returns whether the operator has seen the current spec.
    pub fn observed(&self, object: &Value) -> Result<bool, Error> {
        self.0.observed.holds(object)
    }

    pub fn suspended(&self, object: &Value) -> Result<bool, Error> {
        self.0.suspended.holds(object)
    }

    pub fn healthy(&self, object: &Value) -> Result<bool, Error> {
        self.0.healthy.holds(object)
    }

    pub fn failed(&self, object: &Value) -> Result<bool, Error> {
        self.0
            .failed
            .as_ref()
            .map_or(Ok(false), |expression| expression.holds(object))
    }

    /// Returns whether the copy is a run to completion that has ended.
    pub fn finished(&self, object: &Value) -> Result<bool, Error> {
        self.0
            .finished
            .as_ref()
            .map_or(Ok(false), |expression| expression.holds(object))
    }

    /// Returns whether the copy does its work, or has done it.
    pub fn is_well(&self, object: &Value) -> Result<bool, Error> {
        Ok(self.healthy(object)? || self.has_done_its_work(object)?)
    }

    /// Returns whether the copy has ended, and well.
    pub fn has_done_its_work(&self, object: &Value) -> Result<bool, Error> {
        Ok(self.finished(object)? && !self.failed(object)?)
    }

    /// Returns whether the copy may have state of its own; a profile that cannot tell says yes.
    pub fn ran(&self, object: &Value) -> Result<bool, Error> {
        self.0
            .ran
            .as_ref()
            .map_or(Ok(true), |expression| expression.holds(object))
    }

    /// Returns what a copy has done that is done again where the run goes on elsewhere, and how much of it.
    pub fn repeated(&self, copy: &Value) -> Result<Vec<(&str, u64)>, Error> {
        let mut repeated = Vec::new();
        for (rule, path) in self.0.spec.repeats.iter().zip(&self.0.repeats) {
            let counts = path.find(copy)?.into_iter().filter_map(Value::as_u64);
            let count = counts.fold(0, u64::saturating_add);
            if count > 0 {
                repeated.push((rule.what.as_str(), count));
            }
        }
        Ok(repeated)
    }

    /// Returns which pods a copy loses the state of its run with. Where it can't be told whether it keeps that, it doesn't.
    pub fn starts_over_with(&self, object: &Value) -> Option<&LabelSelector> {
        let (selector, unless) = self.0.starts_over.as_ref()?;
        let keeps = unless.as_ref().map_or(Ok(false), |unless| unless.holds(object));
        (!keeps.unwrap_or(false)).then_some(selector)
    }

    /// Returns the patches for an action as the profile lists them.
    pub(crate) fn listed(&self, action: Action) -> &[PatchOp] {
        match action {
            Action::Hold => &self.0.spec.hold,
            Action::Suspend => &self.0.spec.suspend,
            Action::Start => &self.0.spec.start,
            Action::Restart => &self.0.spec.restart,
            Action::RestartFrom => &self.0.spec.restart_from,
        }
    }

    /// Returns the patches for an action with its variables filled in.
    pub fn patches(&self, action: Action, variables: &Variables<'_>) -> Result<Vec<PatchOp>, Error> {
        Self::filled(self.listed(action), variables)
    }

    /// Returns what lets a copy run as its template says: of the patches for an action, those that name no state handle.
    pub fn from_nothing(&self, action: Action, variables: &Variables<'_>) -> Result<Vec<PatchOp>, Error> {
        let patches = self.listed(action).iter();
        Self::filled(patches.filter(|patch| !patch.names_a_handle()), variables)
    }

    /// Returns whether a copy that ran before is started again with the state handle that its own stop has left.
    pub fn restarts_by_handle(&self) -> bool {
        self.0.spec.restart.iter().any(PatchOp::names_a_handle)
    }

    /// Returns whether a copy that ran before has to be recreated to start from a handle other than its own.
    pub fn recreates_for_handle(&self) -> bool {
        self.0.spec.recreate_for_handle
    }

    fn filled<'p>(
        patches: impl IntoIterator<Item = &'p PatchOp>,
        variables: &Variables<'_>,
    ) -> Result<Vec<PatchOp>, Error> {
        patches
            .into_iter()
            .map(|patch| {
                let value = patch
                    .value
                    .as_ref()
                    .map(|value| variables.fill(value))
                    .transpose()?;
                Ok(PatchOp {
                    op: patch.op.clone(),
                    path: patch.path.clone(),
                    value,
                })
            })
            .collect()
    }

    /// Returns whether every field that the hold sets has the value in the object that it is given in that cluster. A pin holds the
    /// clusters that its intent isn't about without naming them: what it gives those counts in each.
    pub fn carries_hold(&self, object: &Value, cluster: &ClusterName) -> bool {
        [cluster.as_str(), ELSEWHERE]
            .into_iter()
            .any(|cluster| self.is_held_as(object, cluster))
    }

    /// Returns whether a template itself keeps its copy in a cluster from running: by a profile without a hold, none does.
    pub fn is_held_by(&self, template: &Value, cluster: &ClusterName) -> bool {
        !self.0.spec.hold.is_empty() && self.carries_hold(template, cluster)
    }

    fn is_held_as(&self, object: &Value, cluster: &str) -> bool {
        let variables = Variables {
            site: Some(Site::of(object, cluster)),
            ..Variables::default()
        };
        self.0.spec.hold.iter().all(|patch| {
            let there = object.pointer(&patch.path);
            match &patch.value {
                Some(value) if !is_plain(value) => {
                    let filled = variables.fill(value);
                    filled.is_ok_and(|filled| there == Some(&filled))
                }
                value => there == value.as_ref(),
            }
        })
    }

    /// Returns what selects the pods that must be gone, where the profile asks for that, as a journal keeps it: see
    /// [`selectors_in`].
    pub fn pod_selector(&self, object: &Value) -> Result<Option<String>, Error> {
        let Some(pods) = &self.0.spec.no_pods else {
            return Ok(None);
        };
        pods_of(pods, object)
    }

    /// Returns the state handles that a stopped copy leaves.
    pub fn capture(&self, object: &Value) -> Result<BTreeMap<String, String>, NoCapture> {
        let mut values = BTreeMap::new();
        for rule in &self.0.capture {
            match handle_at(object, rule)? {
                Some(value) => {
                    let value = shown(rule.secret, value);
                    if let Some(valid) = &rule.valid
                        && !valid.holds(object)?
                    {
                        return Err(NoCapture::Invalid {
                            name: rule.name.clone(),
                            value,
                        });
                    }
                    values.insert(rule.name.clone(), value);
                }
                None if rule.required => {
                    return Err(NoCapture::Missing {
                        name: rule.name.clone(),
                        path: rule.path.source().to_owned(),
                    });
                }
                None => {}
            }
        }
        Ok(values)
    }

    /// Returns the newest handles of a copy that was not stopped; what can't be judged isn't one. `beside`: what was seen of the
    /// objects that [`Self::beside`] names.
    pub fn last_known(&self, copy: &Value, beside: &BTreeMap<usize, &[Value]>) -> Result<Newest, Error> {
        let run = self.run_id(copy)?;
        last_known::newest(&self.0.last_known, copy, run.as_deref(), beside)
    }

    /// Returns the name of the handle that a rule of `lastKnown` finds.
    pub fn known_name(&self, rule: usize) -> Option<&str> {
        self.0.last_known.get(rule).map(KnownRule::name)
    }

    /// Returns whether the run that a copy shows has made a handle that a rule of `lastKnown` finds; `None`: the rule can't tell. A
    /// secret handle is judged by its value.
    pub fn is_of_this_run(&self, rule: usize, handle: &str, copy: &Value) -> Option<bool> {
        let rule = self.0.last_known.get(rule)?;
        let run = self.run_id(copy).ok().flatten();
        rule.made(handle, run.as_deref())
    }

    /// Returns the objects beside a copy that may show a newer handle than itself: of each rule of `lastKnown` that is about others,
    /// by its place, their kind and the label selector that finds them.
    pub fn beside(&self, site: Site<'_>) -> Vec<(usize, Gvk, Result<String, Error>)> {
        let rules = self.0.spec.last_known.iter().enumerate();
        let beside = rules.filter_map(|(index, rule)| Some((index, rule.from.as_ref()?)));
        beside
            .map(|(index, from)| (index, from.gvk(), labels::selector(&from.label_selector, site)))
            .collect()
    }

    /// Returns what the secret handles are that an object shows: those of which everything else here returns what stands for them.
    pub fn secrets(&self, object: &Value) -> SecretHandles {
        secrets_in(&self.0.spec, object)
    }

    /// Returns what stands at the places of the handles, without judging it: to tell a new handle from an old one.
    pub fn handles(&self, object: &Value) -> Result<BTreeMap<String, String>, Error> {
        let mut values = BTreeMap::new();
        for rule in &self.0.capture {
            if let Some(value) = text_at(object, &rule.path)? {
                values.insert(rule.name.clone(), shown(rule.secret, value));
            }
        }
        Ok(values)
    }

    /// Returns the handle that a running copy was started from, where the profile can tell.
    pub fn in_use(&self, object: &Value) -> Result<Option<String>, Error> {
        let found = self
            .0
            .in_use
            .as_ref()
            .map_or(Ok(None), |path| text_at(object, path))?;
        Ok(found.map(|handle| shown(self.0.uses_secret, handle)))
    }

    /// Returns what identifies the current run of a copy, where the profile can tell.
    pub fn run_id(&self, object: &Value) -> Result<Option<String>, Error> {
        self.0
            .run_id
            .as_ref()
            .map_or(Ok(None), |path| text_at(object, path))
    }
}

/// Returns a handle as it may be shown and kept.
fn shown(is_secret: bool, handle: String) -> String {
    if is_secret { reference(&handle) } else { handle }
}

/// Returns whether the handle that a running copy shows to be in use is a secret: it is compared with the first that every stop leaves.
fn uses_secret(spec: &WorkloadProfileSpec) -> bool {
    let first = spec.capture.iter().find(|rule| rule.required);
    first.is_some_and(|rule| spec.is_secret(&rule.name))
}

/// Returns what the secret handles are that an object shows, whatever else is wrong with the profile.
fn secrets_in(spec: &WorkloadProfileSpec, object: &Value) -> SecretHandles {
    let mut secrets = SecretHandles::default();
    let captured = spec.capture.iter().map(|rule| (&rule.name, &rule.json_path));
    let known = spec.last_known.iter().map(|rule| (&rule.name, &rule.json_path));
    let secret = captured.chain(known).filter(|(name, _)| spec.is_secret(name));
    let in_use = spec.in_use.iter().filter(|_| uses_secret(spec));
    for path in secret.map(|(_, path)| path).chain(in_use) {
        if let Ok(Some(value)) = Path::parse(path).and_then(|path| text_at(object, &path)) {
            secrets.add(&value);
        }
    }
    secrets
}

/// A handle is handed to another copy as it is: what is no text, or blank, is none.
fn handle_at(object: &Value, rule: &Rule) -> Result<Option<String>, NoCapture> {
    let found = rule.path.find(object)?;
    match found.first() {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(NoCapture::NotText {
            name: rule.name.clone(),
            path: rule.path.source().to_owned(),
        }),
    }
}

/// What is no text is no name.
fn names_at<'a>(object: &'a Value, path: &Path) -> Result<Vec<&'a str>, Error> {
    let found = path.find(object)?.into_iter();
    Ok(found.filter_map(Value::as_str).collect())
}

fn text_at(object: &Value, path: &Path) -> Result<Option<String>, Error> {
    let found = path.find(object)?;
    Ok(found.first().and_then(|value| match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }))
}

/// Returns whether a copy is as a check asks, in CEL over `object`.
pub fn check(check: &Check, object: &Value) -> Result<bool, Error> {
    compile_check(check)?.holds(object)
}

/// Returns whether a sample is as a check of Prometheus asks, in CEL over `value`.
pub fn check_sample(check: &Check, value: f64) -> Result<bool, Error> {
    compile_check(check)?.holds_of(value)
}

/// Returns why a check can't be evaluated on anything, if so.
pub fn valid_check(check: &Check) -> Result<(), Error> {
    if check.prometheus.is_some() && check.of.is_some() {
        return Err(Error::Evaluation {
            field: "verify.checks.of",
            message: "a number of Prometheus is of no object: leave one of them out".to_owned(),
        });
    }
    compile_check(check).map(drop)
}

fn compile_check(check: &Check) -> Result<Expression, Error> {
    let field = "verify.checks.cel";
    let variable = if check.prometheus.is_some() {
        "value"
    } else {
        "object"
    };
    Expression::over(variable, field, &check.cel).map_err(|message| Error::Evaluation { field, message })
}

/// What the files of the built-in profiles are called in messages, and their texts.
macro_rules! built_in {
    ($($name:literal)*) => {
        &[$((concat!("built-in/", $name, ".yaml"), include_str!(concat!("builtin/", $name, ".yaml")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "flink" "flink-session-job" "deployment" "statefulset" "argo-rollout" "job" "cronjob" "jobset" "trainjob" "kubeflow-training" "mpijob"
    "rayjob" "raycluster" "rayservice" "spark" "kafka-connect" "numaflow-monovertex" "numaflow-pipeline"
];

static READ: LazyLock<Result<Vec<WorkloadProfile>, Error>> = LazyLock::new(|| {
    let read = BUILT_IN.iter().map(|(_, text)| serde_yaml::from_str(text));
    read.collect::<Result<_, _>>().map_err(|error| Error::Invalid {
        profile: "built-in".to_owned(),
        field: "spec",
        message: error.to_string(),
    })
});

/// Returns the profiles that come with the tool.
pub fn built_in() -> Result<&'static [WorkloadProfile], Error> {
    READ.as_deref().map_err(Clone::clone)
}

/// Returns the profile for a kind: the named one, else one that applies to it; those given win over built-in ones, and among
/// those given the first by name, in whatever order they come.
pub fn find(
    given: &[WorkloadProfile],
    name: Option<&str>,
    kind: &Gvk,
) -> Result<Option<WorkloadProfile>, Error> {
    let fits = |profile: &&WorkloadProfile| match name {
        Some(name) => profile.metadata.name.as_deref() == Some(name),
        None => is_for(profile, kind),
    };
    let own = given
        .iter()
        .filter(fits)
        .min_by_key(|profile| &profile.metadata.name);
    Ok(own.or(built_in()?.iter().find(fits)).cloned())
}

/// Returns every profile that may be meant for a kind by whoever names one of them: those given, else the built-in one.
pub fn all_for<'a>(given: &'a [WorkloadProfile], kind: &Gvk) -> Result<Vec<&'a WorkloadProfile>, Error> {
    let fits = |profile: &&WorkloadProfile| is_for(profile, kind);
    let own: Vec<&WorkloadProfile> = given.iter().filter(fits).collect();
    if own.is_empty() {
        return Ok(built_in()?.iter().filter(fits).collect());
    }
    Ok(own)
}

/// Returns the finding about a kind that several of those given are for: nothing says which one is meant, and by another one than that a
/// workload may be taken for stopped, or its state be left behind.
pub fn ambiguous(given: &[WorkloadProfile], kind: &Gvk) -> Option<Finding> {
    let own = given.iter().filter(|profile| is_for(profile, kind));
    let mut names: Vec<&str> = own
        .filter_map(|profile| profile.metadata.name.as_deref())
        .collect();
    names.sort_unstable();
    (names.len() > 1).then(|| {
        Finding::new(
            AMBIGUOUS,
            format!("several WorkloadProfiles are for {kind}: {}", names.join(", ")),
            "keep one profile for the kind: take it out of the others",
        )
    })
}

/// Returns the same for an intent that can name one in `spec.profile`, and names none.
pub fn ambiguous_unnamed(given: &[WorkloadProfile], name: Option<&str>, kind: &Gvk) -> Option<Finding> {
    let mut finding = ambiguous(given, kind).filter(|_| name.is_none())?;
    let hint =
        "keep one profile for the kind; or, where a file asks for the intent, name one in its spec.profile";
    finding.hint = Some(hint.to_owned());
    Some(finding)
}

fn is_for(profile: &WorkloadProfile, kind: &Gvk) -> bool {
    let applies_to = &profile.spec.applies_to;
    applies_to.group == kind.group && applies_to.kinds.contains(&kind.kind)
}

#[cfg(test)]
mod tests;
