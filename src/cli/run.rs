//! `cutover run`: the reconciler.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::connection::{ClusterArgs, GitArgs, StatusArgs};
use super::forge::ForgeArgs;
use super::{output, progress, signal, values};
use cutover_cluster::{Prometheus, PrometheusOptions};
use cutover_controller::reconcile::intents::{Metrics, NoMetrics};
use cutover_controller::reconcile::lease::{LeaseOptions, Terms};
use cutover_controller::reconcile::{self, Options, Summary, Target};
use cutover_controller::serve::{ConnectionLimits, HookOptions, hooks, hooks_and_pages, pages};
use cutover_controller::telemetry::Telemetry;
use cutover_core::config::Receivers;
use cutover_core::error::{Error, Kind, Result};
use cutover_core::plan::{Expected, Palette, TextOptions};
use cutover_forge::notify::{self, Notifier, Sending};
use cutover_forge::{self as forge, Hook, Telling};
use cutover_git::{self as repo, Polling, RemoteUrl, Secret, Trigger};
use cutover_karmada::name::Revision;

#[derive(Args, Debug)]
pub struct Run {
    /// The repository: a path, https://, ssh://, user@host:path, git:// or file://
    #[arg(long, value_name = "URL", env = "CUTOVER_REPO")]
    repo: RemoteUrl,
    /// The branch with the desired state
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    /// Sync, carry every intent as far as it goes, publish, and end; 1: something is not as Git wants it
    #[arg(long)]
    once: bool,
    /// Carry out the plan of this hash and no other; 1: what would be done now differs from it
    #[arg(long, value_name = "HASH", requires = "once")]
    plan_hash: Option<Expected>,
    /// How often Git is asked for new commits, instead of what cutover.yaml says; for instance `30s`
    #[arg(long, value_name = "DURATION", value_parser = values::length)]
    interval: Option<SignedDuration>,
    /// How long it may take to end in order after SIGTERM or Ctrl-C; a second one ends it at once
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = values::length)]
    grace_period: SignedDuration,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    hook: HookArgs,
    /// Serve probes (/livez, /readyz) and metrics for Prometheus (/metrics) there, without TLS; for instance 0.0.0.0:9090. May be the
    /// address of --webhook-listen
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once", value_parser = values::address)]
    metrics_addr: Option<SocketAddr>,
    /// Tell others what happens: a file that names them (docs/how-to/integrate.md#notifications)
    #[arg(long, value_name = "FILE")]
    notify_file: Option<PathBuf>,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    forge: ForgeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

/// Who answers the queries of `spec.verify.checks`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Prometheus options")]
struct MetricsArgs {
    /// A server with the HTTP API of Prometheus, for checks that name a query
    #[arg(
        id = "prometheus_url",
        long = "prometheus-url",
        value_name = "URL",
        env = "CUTOVER_PROMETHEUS_URL"
    )]
    url: Option<http::Uri>,
    /// Its content is sent as a bearer token
    #[arg(
        long = "prometheus-token-file",
        value_name = "FILE",
        requires = "prometheus_url"
    )]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that its own must be signed by, instead of the system's
    #[arg(long = "prometheus-ca-file", value_name = "FILE", requires = "prometheus_url")]
    ca_file: Option<PathBuf>,
}

impl MetricsArgs {
    fn metrics(&self) -> Result<Arc<dyn Metrics>> {
        let Some(url) = &self.url else {
            return Ok(Arc::new(NoMetrics));
        };
        Ok(Arc::new(Prometheus::new(&PrometheusOptions {
            url: url.clone(),
            token_file: self.token_file.clone(),
            ca_file: self.ca_file.clone(),
        })?))
    }
}

/// Who may say that something was pushed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Webhook options")]
struct HookArgs {
    /// Listen there for webhooks of Git hosts, at /hook; for instance 0.0.0.0:8080
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "webhook_secret_file",
        conflicts_with = "once",
        value_parser = values::address
    )]
    webhook_listen: Option<SocketAddr>,
    /// A file with the secret that they know: at least 16 characters
    #[arg(long, value_name = "FILE", requires = "webhook_listen")]
    webhook_secret_file: Option<PathBuf>,
}

impl HookArgs {
    /// Listens, if that is asked for, until it is cancelled; with `telemetry`, it serves probes and metrics, too.
    async fn listen(
        &self,
        branch: &str,
        trigger: Trigger,
        telemetry: Option<Telemetry>,
        cancel: &CancellationToken,
    ) -> Result<()> {
        let (Some(listen), Some(file)) = (self.webhook_listen, &self.webhook_secret_file) else {
            return Ok(());
        };
        let secret = std::fs::read_to_string(file)
            .map_err(|error| Error::user(format!("cannot read {}: {error}", file.display())))?;
        let hook = Hook::new(Secret::new(secret), branch).ok_or_else(|| {
            Error::user(format!("{} holds less than 16 characters", file.display()))
                .hint("make one that can't be guessed: openssl rand -hex 32")
        })?;
        let options = HookOptions {
            listen,
            hook,
            trigger,
            limits: ConnectionLimits::default(),
        };
        let serves_metrics = telemetry.is_some();
        let (address, serving) = match telemetry {
            Some(telemetry) => hooks_and_pages(options, telemetry, cancel.clone()).await?,
            None => hooks(options, cancel.clone()).await?,
        };
        tokio::spawn(serving);
        output::note(format!("webhooks are heard at http://{address}/hook"));
        if serves_metrics {
            note_metrics(address);
        }
        Ok(())
    }
}

