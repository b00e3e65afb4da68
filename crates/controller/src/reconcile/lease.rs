//! Leading by a Lease in the control plane: waits for it, renews it while the work goes on, gives it back at the end.
//!
//! Decides nothing by itself (see `election`), and stops nobody: whoever writes asks the [`Leadership`] that the work is given.

mod election;

pub use election::Terms;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use cutover_cluster::{self as cluster, Cluster, Limits, Lookup};
use cutover_core::api::{self, STATUS_FORMAT};
use cutover_core::error::{Error, Kind};
use cutover_core::report::SYNCS_ANNOTATION;
use cutover_karmada::meta;
use cutover_karmada::name::Gvk;
use cutover_leadership::{Leadership, Mark};
use election::{Election, Next};

/// The field manager of Leases.
const MANAGER: &str = "cutover-lease";
/// How long the work may take to notice that it does not lead any more; nothing that it writes is sent meanwhile.
const WIND_UP: Duration = Duration::from_secs(10);

/// What tells the Lease of reconcilers from one of Karmada's, wherever it was put.
pub(crate) const LABEL: &str = "app.kubernetes.io/managed-by";
pub(crate) const LABEL_VALUE: &str = "cutover";

/// Which Lease, and in whose name.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Who holds it, for people; must be different in every process.
    pub identity: String,
    pub terms: Terms,
    /// Told about every change.
    pub standing: watch::Sender<Standing>,
    /// How the syncs of this process stand: noted on the Lease with each write of it.
    pub syncs: watch::Sender<Option<String>>,
}

impl LeaseOptions {
    /// Returns the Lease that every reconciler of a control plane asks for unless it is told otherwise.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: api::OWN_NAMESPACE.to_owned(),
            name: "cutover".to_owned(),
            identity: identity.into(),
            terms: Terms::DEFAULT,
            standing: watch::Sender::new(Standing::Looking),
            syncs: watch::Sender::new(None),
        }
    }
}

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Hasn't heard of the Lease yet, or can't reach the server.
    Looking,
    /// Somebody else leads.
    Waiting {
        holder: String,
    },
    Leading,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Looking => f.write_str("not leading"),
            Self::Waiting { holder } => write!(f, "waiting: {holder} leads"),
            Self::Leading => f.write_str("leading"),
        }
    }
}

/// Does the work whenever this process leads, until it is cancelled or the work ends.
///
/// The work is given its term of leadership, and a token that is cancelled when it should end: in order while the term of leadership lasts, at
/// once when that is over.
pub async fn lead<W, F>(
    cluster: &Cluster,
    options: LeaseOptions,
    cancel: &CancellationToken,
    mut work: W,
) -> Result<(), Error>
where
    W: FnMut(Leadership, CancellationToken) -> F,
    F: Future<Output = Result<(), Error>>,
{
    let mut leader = Leader::new(cluster, options);
    loop {
        let leadership = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            leadership = leader.acquire() => leadership?,
        };
        let stop = cancel.child_token();
        let work = work(leadership.clone(), stop.clone());
        if let Some(done) = leader.during(&leadership, &stop, work).await {
            return done;
        }
    }
}

/// Does the work once, when this process leads; waits for that no longer than `patience`.
pub async fn once<T, F>(
    cluster: &Cluster,
    options: LeaseOptions,
    patience: Duration,
    cancel: &CancellationToken,
    work: impl FnOnce(Leadership, CancellationToken) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut leader = Leader::new(cluster, options);
    let acquired = tokio::select! {
        () = cancel.cancelled() => return Err(Error::user("interrupted")),
        acquired = tokio::time::timeout(patience, leader.acquire()) => acquired,
    };
    let Ok(leadership) = acquired else {
        return Err(leader.gave_up(patience));
    };
    let (leadership, stop) = (leadership?, cancel.child_token());
    let work = work(leadership.clone(), stop.clone());
    leader.during(&leadership, &stop, work).await.unwrap_or_else(|| {
        Err(Error::new(
            Kind::Conflict,
            format!("the lease {} was lost before everything was done", leader.lease()),
        )
        .hint("run it again: unfinished work continues from where it is"))
    })
}

