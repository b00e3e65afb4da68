//! `cutover status`: what intents are doing, from the Karmada API server or from the status branch alone.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use terminal_size::{Height, Width, terminal_size};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::connection::{ClusterArgs, GitArgs};
use super::intent_name::{self, IntentName};
use super::output::OUTPUT;
use super::recorded::Recorded;
use super::run::lease_name;
use super::{files, global, output, signal};
use cutover_cluster::{Answer, Change, Cluster, Form, Lookup, Observer, Served, Watched};
use cutover_core::api::{self, Claim};
use cutover_core::config::{self, StatusBranches};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::report::{Copies, Dashboard, Layout, Overview, Reconciler, View, on_a_screen};
use cutover_git::{Checkout, RemoteUrl};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::Gvk;

#[derive(Args, Debug)]
pub struct Status {
    /// Show all of one intent: NAME, NAMESPACE/NAME or KIND/NAME, such as mig/orders-to-west
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only intents of this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Intents of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Show all: intents that have ended, every workload, and each one of several intents that wait for the same
    #[arg(short, long)]
    all: bool,
    /// The output format; `wide`: a line for each intent; `json`, `yaml`: with time and evidence of each phase (cutover schema status)
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
    /// Keep showing the status: on a terminal every second, else whenever something has changed
    #[arg(short, long)]
    watch: bool,
    /// Exit with 1 if something failed, is unhealthy, waits for a person or cannot be observed, else with 0
    #[arg(long = "exit-status", conflicts_with = "watch")]
    judges: bool,
    /// Show what the status branch says, without a control plane: read at the remote of the clone in this directory
    #[arg(long)]
    recorded: bool,
    /// The Lease that shows whether a reconciler is running, and the state of its syncs
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value_t = format!("{}/cutover", api::OWN_NAMESPACE),
        conflicts_with = "recorded",
        help_heading = "Control plane options"
    )]
    lease: String,
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
    Wide,
    Json,
    Yaml,
}

const BAD: Style = AnsiColor::Red.on_default().bold();
/// How long changes are gathered before they are printed.
const GATHER: Duration = Duration::from_millis(50);
/// How often the status branch is read again.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is asked whether the control plane still answers, where nothing is heard of it.
const PROBE: Duration = Duration::from_secs(5);
/// How often a terminal is drawn again.
const TICK: Duration = Duration::from_secs(1);
/// What is changed without end is read again only so often that reading takes this part of the time.
const SHARE: u32 = 20;
/// But at least so often.
const SELDOM: Duration = Duration::from_secs(5);

impl Status {
    pub async fn run(self) -> Result<ExitCode> {
        if self.recorded {
            return self.run_recorded().await;
        }
        let lease = lease_name(&self.lease)?;
        let cluster = self.cluster.connect().await.map_err(|error| {
            let hint = "without a control plane, say what the status branch says: cutover status --recorded";
            match error.hint_text() {
                Some(_) => error,
                None => error.hint(hint),
            }
        })?;
        let source = Observed::find(cluster, lease).await?;
        let mut screen = Screen::new(&self);
        let view = source.view().await?;
        self.show(&view, &mut screen)?;
        if self.watch {
            self.follow(&source, &mut screen).await?;
        }
        self.code(&view)
    }

    async fn run_recorded(&self) -> Result<ExitCode> {
        let recorded = self.branch.recorded()?;
        let mut screen = Screen::new(self);
        loop {
            let view = recorded.view(&self.git).await?;
            let Some(view) = view else {
                return Err(
                    Error::user(format!("{} has no branch {}", recorded.url, recorded.branch)).hint(
                        "a reconciler creates it with its first report; --status-branch names another one",
                    ),
                );
            };
            self.show(&view, &mut screen)?;
            if !self.watch {
                return self.code(&view);
            }
            let again = Instant::now() + AGAIN;
            loop {
                tokio::select! {
                    () = signal::asked_to_end() => return Ok(ExitCode::SUCCESS),
                    () = tokio::time::sleep_until(again) => break,
                    () = screen.tick() => screen.draw(&self.layout())?,
                }
            }
        }
    }

