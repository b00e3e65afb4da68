//! What becomes of workloads: they leave a cluster, or end.

use super::*;
use crate::intent::gate::State;
use cutover_karmada::name::Gvk;

#[test]
fn a_workload_that_leaves_one_of_its_clusters_runs_on_in_the_others() {
    let clusters = ["east", "west"].map(cluster);
    let names_of = (1..=12).map(|number| format!("web-{number:02}"));
    let bindings: Vec<ResourceBinding> = names_of.map(|name| binding(&name, &["east", "west"])).collect();
    let (both, west) = (
        policy(names(&["east", "west"]), Value::Null),
        policy(names(&["west"]), Value::Null),
    );
    let reach = Reach::of(
        &change(Some(both), Some(west)),
        &bindings.iter().collect::<Vec<_>>(),
        &clusters,
        &[],
    );
    insta::assert_snapshot!(reach::section(&reach, Places::default()), @r#"
    `PropagationPolicy shop/streaming` (`policies/streaming.yaml:9`) places 12 workloads:

    - 12 workloads, `Deployment shop/web-01`, `Deployment shop/web-02`, `Deployment shop/web-03`, `Deployment shop/web-04`, `Deployment shop/web-05`, `Deployment shop/web-06`, `Deployment shop/web-07`, `Deployment shop/web-08` and 4 more: ⚠️ **Karmada deletes its copy in east, unwatched**; it runs on in west
    "#);
    insta::assert_snapshot!(chart::chart(&[], &[], &[reach]).unwrap(), @r#"
    ```mermaid
    flowchart LR
        c0["east"]
        c1["west"]
        c0 -. "Deployment shop/web-01, Deployment shop/web-02, Deployment shop/web-03 and 9 more (copy deleted by Karmada; runs on there)" .-> c1
    ```
    "#);
}

/// Three templates go with their policy: one now, one with an intent, one that no sync prunes.
#[test]
#[expect(clippy::too_many_lines, reason = "what a reviewer reads is the test")]
fn a_workload_that_the_same_change_deletes_ends_with_its_replicas_by_cluster() {
    let delete = |name: &str| {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let gvk = Gvk::new("apps/v1", "Deployment");
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}});
        Change::delete(key, gvk, &live)
    };
    let with = |name: &str, replicas: [i32; 2]| {
        let mut binding = binding(name, &["east", "west"]);
        binding.spec.replicas = replicas.iter().sum();
        for (cluster, replicas) in binding.spec.clusters.iter_mut().zip(replicas) {
            cluster.replicas = replicas;
        }
        binding
    };
    let stays = Change::left_behind(
        delete("notes").key,
        delete("notes").gvk,
        "sync main does not prune, so it stays until it is deleted",
    );
    let bindings = [
        with("web", [3, 1]),
        with("cart", [0, 0]),
        with("db", [1, 1]),
        with("notes", [1, 0]),
    ];
    let mut kept = bindings[2].clone();
    kept.spec.preserve_resources_on_deletion = Some(true);
    let of = |change: &Change, binding, state| Ending::of(change, binding, state).unwrap();
    let endings = [
        of(&delete("web"), &bindings[0], State::None),
        of(
            &delete("cart").held_back("Migration shop/cart-to-west"),
            &bindings[1],
            State::Unsaid,
        ),
        of(&delete("db"), &bindings[2], State::Kept),
        of(&stays, &bindings[3], State::None),
        of(&delete("db"), &kept, State::Kept),
    ];
    let blocked = delete("web").blocked("it has state");
    assert!(Ending::of(&blocked, &bindings[0], State::Kept).is_none());

    let clusters = ["east", "west"].map(cluster);
    let gone = change(Some(policy(names(&["east", "west"]), Value::Null)), None);
    let reach = Reach::of(
        &gone,
        &bindings.iter().collect::<Vec<_>>(),
        &clusters,
        &endings[..4],
    );
    let review = Review {
        key: "plan",
        endings: &endings,
        reaches: &[reach],
        ..Review::default()
    };
    insta::assert_snapshot!(review.markdown(COMMENT_LIMIT), @r#"
    <!-- cutover review: plan -->
    ### Checked offline; nothing was planned.

    ### Workloads that leave Git

    cutover deletes the template, as Git has it no more and the sync prunes; Karmada then deletes the copies.

    - ⚠️ `Deployment shop/db` ends in east (1 replica) and west (1 replica), with its state
    - ⚠️ `Deployment shop/db` leaves its copies in east (1 replica) and west (1 replica), which run on unmanaged: preserveResourcesOnDeletion is set
    - ⚠️ `Deployment shop/cart` ends in east and west when Migration shop/cart-to-west has ended; whether it has state is not known
    - 🗑️ `Deployment shop/web` ends in east (3 replicas) and west (1 replica); no profile knows of state in it
    - 🍂 `Deployment shop/notes` runs on in east (1 replica) and west (0 replicas): sync main does not prune, so it stays until it is deleted

    ### What Karmada does by itself when policies change

    `PropagationPolicy shop/streaming` (`policies/streaming.yaml:9`) places 4 workloads:

    - `Deployment shop/notes`: no policy places it any more: it stays where it is, and changes stop reaching it
    - 3 workloads, `Deployment shop/cart`, `Deployment shop/db`, `Deployment shop/web`: 🗑️ ends: the same change deletes its template
    "#);
}
