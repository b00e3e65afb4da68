//! Patterns for paths: `*` and `?` within a name, `**` for any number of folders.

use wildmatch::WildMatch;

/// Returns whether a pattern matches the whole path. A pattern without `/` matches the name in any folder, one that ends in
/// `/` everything below.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let mut parts: Vec<&str> = Vec::new();
    if !pattern.trim_end_matches('/').contains('/') {
        parts.push("**");
    }
    parts.extend(pattern.trim_start_matches('/').trim_end_matches('/').split('/'));
    if pattern.ends_with('/') {
        parts.push("**");
    }
    parts.dedup_by(|one, other| *one == "**" && *other == "**");
    let path: Vec<&str> = path.split('/').collect();
    folders(&parts, &path)
}

fn folders(pattern: &[&str], path: &[&str]) -> bool {
    // Row by row, so that many `**` cost no more than their number times the length.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in pattern {
        if !reached.contains(&true) {
            return false;
        }
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            next[at] = if *part == "**" {
                reached[at] || at > 0 && next[at - 1]
            } else {
                at > 0 && reached[at - 1] && name(part, path[at - 1])
            };
        }
        reached = next;
    }
    reached[path.len()]
}

/// Returns whether a pattern matches the whole of a name.
pub(super) fn name(pattern: &str, text: &str) -> bool {
    WildMatch::new(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_gitignore() {
        for (pattern, path, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "deep/a.yaml", true),
            ("/*.yaml", "deep/a.yaml", false),
            ("deep/*.yaml", "deep/a.yaml", true),
            ("deep/*.yaml", "deep/er/a.yaml", false),
            ("deep/**", "deep/er/a.yaml", true),
            ("**/er/*", "deep/er/a.yaml", true),
            ("**/er/*", "er/a.yaml", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("charts/", "charts/a.yaml", true),
            ("charts/", "x/charts/a.yaml", true),
            ("charts/", "chart/a.yaml", false),
            ("v?.yaml", "v1.yaml", true),
            ("v?.yaml", "v12.yaml", false),
            ("./a.yaml", "a.yaml", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_cost_little() {
        let pattern = "*a".repeat(60) + "/" + &"**/".repeat(60) + "b";
        assert!(!matches(&pattern, &"a".repeat(200)));
    }

    #[test]
    fn a_pattern_longer_than_a_path_costs_no_more_than_the_path() {
        let path = format!("{}x.yaml", "a/".repeat(60));
        for part in ["?", "[", "*a", "*", "**/"] {
            // Each of these takes minutes if every letter of it is tried against every folder.
            let pattern = part.repeat(300_000) + "/y";
            for _ in 0..20 {
                assert!(!matches(&pattern, &path));
            }
        }
    }
}