    async fn follow(&self, source: &Observed, screen: &mut Screen) -> Result<()> {
        let observer = Observer::new(source.cluster.clone());
        let mut changes = observer.changes();
        source.watch(&observer);
        let ended = signal::asked_to_end();
        tokio::pin!(ended);
        // When it is read again, and the earliest time for that.
        let mut due: Option<Instant> = None;
        let mut earliest = Instant::now();
        let mut probe = tokio::time::interval_at(Instant::now() + PROBE, PROBE);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut ended => return Ok(()),
                () = screen.tick() => screen.draw(&self.layout())?,
                _ = probe.tick() => {
                    let is_back = screen.lost.is_some();
                    match source.probe().await {
                        Ok(()) if is_back => due = Some(Instant::now()),
                        // Nothing changes when a reconciler works no more.
                        Ok(()) => if let Some(reconciler) = source.reconciler().await {
                            screen.see(&reconciler, &self.layout())?;
                        },
                        Err(why) => screen.lose(why, &self.layout())?,
                    }
                }
                heard = changes.recv(), if due.is_none() => {
                    if matches!(heard, Err(RecvError::Closed)) {
                        return Ok(());
                    }
                    due = Some(earliest.max(Instant::now() + GATHER));
                }
                () = tokio::time::sleep_until(due.unwrap_or(earliest)), if due.is_some() => {
                    due = None;
                    while changes.try_recv().is_ok() {}
                    let began = Instant::now();
                    match source.view().await {
                        Ok(view) => {
                            screen.lost = None;
                            self.show(&view, screen)?;
                        }
                        Err(error) => screen.lose(error.to_string(), &self.layout())?,
                    }
                    earliest = Instant::now() + (began.elapsed() * SHARE).min(SELDOM);
                }
            }
        }
    }

    /// Prints what is asked for, if it says something new.
    fn show(&self, view: &View, screen: &mut Screen) -> Result<()> {
        let part = self.part(view)?;
        screen.show(part.as_ref().unwrap_or(view), &self.layout())
    }

    /// Returns how the program ends after a view was shown.
    fn code(&self, view: &View) -> Result<ExitCode> {
        if !self.judges {
            return Ok(ExitCode::SUCCESS);
        }
        let part = self.part(view)?;
        let is_well = part.as_ref().unwrap_or(view).dashboard().is_well();
        Ok(if is_well {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(Kind::User.exit_code())
        })
    }

    /// Returns the part of a view that was asked for; `None`: all of it.
    fn part(&self, view: &View) -> Result<Option<View>> {
        let name = self.name.as_deref();
        let namespace = self.namespace.as_deref().filter(|_| !self.all_namespaces);
        if name.is_none() && namespace.is_none() {
            return Ok(None);
        }
        let named = name.map(|name| IntentName::new(name, namespace));
        let part = view.only(|kind, there, one| {
            let there = Some(there).filter(|there| !there.is_empty());
            named.map_or(there == namespace, |named| named.means(kind, there, one))
        });
        match name {
            Some(name) if part.is_empty() && !self.watch => {
                let hint = intent_name::did_you_mean(name, view.names()).unwrap_or_else(|| {
                    "cutover status lists them; one that was just pushed appears with the next sync"
                        .to_owned()
                });
                Err(Error::user(format!("there is no intent {name}")).hint(hint))
            }
            _ => Ok(Some(part)),
        }
    }

    fn layout(&self) -> Layout {
        let width = std::io::stdout().is_terminal().then(terminal_size).flatten();
        Layout {
            width: width.map(|(Width(columns), _)| usize::from(columns)),
            all: self.all || self.name.is_some(),
            verbose: global::is_verbose(),
            wide: self.output == Format::Wide,
            ..Layout::at(Timestamp::now())
        }
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
    found(cluster.reader().list(served, None, None).await.answer)
}

/// Reads all objects of a kind, each as a type. One that doesn't fit makes all unknown.
async fn list_as<T: DeserializeOwned>(cluster: Cluster, served: Served) -> Result<Vec<T>> {
    found(cluster.reader().list_as(&served, None, None).await.answer)
}

fn found<T>(answer: Answer<Vec<T>>) -> Result<Vec<T>> {
    match answer {
        Answer::Found(objects) => Ok(objects),
        Answer::NotFound => Ok(Vec::new()),
        Answer::Unknown { why } => Err(Error::new(Kind::Unreachable, why)),
    }
}

