//! `cutover plan` from outside, on a repository with every kind of change.

use cutover::sandbox::api::{Patch, Resource};
use serde_json::{Value, json};

use crate::support::git::Origin;
use crate::support::served::{Served, as_text, stderr, stdout};
use crate::support::server::{On, on_both_servers};

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

fn deployment(name: &str, image: &str, replicas: u32) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image,
                    "env": [{"name": "MODE", "value": "live"}, {"name": "DB_PASSWORD", "value": format!("{image}-hunter2")}]}]},
            },
        },
    })
    .to_string()
}

fn secret(password: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: db, namespace: shop}}\nstringData:\n  user: shop\n  password: {password}\n"
    )
}

fn settings(lines: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: shop}}\ndata:\n  app.properties: |\n{lines}"
    )
}

fn job(image: &str) -> String {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {"image": image, "job": {"parallelism": 2, "upgradeMode": "savepoint", "state": "running"}},
    })
    .to_string()
}

const MIGRATION: &str = "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  from: east
  to: west
  approval: {before: [Handoff]}
";

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: knob, namespace: shop}
size: 1
";

const LAB: &str = "apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: lab}
data: {a: b}
";

on_both_servers![
    a_stranger_can_read_a_plan_with_every_kind_of_change,
    a_document_fits_its_schema,
    a_range_is_what_its_last_commit_changes,
    a_range_lists_what_it_takes_out_of_git_and_nobody_prunes,
    what_goes_and_what_is_created_anew_is_shown_with_the_reason,
    what_was_reviewed_is_carried_out_and_nothing_else,
];

/// A control plane that has a first commit, and a second commit with every kind of change.
struct Story {
    served: Served,
    origin: Origin,
}

impl Story {
    fn begin(on: On) -> Self {
        let served = Served::on(on);
        let origin = Origin::with(&[
            ("namespace.yaml", NAMESPACE),
            ("api.yaml", &deployment("api", "api:1", 1)),
            ("web.yaml", &deployment("web", "web:1", 2)),
            ("db.yaml", &secret("swordfish")),
            (
                "settings.yaml",
                &settings("    colour=red\n    size=1\n    shape=round\n"),
            ),
            ("orders.yaml", &job("orders:1")),
        ]);
        let output = served.cutover(&["run", "--once", "--repo", as_text(&origin.path())]);
        assert!(output.status.success(), "{}", stderr(&output));
        Self { served, origin }
    }

    fn everything_changes(&self) {
        // Somebody scales by a tool of theirs, which owns the field from then on.
        let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "shop"},
            "spec": {"replicas": 7}});
        let deployments = Resource::new("apps", "deployments");
        self.served.server.patch(
            &deployments,
            Some("shop"),
            "api",
            None,
            &Patch::Apply(scaled),
            "keda",
        );
        self.origin.commit(
            "main",
            &[
                ("web.yaml", &deployment("web", "web:2", 3)),
                ("db.yaml", &secret("marlin")),
                (
                    "settings.yaml",
                    &settings("    colour=blue\n    size=1\n    shape=round\n    weight=9\n"),
                ),
                ("orders.yaml", &job("orders:2")),
                ("orders-to-west.yaml", MIGRATION),
                ("cart.yaml", &deployment("cart", "cart:1", 1)),
                (
                    "wrong.yaml",
                    &deployment("wrong", "wrong:1", 1).replace("\"replicas\":1", "\"replicas\":\"many\""),
                ),
                ("widgets.yaml", WIDGETS),
                ("lab.yaml", LAB),
            ],
        );
    }

    fn plan(&self, more: &[&str]) -> (String, String, Option<i32>) {
        let path = self.origin.path();
        let arguments = [&["plan", as_text(&path)], more].concat();
        let output = self.served.cutover(&arguments);
        (stdout(&output), stderr(&output), output.status.code())
    }

    fn hash(&self) -> String {
        let document: Value = serde_json::from_str(&self.plan(&["-o", "json"]).0).unwrap();
        document["hash"].as_str().unwrap().to_owned()
    }
}

