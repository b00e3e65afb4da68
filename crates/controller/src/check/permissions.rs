//! What the identity may do, asked of the API server for every rule of deploy/rbac.yaml.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use http::Request;
use serde_json::{Value, json};

use super::Check;
use cutover_cluster::{self as cluster, Cluster};
use cutover_core::error::Error;

const ROLES: &str = include_str!("../../../../deploy/rbac.yaml");
const DRY_RUNS: &str = include_str!("../../../../deploy/rbac-fence.yaml");
/// Of a person, not of who reconciles.
const OF_A_PERSON: &str = "cutover-install";
const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// How many questions are asked at once, and how many missing rights are named.
const AT_ONCE: usize = 16;
const NAMED: usize = 8;

/// Groups of other tools: their rights are needed only where the kinds are served.
const OF_OTHERS: [&str; 5] = [
    "argoproj.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "keda.sh",
    "autoscaling.karmada.io",
];

/// One right, as RBAC splits it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    verb: String,
    group: String,
    /// With its subresource.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, " of {}", self.group)?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

pub(super) async fn check(cluster: &Cluster, identity: Option<&str>) -> Vec<Check> {
    const NAME: &str = "permissions";
    let rights = match rights(ROLES).and_then(|needed| Ok((needed, rights(DRY_RUNS)?))) {
        Ok(rights) => rights,
        Err(error) => return vec![Check::of_error(NAME, &error)],
    };
    let (needed, dry_runs) = rights;
    let served = groups(cluster, &needed).await;
    let needed: Vec<Right> = needed
        .into_iter()
        .filter(|right| served.get(&right.group).copied().unwrap_or(true))
        .collect();
    let whom = identity.unwrap_or("this identity");
    let count = needed.len();
    let missing = match missing(cluster, needed).await {
        Ok(missing) => missing,
        Err(error) if error.code() == 404 => {
            return vec![Check::skipped(NAME, "the API server does not review access")];
        }
        Err(error) => return vec![Check::of_error(NAME, &error.into())],
    };
    // Events are for people: without, it goes on silently.
    let (events, missing): (Vec<Right>, Vec<Right>) = missing
        .into_iter()
        .partition(|right| right.group.is_empty() && right.resource == "events");
    let mut checks = Vec::new();
    if missing.is_empty() {
        checks.push(Check::ok(
            NAME,
            format!("{whom} may do all {count} things that cutover needs"),
        ));
    } else {
        let message = format!("{whom} may not {}", listed(&missing));
        checks.push(Check::failed(NAME, message).fix(
            "kubectl apply -f deploy/rbac.yaml with the kubeconfig of the Karmada API server (docs/how-to/operate.md#rbac says what follows without \
             each)",
        ));
    }
    if !events.is_empty() {
        checks.push(
            Check::warning(
                "permissions for Events",
                format!("{whom} may not {}", listed(&events)),
            )
            .fix("without it, intents write no Events (docs/how-to/operate.md#rbac)"),
        );
    }
    match self::missing(cluster, dry_runs).await {
        Ok(missing) if !missing.is_empty() => checks.push(
            Check::warning(
                "permissions for dry-runs",
                format!("{whom} may not {}", listed(&missing)),
            )
            .fix("kubectl apply -f deploy/rbac-fence.yaml once the fence is installed: without it cutover does not know whether the \
                  fence guards Works"),
        ),
        _ => {}
    }
    checks
}

fn listed(rights: &[Right]) -> String {
    let named: Vec<String> = rights.iter().take(NAMED).map(ToString::to_string).collect();
    let more = rights.len().saturating_sub(NAMED);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    format!("{}{more}", named.join(", "))
}

