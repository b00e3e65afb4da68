//! Records of intents in Git: read at the remote, pushed before the phase that needs them goes on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, Shared};
use serde_json::Value;
use tokio::time::Instant;

use super::intents::Records;
use cutover_core::api::{self, FailoverPlan, FailoverPlanStatus, Migration};
use cutover_core::error::{Error, Kind};
use cutover_core::intent::record::{self, Kept, Record};
use cutover_git::{Branch, Draft, Files, Message, Repo, Tip, Trailer};
use cutover_karmada::name::ObjectKey;

/// How many commits are looked at to find who changed a file.
const HISTORY: usize = 1000;

/// How long an intent waits for an answer from the repository in one look: beside a remote that drips, too, whoever looks is told
/// what it waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records on the status branch of a repository.
#[derive(Clone, Debug)]
pub struct GitRecords {
    source: Repo,
    status: Repo,
    patience: Duration,
    reading: Arc<Mutex<BTreeMap<String, Reading>>>,
}

/// A read that is under way. One that takes longer than anybody waits goes on, and its answer is there for whoever asks soon: if
/// every look began another one, none would be answered.
#[derive(Clone, Debug)]
struct Reading {
    answer: Shared<BoxFuture<'static, Result<Option<Vec<u8>>, Error>>>,
    /// When the answer came.
    ended: Arc<OnceLock<Instant>>,
}

impl GitRecords {
    /// Keeps records on the status branch of the repository that has the desired state.
    pub fn new(repo: Repo) -> Self {
        Self::of(repo.clone(), repo)
    }

    /// Keeps records in a repository that may be another one.
    pub fn of(source: Repo, status: Repo) -> Self {
        Self {
            source,
            status,
            patience: PATIENCE,
            reading: Arc::default(),
        }
    }

    /// Waits as long for the repository.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    async fn file(&self, path: String) -> Result<Option<Vec<u8>>, Error> {
        let reading = self.reading(&path);
        let answer = tokio::time::timeout(self.patience, reading.answer.clone()).await;
        let mut all = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &Reading| known.answer.ptr_eq(&reading.answer);
        if answer.is_ok() && all.get(&path).is_some_and(is_it) {
            all.remove(&path);
        }
        answer.unwrap_or_else(|_| Err(self.no_answer()))
    }

    /// Returns the read of a file that is under way, or begins one. An answer that nobody has come for is no news after a while.
    fn reading(&self, path: &str) -> Reading {
        let mut all = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |reading: &Reading| {
            reading
                .ended
                .get()
                .is_some_and(|at| at.elapsed() >= self.patience)
        };
        all.retain(|_, reading| !is_old(reading));
        if let Some(reading) = all.get(path) {
            return reading.clone();
        }
        let (status, file, ended) = (self.status.clone(), path.to_owned(), Arc::default());
        let ends: Arc<OnceLock<Instant>> = Arc::clone(&ended);
        let reads = tokio::spawn(async move {
            let read = status.read_fresh(Branch::Status, file).await;
            let _ = ends.set(Instant::now());
            read
        });
        let answer = async move {
            match reads.await {
                Ok(read) => Ok(read?),
                Err(ended) => Err(Error::internal(format!(
                    "a read of the status branch has ended: {ended}"
                ))),
            }
        };
        let reading = Reading {
            answer: answer.boxed().shared(),
            ended,
        };
        all.insert(path.to_owned(), reading.clone());
        reading
    }

    /// Commits a document unless what is recorded is newer.
    async fn commit(
        &self,
        path: String,
        document: Value,
        message: Message,
        kind: &api::Kind,
    ) -> Result<(), Error> {
        let _waited_for = self.status.begin();
        let (bytes, file, kind) = (to_yaml(&document)?, path.clone(), *kind);
        let draft = move |tip: &Tip<'_>| {
            // A replica that stood still meanwhile brings what is old by now.
            let recorded = tip.read(&path)?.and_then(|bytes| parse(&path, &bytes).ok());
            if recorded.is_some_and(|recorded| kind.is_newer(&recorded, &document)) {
                let why = format!("{path} on the status branch is newer than what is to be recorded");
                return Err(Error::new(Kind::Conflict, why));
            }
            let files = Files::Edit([(path.clone(), Some(bytes.clone()))].into());
            Ok(Draft {
                message: message.clone(),
                files,
            })
        };
        let published = self.status.publish(Branch::Status, draft).await;
        // What was read before it says nothing of what stands there now.
        let mut all = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&file);
        Ok(published.map(drop)?)
    }

    fn no_answer(&self) -> Error {
        let why = format!(
            "the repository for status has not answered within {} s",
            self.patience.as_secs()
        );
        Error::new(Kind::Unreachable, why)
    }
}

