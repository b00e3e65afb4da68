//! `cutover rollout policy`: writes and commits the file that lets every change of many workloads go cluster by cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::strategy::StrategyArgs;
use crate::cli::connection::{AskArgs, GitArgs};
use crate::cli::intent_file::{NewIntent, Spec, is_there};
use crate::cli::named::KindName;
use crate::cli::workspace::{ChangeArgs, Workspace};
use crate::cli::{joined, output, values};
use cutover_base::nearest::nearest;
use cutover_core::api::WorkloadSelector;
use cutover_core::error::{Error, Result};
use cutover_core::intent::selected::Selected;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::Gvk;

/// Lets every change of the templates that it selects go cluster by cluster.
#[derive(Args, Debug)]
pub(super) struct Policy {
    /// The name of the RolloutPolicy
    #[arg(value_name = "NAME")]
    name: String,
    /// Which workloads: KIND or KIND/NAME; may be given several times
    #[arg(
        long = "select",
        value_name = "KIND[/NAME]",
        required = true,
        value_delimiter = ','
    )]
    selects: Vec<String>,
    /// Of a KIND, only workloads whose templates have these labels, as in kubectl -l
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR", value_parser = values::labels)]
    labels: Option<String>,
    /// How many workloads may roll out a change at the same time [default: 5]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    max_parallel: Option<u32>,
    #[command(flatten)]
    strategy: StrategyArgs,
    /// The namespace of the workloads [default: the one that all of them are in]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The file to write [default: NAME.yaml beside other intents, else in intents/]
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    ask: AskArgs,
    #[command(flatten)]
    git: GitArgs,
}

impl Policy {
    pub(super) async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let mut selectors = Vec::new();
        for select in &self.selects {
            selectors.push(self.selector(&workspace, select)?);
        }
        let (namespace, taken) = self.takes(&workspace, &selectors)?;
        let is_it = |(manifest, there): &(&Arc<Manifest>, String)| {
            manifest.key.name == self.name && *there == namespace
        };
        if let Some((there, _)) = workspace.of_kind("RolloutPolicy").find(is_it) {
            return Err(is_there("RolloutPolicy", Some(&namespace), there)
                .hint("give it another name, or change its file"));
        }
        joined::all_are(&self.ask, self.strategy.clusters()).await?;
        let named = (namespace.as_str(), self.name.clone());
        let first = &taken[0].key;
        let policy = NewIntent::at(&workspace, "RolloutPolicy", first, named, self.file.as_deref())?;
        let subject = format!("Let changes of {} go cluster by cluster", self.name);
        let edit = policy.edit(&self.spec(&selectors), subject, None, ".");
        let names: BTreeSet<String> = taken
            .iter()
            .map(|template| format!("{} {}", template.key.kind, template.key.name))
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        output::note(format!("selects {}", names.join(", ")));
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    fn spec(&self, selectors: &[WorkloadSelector]) -> Value {
        let mut spec = Spec::default();
        spec.list("select", selectors);
        self.strategy.apply(&mut spec);
        spec.apply("maxParallel", self.max_parallel.map(|most| json!(most)));
        spec.value()
    }

    /// Which version of the API a kind has, the templates say.
    fn selector(&self, workspace: &Workspace, text: &str) -> Result<WorkloadSelector> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        let called = KindName::new(kind);
        let is_meant = |gvk: &&Gvk| called.means(workspace, gvk);
        let kinds: BTreeSet<(String, String)> = workspace
            .set
            .definitions()
            .map(|manifest| &manifest.gvk)
            .filter(is_meant)
            .map(|gvk| (gvk.api_version(), gvk.kind.clone()))
            .collect();
        let kinds: Vec<_> = kinds.into_iter().collect();
        match kinds.as_slice() {
            [(api_version, kind)] => Ok(WorkloadSelector {
                api_version: api_version.clone(),
                kind: kind.clone(),
                // A name says it all.
                label_selector: self.labels.clone().filter(|_| name.is_none()),
                name,
            }),
            [] => {
                let there = workspace.set.definitions();
                let meant = nearest(kind, there.map(|manifest| manifest.key.kind.as_str()));
                let hint = meant.map_or_else(
                    || {
                        "a policy is about templates in the repository; cutover validate shows what is in it"
                            .to_owned()
                    },
                    |meant| format!("did you mean {meant}?"),
                );
                Err(Error::user(format!("the repository has no {kind}")).hint(hint))
            }
            several => {
                let names: Vec<String> = several
                    .iter()
                    .map(|(api_version, kind)| format!("{kind} of {api_version}"))
                    .collect();
                Err(Error::user(format!("{kind} could be {}", names.join(" or ")))
                    .hint("name it as KIND.GROUP"))
            }
        }
    }

    /// Returns the templates that it selects, at least one, and the namespace that they are in.
    fn takes<'a>(
        &self,
        workspace: &'a Workspace,
        selectors: &[WorkloadSelector],
    ) -> Result<(String, Vec<&'a Arc<Manifest>>)> {
        let mut taken: Vec<(String, &Arc<Manifest>)> = Vec::new();
        for manifest in workspace.set.definitions() {
            let namespace = workspace.namespace_of(manifest);
            let mut key = manifest.key.clone();
            key.namespace = Some(namespace.clone());
            let labels = manifest
                .value
                .pointer("/metadata/labels")
                .cloned()
                .unwrap_or_default();
            let labels = serde_json::from_value(labels).unwrap_or_default();
            let is_asked_for = self.namespace.as_ref().is_none_or(|asked| *asked == namespace);
            if is_asked_for && Selected::new(&namespace, selectors).takes(&key, Some(&labels), None) {
                taken.push((namespace, manifest));
            }
        }
        let namespaces: BTreeSet<&String> = taken.iter().map(|(namespace, _)| namespace).collect();
        let namespaces: Vec<String> = namespaces.into_iter().cloned().collect();
        match namespaces.as_slice() {
            [only] => Ok((only.clone(), taken.into_iter().map(|(_, manifest)| manifest).collect())),
            [] => Err(Error::user(format!("nothing in the repository is selected by {}", self.selects.join(", ")))
                .hint("cutover validate shows what is in it; labels are those of the template itself, not of its pods")),
            several => Err(Error::user(format!("what it selects is in several namespaces: {}", several.join(", ")))
                .hint("a policy is about one: say which with --namespace")),
        }
    }
}
