use serde_json::json;

use super::*;

fn flink() -> Profile {
    let profiles = built_in().unwrap();
    let profile = profiles
        .iter()
        .find(|profile| profile.metadata.name.as_deref() == Some("flink"))
        .unwrap();
    Profile::compile("flink", &profile.spec).unwrap()
}

fn suspended(upgrade_mode: &str, path: &str) -> Value {
    json!({
        "metadata": {"name": "orders", "generation": 4},
        "spec": {"job": {"state": "suspended", "upgradeMode": "savepoint"}},
        "status": {
            "observedGeneration": 4,
            "jobManagerDeploymentStatus": "MISSING",
            "jobStatus": {"state": "FINISHED", "upgradeSavepointPath": path, "jobId": "a1"},
            "reconciliationStatus": {
                "state": "DEPLOYED",
                "lastReconciledSpec": json!({"spec": {"job": {"state": "suspended", "upgradeMode": upgrade_mode}}}).to_string(),
            },
        },
    })
}

#[test]
fn every_built_in_profile_compiles() {
    for profile in built_in().unwrap() {
        Profile::compile(profile.metadata.name.as_deref().unwrap(), &profile.spec).unwrap();
    }
}

/// A profile has no steps between the stop and the start, in which volumes could be copied.
#[test]
fn no_hint_of_a_built_in_profile_promises_one_that_carries_volumes() {
    let mut about_volumes = 0;
    for profile in built_in().unwrap() {
        for requirement in &profile.spec.requires {
            let hint = requirement.hint.as_deref().unwrap_or_default();
            assert!(!hint.contains("WorkloadProfile that captures"), "{hint}");
            if requirement.message.starts_with("its volumes stay behind") {
                about_volumes += 1;
                assert!(
                    hint.starts_with("no profile carries volumes: keep its "),
                    "{hint}"
                );
                assert!(hint.contains("copy them (VolSync, Velero)"), "{hint}");
            }
        }
    }
    assert!(about_volumes > 10, "{about_volumes}");
}

#[test]
fn what_was_compiled_is_not_compiled_again() {
    let spec = built_in().unwrap()[0].spec.clone();
    let first = Profile::compile("first", &spec).unwrap();
    let again = Profile::compile("again", &spec.clone()).unwrap();
    assert!(Arc::ptr_eq(first.spec(), again.spec()));
}

#[test]
fn a_job_suspended_with_a_savepoint_is_suspended_and_gives_its_handle() {
    let object = suspended("savepoint", "s3://state/savepoint-1");
    assert_eq!(flink().suspended(&object), Ok(true));
    assert_eq!(flink().observed(&object), Ok(true));
    assert_eq!(flink().healthy(&object), Ok(false));
    assert_eq!(
        flink().capture(&object).unwrap()["savepoint"],
        "s3://state/savepoint-1"
    );
}

#[test]
fn a_last_state_suspension_gives_no_handle_however_its_path_looks() {
    let by_mode = suspended("last-state", "s3://state/savepoint-from-an-earlier-upgrade");
    assert!(matches!(
        flink().capture(&by_mode),
        Err(NoCapture::Invalid { .. })
    ));
    let by_marker = suspended("savepoint", "KUBERNETES_OPERATOR_LAST_STATE");
    assert!(matches!(
        flink().capture(&by_marker),
        Err(NoCapture::Invalid { .. })
    ));
}

#[test]
fn a_copy_without_a_status_is_neither_observed_nor_suspended_nor_healthy() {
    let object =
        json!({"metadata": {"name": "orders", "generation": 1}, "spec": {"job": {"state": "suspended"}}});
    assert_eq!(flink().observed(&object), Ok(false));
    assert_eq!(flink().suspended(&object), Ok(false));
    assert_eq!(flink().healthy(&object), Ok(false));
    assert!(matches!(flink().capture(&object), Err(NoCapture::Missing { .. })));
    assert!(flink().carries_hold(&object, &"west".into()));
}