/// What one request for the Lease came to.
enum Attempt {
    /// It is ours; counted from before the request was sent.
    Won(Mark),
    /// It was changed meanwhile, or an earlier request of ours has come through late: look again.
    Changed,
    Waits {
        holder: String,
        until: Instant,
    },
}

struct Leader {
    cluster: Cluster,
    leases: Api<Lease>,
    options: LeaseOptions,
    election: Election,
    /// What the server has let this process do so far: what it refuses later may come right again.
    has_read: bool,
    has_written: bool,
    is_reading: bool,
    /// The trouble that was told last.
    trouble: Option<String>,
    random: fastrand::Rng,
}

impl Leader {
    fn new(cluster: &Cluster, options: LeaseOptions) -> Self {
        let request = options.terms.request();
        // The election has a rhythm of its own: nothing is tried again below it.
        let cluster = cluster.with_limits(Limits {
            request,
            total: request,
            attempts: 1,
            failures: u32::MAX,
            ..cluster.limits().clone()
        });
        let seed = options
            .identity
            .bytes()
            .fold(cluster.limits().seed, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(byte.into())
            });
        Self {
            leases: Api::namespaced(cluster.client(), &options.namespace),
            cluster,
            election: Election::new(options.identity.clone(), options.terms),
            options,
            has_read: false,
            has_written: false,
            is_reading: true,
            trouble: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Waits until this process leads. Fails only when the server never let it use the Lease.
    async fn acquire(&mut self) -> Result<Leadership, Error> {
        loop {
            let mut rest = self.pause();
            match self.attempt().await {
                Ok(Attempt::Won(sent)) => {
                    let leadership = Leadership::lasting(sent, self.options.terms.leadership());
                    if !leadership.is_over() {
                        self.trouble = None;
                        self.tell(Standing::Leading);
                        return Ok(leadership);
                    }
                }
                Ok(Attempt::Waits { holder, until }) => {
                    self.trouble = None;
                    self.tell(Standing::Waiting { holder });
                    rest = rest.min(until.saturating_duration_since(Instant::now()));
                }
                Ok(Attempt::Changed) => {}
                Err(error) if self.is_for_good(&error) => return Err(error),
                Err(error) => self.complain("cannot ask who leads", &error),
            }
            tokio::time::sleep(rest).await;
        }
    }

    /// Keeps the Lease while the work goes on, and gives it back then; `None`: it was lost, and the work was stopped.
    async fn during<T>(
        &mut self,
        leadership: &Leadership,
        stop: &CancellationToken,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => {
                leadership.end();
                self.release().await;
                return Some(done);
            }
            () = self.hold(leadership) => {}
        }
        leadership.end();
        stop.cancel();
        tracing::warn!(
            lease = self.lease(),
            "lost: nothing is written until this process leads again"
        );
        self.tell(Standing::Looking);
        if tokio::time::timeout(WIND_UP, work).await.is_err() {
            tracing::warn!("unfinished work was left");
        }
        None
    }

    /// Renews until the Lease is lost.
    async fn hold(&mut self, leadership: &Leadership) {
        let terms = self.options.terms;
        let mut rest = terms.renew_every();
        loop {
            let left = leadership.remaining().unwrap_or(rest);
            tokio::time::sleep(rest.min(left)).await;
            if leadership.is_over() {
                return;
            }
            rest = match self.renew().await {
                Ok(Attempt::Won(sent)) => {
                    self.trouble = None;
                    leadership.extend(sent, terms.leadership());
                    terms.renew_every()
                }
                Ok(Attempt::Changed) => Duration::ZERO,
                Ok(Attempt::Waits { holder, .. }) => return self.tell(Standing::Waiting { holder }),
                Err(error) => {
                    self.complain("cannot renew", &error);
                    self.pause()
                }
            };
        }
    }

