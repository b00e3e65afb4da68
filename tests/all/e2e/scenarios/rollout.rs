//! Rollouts: cluster by cluster, judged by which version stood where, when.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BROKEN, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::sightings::Sightings;

const NEXT: &str = "registry.k8s.io/pause:3.10";
const HEALTHY_FOR: Duration = Duration::from_secs(1);

pub async fn a_wave_that_fails_is_undone(act: Act) {
    let act = act.deployment();
    let mut order = act.members();
    act.runs_in(&order, &act.workload(IMAGE)).await;
    let seen = Sightings::of(&act, image);
    // Not the order that it would have anyway.
    order.reverse();
    act.ask(&rolls(&act, &order, &json!({})));
    rests(&act, "Completed", IMAGE).await;
    let first = act.status().await["stable"].as_str().unwrap().to_owned();

    act.commit(&[("workload", &act.workload(NEXT))]);
    rests(&act, "Completed", NEXT).await;
    let came = seen.of_version(NEXT);
    let clusters: Vec<_> = came.iter().map(|(cluster, _)| cluster.as_str()).collect();
    assert_eq!(clusters, order, "one after the other, as it is asked for");
    for pair in came.windows(2) {
        // Whoever looks on hears of each a moment later.
        let between = pair[1].1.duration_since(pair[0].1);
        assert!(
            between > HEALTHY_FOR / 2,
            "only when the one before was good for a while: {between:?}"
        );
    }

    act.commit(&[
        ("workload", &act.workload(BROKEN)),
        (
            "intent",
            &act.intent(&rolls(
                &act,
                &order,
                &json!({"progress": {"timeout": "3s", "healthyFor": "1s"}}),
            )),
        ),
    ]);
    rests(&act, "Undone", NEXT).await;
    let had: Vec<_> = seen
        .of_version(BROKEN)
        .into_iter()
        .map(|(cluster, _)| cluster)
        .collect();
    assert_eq!(had, [order[0]], "it came no further than its first wave");

    act.commit(&[
        ("workload", &act.workload(NEXT)),
        (
            "intent",
            &act.intent(&rolls(&act, &order, &json!({"undoTo": first}))),
        ),
    ]);
    rests(&act, "Completed", IMAGE).await;
    for cluster in &order[1..] {
        assert_eq!(seen.in_cluster(cluster), [IMAGE, NEXT, IMAGE], "{cluster}");
    }
    assert_eq!(seen.in_cluster(order[0]), [IMAGE, NEXT, BROKEN, NEXT, IMAGE]);
}

fn rolls(act: &Act, order: &[&str], more: &Value) -> Value {
    let mut spec = json!({
        "workload": act.about(), "order": order, "onFailure": "Undo",
        "progress": {"timeout": "60s", "healthyFor": "1s"},
    });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    spec
}

/// It has come to its end with this image everywhere, in the template too, and nothing of it is left.
async fn rests(act: &Act, phase: &str, image_then: &str) {
    act.until(&format!("{phase} with {image_then}"), async |act| {
        let status = act.status().await;
        let now = status["phase"].as_str().unwrap_or_default();
        assert!(now == phase || now != "Halted", "{status:#}");
        let mut images = vec![image(&act.template().await)];
        for cluster in act.members() {
            images.push(image(&act.copy(cluster).await.unwrap_or_default()));
        }
        now == phase && status["journal"].is_null() && images.iter().all(|image| image == image_then)
    })
    .await;
    let runs = act.where_it_runs().await;
    assert_eq!(runs, act.members(), "it is well everywhere");
    act.is_untouched().await;
}

pub(super) fn image(copy: &Value) -> String {
    let image = copy.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default().to_owned()
}
