//! A profile tried on one object: what each expression saw and says, and what would be written.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::api::reference;
use crate::intent::pin::{self, Role};
use crate::manifest::Manifest;
use crate::plan::{Difference, TextOptions};
use crate::profile::catalog::Entry;
use crate::profile::outline::origin;
use crate::profile::{Evaluated, Found, Mistake, Profile, Says, Seen, evaluate, field, patch_mistakes};
use crate::redact;
use cutover_base::escape::line;
use cutover_karmada::name::Location;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const DIM: Style = Style::new().dimmed();

/// The longest value that is shown whole, in characters.
const LONGEST: usize = 120;

/// A profile tried on one object.
#[derive(Debug)]
pub struct Trial<'a> {
    object: &'a Manifest,
    entry: &'a Entry,
    rows: Vec<Evaluated>,
    /// What is wrong with patches, whatever the object.
    mistakes: Vec<Mistake>,
    written: Option<Written>,
}

/// Something that can't be evaluated or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    /// In the file of the profile.
    pub location: Location,
    pub hint: Option<&'static str>,
}

/// What a copy would get.
#[derive(Clone, Debug)]
pub struct TrialAs {
    pub role: Role,
    /// The handles that a start is given; where there is none, those that the object has.
    pub handles: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Written {
    role: Role,
    handles: BTreeMap<String, String>,
    outcome: Result<Made, Mistake>,
}

/// A copy with what a pin writes into it.
#[derive(Debug)]
struct Made {
    difference: Difference,
    /// Whether it counts as held.
    is_held: bool,
    /// Whether the pin has to stay until the template has what a start writes.
    stays: bool,
}

impl<'a> Trial<'a> {
    /// Evaluates the profile on an object as it stands, and makes of it what a pin would.
    pub fn of(entry: &'a Entry, object: &'a Manifest, tried_as: Option<&TrialAs>) -> Self {
        let spec = &entry.profile.spec;
        Self {
            object,
            entry,
            rows: evaluate(spec, &object.value),
            mistakes: patch_mistakes(spec),
            written: tried_as.map(|tried| written(entry, &object.value, tried)),
        }
    }

    /// Returns everything that can't be evaluated or written, with its place in the file of the profile.
    pub fn problems(&self) -> Vec<Problem> {
        let rows = self.rows.iter().filter_map(|row| match &row.says {
            Says::Fails(why) => Some(self.problem(&row.pointer, why)),
            _ => None,
        });
        let refused = self
            .written
            .iter()
            .filter_map(|written| written.outcome.as_ref().err());
        let mistakes = self.mistakes.iter().chain(refused);
        let patches = mistakes.map(|mistake| self.problem(&mistake.pointer, &mistake.message));
        rows.chain(patches).collect()
    }

    fn problem(&self, pointer: &str, why: &str) -> Problem {
        let needs_handle = why.contains("${captured.") && why.ends_with("is not known here");
        let lacks_status = why == "No such key: status" && self.object.value.get("status").is_none();
        let hint = if needs_handle {
            Some("give it a state handle: --handle VALUE")
        } else {
            lacks_status
                .then_some("the object has no status: save it as a cluster has it, with kubectl get -o yaml")
        };
        Problem {
            message: format!("{}: {why}", field(pointer)),
            location: self.entry.location(pointer),
            hint,
        }
    }

    /// Returns the form for a terminal.
    pub fn text(&self, options: &TextOptions) -> String {
        let (object, at) = (&self.object.key, &self.object.source);
        let by = format!("{} ({})", self.entry.name, origin(self.entry));
        let mut text = format!("{}\n", line(&format!("{object} ({at}) by profile {by}")));
        for row in &self.rows {
            text += &shown(row);
        }
        if let Some(written) = &self.written {
            text += &written.text(options);
        }
        text
    }

    /// Returns the form for programs.
    pub fn document(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let location = self.entry.location(&row.pointer);
            let (says, what) = words(&row.says);
            json!({
                "field": row.field,
                "location": location,
                "expression": row.source,
                "saw": row.saw.iter().map(seen_document).collect::<Vec<_>>(),
                "says": says,
                "value": what,
            })
        });
        json!({
            "object": {"kind": self.object.key.kind, "namespace": self.object.key.namespace, "name": self.object.key.name},
            "profile": {"name": self.entry.name, "origin": origin(self.entry)},
            "rows": rows.collect::<Vec<_>>(),
            "written": self.written.as_ref().map(Written::document),
        })
    }
}

fn written(entry: &Entry, object: &Value, tried: &TrialAs) -> Written {
    let spec = &entry.profile.spec;
    let given = tried.handles.iter().map(|(name, handle)| {
        let shown = if spec.is_secret(name) {
            reference(handle)
        } else {
            handle.clone()
        };
        (name.clone(), shown)
    });
    let mut handles: BTreeMap<String, String> = given.collect();
    let outcome = match Profile::compile(&entry.name, spec) {
        Ok(profile) => {
            if tried.role == Role::Started && handles.is_empty() {
                handles = profile.capture(object).unwrap_or_default();
            }
            make(&profile, tried.role, &handles, object)
        }
        Err(error) => Err(Mistake {
            pointer: "/spec".to_owned(),
            message: format!("nothing can be written: {error}"),
        }),
    };
    Written {
        role: tried.role,
        handles,
        outcome,
    }
}