/// Reads on whichever thread is free: to parse a long list takes longer than to ask for it.
async fn apart<T: Send + 'static>(read: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let read = tokio::spawn(read).await;
    read.unwrap_or_else(|error| {
        Err(Error::internal(format!(
            "a list was not read to its end: {error}"
        )))
    })
}

/// What was printed last, and how to print it.
struct Screen {
    format: Format,
    /// What is printed is compared with what comes after it.
    is_followed: bool,
    /// In the form in which programs read it: how long something takes is no news.
    shown: Option<String>,
    dashboard: Option<Dashboard>,
    /// When a terminal that is watched is drawn again.
    ticks: Option<Interval>,
    /// Why the control plane doesn't answer, and since when: what is shown is from then.
    lost: Option<(String, Timestamp)>,
}

impl Screen {
    fn new(status: &Status) -> Self {
        let is_drawn = status.watch
            && matches!(status.output, Format::Text | Format::Wide)
            && std::io::stdout().is_terminal();
        Self {
            format: status.output,
            is_followed: status.watch,
            shown: None,
            dashboard: None,
            ticks: is_drawn.then(|| tokio::time::interval(TICK)),
            lost: None,
        }
    }

    /// Says, once, that the control plane doesn't answer.
    fn lose(&mut self, why: String, layout: &Layout) -> Result<()> {
        if self.lost.is_some() {
            return Ok(());
        }
        if self.ticks.is_none() {
            output::note(format!("warning: the control plane does not answer: {why}"));
        }
        self.lost = Some((why, layout.now));
        self.shown = None;
        match self.ticks {
            Some(_) => self.draw(layout),
            None => Ok(()),
        }
    }

    /// Takes in whether a reconciler is at work, and prints what that changes.
    fn see(&mut self, reconciler: &Reconciler, layout: &Layout) -> Result<()> {
        let dashboard = self.dashboard.as_mut();
        if dashboard.is_some_and(|dashboard| dashboard.see(reconciler)) {
            self.draw(layout)?;
        }
        Ok(())
    }

    /// Prints a view if it says something new.
    fn show(&mut self, view: &View, layout: &Layout) -> Result<()> {
        let is_for_people = matches!(self.format, Format::Text | Format::Wide);
        if is_for_people && !self.is_followed {
            self.dashboard = Some(view.dashboard());
            return self.draw(layout);
        }
        let content = match self.format {
            Format::Yaml => view.yaml()?,
            _ => view.json()?,
        };
        if self.shown.as_ref() == Some(&content) {
            return Ok(());
        }
        match self.format {
            Format::Json => output::json(&content)?,
            Format::Yaml => output::data(&content)?,
            Format::Text | Format::Wide => {
                self.dashboard = Some(view.dashboard());
                self.draw(layout)?;
            }
        }
        self.shown = Some(content);
        Ok(())
    }