/// Who works on the control plane when several could.
#[derive(Args, Debug)]
#[command(next_help_heading = "Lease options")]
struct LeaseArgs {
    /// The Lease in the Karmada API server that decides which reconciler works
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t = format!("{}/cutover", cutover_core::api::OWN_NAMESPACE))]
    lease: String,
    /// After how long without a sign of life another reconciler may take over: 3s to 10m
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::length)]
    lease_duration: SignedDuration,
    /// How long --once waits for another reconciler to give the Lease back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::length)]
    lease_wait: SignedDuration,
    /// Ask for no Lease. Only where certainly no other reconciler ever works on this control plane
    #[arg(long, conflicts_with_all = ["lease", "lease_duration", "lease_wait"])]
    no_lease: bool,
}

impl LeaseArgs {
    /// Returns how to agree on who works, and tells on stderr what comes of it.
    fn options(&self) -> Result<Option<LeaseOptions>> {
        if self.no_lease {
            return Ok(None);
        }
        let (namespace, name) = lease_name(&self.lease)?;
        let Some(terms) = Terms::lasting(positive(self.lease_duration)) else {
            return Err(Error::user("a lease lasts for whole seconds, from 3s to 10m")
                .hint("leave --lease-duration out, or name another one"));
        };
        let options = LeaseOptions {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            terms,
            ..LeaseOptions::new(format!("{}_{:016x}", host(), fastrand::u64(..)))
        };
        let mut standing = options.standing.subscribe();
        let lease = self.lease.clone();
        tokio::spawn(async move {
            while standing.changed().await.is_ok() {
                let standing = standing.borrow_and_update().clone();
                output::note(format!("{standing} (lease {lease})"));
            }
        });
        Ok(Some(options))
    }
}

/// How many objects that are left behind are named.
const TOLD: usize = 10;

/// Returns the name of this machine or pod; only people read it.
fn host() -> String {
    let given = std::env::var("HOSTNAME").ok();
    let asked = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    given
        .or_else(asked)
        .map(|name| name.trim().to_owned())
        .filter(|name| is_name(name))
        .unwrap_or_else(|| "somewhere".to_owned())
}

/// Reads namespace and name of a Lease.
pub(super) fn lease_name(text: &str) -> Result<(&str, &str)> {
    let named = text.split_once('/');
    named
        .filter(|(namespace, name)| is_name(namespace) && is_name(name))
        .ok_or_else(|| {
            Error::user(format!("not the name of a lease: {text}"))
                .hint("name it as NAMESPACE/NAME, for instance cutover-system/cutover")
        })
}

/// Returns whether an API server takes it for a name.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    (1..=253).contains(&text.len()) && text.chars().all(fits)
}