    /// Looks who has the Lease, and claims it when it is free.
    async fn attempt(&mut self) -> Result<Attempt, Error> {
        self.is_reading = true;
        self.require_leases().await?;
        self.look().await?;
        match self.election.next(Instant::now(), Timestamp::now()) {
            Next::Claim(lease) => self.write(&lease).await,
            Next::Wait { holder, until } => Ok(Attempt::Waits { holder, until }),
            Next::Newer { format } => Err(self.too_new(format)),
        }
    }

    /// Renews what is certainly ours. What was deleted or taken isn't any more, even if it is free to be claimed again.
    async fn renew(&mut self) -> Result<Attempt, Error> {
        match self.election.next(Instant::now(), Timestamp::now()) {
            Next::Claim(lease) => {
                if let Attempt::Won(sent) = self.write(&lease).await? {
                    return Ok(Attempt::Won(sent));
                }
            }
            Next::Newer { format } => return Err(self.too_new(format)),
            Next::Wait { .. } => {}
        }
        self.look().await?;
        Ok(if self.election.is_mine() {
            Attempt::Changed
        } else {
            Attempt::Waits {
                holder: self.election.holder().to_owned(),
                until: Instant::now(),
            }
        })
    }

    /// Gives the Lease back, so that the next one need not wait until it expires.
    async fn release(&mut self) {
        let limit = self.options.terms.request() * 2;
        let released = async {
            while let Some(lease) = self.election.release(Timestamp::now()) {
                match self.write(&lease).await {
                    Ok(Attempt::Won(_)) => return Ok(()),
                    // A renewal that was broken off has come through.
                    Ok(_) => self.look().await?,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        match tokio::time::timeout(limit, released).await {
            Ok(Ok(())) => tracing::info!(lease = self.lease(), "given back"),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.lease(), %error, "not given back: it expires by itself");
            }
            Err(_) => tracing::warn!(
                lease = self.lease(),
                "not given back in time: it expires by itself"
            ),
        }
        self.tell(Standing::Looking);
    }

    async fn look(&mut self) -> Result<(), Error> {
        self.is_reading = true;
        let lease = match self.leases.get_opt(&self.options.name).await {
            Ok(lease) => lease,
            Err(error) => return Err(self.explain("read", error)),
        };
        self.has_read = true;
        self.election.see(lease, Instant::now());
        Ok(())
    }

    /// Writes by compare-and-swap.
    async fn write(&mut self, lease: &Lease) -> Result<Attempt, Error> {
        self.is_reading = false;
        let sent = Mark::now();
        let written = match self.put(lease).await {
            Err(kube::Error::Api(status))
                if status.code == 404 && lease.metadata.resource_version.is_none() =>
            {
                self.create_namespace().await?;
                self.put(lease).await
            }
            written => written,
        };
        match written {
            Ok(lease) => {
                self.has_written = true;
                self.election.see(Some(lease), Instant::now());
                Ok(Attempt::Won(sent))
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Attempt::Changed),
            Err(error) => Err(self.explain("write", error)),
        }
    }

    async fn put(&self, lease: &Lease) -> kube::Result<Lease> {
        let (name, params) = (&self.options.name, params());
        let mut lease = lease.clone();
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert(LABEL.to_owned(), LABEL_VALUE.to_owned());
        let syncs = self.options.syncs.borrow().clone();
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match syncs {
            Some(syncs) => drop(annotations.insert(SYNCS_ANNOTATION.to_owned(), syncs)),
            // What another reconciler noted is not vouched for.
            None => drop(annotations.remove(SYNCS_ANNOTATION)),
        }
        if lease.metadata.resource_version.is_some() {
            return self.leases.replace(name, &params, &lease).await;
        }
        lease.metadata.name = Some(name.clone());
        self.leases.create(&params, &lease).await
    }

    /// Creates the namespace when it is cutover's own: a name that somebody gave may be a slip.
    async fn create_namespace(&self) -> Result<(), Error> {
        let name = &self.options.namespace;
        if name != api::OWN_NAMESPACE {
            return Err(Error::user(format!(
                "the lease {} cannot be created: there is no namespace {name}",
                self.lease()
            ))
            .hint("create the namespace, or name another lease with --lease"));
        }
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(meta::SKIP_AUTO_PROPAGATION.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.cluster.client());
        match namespaces.create(&params(), &namespace).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(self.explain("create the namespace of", error)),
        }
    }