fn make(
    profile: &Profile,
    role: Role,
    handles: &BTreeMap<String, String>,
    object: &Value,
) -> Result<Made, Mistake> {
    let made = pin::trial(profile, role, handles, object).map_err(|failed| Mistake {
        pointer: failed.pointer,
        message: failed.message,
    })?;
    let secrets = profile.secrets(object);
    let shown = |object: &Value| {
        let mut shown = object.clone();
        secrets.hide(&mut shown);
        shown
    };
    Ok(Made {
        difference: Difference::of(&shown(object), &shown(&made)),
        is_held: profile.carries_hold(&made, &pin::HERE.into()),
        stays: role == Role::Started && pin::has_to_stay(profile, object, &made),
    })
}

impl Written {
    fn text(&self, options: &TextOptions) -> String {
        let role = role(self.role);
        let from: Vec<String> = self
            .handles()
            .map(|(name, handle)| format!("{name} {handle}"))
            .collect();
        let from = if from.is_empty() {
            String::new()
        } else {
            format!(" from {}", from.join(", "))
        };
        let mut text = format!("\n{}\n", line(&format!("written to {role} it{from}:")));
        match &self.outcome {
            Ok(made) => {
                let difference = made.difference.text(options);
                let nothing = "  nothing: the object has these values already\n";
                text += if difference.is_empty() {
                    nothing
                } else {
                    &difference
                };
                text += &format!("  the copy {}\n", held(made.is_held));
                if made.stays {
                    text += "  its pin stays until the template has these values, except those in ignoredOnRemoval\n";
                }
            }
            Err(mistake) => {
                let why = format!("nothing: {}: {}", field(&mistake.pointer), mistake.message);
                text += &format!("  {BAD}{}{BAD:#}\n", line(&why));
            }
        }
        text
    }

    fn document(&self) -> Value {
        let handles: BTreeMap<&str, String> = self.handles().collect();
        match &self.outcome {
            Ok(made) => json!({
                "as": role(self.role),
                "handles": handles,
                "fields": made.difference.fields(),
                "held": made.is_held,
                "pinStays": made.stays,
            }),
            Err(mistake) => json!({
                "as": role(self.role),
                "handles": handles,
                "error": {"field": field(&mistake.pointer), "message": mistake.message},
            }),
        }
    }

    /// Returns the handles as they may be shown.
    fn handles(&self) -> impl Iterator<Item = (&str, String)> {
        self.handles
            .iter()
            .map(|(name, handle)| (name.as_str(), redact::text(handle).into_owned()))
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Held => "hold",
        Role::Stopped => "stop",
        Role::Started => "start",
    }
}

const fn held(is_held: bool) -> &'static str {
    if is_held {
        "then carries the hold"
    } else {
        "then does not carry the hold: it may run"
    }
}

fn shown(row: &Evaluated) -> String {
    let (says, what) = words(&row.says);
    let style = match row.says {
        Says::Yes | Says::Met | Says::Value(_) => GOOD,
        Says::NotMet(_) | Says::Fails(_) => BAD,
        Says::No | Says::Nothing | Says::Beside => Style::new(),
    };
    let says = what.map_or_else(|| says.to_owned(), |what| format!("{says}: {what}"));
    let mut text = format!("\n{}: {style}{}{style:#}\n", row.field, line(&says));
    let source: Vec<&str> = row.source.split_whitespace().collect();
    text += &format!("    {DIM}{}{DIM:#}\n", line(&source.join(" ")));
    for seen in &row.saw {
        text += &format!("    {}\n", line(&seen_text(seen)));
    }
    text
}

/// Returns the word for what a row says, and what belongs to it.
fn words(says: &Says) -> (&'static str, Option<&str>) {
    match says {
        Says::Yes => ("yes", None),
        Says::No => ("no", None),
        Says::Met => ("met", None),
        Says::NotMet(message) => ("not met", Some(message)),
        Says::Value(value) => ("value", Some(value)),
        Says::Nothing => ("nothing", None),
        Says::Beside => ("of other objects", None),
        Says::Fails(why) => ("fails", Some(why)),
    }
}

fn seen_text(seen: &Seen) -> String {
    let path = &seen.path;
    match &seen.found {
        Found::Value(value) => format!("{path} = {}", short(value)),
        Found::Absent => format!("{path} is absent"),
        Found::NotJson => format!("{path} is not JSON"),
    }
}

