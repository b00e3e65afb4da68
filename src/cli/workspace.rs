//! The repository in a person's clone: finds what its files say, writes one of them, and commits just that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use similar::TextDiff;

use super::connection::GitArgs;
use super::intent_name;
use super::{example, files, global, output};
use cutover_core::api;
use cutover_core::config::Config;
use cutover_core::error::{Error, Kind, Result};
use cutover_core::finding::{Code, Finding, Severity};
use cutover_core::lint::{self, Context, MayHaveEnded};
use cutover_core::manifest::{Change, Manifest, Set, Source, edit, parse};
use cutover_core::report::MANY;
use cutover_git::{Checkout, Message, Trailer};
use cutover_karmada::name::ObjectKey;

/// What becomes of a change.
#[derive(Args, Debug)]
#[command(next_help_heading = "Change options")]
pub struct ChangeArgs {
    /// A directory in the clone whose file is changed
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Only print what would change, as a diff
    #[arg(long)]
    dry_run: bool,
    /// Only write the file, and leave the commit to you
    #[arg(long, conflicts_with = "dry_run")]
    no_commit: bool,
    /// Push the branch afterwards, as git push would
    #[arg(long, conflicts_with_all = ["dry_run", "no_commit"])]
    push: bool,
    /// Why; stands in the message of the commit
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

impl ChangeArgs {
    /// Returns whether the change is only to be shown.
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns the option that only makes sense for a change of a file, if one is given.
    pub fn of_a_file(&self) -> Option<&'static str> {
        let given = [
            (self.no_commit, "--no-commit"),
            (self.message.is_some(), "--message"),
        ];
        given
            .into_iter()
            .find_map(|(is_given, option)| is_given.then_some(option))
    }
}

/// The files of a repository as they are on disk.
pub struct Workspace {
    /// `None`: not a Git repository, which is enough for files alone.
    checkout: Option<Checkout>,
    root: PathBuf,
    pub config: Config,
    pub set: Set,
    texts: BTreeMap<String, String>,
}

/// What a new file may say that has no effect, or another one than it seems: it is written, with a warning, unless it is an error.
const WITHOUT_EFFECT: &[Code] = &[
    Code::SuspendsNowhere,
    Code::UnknownCluster,
    Code::UnknownKind,
    Code::InVain,
    Code::NamedTwice,
    Code::NoSuchWave,
    Code::TwoWriters,
];

/// A file as it is to be, and the commit that makes it so.
pub struct Edit {
    pub path: String,
    pub text: String,
    /// Namespace and name of the intent that it is about.
    pub intent: String,
    pub subject: String,
    pub body: String,
}

impl Workspace {
    pub fn open(args: &ChangeArgs) -> Result<Self> {
        let checkout = match Checkout::find(&args.directory) {
            Ok(checkout) => Some(checkout),
            Err(_) if args.no_commit || args.dry_run => None,
            Err(error) => return Err(error.into()),
        };
        Self::read(checkout, &args.directory)
    }

    /// Reads the repository around a directory, or what lies in it.
    pub fn around(directory: &Path) -> Result<Self> {
        Self::read(Checkout::find(directory).ok(), directory)
    }

    fn read(checkout: Option<Checkout>, directory: &Path) -> Result<Self> {
        let root = match &checkout {
            Some(checkout) => checkout.root().to_owned(),
            None => directory.to_owned(),
        };
        let budget = global::budget();
        let config = files::read_config(&root, &budget)??;
        let mut texts = BTreeMap::new();
        let set = files::objects(&root, &config, &budget, |file| {
            if let Ok(Ok(text)) = file.content.map(String::from_utf8) {
                texts.insert(file.path, text);
            }
        })?;
        Ok(Self {
            checkout,
            root,
            config,
            set,
            texts,
        })
    }

    pub const fn checkout(&self) -> Option<&Checkout> {
        self.checkout.as_ref()
    }

    /// Returns who commits.
    pub fn author(&self) -> Option<String> {
        self.checkout().and_then(Checkout::author)
    }

