//! Who owns a field, as `metadata.managedFields` say.

use serde_json::Value;

/// Returns the managers that own a field or part of it, the one that wrote last first. `pointer`: a JSON pointer that
/// doesn't go into lists.
pub fn managers(object: &Value, pointer: &str) -> Vec<String> {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let mut found: Vec<(&str, &str)> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("fieldsV1").is_some_and(|fields| owns(fields, pointer)))
        .filter_map(|entry| {
            let time = entry.get("time").and_then(Value::as_str).unwrap_or_default();
            Some((time, entry.get("manager")?.as_str()?))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.dedup_by(|one, other| one.1 == other.1);
    found.into_iter().map(|(_, manager)| manager.to_owned()).collect()
}

fn owns(fields: &Value, pointer: &str) -> bool {
    let mut there = fields;
    for segment in pointer.split('/').skip(1) {
        // Nothing below: owned as a whole.
        if there.as_object().is_some_and(serde_json::Map::is_empty) {
            return true;
        }
        let name = format!("f:{}", segment.replace("~1", "/").replace("~0", "~"));
        match there.get(&name) {
            Some(below) => there = below,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_one_that_wrote_last_comes_first() {
        let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "time": time, "fieldsV1": fields});
        let object = json!({"metadata": {"managedFields": [
            entry("a", "2026-01-01T00:00:00Z", json!({"f:spec": {"f:replicas": {}}})),
            entry("b", "2026-01-02T00:00:00Z", json!({"f:spec": {"f:replicas": {}, "f:image": {}}})),
            entry("c", "2026-01-03T00:00:00Z", json!({"f:spec": {}})),
        ]}});
        assert_eq!(managers(&object, "/spec/replicas"), ["c", "b", "a"]);
        assert_eq!(managers(&object, "/spec/image"), ["c", "b"]);
        assert_eq!(managers(&object, "/data"), [""; 0]);
    }
}
