//! `Claim`: an intent's exclusive hold on a workload; the truth that a pin projects.

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

use super::{PinnedRule, STATUS_FORMAT};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// Who may write. Changed by compare-and-swap, always before what it allows is written.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Claim",
    plural = "claims",
    doc = "An intent's exclusive hold on a workload, and which cluster may run it",
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload"}"#,
    printcolumn = r#"{"name":"Owner","type":"string","jsonPath":".spec.owner.name"}"#,
    printcolumn = r#"{"name":"Writer","type":"string","jsonPath":".spec.writer"}"#,
    printcolumn = r#"{"name":"Seq","type":"integer","jsonPath":".spec.seq"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The format in which it is written, as that of statuses; 0: by a version from before it was noted. A reconciler that knows only
    /// earlier ones can't read the claim, so that whatever depends on it waits.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "super::common::is_zero"
    )]
    pub format: u32,
    /// `<kind>.<group> <namespace>/<name>`, without the namespace where the kind has none; for people.
    pub workload: String,
    /// Value of the label `resourcebinding.karmada.io/permanent-id` on the binding and its Works.
    pub binding_id: String,
    /// The intent that holds the workload.
    pub owner: ClaimOwner,
    /// The attempt of the owner that made the claim.
    pub attempt: u32,
    /// The sequence of the pin that projects this claim.
    pub seq: u64,
    /// The marker that every Work of the workload must carry: `<owner uid>.<attempt>.<seq>`. Empty: none any more, for the
    /// pin is being taken off.
    pub marker: String,
    /// The one cluster that may run the workload; absent: no cluster may.
    pub writer: Option<ClusterName>,
    /// The workload has no state: every cluster may run it, and `writer` says nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// It keeps nothing from the workload but a second writer: sync applies what Git says of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guards: bool,
    /// The standing intent that gets it back.
    pub lender: Option<ClaimOwner>,
    /// The clusters that the binding may list; none: whichever Karmada chooses.
    pub clusters: Vec<ClusterName>,
    /// The intent rests, and waits for what Git changes of the workload: nothing is held back for its sake.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standing: bool,
    /// What other intents change of what runs while the owner decides who may run it, by the uid of each. An intent writes its own
    /// entry and no other; the owner compiles them into its pin.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<String, Differences>,
    /// The differences that the pin of `marker` includes: the digest of the rules, by uid. It changes with the marker alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub included: BTreeMap<String, String>,
}

/// What a guest of a claim says: see [`ClaimSpec::differences`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// The intent that needs the difference.
    pub owner: ClaimOwner,
    /// The rules that the owner of the claim adds to its pin for this intent, one for each group of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PinnedRule>,
}

/// The intent that holds a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimOwner {
    /// The kind of the intent, for instance `Migration`.
    pub kind: String,
    /// The intent's namespace; empty for a kind of cluster scope.
    pub namespace: String,
    /// The intent's name.
    pub name: String,
    /// The intent's uid: another intent of the same name is another owner.
    pub uid: String,
}

impl fmt::Display for ClaimOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Reads a format that this program knows.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let format = u32::deserialize(deserializer)?;
    if format > STATUS_FORMAT {
        return Err(D::Error::custom(format!(
            "the claim has format {format}, and this version of cutover reads formats up to {STATUS_FORMAT}"
        )));
    }
    Ok(format)
}

/// Returns the one name under which a workload can be claimed: creating it twice is refused by the API server.
pub fn claim_name(workload: &ObjectKey) -> String {
    let readable = format!(
        "{}-{}-{}-{}",
        workload.kind.to_lowercase(),
        workload.group,
        workload.namespace.as_deref().unwrap_or("-"),
        workload.name
    );
    // The parts may contain `-` themselves, so only the digest tells two workloads apart.
    let digest = Sha256::digest(format!(
        "{}/{}/{}/{}",
        workload.group,
        workload.kind,
        workload.namespace.as_deref().unwrap_or_default(),
        workload.name
    ));
    let readable: String = readable.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
    let readable = readable.trim_matches('-').to_lowercase();
    let short: String = readable.chars().take(200).collect();
    format!("{}-{}", short.trim_end_matches('-'), hex(&digest[..5]))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            group: "flink.apache.org".into(),
            kind: "FlinkDeployment".into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    #[test]
    fn a_claim_of_a_newer_format_is_not_read() {
        let claim = |format: u32| {
            serde_json::from_value::<ClaimSpec>(serde_json::json!({
                "format": format, "workload": "", "bindingId": "", "attempt": 1, "seq": 1, "marker": "", "clusters": [],
                "owner": {"kind": "Migration", "namespace": "shop", "name": "orders-to-west", "uid": "1"},
            }))
        };
        assert_eq!(claim(STATUS_FORMAT).unwrap().format, STATUS_FORMAT);
        let refused = claim(STATUS_FORMAT + 1).unwrap_err().to_string();
        assert!(refused.contains("reads formats up to"), "{refused}");
    }

    #[test]
    fn a_claim_name_is_readable_and_tells_workloads_apart() {
        assert!(
            claim_name(&key("shop", "orders")).starts_with("flinkdeployment-flink-apache-org-shop-orders-")
        );
        assert_ne!(claim_name(&key("a-b", "c")), claim_name(&key("a", "b-c")));
    }
}