fn seen_document(seen: &Seen) -> Value {
    match &seen.found {
        Found::Value(value) => json!({"path": seen.path, "value": value}),
        Found::Absent => json!({"path": seen.path, "absent": true}),
        Found::NotJson => json!({"path": seen.path, "notJson": true}),
    }
}

/// Returns a value on one line: of a long one, how large it is.
fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    match value {
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(fields) => format!("a mapping of {} fields", fields.len()),
        _ => {
            let start: String = text.chars().take(LONGEST).collect();
            format!("{start}… ({} bytes)", text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, Set, Source, parse};
    use crate::profile::catalog::Catalog;

    const PROFILE: &str = r#"apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: valve}
spec:
  appliesTo: {group: flow.example.org, kinds: [Valve]}
  stateful: true
  hold: [{op: add, path: /spec/open, value: false}]
  suspend: [{op: add, path: /spec/flow/limit, value: 0}]
  start: [{op: add, path: /spec/from, value: "${captured.position}"}]
  restart: []
  observedWhen: "true"
  suspendedWhen: object.status.open == false
  healthyWhen: object.status.flow > 0 && object.spec.password != ''
  capture: [{name: position, jsonPath: $.status.position, required: true}]
"#;

    const VALVE: &str = "apiVersion: flow.example.org/v1\nkind: Valve\nmetadata: {name: main}\n\
                         spec: {open: true, password: hunter22}\nstatus: {open: false, flow: 3}\n";

    fn parsed(path: &str, text: &str) -> crate::manifest::Parsed {
        parse(Source::new(path), text.as_bytes(), &Limits::default())
    }

    fn with<T>(role: Role, handle: Option<&str>, read: impl Fn(&Trial<'_>) -> T) -> T {
        let mut set = Set::new();
        set.update("valve.yaml", parsed("valve.yaml", PROFILE));
        let catalog = Catalog::of(&set);
        let object = parsed("main.yaml", VALVE).objects.remove(0);
        let handles = handle.map(|handle| ("position".to_owned(), handle.to_owned()));
        let tried = TrialAs {
            role,
            handles: handles.into_iter().collect(),
        };
        read(&Trial::of(catalog.named("valve").unwrap(), &object, Some(&tried)))
    }

    fn text(trial: &Trial<'_>) -> String {
        let text = trial.text(&TextOptions::default());
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn each_row_shows_what_an_expression_saw_and_says() {
        let text = with(Role::Started, Some("s3://a"), text);
        for part in [
            "Valve main (main.yaml:1:1) by profile valve (valve.yaml:1:1)\n",
            "\nsuspendedWhen: yes\n    object.status.open == false\n    status.open = false\n",
            "\nhealthyWhen: yes\n",
            "    status.flow = 3\n    spec.password = \"***\"\n",
            "\ncapture[0].jsonPath: nothing\n    $.status.position\n",
            "\nwritten to start it from position s3://a:\n  + spec.from: s3://a\n",
            "  the copy then does not carry the hold: it may run\n  its pin stays until the template",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method would be of one lifetime, and any is asked for"
    )]
    fn a_patch_that_does_not_fit_is_a_problem_with_its_place() {
        let problems = with(Role::Stopped, None, |trial| trial.problems());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].location.to_string(), "valve.yaml:8:13");
        let problems = with(Role::Started, None, |trial| trial.problems());
        assert_eq!(problems[0].location.to_string(), "valve.yaml:9:11");
        assert!(problems[0].hint.unwrap().contains("--handle"));
    }

    #[test]
    fn no_form_shows_a_secret_handle_given_or_found() {
        let secret = PROFILE.replace("required: true}", "required: true, secret: true}");
        let judged = secret.replace("object.status.flow > 0", "object.status.position != 'x'");
        let mut set = Set::new();
        set.update("valve.yaml", parsed("valve.yaml", &judged));
        let catalog = Catalog::of(&set);
        let running = VALVE
            .replace("flow: 3", "flow: 3, position: C4n4ry1")
            .replace("{open: true", "{open: true, from: C4n4ry1");
        let object = parsed("main.yaml", &running).objects.remove(0);
        for given in [None, Some(("position".to_owned(), "C4n4ry2".to_owned()))] {
            let tried = TrialAs {
                role: Role::Started,
                handles: given.into_iter().collect(),
            };
            let trial = Trial::of(catalog.named("valve").unwrap(), &object, Some(&tried));
            for shown in [text(&trial), trial.document().to_string()] {
                assert!(!shown.contains("C4n4ry"), "{shown}");
                assert!(shown.contains("<secret, sha256:"), "{shown}");
            }
        }
    }

    #[test]
    fn no_form_shows_a_secret_of_the_object() {
        let document = with(Role::Held, None, |trial| trial.document().to_string());
        assert!(
            document.contains(r#""path":"status.flow","value":3"#),
            "{document}"
        );
        for shown in [document, with(Role::Held, None, text)] {
            assert!(!shown.contains("hunter22"), "{shown}");
        }
    }
}