#[test]
fn a_status_that_does_not_parse_is_an_error_and_not_a_no() {
    let mut object = suspended("savepoint", "s3://state/savepoint-1");
    object["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!("{broken");
    assert!(matches!(
        flink().suspended(&object),
        Err(Error::Evaluation { .. })
    ));
}

#[test]
fn what_is_no_text_is_no_handle() {
    let stopped = |handle: serde_json::Value| {
        json!({"status": {
            "jobStatus": {"upgradeSavepointPath": handle},
            "reconciliationStatus": {"lastReconciledSpec": r#"{"spec":{"job":{"upgradeMode":"savepoint"}}}"#},
        }})
    };
    assert!(flink().capture(&stopped(json!("s3://a"))).is_ok());
    for blank in [json!(""), json!("  "), json!(null)] {
        let captured = flink().capture(&stopped(blank));
        assert!(matches!(captured, Err(NoCapture::Missing { .. })), "{captured:?}");
    }
    for other in [
        json!(7),
        json!(true),
        json!(["s3://a"]),
        json!({"path": "s3://a"}),
    ] {
        let captured = flink().capture(&stopped(other));
        assert!(matches!(captured, Err(NoCapture::NotText { .. })), "{captured:?}");
    }
}

#[test]
fn patches_are_filled_with_the_captured_handle_and_the_attempt() {
    let captured = BTreeMap::from([("savepoint".to_owned(), "s3://x".to_owned())]);
    let variables = Variables {
        captured: Some(&captured),
        attempt: 3,
        ..Variables::default()
    };
    let patches = flink().patches(Action::RestartFrom, &variables).unwrap();
    assert_eq!(patches[2].value, Some(json!("s3://x")));
    assert_eq!(patches[3].value, Some(json!(3)));
    let missing = flink().patches(Action::Start, &Variables::default());
    assert_eq!(missing, Err(Error::Variable("captured.savepoint".into())));
}

#[test]
fn a_secret_handle_is_only_referred_to_but_for_the_copy_that_is_given_it() {
    let mut spec = built_in().unwrap()[0].spec.clone();
    spec.capture[0].secret = true;
    let profile = Profile::compile("x", &spec).unwrap();
    let stopped = |handle: &str| {
        json!({"status": {
            "jobStatus": {"upgradeSavepointPath": handle, "state": "FINISHED"},
            "reconciliationStatus": {"lastReconciledSpec": r#"{"spec":{"job":{"upgradeMode":"savepoint"}}}"#},
        }})
    };
    let left = stopped("s3://C4n4ry");
    let captured = profile.capture(&left).unwrap();
    let handle = reference("s3://C4n4ry");
    let expected = BTreeMap::from([("savepoint".to_owned(), handle.clone())]);
    assert_eq!(captured, expected);
    assert_eq!(profile.handles(&left).unwrap(), expected);
    assert_eq!(
        profile.last_known(&left, &BTreeMap::new()).unwrap().values,
        expected
    );
    assert_eq!(profile.in_use(&left).unwrap(), Some(handle));
    assert_ne!(profile.handles(&stopped("s3://another")).unwrap(), expected);

    let secrets = profile.secrets(&left);
    let variables = Variables {
        captured: Some(&captured),
        secrets: Some(&secrets),
        ..Variables::default()
    };
    let patches = profile.patches(Action::Start, &variables).unwrap();
    assert_eq!(patches[2].value, Some(json!("s3://C4n4ry")));
    // A reference is no handle: a copy never gets that.
    let none = SecretHandles::default();
    let lost = Variables {
        secrets: Some(&none),
        ..variables
    };
    let lost = profile.patches(Action::Start, &lost);
    assert_eq!(lost, Err(Error::Secret("captured.savepoint".into())));
    assert!(flink().secrets(&left).is_empty());
}

#[test]
fn a_selector_of_pods_keeps_its_cluster_until_the_pods_are_read_there() {
    let mut spec = built_in().unwrap()[0].spec.clone();
    let selector = "app=${name},at=${namespace}.${cluster}".to_owned();
    spec.no_pods.as_mut().unwrap().label_selector = Some(selector);
    let profile = Profile::compile("x", &spec).unwrap();
    let object = json!({"metadata": {"name": "orders", "namespace": "shop"}});
    let kept = profile.pod_selector(&object).unwrap().unwrap();
    assert_eq!(kept, "app=orders,at=shop.${cluster}");
    assert!(needs_cluster(&kept));
    assert_eq!(
        selectors_in(&kept, Some(&"west".into())),
        ["app=orders,at=shop.west"]
    );
    let flink = flink().pod_selector(&object).unwrap().unwrap();
    assert!(!needs_cluster(&flink));
    assert_eq!(selectors_in(&flink, Some(&"west".into())), [flink.as_str()]);
}

#[test]
fn a_variable_of_a_macro_is_known_within_it_and_nowhere_else() {
    let valid = |source: &str| {
        let check = Check {
            cel: source.to_owned(),
            prometheus: None,
            of: None,
        };
        valid_check(&check).is_ok()
    };
    assert!(valid(
        "object.items.exists(item, item.ready && object.name == item.name)"
    ));
    assert!(!valid("object.items.exists(item, other.ready)"));
    assert!(!valid("object.items.all(item, item.ready) && item.ready"));
    assert!(!valid("item.parts.exists(item, item.ready)"));
}

#[test]
fn an_expression_over_an_unknown_variable_is_refused_before_it_is_used() {
    let mut spec = built_in().unwrap()[0].spec.clone();
    spec.healthy_when = "obj.status.ready".into();
    assert!(matches!(
        Profile::compile("x", &spec),
        Err(Error::Invalid {
            field: "healthyWhen",
            ..
        })
    ));
}

#[test]
fn of_several_profiles_for_one_kind_the_first_by_name_is_found_in_whatever_order_they_come() {
    let named = |name: &str, kind: &str| {
        let mut profile = built_in().unwrap()[0].clone();
        profile.metadata.name = Some(name.to_owned());
        profile.spec.applies_to.kinds = vec![kind.to_owned()];
        profile
    };
    let (first, second) = (named("a", "FlinkDeployment"), named("b", "FlinkDeployment"));
    let kind = Gvk::new("flink.apache.org/v1beta1", "FlinkDeployment");
    let own = std::slice::from_ref(&first);
    assert_eq!(ambiguous(own, &kind), None, "the built-in one does not count");
    for given in [[first.clone(), second.clone()], [second, first.clone()]] {
        let found = ambiguous(&given, &kind).unwrap();
        assert!(found.message.ends_with(": a, b"), "{}", found.message);
        assert!(
            !found.hint.unwrap().contains("spec.profile"),
            "not every intent has it"
        );
        let unnamed = ambiguous_unnamed(&given, None, &kind).unwrap();
        assert!(unnamed.hint.unwrap().contains("spec.profile"));
        assert_eq!(ambiguous_unnamed(&given, Some("b"), &kind), None);
        let name = |named| {
            find(&given, named, &kind)
                .unwrap()
                .unwrap()
                .metadata
                .name
                .unwrap()
        };
        assert_eq!(name(None), "a");
        assert_eq!(name(Some("b")), "b");
        assert_eq!(name(Some("flink")), "flink");
    }
    let built_in = find(&[named("c", "FlinkSessionJob")], None, &kind)
        .unwrap()
        .unwrap();
    assert_eq!(built_in.metadata.name.as_deref(), Some("flink"));
}

#[test]
fn a_profile_without_a_hold_says_of_no_template_that_it_keeps_its_copy_from_running() {
    let suspended = suspended("savepoint", "/sp-1");
    let west = ClusterName::from("west");
    assert!(flink().is_held_by(&suspended, &west));
    assert!(!flink().is_held_by(&json!({"spec": {"job": {"state": "running"}}}), &west));
    let spec = WorkloadProfileSpec {
        hold: Vec::new(),
        ..flink().spec().as_ref().clone()
    };
    let without = Profile::compile("without", &spec).unwrap();
    assert!(
        without.carries_hold(&suspended, &west),
        "of no field each is there"
    );
    assert!(!without.is_held_by(&suspended, &west));
}