macro_rules! shown {
    ($text:expr, @$snapshot:literal) => {
        insta::with_settings!({filters => vec![
            (r"(?i)(hash:? `?)[0-9a-f]{16,64}", "${1}················"),
            (r"`[0-9a-f]{8}`", "`········`"),
            (r"https?://127\.0\.0\.1:\d+/", "http://karmada/"),
        ]}, { insta::assert_snapshot!($text, @$snapshot) });
    };
}

async fn a_stranger_can_read_a_plan_with_every_kind_of_change(on: On) {
    insta::allow_duplicates! { is_readable(on) }
}

#[allow(clippy::too_many_lines, reason = "what a stranger sees is the test")]
fn is_readable(on: On) {
    let story = Story::begin(on);
    let (text, errors, code) = story.plan(&["--detailed-exitcode"]);
    assert_eq!(
        (text.lines().next(), code),
        (Some("No changes: 6 objects in sync."), Some(0)),
        "{text}{errors}"
    );

    story.everything_changes();
    let before = story.served.server.contents();
    let (text, errors, code) = story.plan(&["--detailed-exitcode"]);
    assert_eq!((errors.as_str(), code), ("", Some(1)));
    shown!(text, @r#"
    + Namespace lab  (lab.yaml:1:1)
      + apiVersion: v1
      + kind: Namespace
      + metadata:
      +   name: lab
      +   labels:
      +     kubernetes.io/metadata.name: lab
      + spec:
      +   finalizers:
      +   - kubernetes

    + CustomResourceDefinition widgets.example.com  (widgets.yaml:1:1)
      + apiVersion: apiextensions.k8s.io/v1
      + kind: CustomResourceDefinition
      + metadata:
      +   name: widgets.example.com
      + spec:
      +   conversion:
      +     strategy: None
      +   group: example.com
      +   names:
      +     kind: Widget
      +     listKind: WidgetList
      +     plural: widgets
      +     singular: widget
      +   scope: Namespaced
      +   versions:
      +   - name: v1
      +     schema:
      +       openAPIV3Schema:
      +         type: object
      +         x-kubernetes-preserve-unknown-fields: true
      +     served: true
      +     storage: true

    + ConfigMap lab/notes  (lab.yaml:5:1)
      not tried on the server: its namespace lab comes with the same push
      + apiVersion: v1
      + kind: ConfigMap
      + metadata:
      +   name: notes
      +   namespace: lab
      + data:
      +   a: b

    ~ ConfigMap shop/settings  (settings.yaml:1:1)
      ~ data["app.properties"]:
      -     colour=red
      +     colour=blue
            size=1
            shape=round
      +     weight=9

    ~ Secret shop/db  (db.yaml:1:1)
      ~ data.password: *** (old) → *** (new)

    x Deployment shop/api  (api.yaml:1:98)
      blocked: other managers own fields for which Git has another value: keda owns .spec.replicas
      ~ spec.replicas: 7 → 1

    + Deployment shop/cart  (cart.yaml:1:1)
      + apiVersion: apps/v1
      + kind: Deployment
      + metadata:
      +   name: cart
      +   namespace: shop
      + spec:
      +   progressDeadlineSeconds: 600
      +   replicas: 1
      +   revisionHistoryLimit: 10
      +   selector:
      +     matchLabels:
      +       app: cart
      +   strategy:
      +     rollingUpdate:
      +       maxSurge: 25%
      +       maxUnavailable: 25%
      +     type: RollingUpdate
      +   template:
      +     metadata:
      +       labels:
      +         app: cart
      +     spec:
      +       containers:
      +       - name: main
      +         env:
      +         - name: MODE
      +           value: live
      +         - name: DB_PASSWORD
      +           value: ***
      +         image: cart:1
      +         imagePullPolicy: IfNotPresent
      +         resources: {}
      +         terminationMessagePath: /dev/termination-log
      +         terminationMessagePolicy: File
      +       dnsPolicy: ClusterFirst
      +       restartPolicy: Always
      +       schedulerName: default-scheduler
      +       securityContext: {}
      +       terminationGracePeriodSeconds: 30

    ~ Deployment shop/web  (web.yaml:1:1)
      ~ spec.replicas: 2 → 3
      ~ spec.template.spec.containers[main].env[DB_PASSWORD].value: *** (old) → *** (new)
      ~ spec.template.spec.containers[main].image: web:1 → web:2

    x Deployment shop/wrong  (wrong.yaml:1:100)
      blocked: failed to create typed patch object (shop/wrong; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float)
      + apiVersion: apps/v1
      + kind: Deployment
      + metadata:
      +   name: wrong
      +   namespace: shop
      + spec:
      +   replicas: many
      +   selector:
      +     matchLabels:
      +       app: wrong
      +   template:
      +     metadata:
      +       labels:
      +         app: wrong
      +     spec:
      +       containers:
      +       - name: main
      +         env:
      +         - name: MODE
      +           value: live
      +         - name: DB_PASSWORD
      +           value: ***
      +         image: wrong:1

    + Widget shop/knob  (widgets.yaml:11:1)
      not tried on the server: its kind is defined by the same push
      + apiVersion: example.com/v1
      + kind: Widget
      + metadata:
      +   name: knob
      +   namespace: shop
      + size: 1

    ! FlinkDeployment shop/orders  (orders.yaml:1:1)
      held back by Migration shop/orders-to-west
      ~ spec.image: orders:1 → orders:2

    + Migration shop/orders-to-west  (orders-to-west.yaml:1:1)
      moves FlinkDeployment orders from east to west; stops it with its state first; takes a change of its template along; waits for approval before Handoff; rolls back if it fails
      would wait: the workload has no binding yet: no policy has claimed it
        Preflight: everything that could block it is checked; nothing is written
        Hold: the scheduler and failover are kept off; a pin says who may run; it runs on in east
        Expand: a copy is brought to west, held; it runs on in east alone
        Capture: it is stopped with its state; its stop is proved; no copy runs from here on
        Handoff: waits for an approval; west may run, from exactly that state, which is recorded in Git, with what this changes of its template; it starts in west; healthy within 10m
        Verify: west is watched; healthy for 60s without a break
        Cleanup: past the commit point: east is left, the pin goes, the scheduler is let back; it runs in west alone
      + apiVersion: cutover.dev/v1alpha1
      + kind: Migration
      + metadata:
      +   name: orders-to-west
      +   namespace: shop
      + spec:
      +   approval:
      +     before:
      +     - Handoff
      +   changes:
      +     template: true
      +   from: east
      +   onFailure: RollBack
      +   strategy: StopFirst
      +   to: west
      +   verify:
      +     healthyFor: 60s
      +     timeout: 10m
      +   workload:
      +     apiVersion: flink.apache.org/v1beta1
      +     kind: FlinkDeployment
      +     name: orders

    Plan: 6 to create, 3 to change, 0 to delete, 1 held back, 2 blocked.
    Hash: ················
    "#);
    let (markdown, _, _) = story.plan(&["-o", "markdown"]);
    shown!(markdown, @r#"
    <!-- cutover review: plan -->
    ### Plan: 6 to create, 3 to change, 0 to delete, 1 held back, 2 blocked.

    `········` · hash `················` · compared with `http://karmada/`

    ### What would block it

    - ⛔ `Deployment shop/api` (`api.yaml:1`): other managers own fields for which Git has another value: keda owns .spec.replicas
    - ⛔ `Deployment shop/wrong` (`wrong.yaml:1`): failed to create typed patch object (shop/wrong; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float)

    ### What intents would do

    #### Migration shop/orders-to-west (`orders-to-west.yaml:1`)

    ⏳ It would wait: the workload has no binding yet: no policy has claimed it.

    | step | what is done |
    |---|---|
    | Preflight | everything that could block it is checked; nothing is written |
    | Hold | the scheduler and failover are kept off; a pin says who may run; it runs on in east |
    | Expand | a copy is brought to west, held; it runs on in east alone |
    | Capture | it is stopped with its state; its stop is proved; no copy runs from here on |
    | Handoff | waits for an approval; west may run, from exactly that state, which is recorded in Git, with what this changes of its template; it starts in west; healthy within 10m |
    | Verify | west is watched; healthy for 60s without a break |
    | Cleanup | past the commit point: east is left, the pin goes, the scheduler is let back; it runs in west alone |

    ### Changes

    | | object | where | |
    |---|---|---|---|
    | ⛔ blocked | `Deployment shop/api` | `api.yaml:1` | other managers own fields for which Git has another value: keda owns .spec.replicas |
    | ⛔ blocked | `Deployment shop/wrong` | `wrong.yaml:1` | failed to create typed patch object (shop/wrong; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float) |
    | ⏸️ held back | `FlinkDeployment shop/orders` | `orders.yaml:1` | image `orders:1` → `orders:2`<br>by Migration shop/orders-to-west |
    | ✏️ change | `ConfigMap shop/settings` | `settings.yaml:1` |  |
    | ✏️ change | `Secret shop/db` | `db.yaml:1` |  |
    | ✏️ change | `Deployment shop/web` | `web.yaml:1` | image `web:1` → `web:2` |
    | ➕ create | `Namespace lab` | `lab.yaml:1` |  |
    | ➕ create | `CustomResourceDefinition widgets.example.com` | `widgets.yaml:1` |  |
    | ➕ create | `ConfigMap lab/notes` | `lab.yaml:5` | not tried on the server: its namespace lab comes with the same push |
    | ➕ create | `Deployment shop/cart` | `cart.yaml:1` |  |
    | ➕ create | `Widget shop/knob` | `widgets.yaml:11` | not tried on the server: its kind is defined by the same push |
    | ➕ create | `Migration shop/orders-to-west` | `orders-to-west.yaml:1` | moves FlinkDeployment orders from east to west; stops it with its state first; takes a change of its template along; waits for approval before Handoff; rolls back if it fails |

    <details><summary>x Deployment shop/api</summary>

    ```diff
    ! spec.replicas: 7 → 1
    ```

    </details>

    <details><summary>x Deployment shop/wrong</summary>

    ```diff
    + apiVersion: apps/v1
    + kind: Deployment
    + metadata:
    +   name: wrong
    +   namespace: shop
    + spec:
    +   replicas: many
    +   selector:
    +     matchLabels:
    +       app: wrong
    +   template:
    +     metadata:
    +       labels:
    +         app: wrong
    +     spec:
    +       containers:
    +       - name: main
    +         env:
    +         - name: MODE
    +           value: live
    +         - name: DB_PASSWORD
    +           value: ***
    +         image: wrong:1
    ```

    </details>

    <details><summary>! FlinkDeployment shop/orders</summary>

    ```diff
    ! spec.image: orders:1 → orders:2
    ```

    </details>

    <details><summary>~ ConfigMap shop/settings</summary>

    ```diff
    ! data["app.properties"]:
    -     colour=red
    +     colour=blue
          size=1
          shape=round
    +     weight=9
    ```

    </details>

    <details><summary>~ Secret shop/db</summary>

    ```diff
    ! data.password: *** (old) → *** (new)
    ```

    </details>

    <details><summary>~ Deployment shop/web</summary>

    ```diff
    ! spec.replicas: 2 → 3
    ! spec.template.spec.containers[main].env[DB_PASSWORD].value: *** (old) → *** (new)
    ! spec.template.spec.containers[main].image: web:1 → web:2
    ```

    </details>

    <details><summary>+ Namespace lab</summary>

    ```diff
    + apiVersion: v1
    + kind: Namespace
    + metadata:
    +   name: lab
    +   labels:
    +     kubernetes.io/metadata.name: lab
    + spec:
    +   finalizers:
    +   - kubernetes
    ```

    </details>

    <details><summary>+ CustomResourceDefinition widgets.example.com</summary>

    ```diff
    + apiVersion: apiextensions.k8s.io/v1
    + kind: CustomResourceDefinition
    + metadata:
    +   name: widgets.example.com
    + spec:
    +   conversion:
    +     strategy: None
    +   group: example.com
    +   names:
    +     kind: Widget
    +     listKind: WidgetList
    +     plural: widgets
    +     singular: widget
    +   scope: Namespaced
    +   versions:
    +   - name: v1
    +     schema:
    +       openAPIV3Schema:
    +         type: object
    +         x-kubernetes-preserve-unknown-fields: true
    +     served: true
    +     storage: true
    ```

    </details>

    <details><summary>+ ConfigMap lab/notes</summary>

    ```diff
    + apiVersion: v1
    + kind: ConfigMap
    + metadata:
    +   name: notes
    +   namespace: lab
    + data:
    +   a: b
    ```

    </details>

    <details><summary>+ Deployment shop/cart</summary>

    ```diff
    + apiVersion: apps/v1
    + kind: Deployment
    + metadata:
    +   name: cart
    +   namespace: shop
    + spec:
    +   progressDeadlineSeconds: 600
    +   replicas: 1
    +   revisionHistoryLimit: 10
    +   selector:
    +     matchLabels:
    +       app: cart
    +   strategy:
    +     rollingUpdate:
    +       maxSurge: 25%
    +       maxUnavailable: 25%
    +     type: RollingUpdate
    +   template:
    +     metadata:
    +       labels:
    +         app: cart
    +     spec:
    +       containers:
    +       - name: main
    +         env:
    +         - name: MODE
    +           value: live
    +         - name: DB_PASSWORD
    +           value: ***
    +         image: cart:1
    +         imagePullPolicy: IfNotPresent
    +         resources: {}
    +         terminationMessagePath: /dev/termination-log
    +         terminationMessagePolicy: File
    +       dnsPolicy: ClusterFirst
    +       restartPolicy: Always
    +       schedulerName: default-scheduler
    +       securityContext: {}
    +       terminationGracePeriodSeconds: 30
    ```

    </details>

    <details><summary>+ Widget shop/knob</summary>

    ```diff
    + apiVersion: example.com/v1
    + kind: Widget
    + metadata:
    +   name: knob
    +   namespace: shop
    + size: 1
    ```

    </details>

    <details><summary>+ Migration shop/orders-to-west</summary>

    ```diff
    + apiVersion: cutover.dev/v1alpha1
    + kind: Migration
    + metadata:
    +   name: orders-to-west
    +   namespace: shop
    + spec:
    +   approval:
    +     before:
    +     - Handoff
    +   changes:
    +     template: true
    +   from: east
    +   onFailure: RollBack
    +   strategy: StopFirst
    +   to: west
    +   verify:
    +     healthyFor: 60s
    +     timeout: 10m
    +   workload:
    +     apiVersion: flink.apache.org/v1beta1
    +     kind: FlinkDeployment
    +     name: orders
    ```

    </details>
    "#);
    let (annotations, _, _) = story.plan(&["-o", "github"]);
    shown!(annotations, @r#"
    ::error title=blocked%3A Deployment shop/api,file=api.yaml,line=1,col=98::other managers own fields for which Git has another value: keda owns .spec.replicas%0Aspec.replicas
    ::error title=blocked%3A Deployment shop/wrong,file=wrong.yaml,line=1,col=100::failed to create typed patch object (shop/wrong; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float)
    ::warning title=held back%3A FlinkDeployment shop/orders,file=orders.yaml,line=1,col=1::Migration shop/orders-to-west%0Aspec.image
    ::notice title=created%3A Namespace lab,file=lab.yaml,line=1,col=1::created: Namespace lab
    ::notice title=created%3A CustomResourceDefinition widgets.example.com,file=widgets.yaml,line=1,col=1::created: CustomResourceDefinition widgets.example.com
    ::notice title=created%3A ConfigMap lab/notes,file=lab.yaml,line=5,col=1::created: ConfigMap lab/notes
    ::notice title=changed%3A ConfigMap shop/settings,file=settings.yaml,line=1,col=1::data["app.properties"]
    ::notice title=changed%3A Secret shop/db,file=db.yaml,line=1,col=1::data.password
    ::notice title=created%3A Deployment shop/cart,file=cart.yaml,line=1,col=1::created: Deployment shop/cart
    ::notice title=cutover::4 more are in the report
    "#);
    for limit in [0, 500, 1500, 2500] {
        let (short, _, _) = story.plan(&["-o", "markdown", "--limit", &limit.to_string()]);
        assert!(short.chars().count() <= limit.max(600), "{short}");
    }
    assert_eq!(story.served.server.contents(), before, "a plan wrote something");
    for secret in ["swordfish", "marlin", "hunter2"] {
        assert!(
            ![&text, &markdown, &annotations]
                .iter()
                .any(|shown| shown.contains(secret))
        );
    }
}

async fn a_document_fits_its_schema(on: On) {
    let story = Story::begin(on);
    story.everything_changes();
    let document: Value = serde_json::from_str(&story.plan(&["-o", "json"]).0).unwrap();
    let schema = cutover::generated::json_schemas()
        .unwrap()
        .remove("plan")
        .unwrap();
    let found = cutover::schema::violations(&document, &schema);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(document["summary"]["create"], 6, "{document:#}");
    assert_eq!(document["summary"]["heldBack"], 1, "{document:#}");
    let masked = document["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["object"]["name"] == "db");
    assert_eq!(masked.unwrap()["fields"][0]["masked"], true);
}

async fn a_range_is_what_its_last_commit_changes(on: On) {
    let story = Story::begin(on);
    story.everything_changes();
    story
        .origin
        .commit("main", &[("cart.yaml", &deployment("cart", "cart:2", 1))]);
    let (text, errors, code) = story.plan(&["--revision", "HEAD~1..HEAD", "--detailed-exitcode"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        text.starts_with("+ Deployment shop/cart") && text.contains("cart:2"),
        "{text}"
    );
    assert!(
        text.contains("Plan: 1 to create, 0 to change, 0 to delete.") && text.contains("other objects"),
        "{text}"
    );
    let (text, _, _) = story.plan(&["--revision", "HEAD~1"]);
    assert!(text.contains("cart:1") && !text.contains("cart:2"), "{text}");
    let (_, errors, code) = story.plan(&["--revision", "nowhere..HEAD"]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("error: there is no commit \"nowhere\" here"),
        "{errors}"
    );
}

async fn a_range_lists_what_it_takes_out_of_git_and_nobody_prunes(on: On) {
    insta::allow_duplicates! { lists_what_it_takes_out(on) }
}

fn lists_what_it_takes_out(on: On) {
    let story = Story::begin(on);
    // One goes, one only moves, and one is of a sync of its own from then on.
    story.origin.commit(
        "main",
        &[
            ("web.yaml", ""),
            ("api.yaml", ""),
            ("elsewhere.yaml", &deployment("api", "api:1", 1)),
        ],
    );
    let (text, errors, code) = story.plan(&["--revision", "HEAD~1..HEAD", "--detailed-exitcode"]);
    assert_eq!(code, Some(0), "{errors}");
    shown!(text, @r"
    * Deployment shop/web
      left behind: sync main does not prune, so it stays until it is deleted

    Plan: 0 to create, 0 to change, 0 to delete, 1 left behind.
    ");
    let syncs = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {name: fleet, path: fleet}\n";
    story.origin.commit("main", &[("cutover.yaml", syncs)]);
    let (text, _, _) = story.plan(&["--revision", "HEAD~1..HEAD"]);
    assert!(
        text.contains("* Secret shop/db\n  left behind: sync main is not in cutover.yaml any more"),
        "{text}"
    );
    let (document, _, _) = story.plan(&["--revision", "HEAD~1..HEAD", "-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["summary"]["leftBehind"], 5, "{document:#}");
}

async fn what_goes_and_what_is_created_anew_is_shown_with_the_reason(on: On) {
    insta::allow_duplicates! { shows_what_goes(on) }
}

fn shows_what_goes(on: On) {
    let served = Served::on(on);
    let recreate = |image: &str, app: &str| {
        deployment("web", image, 1)
            .replace("\"app\":\"web\"", &format!("\"app\":\"{app}\""))
            .replace(
                "\"name\":\"web\"",
                "\"annotations\":{\"cutover.dev/recreate\":\"true\"},\"name\":\"web\"",
            )
    };
    let settings = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {name: main, prune: true}\n";
    let kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: shop, annotations: {cutover.dev/keep: 'true'}}\n";
    let origin = Origin::with(&[
        ("cutover.yaml", settings),
        ("namespace.yaml", NAMESPACE),
        ("web.yaml", &recreate("web:1", "web")),
        ("db.yaml", &secret("swordfish")),
        ("kept.yaml", kept),
    ]);
    let story = Story { served, origin };
    let path = story.origin.path();
    let output = story.served.cutover(&["run", "--once", "--repo", as_text(&path)]);
    assert!(output.status.success(), "{}", stderr(&output));
    story.origin.commit(
        "main",
        &[
            ("web.yaml", &recreate("web:2", "shop-web")),
            ("db.yaml", ""),
            ("kept.yaml", ""),
        ],
    );
    let before = story.served.server.contents();
    let (text, errors, code) = story.plan(&["--detailed-exitcode"]);
    assert_eq!(code, Some(2), "{errors}");
    shown!(text, @r"
    ± Deployment shop/web  (web.yaml:1:157)
      deleted and recreated: spec.selector cannot be changed once the object is there
      ~ spec.selector.matchLabels.app: web → shop-web
      ~ spec.template.metadata.labels.app: web → shop-web
      ~ spec.template.spec.containers[main].env[DB_PASSWORD].value: *** (old) → *** (new)
      ~ spec.template.spec.containers[main].image: web:1 → web:2

    - Secret shop/db

    Plan: 0 to create, 0 to change, 1 to delete, 1 to recreate.
    Hash: ················
    ");
    assert_eq!(story.served.server.contents(), before, "a plan wrote something");
}

async fn what_was_reviewed_is_carried_out_and_nothing_else(on: On) {
    let story = Story::begin(on);
    story.origin.commit("main", &[("db.yaml", &secret("marlin"))]);
    let (reviewed, again) = (story.hash(), story.hash());
    assert_eq!(reviewed, again);
    story.origin.commit("main", &[("db.yaml", &secret("tuna"))]);
    let path = story.origin.path();
    let run = |hash: &str| {
        story
            .served
            .cutover(&["run", "--once", "--repo", as_text(&path), "--plan-hash", hash])
    };

    let before = story.served.server.contents();
    let output = run(&reviewed);
    assert_eq!(output.status.code(), Some(1));
    let now = story.hash();
    assert!(
        stderr(&output).contains("nothing was done: the plan is not the one of hash"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains(&format!(
        "hint: if that is what you want, pass --plan-hash {}",
        &now[..16]
    )));
    assert!(
        stdout(&output).contains("~ Secret shop/db"),
        "{}",
        stdout(&output)
    );
    assert_eq!(story.served.server.contents(), before);

    // Another commit with the same content is the same plan.
    story.origin.commit("main", &[("README.md", "words")]);
    let output = run(&now[..16]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(story.plan(&[]).0.starts_with("No changes: 6 objects in sync."));
}
