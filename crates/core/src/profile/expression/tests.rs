use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::profile::built_in;

#[test]
fn every_fixed_limit_of_a_profile_is_documented() {
    use super::super::{mistakes, path};
    let page = include_str!("../../../../../docs/reference/limits.md");
    for (name, value) in [
        ("steps of an expression", STEPS),
        ("length of an expression", syntax::SOURCE_BYTES as u64),
        ("brackets in an expression", u64::from(syntax::NESTING)),
        ("depth of an expression", syntax::DEPTH as u64),
        ("loops in an expression", syntax::LOOPS as u64),
        ("depth of a value", meter::VALUE_DEPTH),
        ("length of a pattern", meter::PATTERN_BYTES as u64),
        ("size of a pattern", meter::PATTERN_SIZE as u64),
        ("expressions of a profile", mistakes::EXPRESSIONS as u64),
        ("length of a JSONPath", path::BYTES as u64),
    ] {
        let row = format!("| {name} | {value} | ");
        assert!(page.contains(&row), "{row}");
    }
}

/// An object as large as API servers take them: lists of a thousand, a long name, JSON as text.
fn large() -> Value {
    let items: Vec<String> = (0..1_000).map(|index| format!("item-{index}")).collect();
    let bits: String = (0..200_000_u32)
        .map(|index| {
            if index.wrapping_mul(2_654_435_761) >> 13 & 1 == 1 {
                '1'
            } else {
                '0'
            }
        })
        .collect();
    json!({"items": items, "name": "orders", "bits": bits, "json": "[1".to_owned() + &",1".repeat(500_000) + "]"})
}

/// What an expression comes to on that object.
fn outcome(source: &str) -> Result<bool, String> {
    Expression::compile("healthyWhen", source)?
        .evaluate(value::whole(&large()))
        .0
}

fn numbers(count: usize) -> String {
    format!("[{}]", vec!["1"; count].join(","))
}

/// Expressions of at most a few kilobytes, and a word of why each is refused or stopped.
type Table = Vec<(String, &'static str)>;

const EACH: &str = "object.items";

fn chain(first: &str, link: &str, last: &str, count: usize) -> String {
    format!("{first}{}{last}", link.repeat(count))
}

fn loops() -> Table {
    let (list, long, each) = (numbers(100), numbers(500), EACH);
    vec![
        (
            format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, true))))"),
            "loops",
        ),
        (
            format!("{long}.all(a, {long}.all(b, {long}.all(c, true)))"),
            "steps",
        ),
        (
            format!("{each}.all(a, {each}.all(b, {each}.all(c, true)))"),
            "steps",
        ),
        (
            format!("{each}.map(a, {each}.map(b, {each}.map(c, c))).size() > 0"),
            "steps",
        ),
        (
            format!("{each}.map(a, true, {each}.map(b, a != b, a)).size() > 0"),
            "steps",
        ),
        (
            format!("{each}.filter(a, {each}.filter(b, a == b).size() > 1).size() > 0"),
            "steps",
        ),
        (
            format!("{each}.exists_one(a, {each}.exists_one(b, a + b == a))"),
            "steps",
        ),
        (
            chain("true", &format!(" && {each}.all(a, a in {each})"), "", 50),
            "steps",
        ),
        // An error in a loop is put off until its end, and the other side of `||` may hold: neither hides the budget.
        (
            format!("{each}.exists(a, {each}.exists(b, {each}.exists(c, c == 'none'))) || true"),
            "steps",
        ),
        (
            format!("{each}.all(a, {each}.all(b, {each}.all(c, c != ''))) && false"),
            "steps",
        ),
        (format!("{each}.exists(a, ({each} + 1) == a)"), "steps"),
        (format!("{each}.exists(a, {each}[0.5] == a)"), "steps"),
    ]
}

