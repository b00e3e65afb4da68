//! `cutover status`: what intents are doing, from the Karmada API server or from the status branch alone.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::connection::{ClusterArgs, GitArgs};
use super::intent_name::{self, IntentName};
use super::output::OUTPUT;
use super::recorded::Recorded;
use super::{files, global, output, signal};
use cutover_cluster::{Answer, Change, Cluster, Lookup, Observer, Served, Watched};
use cutover_core::api;
use cutover_core::config::{self, StatusBranches};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::report::{Overview, View};
use cutover_git::{Checkout, RemoteUrl};
use cutover_karmada::name::Gvk;

#[derive(Args, Debug)]
pub struct Status {
    /// Only this intent: NAME, NAMESPACE/NAME or KIND/NAME, such as mig/orders-to-west
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only intents of this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// How it is written; `json`: with the time and the evidence of each phase (cutover schema status)
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
    /// Go on, and print again whenever something has changed
    #[arg(short, long)]
    watch: bool,
    /// Ask no control plane: say what the status branch says, read at the remote of the clone in this directory
    #[arg(long)]
    recorded: bool,
    #[command(flatten)]
    branch: BranchArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

/// Which status branch, for `--recorded`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of --recorded")]
struct BranchArgs {
    /// A directory in another clone
    #[arg(
        short = 'C',
        long,
        value_name = "DIR",
        default_value = ".",
        requires = "recorded"
    )]
    directory: PathBuf,
    /// A repository elsewhere, instead of a clone
    #[arg(long, value_name = "URL", requires = "recorded", conflicts_with = "directory")]
    repo: Option<RemoteUrl>,
    /// The status branch [default: what cutover.yaml of the clone says, else cutover-status]
    #[arg(long, value_name = "NAME", requires = "recorded")]
    status_branch: Option<String>,
    /// The folder of that branch [default: what cutover.yaml of the clone says, else its root]
    #[arg(long, value_name = "PATH", requires = "recorded")]
    status_directory: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How long changes are gathered before they are printed.
const GATHER: Duration = Duration::from_millis(50);
/// How often the status branch is read again.
const AGAIN: Duration = Duration::from_secs(5);

