//! The name that was probably meant.

/// Returns the candidate nearest to a misspelt name, if one is near enough to be worth mentioning.
///
/// ```
/// # use cutover_base::nearest::nearest;
/// assert_eq!(nearest("clusterAfinity", ["clusterAffinity", "clusterTolerations"]), Some("clusterAffinity"));
/// assert_eq!(nearest("weather", ["clusterAffinity"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = name.to_lowercase();
    let length = name.chars().count();
    let limit = length.div_ceil(3).min(4);
    candidates
        .into_iter()
        // What is longer by more is farther: a name of a megabyte is compared with none.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns a hint for a misspelt name.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|candidate| format!("did you mean {candidate}?"))
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that lead from one to the other, none of
/// them at a place where another was (optimal string alignment).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_swaps() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn case_is_the_smallest_mistake() {
        assert_eq!(nearest("jobID", ["jobId", "jobs"]), Some("jobId"));
        assert_eq!(nearest("to", ["from", "verify"]), None);
    }
}