fn values_and_patterns() -> Table {
    let each = EACH;
    vec![
        // Values that double.
        (
            chain("['aaaa']", ".map(a, a + a)", ".exists(a, a == '')", 60),
            "steps",
        ),
        (
            chain("['aaaa']", ".map(a, a + a)", ".exists(a, a == '')", 30),
            "steps",
        ),
        (
            chain("[[1]]", ".map(a, a + a)", ".exists(a, a == [])", 30),
            "steps",
        ),
        (
            chain("[[1]]", ".map(a, [a, a])", ".exists(a, a == [])", 30),
            "steps",
        ),
        (
            chain("[{}]", ".map(a, {'x': a, 'y': a})", ".exists(a, a == {})", 30),
            "steps",
        ),
        (
            format!("[object, object, object].all(a, {})", numbers(3)),
            "steps",
        ),
        // Regular expressions.
        (
            "object.name.matches('((a{100}){100}){100}')".to_owned(),
            "regular expression",
        ),
        (
            format!("object.name.matches('{}')", "a?".repeat(200)),
            "regular expression",
        ),
        ("object.bits.matches('[01]*1[01]{2000}2')".to_owned(), "steps"),
        (
            format!("{each}.exists(a, object.name.matches('(' + a + '{{90}}){{90}}'))"),
            "steps",
        ),
        // Texts.
        ("json(object.json).size() == 0".to_owned(), "steps"),
        (format!("{each}.exists(a, object.bits.contains(a))"), "steps"),
        (
            format!("{each}.exists(a, string(bytes(object.bits)) == a)"),
            "steps",
        ),
    ]
}

fn syntax() -> Table {
    vec![
        (chain("", "(", "", 2_000), "brackets"),
        (format!("{}1{}", "[".repeat(90), "]".repeat(90)), "brackets"),
        (chain("", "!(", "", 1_000), "brackets"),
        (chain("true", "?true:true", "", 400), "brackets"),
        (chain("object", ".a", " == 1", 2_000), "operations"),
        (chain("object", "[0]", " == 1", 1_300), "operations"),
        (chain("1", "+1", " == 1", 2_000), "operations"),
        (chain("1", "<1", "", 2_000), "operations"),
        (chain("object", ".map(x,x)", " == []", 400), "operations"),
        (chain("", "?:)(", "", 1_000), "at 1:"),
        (chain("", "!", "true == 1 || tru", 4_000), "unknown variable"),
        (chain("true", " || true", "", 1_000), "bytes"),
        // What nobody knows the cost of.
        (
            "object.name.repeat(1000000) == ''".to_owned(),
            "unknown function repeat",
        ),
        ("a.b{c: 1} == 1".to_owned(), "a.b"),
    ]
}

#[test]
fn a_hostile_expression_is_refused_or_stopped() {
    for (source, why) in [loops(), values_and_patterns(), syntax()].concat() {
        let begun = Instant::now();
        let told = outcome(&source).expect_err(&source);
        assert!(told.contains(why), "{source:.80}: {told}");
        assert!(told.len() < 1_000, "{source:.80}: {} bytes", told.len());
        // A hang is what this is about; optimised it takes some tens of milliseconds.
        assert!(begun.elapsed() < Duration::from_secs(10), "{source:.80}");
    }
}

#[test]
fn what_stands_within_the_limits_holds() {
    for source in [
        "object.items.exists(a, a == 'item-999') && object.items.all(a, a.startsWith('item-'))",
        "object.items.map(a, a + '!').size() == 1000 && object.items.filter(a, a.endsWith('7')).size() == 100",
        "object.items.map(a, a.endsWith('7'), a + '!')[1] == 'item-17!' && object.items.exists_one(a, a == 'item-5')",
        "[1, 2].all(a, [3, 4].all(b, [5, 6].all(c, a < b && b < c)))",
        "{'a': [1, 2]}.all(key, key == 'a') && {'a': 1}['a'] + 1 == 2 && has(object.name) && !has(object.none)",
        "object.name.matches('^[\\\\w-]+$') && matches(object.name, 'or') && !object.name.matches('x{100}')",
        "json('{\"a\": [1, {\"b\": null}]}').a[1].b == null && '[1]'.json() == [1]",
        "(1 > 0 ? 'a' : 'b') == 'a' && -1 < 0 && 7 % 4 == 3 && string(1) == '1' && int('2') in [1, 2] && 1u == uint(1)",
        "type(object.name) == type('') && dyn(1) == 1 && bytes('a') == b'a' && bool('true') && double('1.5') == 1.5",
        "object.items[0] == 'item-0' || object.none == 1",
    ] {
        assert_eq!(outcome(source), Ok(true), "{source}");
    }
}