impl Status {
    pub async fn run(self) -> Result<ExitCode> {
        if self.recorded {
            return self.run_recorded().await;
        }
        let cluster = self.cluster.connect().await.map_err(|error| {
            let hint = "without a control plane, say what the status branch says: cutover status --recorded";
            match error.hint_text() {
                Some(_) => error,
                None => error.hint(hint),
            }
        })?;
        let served: Vec<_> = served(&cluster, None)
            .await?
            .into_iter()
            .map(|(_, served)| served)
            .collect();
        let mut screen = Screen::default();
        self.show(&observed(&cluster, &served).await?, &mut screen)?;
        if self.watch {
            self.follow(&cluster, &served, &mut screen).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn run_recorded(&self) -> Result<ExitCode> {
        let recorded = self.branch.recorded()?;
        let mut screen = Screen::default();
        loop {
            let view = recorded.view(&self.git).await?;
            let Some(view) = view else {
                return Err(
                    Error::user(format!("{} has no branch {}", recorded.url, recorded.branch)).hint(
                        "a reconciler makes it when it first has something to say; --status-branch names another one",
                    ),
                );
            };
            self.show(&view, &mut screen)?;
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                () = signal::asked_to_end() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    async fn follow(&self, cluster: &Cluster, served: &[Served], screen: &mut Screen) -> Result<()> {
        let observer = Observer::new(cluster.clone());
        let mut changes = observer.changes();
        for served in served {
            observer.watch(Watched::all(served.gvk.clone()));
        }
        loop {
            let goes_on = tokio::select! {
                () = signal::asked_to_end() => false,
                goes_on = gathered(&mut changes) => goes_on,
            };
            if !goes_on {
                return Ok(());
            }
            self.show(&observed(cluster, served).await?, screen)?;
        }
    }

    /// Prints what is asked for, if it says something new.
    fn show(&self, view: &View, screen: &mut Screen) -> Result<()> {
        let view = match (&self.name, &self.namespace) {
            (None, None) => view.clone(),
            (name, namespace) => {
                let namespace = namespace.as_deref();
                let named = name.as_deref().map(|name| IntentName::new(name, namespace));
                let view = view.only(|kind, there, one| {
                    let there = Some(there).filter(|there| !there.is_empty());
                    named.map_or(there == namespace, |named| named.means(kind, there, one))
                });
                if let (true, Some(name), false) = (view.is_empty(), name, self.watch) {
                    return Err(Error::user(format!("there is no intent {name}")).hint(
                        "cutover status lists them; one that was just pushed appears with the next sync",
                    ));
                }
                view
            }
        };
        // How long something takes is no news.
        let content = view.json()?;
        if screen.shown.as_ref() == Some(&content) {
            return Ok(());
        }
        if self.output == Format::Json {
            output::json(&content)?;
            screen.shown = Some(content);
            return Ok(());
        }
        if screen.shown.is_some() && std::io::stdout().is_terminal() {
            output::clear()?;
        }
        screen.shown = Some(content);
        output::data(view.text(Timestamp::now()))
    }
}

/// Waits for a change and gathers what comes with it. Returns whether there may be more.
pub(super) async fn gathered(changes: &mut Receiver<Change>) -> bool {
    if matches!(changes.recv().await, Err(RecvError::Closed)) {
        return false;
    }
    tokio::time::sleep(GATHER).await;
    while changes.try_recv().is_ok() {}
    true
}

/// Reads all objects of a kind.
pub(super) async fn list(cluster: &Cluster, served: &Served) -> Result<Vec<Value>> {
    match cluster.reader().list(served, None, None).await.answer {
        Answer::Found(objects) => Ok(objects),
        Answer::NotFound => Ok(Vec::new()),
        Answer::Unknown { why } => Err(Error::new(Kind::Unreachable, why)),
    }
}

/// What was printed last.
#[derive(Default)]
struct Screen {
    shown: Option<String>,
}

impl BranchArgs {
    fn recorded(&self) -> Result<Recorded> {
        let configured = match &self.repo {
            Some(url) => Recorded {
                url: url.clone(),
                branch: config::STATUS_BRANCH.to_owned(),
                directory: None,
            },
            None => {
                let checkout = Checkout::find(&self.directory)?;
                let mut config = files::read_config(checkout.root(), &global::budget())??;
                let mut allowed = StatusBranches::default();
                // Whoever names a branch here is not cutover.yaml.
                if let Some(named) = &self.status_branch {
                    config.status.branch = Some(named.clone());
                    allowed = StatusBranches::of([named.clone()]);
                }
                Recorded::of(&checkout, &config, &allowed)?
            }
        };
        Ok(Recorded {
            branch: self.status_branch.clone().unwrap_or(configured.branch),
            directory: self.status_directory.clone().or(configured.directory),
            ..configured
        })
    }
}

/// What intents there are; a kind that isn't served has none.
async fn observed(cluster: &Cluster, served: &[Served]) -> Result<View> {
    let mut objects = BTreeMap::new();
    for served in served {
        objects.insert(served.gvk.kind.as_str(), list(cluster, served).await?);
    }
    let mut unreadable = None;
    let overview = Overview::of_intents(
        |kind| objects.remove(kind).unwrap_or_default(),
        |kind, _, error| unreadable = Some((kind, error)),
    );
    match unreadable {
        Some((kind, error)) => {
            let why = format!("a {kind} has another form than this release knows: {error}");
            Err(Error::user(why).hint("are CRDs and cutover of the same release?"))
        }
        None => Ok(View::of(&overview)),
    }
}

/// Returns the kinds of intents that a control plane serves; `wanted`: that one alone.
pub(super) async fn served(
    cluster: &Cluster,
    wanted: Option<&str>,
) -> Result<Vec<(&'static api::Kind, Served)>> {
    let mut all = Vec::new();
    let named = wanted.and_then(intent_name::kind).map(|kind| kind.name);
    let is_wanted = |kind: &&api::Kind| wanted.is_none() || named == Some(kind.name);
    for kind in api::KINDS.iter().filter(is_wanted) {
        if let Lookup::Served(served) = cluster.lookup(&Gvk::new(api::API_VERSION, kind.name)).await? {
            all.push((kind, served));
        }
    }
    if all.is_empty() {
        let install = "install the CRDs: cutover init --cluster";
        let hint = if wanted.is_none() || named.is_some() {
            install.to_owned()
        } else {
            let kinds: Vec<_> = api::KINDS.iter().map(|kind| kind.name).collect();
            format!("kinds are {}; {install}", kinds.join(", "))
        };
        let what = wanted.unwrap_or("any kind of intents");
        return Err(Error::user(format!("{} does not serve {what}", cluster.server())).hint(hint));
    }
    Ok(all)
}