fn positive(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

impl Run {
    /// Returns whether it works until it is stopped.
    pub const fn is_lasting(&self) -> bool {
        !self.once
    }

    pub async fn run(self) -> Result<ExitCode> {
        let cancel = signal::cancelled_by_signals();
        let lease = self.lease.options()?;
        let cluster = progress::shown(self.cluster.connect().await?);
        cluster.require_karmada().await?;
        let repo = repo::Options {
            signing: self.status.signing(),
            ..self.git.options(self.repo.clone(), &self.branch)?
        };
        output::note(format!(
            "reconciling {} ({}) with {}",
            self.repo,
            self.branch,
            cluster.server()
        ));
        let mut options = Options {
            polling: self.interval.map(polling),
            lease,
            metrics: self.metrics.metrics()?,
            patience: positive(self.lease.lease_wait),
            grace: positive(self.grace_period),
            status_repo: self.status.elsewhere(&self.git)?,
            status_branches: self.status.branches(),
            ..Options::new(repo, cluster)
        };
        let sending = self.notify(&mut options)?;
        let telling = self.tell_of_commits(&mut options)?;
        let outcome = Box::pin(self.reconcile(options, cancel)).await;
        let sent = async {
            if let Some(sending) = sending {
                sending.end(NOTICES).await;
            }
        };
        let told = async {
            if let Some(telling) = telling {
                telling.end(NOTICES).await;
            }
        };
        tokio::join!(sent, told);
        outcome
    }

    async fn reconcile(&self, mut options: Options, cancel: CancellationToken) -> Result<ExitCode> {
        if self.once {
            if let Some(expected) = &self.plan_hash {
                options.at = Some(planned(&options, expected, &cancel).await?);
            }
            return once(options, cancel).await;
        }
        self.serve(&options, &cancel).await?;
        reconcile::run(options, cancel).await?;
        Ok(ExitCode::SUCCESS)
    }

    /// Listens for webhooks, probes and scrapes, as far as that is asked for.
    async fn serve(&self, options: &Options, cancel: &CancellationToken) -> Result<()> {
        let trigger = options.repo.trigger.clone();
        let is_shared = self.metrics_addr.is_some() && self.metrics_addr == self.hook.webhook_listen;
        let shared = is_shared.then(|| options.telemetry.clone());
        self.hook.listen(&self.branch, trigger, shared, cancel).await?;
        if let (Some(listen), false) = (self.metrics_addr, is_shared) {
            let telemetry = options.telemetry.clone();
            let (address, serving) =
                pages(listen, telemetry, ConnectionLimits::default(), cancel.clone()).await?;
            tokio::spawn(serving);
            note_metrics(address);
        }
        Ok(())
    }

    /// Prepares to say beside commits how they fare, if that is asked for.
    fn tell_of_commits(&self, options: &mut Options) -> Result<Option<Telling>> {
        options.web = self.forge.web(&self.repo)?;
        let started = self
            .forge
            .statuses(options.web.as_ref(), self.git.ca_file(), forge::RETRY_POLICY)?;
        let (statuses, telling) = started.unzip();
        options.statuses = statuses;
        Ok(telling)
    }

    /// Prepares to tell others what happens, if that is asked for.
    fn notify(&self, options: &mut Options) -> Result<Option<Sending>> {
        let Some(file) = &self.notify_file else {
            return Ok(None);
        };
        let path = file.display().to_string();
        let content =
            std::fs::read(file).map_err(|error| Error::user(format!("cannot read {path}: {error}")))?;
        let receivers = Receivers::parse(&path, &content).map_err(|error| error.in_file(&path))?;
        let source = options.cluster.server().to_string();
        let (notifier, sending) = Notifier::start(receivers, &source, notify::RETRY_POLICY)?;
        options.notifier = Some(notifier);
        Ok(Some(sending))
    }
}

fn note_metrics(address: SocketAddr) {
    output::note(format!("probes and metrics are served at http://{address}"));
}

/// How long what is left to be told may take at the end.
const NOTICES: Duration = Duration::from_secs(5);

fn polling(interval: SignedDuration) -> Polling {
    let interval = positive(interval).max(Duration::from_secs(1));
    Polling {
        interval,
        slowest: Polling::default().slowest.max(interval),
    }
}

/// Returns the revision whose plan has the expected hash. Another plan is shown, and is an error.
async fn planned(options: &Options, expected: &Expected, cancel: &CancellationToken) -> Result<Revision> {
    let plan = reconcile::plan(&options.repo, &options.cluster, Target::Newest, cancel).await?;
    if expected.is(&plan.hash) {
        return Ok(plan.revision);
    }
    let view = plan.changes.view(Some(&plan.hash));
    output::data(view.text(&TextOptions {
        palette: Palette::coloured(),
        ..TextOptions::default()
    }))?;
    Err(Error::new(
        Kind::Conflict,
        format!(
            "nothing was done: the plan is not the one of hash {expected} any more; above is what would be done now, of {}",
            plan.revision.short()
        ),
    )
    .hint(format!(
        "if that is what you want, pass --plan-hash {}",
        plan.hash.short()
    )))
}

async fn once(options: Options, cancel: CancellationToken) -> Result<ExitCode> {
    let summary = reconcile::once(options, cancel).await?;
    tell(&summary)?;
    if summary.is_clean() {
        return Ok(ExitCode::SUCCESS);
    }
    let why = format!(
        "not everything is as Git wants it: {}",
        summary.undone().join("; ")
    );
    output::problem(&why, None, None);
    Ok(ExitCode::from(Kind::User.exit_code()))
}

fn tell(summary: &Summary) -> Result<()> {
    for (name, report) in &summary.syncs {
        let done = summary.done.get(name).copied().unwrap_or_default();
        output::data(format!(
            "sync {name}: {} objects at {}: {done}\n",
            report.desired,
            report.revision.short()
        ))?;
        for problem in report.all_problems() {
            output::problem(&problem.message, problem.at.as_ref(), problem.hint.as_deref());
        }
        if let Some(left) = report.left_unpruned() {
            output::note(format!("sync {name}: {left}"));
        }
        for waiting in report.waits().iter().filter(|waiting| !waiting.wait.overdue) {
            output::note(waiting.to_string());
        }
    }
    for left in &summary.left_behind {
        let objects: Vec<String> = left.objects.iter().take(TOLD).map(ToString::to_string).collect();
        let more = match left.objects.len().checked_sub(TOLD + 1) {
            Some(more) => format!(" and {} more", more + 1),
            None => String::new(),
        };
        output::note(format!(
            "{}: {}{more} stay; {}",
            left.why,
            objects.join(", "),
            left.hint
        ));
    }
    for (namespace, name, phase) in &summary.migrations {
        output::data(format!("migration {namespace}/{name}: {phase}\n"))?;
    }
    Ok(())
}
