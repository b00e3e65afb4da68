//! The intents' loop with somebody who writes down when it hears, asks and acts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cutover::api::{FailoverPlanStatus, Migration};
use cutover::cluster::{Cluster, Limits, Observer};
use cutover::error::Error;
use cutover::intent::record::Record;
use cutover::manifest;
use cutover::name::{GroupKind, ObjectKey};
use cutover::reconcile::intents::{self, Failpoint, FailpointHook, Parts, Records, Side, Templates, Wanted};
use futures::future::BoxFuture;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What was written down.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: Instant,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// A watch event arrived.
    Heard(ObjectKey),
    /// A request other than a watch left; when it was answered stands beside.
    Asked {
        method: String,
        path: String,
        answered: Option<Instant>,
    },
    /// A journal or an effect is about to be written, or has been.
    Wrote {
        intent: ObjectKey,
        side: Side,
        what: String,
    },
}

#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<Entry>>>);

impl Trace {
    fn add(&self, what: What) -> usize {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        entries.push(Entry { at, what });
        entries.len() - 1
    }

    fn answered(&self, index: usize) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Entry {
            what: What::Asked { answered, .. },
            ..
        }) = entries.get_mut(index)
        {
            *answered = Some(Instant::now());
        }
    }
}

pub struct Controller {
    trace: Trace,
    tasks: [JoinHandle<()>; 2],
}

impl Controller {
    pub async fn start(kubeconfig: &Path) -> Self {
        let trace = Trace::default();
        let cluster = Cluster::from_client(client(kubeconfig, &trace).await, Limits::default());
        let observer = Observer::new(cluster.clone());
        let mut changes = observer.changes();
        let heard = trace.clone();
        let listening = tokio::spawn(async move {
            while let Ok(change) = changes.recv().await {
                heard.add(What::Heard(change.key));
            }
        });
        let parts = Parts {
            cluster,
            observer,
            records: Arc::new(Kept::default()),
            templates: Arc::new(NotInGit),
            clock: Arc::new(jiff::Timestamp::now),
            failpoints: Arc::new(trace.clone()),
            canaries: intents::Canaries::default(),
            fits: intents::Fits::default(),
            telemetry: cutover::telemetry::Telemetry::default(),
            metrics: Arc::new(intents::NoMetrics),
            notifier: None,
        };
        let working = tokio::spawn(intents::run(parts, CancellationToken::new()));
        Self {
            trace,
            tasks: [listening, working],
        }
    }

    pub fn trace(&self) -> Vec<Entry> {
        self.trace
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn client(kubeconfig: &Path, trace: &Trace) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let inner: kube::Client = ClientBuilder::try_from(config).unwrap().build();
    let trace = trace.clone();
    let tracing = tower::service_fn(move |request: http::Request<Body>| {
        let watches = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let asked = (!watches).then(|| {
            trace.add(What::Asked {
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
                answered: None,
            })
        });
        let (inner, trace) = (inner.clone(), trace.clone());
        async move {
            let answer = inner.send(request).await;
            if let Some(index) = asked {
                trace.answered(index);
            }
            answer
        }
    });
    kube::Client::new(tracing, "default")
}

impl FailpointHook for Trace {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        self.add(What::Wrote {
            intent: point.intent.clone(),
            side: point.side,
            what: point.what.clone(),
        });
        Box::pin(std::future::ready(()))
    }
}

/// Records without Git, whose time is not measured here.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<String, Record>>);

impl Records for Kept {
    fn read<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        let record = self.0.lock().unwrap().get(&intent.name).cloned();
        Box::pin(std::future::ready(Ok(record)))
    }

    fn push<'a>(&'a self, intent: &'a Migration, record: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        let name = intent.metadata.name.clone().unwrap();
        self.0.lock().unwrap().insert(name, record.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn kept<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Option<FailoverPlanStatus>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn keep<'a>(&'a self, _: &'a cutover::intent::record::Kept) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

struct NotInGit;

impl Templates for NotInGit {
    fn template(&self, _: &ObjectKey) -> Result<Option<Wanted>, Error> {
        Ok(None)
    }

    fn of_kind(&self, _: &GroupKind, _: &str) -> Result<Vec<Arc<manifest::Entry>>, Error> {
        Ok(Vec::new())
    }

    fn revision(&self) -> Option<String> {
        None
    }
}