    /// Comes when a terminal is to be drawn again; never where none is watched.
    async fn tick(&mut self) {
        match &mut self.ticks {
            Some(ticks) => {
                ticks.tick().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Writes it; draws a terminal that is watched again, as far as that has room.
    fn draw(&self, layout: &Layout) -> Result<()> {
        let Some(dashboard) = &self.dashboard else {
            return Ok(());
        };
        let text = match &self.lost {
            // Nobody knows how long what is shown has been so.
            Some((why, at)) => {
                let shown = dashboard.text(&Layout { now: *at, ..*layout });
                let at = at.strftime("%H:%M:%S");
                format!(
                    "{BAD}the control plane does not answer; this is what it said until {at} UTC{BAD:#}\n{why}\n\n{shown}"
                )
            }
            None => dashboard.text(layout),
        };
        match terminal_size().filter(|_| self.ticks.is_some()) {
            Some((_, Height(rows))) => {
                output::clear()?;
                output::data(on_a_screen(&text, usize::from(rows).saturating_sub(1)))
            }
            None => output::data(text),
        }
    }
}

/// Where it is observed what intents there are, and what runs where.
struct Observed {
    cluster: Cluster,
    intents: Vec<Served>,
    /// Bindings, claims and clusters, where the control plane serves them.
    copies: Option<[Served; 3]>,
    /// The Lease of the reconcilers, by namespace and name.
    lease: Option<(Served, String, String)>,
}

impl Observed {
    async fn find(cluster: Cluster, lease: (&str, &str)) -> Result<Self> {
        let intents = served(&cluster, None).await?;
        let binding = Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding");
        let claim = Gvk::new(api::API_VERSION, "Claim");
        let member = Gvk::new("cluster.karmada.io/v1alpha1", "Cluster");
        let looked_up = (
            cluster.lookup(&binding).await?,
            cluster.lookup(&claim).await?,
            cluster.lookup(&member).await?,
        );
        let copies = match looked_up {
            (Lookup::Served(bindings), Lookup::Served(claims), Lookup::Served(members)) => {
                Some([bindings, claims, members])
            }
            _ => None,
        };
        let (namespace, name) = (lease.0.to_owned(), lease.1.to_owned());
        let leases = Gvk::new("coordination.k8s.io/v1", "Lease");
        let lease = match cluster.lookup(&leases).await {
            Ok(Lookup::Served(served)) => Some((served, namespace, name)),
            Ok(Lookup::NotServed) | Err(_) => None,
        };
        Ok(Self {
            lease,
            intents: intents.into_iter().map(|(_, served)| served).collect(),
            copies,
            cluster,
        })
    }

    fn watch(&self, observer: &Observer) {
        let copies = self.copies.iter().flatten();
        for served in self.intents.iter().chain(copies) {
            // What is shown is read when something has changed.
            observer.watch(Watched {
                form: Form::Version,
                ..Watched::all(served.gvk.clone())
            });
        }
    }

    /// Returns why the control plane doesn't answer, if so.
    async fn probe(&self) -> Result<(), String> {
        let Some(served) = self.intents.first() else {
            return Ok(());
        };
        match tokio::time::timeout(PROBE, list(&self.cluster, served)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PROBE.as_secs())),
        }
    }

    async fn view(&self) -> Result<View> {
        let intents = observed(&self.cluster, &self.intents);
        let (view, copies, reconciler) = futures::join!(intents, self.copies(), self.reconciler());
        let mut view = view?;
        if let Some(copies) = copies {
            view = view.with_copies(copies);
        }
        if let Some(reconciler) = reconciler {
            view = view.with_reconciler(reconciler);
        }
        Ok(view)
    }

    /// Reads the Lease of the reconcilers; `None`: there is none of that name, or it can't be read, and nothing is known of them.
    async fn reconciler(&self) -> Option<Reconciler> {
        let (served, namespace, name) = self.lease.as_ref()?;
        let reader = self.cluster.reader();
        let read = tokio::time::timeout(PROBE, reader.get(served, Some(namespace), name));
        match read.await.ok()?.answer {
            Answer::Found(lease) => Some(Reconciler::of(&lease, Timestamp::now())),
            Answer::NotFound | Answer::Unknown { .. } => None,
        }
    }

    /// Reads what runs where. Who may read intents alone still learns of these.
    async fn copies(&self) -> Option<Copies> {
        let [bindings, claims, clusters] = self.copies.as_ref()?;
        let (bindings, claims, clusters) = futures::join!(
            apart(list_as::<ResourceBinding>(self.cluster.clone(), bindings.clone())),
            apart(list_as::<Claim>(self.cluster.clone(), claims.clone())),
            list(&self.cluster, clusters),
        );
        Some(match (bindings, claims) {
            // Who may not list clusters isn't told which of them cannot be reached.
            (Ok(bindings), Ok(claims)) => {
                Copies::among(&bindings, &claims).in_clusters(&clusters.unwrap_or_default())
            }
            (Err(error), _) | (_, Err(error)) => Copies::unknown(error.to_string()),
        })
    }
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
                let checkout = Checkout::find(&self.directory).map_err(|error| {
                    Error::from(error).hint("name a clone with -C, or a repository elsewhere with --repo")
                })?;
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
    let lists = served.iter().map(|served| {
        let (cluster, served) = (cluster.clone(), served.clone());
        apart(async move { list(&cluster, &served).await })
    });
    let all = try_join_all(lists).await?;
    let kinds = served.iter().map(|served| served.gvk.kind.as_str());
    let mut objects: BTreeMap<&str, Vec<Value>> = kinds.zip(all).collect();
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
        // A member, or the cluster that hosts Karmada, is easily taken for the control plane: CRDs belong on neither.
        cluster.require_karmada().await?;
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
