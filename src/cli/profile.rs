//! `cutover profile`: the profiles of a repository and those that are built in, and what one makes of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use super::named::KindName;
use super::{files, global, output};
use cutover_base::budget::Limit;
use cutover_base::nearest::did_you_mean;
use cutover_core::config;
use cutover_core::error::{Error, Kind, Result};
use cutover_core::intent::pin::Role;
use cutover_core::manifest::{Manifest, Set, Source, parse};
use cutover_core::plan::{Palette, TextOptions};
use cutover_core::profile::catalog::{Catalog, Entry};
use cutover_core::profile::{IMMOVABLE, Immovable, why_immovable};
use cutover_core::report::{Trial, TrialAs, explain_profile, profiles_document, profiles_text};
use cutover_git::Checkout;
use cutover_karmada::name::{GroupKind, Gvk};

#[derive(Args, Debug)]
pub struct ProfileCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the profiles of the repository in this directory, and the built-in ones
    List(List),
    /// Print a whole profile as YAML, to copy as a start of your own
    Show(Named),
    /// Say in sentences what holds, stops, proves stopped, captures, resumes and judges a workload
    Explain(Named),
    /// Evaluate a profile on an object, and show what would be written; 1: something can't be evaluated or written
    Test(Test),
}

#[derive(Args, Debug)]
struct List {
    #[command(flatten)]
    place: PlaceArgs,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Args, Debug)]
struct Named {
    /// The name of a profile, or a kind: the profile that is used for it
    #[arg(value_name = "NAME|KIND")]
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
struct Test {
    /// The file with the object, its status as it is: for instance what kubectl get -o yaml prints; `-`: stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// The profile [default: the one that is used for the object's kind]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Show what a pin would write into the object to hold, stop or start it
    #[arg(long = "as", value_name = "WHAT")]
    role: Option<As>,
    /// The state handle to start from, NAME=VALUE where the profile captures several [default: the one that the object has]
    #[arg(long = "handle", value_name = "VALUE", requires = "role")]
    handles: Vec<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Args, Debug)]
struct PlaceArgs {
    /// A directory in the repository whose profiles are used too
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum As {
    /// A copy that must not run
    Hold,
    /// A running copy that is to stop, with its state saved
    Stop,
    /// The first copy in a cluster, which starts from the state handle
    Start,
}

impl From<As> for Role {
    fn from(role: As) -> Self {
        match role {
            As::Hold => Self::Held,
            As::Stop => Self::Stopped,
            As::Start => Self::Started,
        }
    }
}

impl ProfileCommand {
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::List(list) => list.run(),
            Command::Show(named) => named.show(),
            Command::Explain(named) => named.explain(),
            Command::Test(test) => test.run(),
        }
    }
}

impl List {
    fn run(&self) -> Result<ExitCode> {
        let there = There::open(&self.place.directory)?;
        match self.output {
            Format::Text => output::data(profiles_text(&there.catalog)?)?,
            format => written(&profiles_document(&there.catalog)?, format)?,
        }
        Ok(there.exit_code())
    }
}

impl Named {
    fn show(&self) -> Result<ExitCode> {
        let there = There::open(&self.place.directory)?;
        let entry = there.find(&self.name)?;
        let yaml = match entry.source() {
            Some(source) => source.to_owned(),
            None => yaml(entry.value())?,
        };
        output::data(yaml)?;
        Ok(ExitCode::SUCCESS)
    }

