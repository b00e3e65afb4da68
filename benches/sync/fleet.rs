//! A repository of many workloads: of each a Deployment, its configuration, its policy and an override, a file each.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cutover::repo::RemoteUrl;
use git2::Repository;

/// How many workloads are in one folder.
const FOLDER: usize = 50;

pub struct Fleet {
    root: tempfile::TempDir,
    namespace: String,
    size: usize,
}

impl Fleet {
    /// Makes a repository with so many files.
    pub fn of(size: usize) -> Self {
        Self::within("fleet", size)
    }

    /// Makes one whose objects are in a namespace of their own.
    pub fn within(namespace: &str, size: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        Repository::init_bare(root.path())
            .unwrap()
            .set_head("refs/heads/main")
            .unwrap();
        let mut fleet = Self {
            root,
            namespace: namespace.to_owned(),
            size: 0,
        };
        fleet.import(size);
        fleet
    }

    pub fn url(&self) -> RemoteUrl {
        self.root.path().to_str().unwrap().parse().unwrap()
    }

    /// Commits what is missing to so many files.
    pub fn grow(&mut self, size: usize) {
        self.import(size);
    }

    fn import(&mut self, size: usize) {
        if size <= self.size {
            return;
        }
        let mut git = Command::new("git")
            .args(["fast-import", "--quiet", "--force"])
            .current_dir(self.root.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = std::io::BufWriter::new(git.stdin.take().unwrap());
        let from = if self.size == 0 {
            ""
        } else {
            "from refs/heads/main^0\n"
        };
        write!(
            input,
            "commit refs/heads/main\ncommitter Bench <bench@localhost> 0 +0000\ndata 4\ngrow\n{from}"
        )
        .unwrap();
        if self.size == 0 {
            file(&mut input, "namespace.yaml", &self.content(0));
        }
        for number in self.size.max(1)..size {
            file(&mut input, &path(number), &self.content(number));
        }
        drop(input);
        assert!(git.wait().unwrap().success());
        self.size = size;
    }

    /// Returns the files as they were first, the namespace before everything else.
    pub fn contents(&self) -> impl Iterator<Item = String> {
        (0..self.size).map(|number| self.content(number))
    }

    /// Writes the files into a folder.
    pub fn check_out(&self, folder: &Path) {
        for (number, content) in self.contents().enumerate() {
            std::fs::write(folder.join(format!("{number:06}.yaml")), content).unwrap();
        }
    }

    fn content(&self, number: usize) -> String {
        match number {
            0 => format!(
                "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n",
                self.namespace
            ),
            _ => object(&self.namespace, number, 0),
        }
    }

    /// Commits a change of one configuration.
    pub fn change(&self, number: usize, round: usize) {
        let number = (number % self.size.max(4)) / 4 * 4;
        let number = if number == 0 { 4 } else { number };
        let repo = Repository::open_bare(self.root.path()).unwrap();
        let parent = repo
            .find_reference("refs/heads/main")
            .unwrap()
            .peel_to_commit()
            .unwrap();
        let blob = repo
            .blob(object(&self.namespace, number, round + 1).as_bytes())
            .unwrap();
        let mut update = git2::build::TreeUpdateBuilder::new();
        update.upsert(path(number), blob, git2::FileMode::Blob);
        let tree = update.create_updated(&repo, &parent.tree().unwrap()).unwrap();
        let who = git2::Signature::now("Bench", "bench@localhost").unwrap();
        let tree = repo.find_tree(tree).unwrap();
        repo.commit(Some("refs/heads/main"), &who, &who, "change", &tree, &[&parent])
            .unwrap();
    }
}

fn file(input: &mut impl Write, path: &str, content: &str) {
    write!(
        input,
        "M 100644 inline {path}\ndata {}\n{content}\n",
        content.len()
    )
    .unwrap();
}

fn path(number: usize) -> String {
    let workload = number / 4;
    let file = ["config", "deployment", "policy", "override"][number % 4];
    format!("apps/team-{:04}/app-{workload:06}/{file}.yaml", workload / FOLDER)
}

#[expect(clippy::too_many_lines, reason = "one literal for each kind")]
fn object(namespace: &str, number: usize, round: usize) -> String {
    let name = format!("app-{:06}", number / 4);
    match number % 4 {
        0 => format!(
            "apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/part-of: fleet}}
data:
  log-level: info
  round: \"{round}\"
  upstream: https://{name}.fleet.example.com:8443/api
"
        ),
        1 => format!(
            "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/part-of: fleet}}
spec:
  replicas: 2
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/part-of: fleet}}
    spec:
      containers:
        - name: main
          image: registry.example.com/fleet/{name}:1.4.2
          args: [--config, /etc/app/log-level]
          ports: [{{name: http, containerPort: 8080}}, {{name: metrics, containerPort: 9090}}]
          envFrom: [{{configMapRef: {{name: {name}}}}}]
          resources:
            requests: {{cpu: 250m, memory: 256Mi}}
            limits: {{memory: 512Mi}}
          readinessProbe: {{httpGet: {{path: /ready, port: http}}, periodSeconds: 5}}
"
        ),
        2 => format!(
            "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  propagateDeps: true
  resourceSelectors:
    - {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  placement:
    clusterAffinity: {{clusterNames: [east, west]}}
    spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]
"
        ),
        _ => format!(
            "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  resourceSelectors:
    - {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  overrideRules:
    - targetCluster: {{clusterNames: [west]}}
      overriders:
        imageOverrider: [{{component: Registry, operator: replace, value: west.example.com}}]
"
        ),
    }
}