    async fn require_leases(&self) -> Result<(), Error> {
        let gvk = Gvk::new("coordination.k8s.io/v1", "Lease");
        match self.cluster.lookup(&gvk).await? {
            Lookup::Served(_) => Ok(()),
            Lookup::NotServed => Err(Error::user(format!(
                "{} serves no Leases, so several reconcilers could not agree on who leads",
                self.cluster.server()
            ))
            .hint("if no other reconciler ever works on this control plane, pass --no-lease")),
        }
    }

    /// Returns whether trying again will not help: the server answers, and what it refuses has never worked.
    fn is_for_good(&self, error: &Error) -> bool {
        let worked = if self.is_reading {
            self.has_read
        } else {
            self.has_written
        };
        !worked && matches!(error.kind(), Kind::User | Kind::Auth | Kind::Internal)
    }

    fn explain(&self, verb: &str, error: kube::Error) -> Error {
        let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
        let error: Error =
            cluster::Error::from_kube(format!("cannot {verb} the lease {}", self.lease()), error).into();
        if !forbidden {
            return error;
        }
        error.hint(format!(
            "allow this identity to get, create and update leases.coordination.k8s.io in the namespace {} of the Karmada \
             API server (docs/how-to/operate.md); or pass --no-lease, if no other reconciler ever works on this control plane",
            self.options.namespace
        ))
    }

    fn too_new(&self, format: u32) -> Error {
        let lease = self.lease();
        Error::user(format!(
            "the lease {lease} was held by a newer version of cutover, which writes format {format}: this one reads formats up to \
             {STATUS_FORMAT}, and doesn't lead"
        ))
        .hint(format!(
            "run that version again; or, when no intent is in flight, remove the annotation {} of the lease",
            election::FORMAT
        ))
    }

    fn gave_up(&self, after: Duration) -> Error {
        let seconds = after.as_secs();
        if let Next::Newer { format } = self.election.next(Instant::now(), Timestamp::now()) {
            return self.too_new(format);
        }
        if let Some(trouble) = &self.trouble {
            return Error::new(
                Kind::Unreachable,
                format!("after {seconds} s it is not known who leads: {trouble}"),
            );
        }
        Error::new(
            Kind::Conflict,
            format!(
                "{} still has the lease {} after {seconds} s",
                self.election.holder(),
                self.lease()
            ),
        )
        .hint("another reconciler works on this control plane: stop it, or wait longer with --lease-wait")
    }

    /// Tells of a trouble, once.
    fn complain(&mut self, what: &str, error: &Error) {
        let trouble = error.to_string();
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(lease = self.lease(), %error, hint = error.hint_text(), "{what}");
            self.trouble = Some(trouble);
        }
    }

    fn tell(&self, standing: Standing) {
        let changed = |known: &mut Standing| {
            let changed = *known != standing;
            known.clone_from(&standing);
            changed
        };
        if self.options.standing.send_if_modified(changed) {
            // Whoever is given the standing tells people of it.
            tracing::debug!(lease = self.lease(), "{standing}");
        }
    }

    /// Those who wait don't all ask at once.
    fn pause(&mut self) -> Duration {
        self.options
            .terms
            .look_every()
            .mul_f64(0.75 + self.random.f64() / 2.0)
    }

    /// Returns what people call the Lease.
    fn lease(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}