    fn explain(&self) -> Result<ExitCode> {
        let there = There::open(&self.place.directory)?;
        let entry = there.find(&self.name)?;
        output::data(explain_profile(entry, &there.catalog)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Test {
    fn run(&self) -> Result<ExitCode> {
        let there = There::open(&self.place.directory)?;
        let object = self.object(&there)?;
        let entry = self.entry(&there, &object)?;
        let tried_as = self.tried_as(entry)?;
        let trial = Trial::of(entry, &object, tried_as.as_ref());
        let options = TextOptions {
            palette: Palette::coloured(),
            ..TextOptions::default()
        };
        match self.output {
            Format::Text => output::data(trial.text(&options))?,
            format => written(&trial.document(), format)?,
        }
        let problems = trial.problems();
        for problem in &problems {
            output::problem(&problem.message, Some(&problem.location), problem.hint);
        }
        Ok(failed_if(!problems.is_empty()))
    }

    /// Returns the one object of the file that a profile is about.
    fn object(&self, there: &There) -> Result<Manifest> {
        let path = self.file.to_string_lossy();
        let budget = global::budget();
        let bytes = files::read_given(&self.file, budget.of(Limit::FileBytes))?;
        let parsed = parse(Source::new(&path), &bytes, &budget);
        if let Some(error) = parsed.errors.first() {
            let told = Error::user(error.to_string()).at(error.location.clone());
            return Err(match error.hint() {
                Some(hint) => told.hint(hint),
                None => told,
            });
        }
        let mut objects = parsed.objects;
        if objects.len() > 1 {
            objects.retain(|object| {
                let used = there.catalog.used_for(&GroupKind::from(&object.gvk));
                used.is_ok_and(|used| used.is_some())
            });
        }
        match <[Manifest; 1]>::try_from(objects) {
            Ok([object]) => Ok(object),
            Err(objects) => Err(Error::user(format!(
                "{path} has {} objects that a profile could be tried on",
                objects.len()
            ))
            .hint("name a file with one object")),
        }
    }

    fn entry<'t>(&self, there: &'t There, object: &Manifest) -> Result<&'t Entry> {
        let kind = GroupKind::from(&object.gvk);
        let Some(name) = &self.profile else {
            let used = there
                .catalog
                .used_for(&kind)
                .map_err(|error| Error::internal(error.to_string()))?;
            return used.ok_or_else(|| none_for(&kind));
        };
        let entry = there.named(name)?;
        if !entry.kinds().any(|of| of == kind) {
            output::note(format!("note: profile {name} is not for {kind}"));
        }
        Ok(entry)
    }

    fn tried_as(&self, entry: &Entry) -> Result<Option<TrialAs>> {
        let Some(role) = self.role else {
            return Ok(None);
        };
        let capture = &entry.profile.spec.capture;
        let names: BTreeSet<&str> = capture.iter().map(|rule| rule.name.as_str()).collect();
        let mut handles = BTreeMap::new();
        for given in &self.handles {
            let (name, value) = handle(given, &names)?;
            handles.insert(name.to_owned(), value.to_owned());
        }
        Ok(Some(TrialAs {
            role: role.into(),
            handles,
        }))
    }
}

/// Takes a handle apart: a value alone is that of the only name.
fn handle<'h>(given: &'h str, names: &BTreeSet<&'h str>) -> Result<(&'h str, &'h str)> {
    if let Some((name, value)) = given.split_once('=')
        && names.contains(name)
    {
        return Ok((name, value));
    }
    let mut all = names.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok((*only, given)),
        (None, _) => Err(Error::user("the profile captures no handle").hint("leave out --handle")),
        (Some(_), Some(_)) => {
            let names: Vec<&str> = names.iter().copied().collect();
            Err(Error::user("the profile captures several handles").hint(format!(
                "say which: --handle NAME=VALUE, with {}",
                names.join(" or ")
            )))
        }
    }
}

/// The profiles that are used in a directory.
struct There {
    set: Set,
    catalog: Catalog,
}

impl There {
    /// Reads the repository in a directory. What can't be read of it is reported, and the rest is used.
    fn open(directory: &Path) -> Result<Self> {
        let budget = global::budget();
        let root = root(directory);
        let config = files::read_config(&root, &budget)??;
        let set = files::objects(&root, &config, &budget, |_| ())?;
        let catalog = Catalog::of(&set);
        for unreadable in &catalog.unreadable {
            let message = format!(
                "WorkloadProfile {} cannot be read: {}",
                unreadable.name, unreadable.message
            );
            let hint = "cutover validate says what is wrong with it";
            output::problem(&message, Some(&unreadable.location), Some(hint));
        }
        for error in set.errors() {
            output::problem(&error.to_string(), Some(&error.location), error.hint().as_deref());
        }
        Ok(Self { set, catalog })
    }