/// Returns what a file of roles allows, split as far as it goes.
fn rights(file: &str) -> Result<Vec<Right>, Error> {
    let mut rights = Vec::new();
    for document in file.split("\n---\n") {
        let role: Value = serde_yaml::from_str(document)
            .map_err(|error| Error::internal(format!("the roles cannot be read: {error}")))?;
        if role["metadata"]["name"] == OF_A_PERSON {
            continue;
        }
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        let namespace = namespace.filter(|_| role["kind"] == "Role");
        for rule in texts_of(&role["rules"]) {
            for (group, resource, verb) in products(rule) {
                let names = strings(&rule["resourceNames"]);
                let names = if names.is_empty() {
                    vec![None]
                } else {
                    names.into_iter().map(Some).collect()
                };
                rights.extend(names.into_iter().map(|name| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    namespace: namespace.clone(),
                    name,
                }));
            }
        }
    }
    rights.sort();
    rights.dedup();
    Ok(rights)
}

fn texts_of(rules: &Value) -> impl Iterator<Item = &Value> {
    rules.as_array().into_iter().flatten()
}

fn products(rule: &Value) -> Vec<(String, String, String)> {
    let (groups, resources, verbs) = (
        strings(&rule["apiGroups"]),
        strings(&rule["resources"]),
        strings(&rule["verbs"]),
    );
    let mut all = Vec::new();
    for group in &groups {
        for resource in &resources {
            all.extend(
                verbs
                    .iter()
                    .map(|verb| (group.clone(), resource.clone(), verb.clone())),
            );
        }
    }
    all
}

fn strings(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Returns of the groups of other tools whether they are served.
async fn groups(cluster: &Cluster, rights: &[Right]) -> BTreeMap<String, bool> {
    let mut served = BTreeMap::new();
    for group in OF_OTHERS {
        if rights.iter().any(|right| right.group == group) {
            let request = Request::get(format!("/apis/{group}")).body(Vec::new());
            let answer = match request {
                Ok(request) => cluster.client().request::<Value>(request).await.is_ok(),
                Err(_) => false,
            };
            served.insert(group.to_owned(), answer);
        }
    }
    served
}

async fn missing(cluster: &Cluster, rights: Vec<Right>) -> cluster::Result<Vec<Right>> {
    let asked = rights.into_iter().map(|right| async move {
        let allowed = is_allowed(cluster, &right).await?;
        Ok::<_, cluster::Error>((!allowed).then_some(right))
    });
    let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let missing: cluster::Result<Vec<_>> = answers.into_iter().collect();
    Ok(missing?.into_iter().flatten().collect())
}

async fn is_allowed(cluster: &Cluster, right: &Right) -> cluster::Result<bool> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
            "namespace": right.namespace, "name": right.name,
        }},
    });
    let call = "cannot ask what this identity may do";
    let request = Request::post(PATH)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(review.to_string().into_bytes())
        .map_err(|_invalid| cluster::Error::BadName(PATH.to_owned()))?;
    let answer: Value = cluster
        .client()
        .request(request)
        .await
        .map_err(|error| cluster::Error::from_kube(call, error))?;
    Ok(answer["status"]["allowed"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_split_and_a_persons_are_left_out() {
        let rights = rights(ROLES).unwrap();
        let has = |text: &str| rights.iter().any(|right| right.to_string() == text);
        assert!(has("update migrations/status of cutover.dev"));
        assert!(has("create leases of coordination.k8s.io in cutover-system"));
        assert!(has("list leases of coordination.k8s.io in karmada-system"));
        assert!(!has("create customresourcedefinitions of apiextensions.k8s.io"));
        let named = rights
            .iter()
            .filter(|right| right.name.as_deref() == Some("kube-system"));
        assert_eq!(named.count(), 1);
        assert!(rights.len() > 80, "{}", rights.len());
        assert_eq!(self::rights(DRY_RUNS).unwrap().len(), 1);
    }

    #[test]
    fn of_many_missing_rights_some_are_named() {
        let all = rights(ROLES).unwrap();
        let text = listed(&all);
        assert!(
            text.ends_with(&format!("and {} more", all.len() - NAMED)),
            "{text}"
        );
        assert!(!listed(&all[..NAMED]).contains("more"));
    }
}