impl Records for GitRecords {
    fn read<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        Box::pin(async move {
            let path = path(intent);
            let Some(bytes) = self.file(path.clone()).await? else {
                return Ok(None);
            };
            let document = parse(&path, &bytes)?;
            let uid = document.pointer("/metadata/uid").and_then(Value::as_str);
            let uid = uid.map(str::to_owned);
            let record: Record =
                serde_json::from_value(document).map_err(|error| unreadable(&path, &error))?;
            Ok(Some(Record { uid, ..record }))
        })
    }

    fn document<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let path = path(intent);
            let bytes = self.file(path.clone()).await?;
            bytes.map(|bytes| parse(&path, &bytes)).transpose()
        })
    }

    fn author<'a>(&'a self, file: &'a str, revision: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let revision = revision.to_owned().try_into().ok()?;
            let commits = self.source.touching(file, None, revision, HISTORY).await;
            commits.ok()?.into_iter().next().map(|commit| commit.author)
        })
    }

    fn push<'a>(&'a self, intent: &'a Migration, record: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let namespace = intent.metadata.namespace.clone().unwrap_or_default();
            let name = intent.metadata.name.clone().unwrap_or_default();
            let path = record::path("Migration", Some(&namespace), &name);
            let phase = record.status.phase;
            let mut message = Message::new(format!("{namespace}/{name}: {phase}"));
            if let Some(revision) = &record.status.common.revision {
                message = message.trailer(Trailer::Revision, revision);
            }
            let message = message
                .trailer(Trailer::Intent, format!("{namespace}/{name}"))
                .trailer(Trailer::Phase, phase.to_string());
            let document = document(intent, record);
            self.commit(path, document, message, &api::Kind::of::<Migration>())
                .await
        })
    }

    fn kept<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<FailoverPlanStatus>, Error>> {
        Box::pin(async move {
            let path = path(intent);
            let Some(bytes) = self.file(path.clone()).await? else {
                return Ok(None);
            };
            let document = parse(&path, &bytes)?;
            let status = document.get("status").cloned().unwrap_or_default();
            serde_json::from_value(status).map_err(|error| unreadable(&path, &error))
        })
    }

    fn keep<'a>(&'a self, kept: &'a Kept) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let name = kept.intent.place();
            let mut message = Message::new(format!("{name}: {}", kept.news));
            if let Some(revision) = &kept.status.common.revision {
                message = message.trailer(Trailer::Revision, revision);
            }
            let message = message
                .trailer(Trailer::Intent, name)
                .trailer(Trailer::Phase, kept.status.phase.to_string());
            let (path, document) = (path(&kept.intent), kept.document.clone());
            self.commit(path, document, message, &api::Kind::of::<FailoverPlan>())
                .await
        })
    }
}

/// What stands in for records where nothing is carried out: none is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread;

impl Unread {
    fn refused<'a>() -> BoxFuture<'a, Result<(), Error>> {
        let error = Error::internal("a plan records nothing");
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Records for Unread {
    fn read<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn push<'a>(&'a self, _: &'a Migration, _: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        Self::refused()
    }

    fn kept<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Option<FailoverPlanStatus>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn keep<'a>(&'a self, _: &'a Kept) -> BoxFuture<'a, Result<(), Error>> {
        Self::refused()
    }
}

/// The document of an intent with the status that is to be recorded.
fn document(intent: &Migration, record: &Record) -> Value {
    let mut intent = intent.clone();
    intent.spec = record.spec.clone();
    intent.status = Some(record.status.clone());
    record::document(&intent)
}

fn path(intent: &ObjectKey) -> String {
    record::path(&intent.kind, intent.namespace.as_deref(), &intent.name)
}

pub(super) fn to_yaml(document: &Value) -> Result<Vec<u8>, Error> {
    serde_yaml::to_string(document)
        .map(String::into_bytes)
        .map_err(|error| Error::internal(format!("a record cannot be written as YAML: {error}")))
}

pub(super) fn parse(path: &str, bytes: &[u8]) -> Result<Value, Error> {
    serde_yaml::from_slice(bytes).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(
        Kind::User,
        format!("{path} on the status branch cannot be read: {error}"),
    )
    .hint("it was edited: restore it from the branch's history")
}
