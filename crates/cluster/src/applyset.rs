//! The parents of syncs' sets: read, and written by compare-and-swap. What they say is [`cutover_core::plan::applyset`]'s.

use serde_json::{Value, json};

use super::{Answer, Cluster, Error, Lookup, Mode, Result, Served, Written};
use cutover_core::api::{OWN_NAMESPACE, SYNC_MANAGER};
use cutover_core::plan::applyset::{ID_LABEL, OtherTool, Record, parent_name};
use cutover_karmada::meta::SKIP_AUTO_PROPAGATION;
use cutover_karmada::name::Gvk;

/// A parent as it was read or written last.
#[derive(Clone, Debug)]
pub struct Parent {
    pub record: Record,
    object: Value,
}

/// Why a parent can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error(transparent)]
    Cluster(#[from] Error),
    #[error("ConfigMap {OWN_NAMESPACE}/{name}: {other}")]
    OtherTool { name: String, other: OtherTool },
    #[error("ConfigMap {OWN_NAMESPACE}/{name} cannot be read: {why}")]
    Unknown { name: String, why: String },
    #[error("ConfigMap {OWN_NAMESPACE}/{0} has changed meanwhile")]
    Changed(String),
}

/// Reads the parent of a sync's set; `None`: there certainly is none.
pub async fn read_parent(cluster: &Cluster, sync: &str) -> Result<Option<Parent>, Unusable> {
    let name = parent_name(sync);
    let served = served(cluster, "ConfigMap").await?;
    let read = cluster.reader().get(&served, Some(OWN_NAMESPACE), &name).await;
    match read.answer {
        Answer::Found(object) => parent(object).map(Some),
        Answer::NotFound => Ok(None),
        Answer::Unknown { why } => Err(Unusable::Unknown { name, why }),
    }
}

/// Reads all parents that cutover has made; those of other tools are left out.
pub async fn read_parents(cluster: &Cluster) -> Result<Vec<Parent>, Unusable> {
    let served = served(cluster, "ConfigMap").await?;
    let read = cluster
        .reader()
        .list(&served, Some(OWN_NAMESPACE), Some(ID_LABEL))
        .await;
    match read.answer {
        Answer::Found(objects) => Ok(objects
            .into_iter()
            .filter_map(|object| parent(object).ok())
            .collect()),
        Answer::NotFound => Ok(Vec::new()),
        Answer::Unknown { why } => Err(Unusable::Unknown {
            name: "*".to_owned(),
            why,
        }),
    }
}

/// Writes a parent that is still as it was read, or that wasn't there.
pub async fn write_parent(
    cluster: &Cluster,
    before: Option<&Parent>,
    record: &Record,
) -> Result<Parent, Unusable> {
    let served = served(cluster, "ConfigMap").await?;
    let writer = cluster.writer(SYNC_MANAGER);
    let object = record.write(before.map(|parent| &parent.object));
    let written = match before {
        Some(_) => writer.replace(&served, &object, Mode::Write).await?,
        None => {
            create_own_namespace(cluster).await?;
            writer.create(&served, &object, Mode::Write).await?
        }
    };
    match written {
        Written::Done(object) => parent(object),
        Written::Precondition(_) | Written::Exists(_) => Err(Unusable::Changed(parent_name(&record.sync))),
    }
}

/// Deletes a parent that is still as it was read.
pub async fn delete_parent(cluster: &Cluster, before: &Parent) -> Result<(), Unusable> {
    let served = served(cluster, "ConfigMap").await?;
    let object = super::Exactly::of(&before.object);
    cluster
        .writer(SYNC_MANAGER)
        .delete(&served, &object, Mode::Write)
        .await?;
    Ok(())
}

/// Who may not create namespaces can still use one that is there.
async fn create_own_namespace(cluster: &Cluster) -> Result<()> {
    let served = served(cluster, "Namespace").await?;
    let there = cluster.reader().get(&served, None, OWN_NAMESPACE).await.answer;
    if !matches!(there, Answer::NotFound) {
        return Ok(());
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": OWN_NAMESPACE, "labels": {SKIP_AUTO_PROPAGATION: "true"}},
    });
    cluster
        .writer(SYNC_MANAGER)
        .create(&served, &namespace, Mode::Write)
        .await?;
    Ok(())
}

fn parent(object: Value) -> Result<Parent, Unusable> {
    match Record::read(&object) {
        Ok(record) => Ok(Parent { record, object }),
        Err(other) => Err(Unusable::OtherTool {
            name: super::object::meta(&object, "name")
                .unwrap_or_default()
                .to_owned(),
            other,
        }),
    }
}

async fn served(cluster: &Cluster, kind: &str) -> Result<Served> {
    match cluster.lookup(&Gvk::new("v1", kind)).await? {
        Lookup::Served(served) => Ok(served),
        Lookup::NotServed => Err(Error::Malformed {
            call: format!("cannot find {kind}"),
            why: "the API server does not serve it".to_owned(),
        }),
    }
}