#[test]
fn an_error_stays_one_and_is_told_briefly() {
    for (source, why) in [
        ("object.none == 1", "No such key: none"),
        ("object.items", "the value is not a boolean"),
        ("object.items + 1 == []", "Unsupported binary operator"),
        ("json(object.name) == 1", "json"),
        ("json(1) == 1", "it takes texts"),
        ("object.name.matches(object.items[0] + '(')", "matches"),
        (
            "object.items.map(a, a.b).size() == 1",
            "found no matching overload",
        ),
    ] {
        let told = outcome(source).expect_err(source);
        assert!(told.contains(why), "{source}: {told}");
        assert!(told.len() <= MESSAGE + 4, "{source}: {told}");
    }
}

/// An object with what any of the built-in profiles asks for, fifty of whatever is in a list.
fn workload() -> Value {
    let volumes: Vec<Value> = (0..50)
        .map(|index| json!({"name": format!("volume-{index}"), "emptyDir": {}}))
        .collect();
    let conditions: Vec<Value> = (0..50)
        .map(|index| json!({"type": format!("Condition{index}"), "status": "True", "message": "m".repeat(200)}))
        .collect();
    json!({
        "metadata": {"name": "orders", "generation": 4},
        "spec": {"replicas": 50, "job": {"state": "suspended"}, "template": {"spec": {"volumes": volumes}}},
        "status": {
            "observedGeneration": 4, "replicas": 50, "updatedReplicas": 50, "availableReplicas": 50, "readyReplicas": 50,
            "currentRevision": "a", "updateRevision": "a", "conditions": conditions, "phase": "Healthy",
            "jobManagerDeploymentStatus": "MISSING",
            "jobStatus": {"state": "FINISHED", "upgradeSavepointPath": "s3://state/savepoint-1", "jobId": "a1"},
            "reconciliationStatus": {
                "state": "DEPLOYED",
                "lastReconciledSpec": json!({
                    "spec": {"job": {"state": "suspended", "upgradeMode": "savepoint"}, "configuration": "c".repeat(20_000)},
                }).to_string(),
            },
        },
    })
}

#[test]
fn json_is_for_cel_what_serialising_it_gives() {
    let all = json!({
        "list": [0, 1, -1, 1.5, u64::MAX, i64::MIN, null, true, "text", []],
        "map": {"inner": {"": {}}},
    });
    let numbers = all["list"].as_array().unwrap().iter();
    for json in numbers.chain([&all]) {
        let serialised: Box<dyn Val> = cel::to_value(json).unwrap().try_into().unwrap();
        for value in [value::whole(json), value::owned(json.clone())] {
            assert!(value.equals(&*serialised), "{json}");
            assert_eq!(value.get_type().name(), serialised.get_type().name(), "{json}");
        }
    }
}

#[test]
fn built_in_profiles_stay_far_within_the_budget() {
    for profile in built_in().unwrap() {
        let sources = super::super::mistakes::expressions(&profile.spec);
        assert!(sources.len() > 4);
        for (pointer, source) in sources {
            let (_, steps) = Expression::compile("", source)
                .unwrap()
                .evaluate(value::whole(&workload()));
            assert!(steps > 0 && steps < STEPS / 10, "{pointer}: {steps} steps");
        }
    }
}

#[test]
fn an_expression_costs_the_same_each_time() {
    let expression = Expression::compile("", "object.items.exists(a, a == 'item-500')").unwrap();
    let first = expression.evaluate(value::whole(&large()));
    assert_eq!(first, expression.evaluate(value::whole(&large())));
    assert_eq!(first.0, Ok(true));
}