    /// Returns whether there is anything at a path, synced or not.
    pub fn is_taken(&self, path: &str) -> bool {
        files::is_taken(&self.root, path)
    }

    /// Returns the namespace that an object of a file goes to.
    pub fn namespace_of(&self, manifest: &Manifest) -> String {
        let sync = self.config.sync_of(&manifest.source.path);
        let written = manifest.key.namespace.clone();
        written
            .or_else(|| sync.and_then(|sync| sync.namespace.clone()))
            .unwrap_or_else(|| "default".to_owned())
    }

    /// Returns every object of a kind of intent that the files define.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a Arc<Manifest>, String)> {
        let of_kind = self.set.of_kind(api::GROUP, kind);
        of_kind.map(|manifest| (manifest, self.namespace_of(manifest)))
    }

    /// Returns the text of a file with one of its objects changed.
    pub fn edited(&self, manifest: &Manifest, change: &Change) -> Result<String> {
        let path = &manifest.source.path;
        let text = self
            .texts
            .get(path)
            .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
        edit(text, manifest, change).map_err(|error| {
            let hint = format!("edit it by hand: {}", change.by_hand());
            Error::user(error.to_string()).at(error.at).hint(hint)
        })
    }

    /// Returns the error about a name that no intent of the files has.
    pub fn no_intent(&self, named: &str) -> Error {
        let all = self.intent_names(api::KINDS.iter().map(|kind| kind.name));
        let names = all
            .iter()
            .map(|(kind, namespace, name)| match namespace.as_str() {
                "" => format!("{kind} {name}"),
                namespace => format!("{kind} {namespace}/{name}"),
            });
        let names: Vec<String> = names.collect();
        let hint = match (meant(named, &all), names.as_slice()) {
            (Some(meant), _) => meant,
            (None, []) => {
                "none of its files defines one; cutover migrate, for instance, writes one".to_owned()
            }
            (None, names) => format!("there is {}", names.join(", ")),
        };
        let broken = self.set.errors().next().map(|error| error.location.clone());
        let error = Error::user(format!("the repository has no intent {named}")).hint(hint);
        match broken {
            Some(location) if names.is_empty() => error.at(location),
            _ => error,
        }
    }

    /// Returns kind, namespace and name of the intents of some kinds; no namespace of those of cluster scope.
    fn intent_names(
        &self,
        kinds: impl IntoIterator<Item = &'static str>,
    ) -> Vec<(&'static str, String, &str)> {
        let of = |kind: &'static str| {
            self.of_kind(kind).map(move |(manifest, namespace)| {
                let namespace = if MANY.contains(&kind) {
                    String::new()
                } else {
                    namespace
                };
                (kind, namespace, manifest.key.name.as_str())
            })
        };
        kinds.into_iter().flat_map(of).collect()
    }

    /// Writes a file, commits it and pushes it, as far as that is asked for; prints what was changed.
    pub fn apply(&self, args: &ChangeArgs, git: &GitArgs, edit: &Edit) -> Result<()> {
        self.apply_beside(&BTreeSet::new(), args, git, edit)
    }

    /// The same beside intents that are known to have ended.
    pub fn apply_beside(
        &self,
        ended: &BTreeSet<ObjectKey>,
        args: &ChangeArgs,
        git: &GitArgs,
        edit: &Edit,
    ) -> Result<()> {
        let before = self.texts.get(&edit.path).map_or("", String::as_str);
        self.check(edit, ended)?;
        files::check_writable(&self.root, &edit.path)?;
        if args.dry_run {
            let old = if before.is_empty() {
                "/dev/null".to_owned()
            } else {
                format!("a/{}", edit.path)
            };
            let diff = TextDiff::from_lines(before, edit.text.as_str());
            let mut diff = diff.unified_diff();
            return output::patch(diff.header(&old, &format!("b/{}", edit.path)).to_string());
        }
        let checkout = self.checkout.as_ref().filter(|_| !args.no_commit);
        if let Some(checkout) = checkout {
            checkout.ready(&edit.path)?;
        }
        let file = self.root.join(&edit.path);
        example::write_file(&file, &edit.text)?;
        output::data(format!("{}\n", edit.path))?;
        let Some(checkout) = checkout else {
            output::note(format!("written, not committed: {}", edit.subject));
            return Ok(());
        };
        let committed = checkout.commit(&edit.path, &message(edit, args.message.as_deref()));
        let revision = match committed {
            Ok(revision) => revision,
            Err(error) => {
                put_back(&file, self.texts.get(&edit.path))?;
                return Err(error.into());
            }
        };
        let branch = checkout.branch()?;
        output::note(format!(
            "committed {} on {branch}: {}",
            revision.short(),
            edit.subject
        ));
        let hooks = checkout.hooks();
        if !hooks.is_empty() {
            output::note(format!("note: Git's hooks did not run: {}", hooks.join(", ")));
        }
        if args.push {
            let pushed = checkout.push(&git.credentials())?;
            let plural = if pushed == 1 { "" } else { "s" };
            output::note(format!("pushed {pushed} commit{plural} of {branch}"));
        } else {
            output::note("next: git push");
        }
        Ok(())
    }

    /// Refuses a file that says something wrong which wasn't there before.
    fn check(&self, edit: &Edit, ended: &BTreeSet<ObjectKey>) -> Result<()> {
        if self.config.sync_of(&edit.path).is_none() {
            return Err(
                Error::user(format!("{} belongs to no sync of cutover.yaml", edit.path))
                    .hint("name a .yaml file in the folder of a sync, which doesn't exclude it, with --file"),
            );
        }
        let context = Context {
            may_have_ended: MayHaveEnded::of(&self.set),
            ended: ended.clone(),
            ..Context::built_in()?
        };
        let known: Vec<Finding> = lint::check(&self.set, &context);
        let mut set = self.set.clone();
        set.update(&edit.path, parsed(&edit.path, edit.text.as_bytes()));
        let is_old = |finding: &Finding| {
            let mut known = known.iter();
            known.any(|known| known.code == finding.code && known.message == finding.message)
        };
        let here = |finding: &Finding| {
            let place = finding.location.as_ref();
            place.is_some_and(|place| place.path == edit.path)
        };
        let new = lint::check(&set, &context).into_iter();
        let new: Vec<Finding> = new.filter(|finding| !is_old(finding)).collect();
        for finding in &new {
            if finding.code == Code::TakesTurns {
                output::note(format!("warning: {}", finding.message));
            } else if here(finding)
                && finding.severity != Severity::Error
                && WITHOUT_EFFECT.contains(&finding.code)
            {
                let hint = finding.hint.as_ref();
                let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
                output::note(format!("warning: {}{hint}", finding.message));
            }
        }
        let mut new = new.into_iter().filter(here);
        let Some(finding) = new.find(|finding| finding.severity == Severity::Error) else {
            return Ok(());
        };
        let mut error = Error::new(
            Kind::User,
            format!(
                "nothing was written: {} would not be valid: {}",
                edit.path, finding.message
            ),
        );
        if let Some(location) = finding.location {
            error = error.at(location);
        }
        Err(match finding.hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

fn meant(named: &str, all: &[(&'static str, String, &str)]) -> Option<String> {
    let all = all
        .iter()
        .map(|(kind, namespace, name)| (*kind, namespace.as_str(), *name));
    intent_name::did_you_mean(named, all)
}

/// Returns the message of the commit.
fn message(edit: &Edit, why: Option<&str>) -> Message {
    let body = match why {
        Some(why) => format!("{}\n\n{}", why.trim(), edit.body),
        None => edit.body.clone(),
    };
    Message::new(&edit.subject)
        .body(body)
        .trailer(Trailer::Intent, &edit.intent)
}

fn put_back(file: &Path, before: Option<&String>) -> Result<()> {
    match before {
        Some(text) => example::write_file(file, text),
        None => std::fs::remove_file(file)
            .map_err(|error| Error::user(format!("cannot remove {} again: {error}", file.display()))),
    }
}

fn parsed(path: &str, content: &[u8]) -> cutover_core::manifest::Parsed {
    parse(Source::new(path), content, &global::budget())
}