    /// Profiles may be missing from what was printed.
    fn exit_code(&self) -> ExitCode {
        failed_if(!self.catalog.unreadable.is_empty() || self.set.errors().next().is_some())
    }

    fn named(&self, name: &str) -> Result<&Entry> {
        self.catalog.named(name).ok_or_else(|| self.unknown(name))
    }

    /// Finds a profile by its name, or the one that is used for a kind.
    fn find(&self, name: &str) -> Result<&Entry> {
        if let Some(entry) = self.catalog.named(name) {
            return Ok(entry);
        }
        let asked = KindName::new(name);
        let kinds: BTreeSet<GroupKind> = self.catalog.entries.iter().flat_map(Entry::kinds).collect();
        let meant: Vec<&GroupKind> = kinds
            .iter()
            .filter(|kind| asked.means_of(&self.set, &gvk(kind)))
            .collect();
        match meant.as_slice() {
            [] => Err(self.immovable(&asked).unwrap_or_else(|| self.unknown(name))),
            [kind] => {
                let used = self
                    .catalog
                    .used_for(kind)
                    .map_err(|error| Error::internal(error.to_string()))?;
                used.ok_or_else(|| none_for(kind))
            }
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(
                    Error::user(format!("{name} could be any of {}", names.join(", ")))
                        .hint("name it with its group"),
                )
            }
        }
    }

    /// Returns why a kind has no profile, where it is one of which that is known.
    fn immovable(&self, asked: &KindName<'_>) -> Option<Error> {
        IMMOVABLE.iter().find_map(|known| {
            let mut kinds = known.kinds.iter().map(|kind| GroupKind::new(known.group, kind));
            let kind = kinds.find(|kind| asked.means_of(&self.set, &gvk(kind)))?;
            Some(cannot_be_moved(&kind, known))
        })
    }

    fn unknown(&self, name: &str) -> Error {
        let names = || self.catalog.entries.iter().map(|entry| entry.name.as_str());
        let all = || format!("there are {}", names().collect::<Vec<_>>().join(", "));
        let error = Error::user(format!(
            "there is no profile {name}, and none for a kind of that name"
        ));
        error.hint(did_you_mean(name, names()).unwrap_or_else(all))
    }
}

fn cannot_be_moved(kind: &GroupKind, known: &Immovable) -> Error {
    Error::user(known.message(&kind.to_string())).hint(known.hint())
}

fn none_for(kind: &GroupKind) -> Error {
    if let Some(known) = why_immovable(&gvk(kind)) {
        return cannot_be_moved(kind, known);
    }
    Error::user(format!("there is no profile for {kind}"))
        .hint("write one (docs/how-to/teach-your-operator.md), or name one with --profile")
}

/// Returns the root of the repository that a directory is in: where a cutover.yaml is, else the directory itself.
fn root(directory: &Path) -> PathBuf {
    let is_root = |root: &Path| files::is_taken(root, config::PATH);
    if is_root(directory) {
        return directory.to_owned();
    }
    let checkout = Checkout::find(directory).ok();
    let root = checkout.map(|checkout| checkout.root().to_owned());
    root.filter(|root| is_root(root))
        .unwrap_or_else(|| directory.to_owned())
}

fn gvk(kind: &GroupKind) -> Gvk {
    Gvk {
        group: kind.group.clone(),
        version: String::new(),
        kind: kind.kind.clone(),
    }
}

fn failed_if(failed: bool) -> ExitCode {
    if failed {
        ExitCode::from(Kind::User.exit_code())
    } else {
        ExitCode::SUCCESS
    }
}

fn written(document: &serde_json::Value, format: Format) -> Result<()> {
    match format {
        Format::Yaml => output::data(yaml(document)?),
        Format::Text | Format::Json => output::json(format!("{document:#}\n")),
    }
}

fn yaml(value: &serde_json::Value) -> Result<String> {
    serde_yaml::to_string(value).map_err(|error| Error::internal(format!("YAML cannot be written: {error}")))
}
