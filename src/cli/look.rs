//! How an intent stands: the control plane says it, else its record on the status branch.

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::connection::{AskArgs, GitArgs, PATIENCE, StatusBranchArgs};
use super::recorded::Recorded;
use super::workspace::Workspace;
use cutover_cluster::{Answer, Lookup};
use cutover_core::api;
use cutover_core::error::{Error, Result};
use cutover_karmada::name::Gvk;

/// Where the state of an intent is looked up.
#[derive(Args, Debug)]
pub struct LookArgs {
    #[command(flatten)]
    pub ask: AskArgs,
    #[command(flatten)]
    pub allowed: StatusBranchArgs,
    #[command(flatten)]
    pub git: GitArgs,
}

/// The same, of a command that has these flags beside others.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub ask: &'a AskArgs,
    pub allowed: &'a StatusBranchArgs,
    pub git: &'a GitArgs,
}

/// What could be learned of how an intent stands.
#[derive(Debug)]
pub enum Known<T> {
    As(Box<T>),
    /// There is no record of it, and the control plane does not have it; or could not be asked, for these reasons.
    Absent(Vec<String>),
    /// Neither could be asked, for these reasons; none: nothing was to be asked.
    Not(Vec<String>),
}

impl<T> Known<T> {
    /// Returns the intent, if it is known.
    pub fn object(self) -> Option<T> {
        match self {
            Self::As(object) => Some(*object),
            Self::Absent(_) | Self::Not(_) => None,
        }
    }
}

impl Known<Value> {
    /// Returns the present attempt, the first where none has begun; `None`: it is not known.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::As(object) => attempt_of(object),
            Self::Absent(reasons) => reasons.is_empty().then_some(1),
            Self::Not(_) => None,
        }
    }
}

/// Returns the attempt that an intent is in, the first where none has begun; `None`: it is not known.
pub fn attempt_of(object: &Value) -> Option<u32> {
    match object.pointer("/status/attempt") {
        None => Some(1),
        Some(attempt) => u32::try_from(attempt.as_u64()?).ok().map(|number| number.max(1)),
    }
}

/// Returns why an intent is not known.
pub fn why(reasons: &[String]) -> String {
    if reasons.is_empty() {
        "no control plane was asked".to_owned()
    } else {
        reasons.join("; ")
    }
}

impl LookArgs {
    pub const fn look(&self) -> Look<'_> {
        Look {
            ask: &self.ask,
            allowed: &self.allowed,
            git: &self.git,
        }
    }
}

impl Look<'_> {
    /// Asks the control plane for an intent, and the status branch if that does not have it. `namespace`: none of one of cluster
    /// scope.
    pub async fn known<T: DeserializeOwned>(
        self,
        workspace: &Workspace,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Known<T> {
        if self.ask.is_offline() {
            return Known::Not(Vec::new());
        }
        let mut reasons = Vec::new();
        match tokio::time::timeout(PATIENCE, self.live(kind, namespace, name)).await {
            Ok(Ok(Some(object))) => return Known::As(Box::new(object)),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => reasons.push(error.to_string()),
            Err(_) => reasons.push(format!(
                "the control plane does not answer within {} s",
                PATIENCE.as_secs()
            )),
        }
        match self.recorded(workspace, kind, namespace, name).await {
            Ok(Some(object)) => Known::As(Box::new(object)),
            Ok(None) => Known::Absent(reasons),
            Err(error) => {
                reasons.push(error.to_string());
                Known::Not(reasons)
            }
        }
    }

    async fn live<T: DeserializeOwned>(
        self,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>> {
        let cluster = self.ask.connect().await?;
        let gvk = Gvk::new(api::API_VERSION, kind);
        let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
            return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
        };
        match cluster.reader().get(&served, namespace, name).await.answer {
            Answer::Found(object) => serde_json::from_value(object).map(Some).map_err(|error| {
                let place =
                    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
                Error::user(format!("{kind} {place} cannot be read: {error}"))
            }),
            Answer::NotFound => Ok(None),
            Answer::Unknown { why } => Err(Error::user(why)),
        }
    }

    async fn recorded<T: DeserializeOwned>(
        self,
        workspace: &Workspace,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>> {
        let Some(checkout) = workspace.checkout() else {
            return Err(Error::user(
                "there is no Git repository whose status branch could be read",
            ));
        };
        let recorded = Recorded::of(checkout, &workspace.config, &self.allowed.branches())?;
        recorded.document(self.git, kind, namespace, name).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_attempt_is_meant_only_where_none_is_known_to_have_begun() {
        let attempt = |status: Value| Known::As(Box::new(json!({ "status": status }))).attempt();
        assert_eq!(attempt(json!({"attempt": 3})), Some(3));
        assert_eq!(attempt(json!({"attempt": 0})), Some(1));
        assert_eq!(attempt(Value::Null), Some(1));
        assert_eq!(attempt(json!({"attempt": "3"})), None);
        assert_eq!(Known::<Value>::Absent(Vec::new()).attempt(), Some(1));
        assert_eq!(
            Known::<Value>::Absent(vec!["no answer".to_owned()]).attempt(),
            None
        );
        assert_eq!(Known::<Value>::Not(Vec::new()).attempt(), None);
    }
}
