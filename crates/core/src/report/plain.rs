//! What people read of a proof: without what is of use only beside the API server.

/// Removes uids, markers, observed generations and the names of canaries.
pub(super) fn plain_words(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut all = text.split(' ').peekable();
    while let Some(word) = all.next() {
        let (next, end) = token(all.peek().copied().unwrap_or_default());
        let (name, rest) = token(word);
        if (word == "uid" && is_uid(next)) || (word == "under" && is_marker(next)) {
            all.next();
            close(&mut words, end);
        } else if word == "generation" && is_number(next) && ends_with(&words, &OBSERVED) {
            all.next();
            words.truncate(words.len() - OBSERVED.len());
            close(&mut words, end);
        } else if is_canary(name) {
            words.pop_if(|last| *last == "canary");
            words.push(format!("its canary{rest}"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

/// What stands before an observed generation.
const OBSERVED: [&str; 3] = ["and", "observed", "at"];

/// Lets a part of a sentence end with the last word that is left of it.
fn close(words: &mut [String], end: &str) {
    if let (Some(last), "," | ";" | ":" | ")") = (words.last_mut(), end) {
        last.push_str(end);
    }
}

/// Splits what ends a sentence, or a part of one, off a word.
fn token(word: &str) -> (&str, &str) {
    let name = word.trim_end_matches([',', ';', ':', ')']);
    (name, &word[name.len()..])
}

fn ends_with(words: &[String], these: &[&str]) -> bool {
    let from = words.len().saturating_sub(these.len());
    words.iter().skip(from).eq(these)
}

fn is_uid(word: &str) -> bool {
    matches!(word.len(), 8 | 36) && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn is_number(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

fn is_marker(word: &str) -> bool {
    let mut parts = word.rsplitn(3, '.');
    let numbered = parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number);
    numbered && parts.next().is_some_and(is_uid)
}

/// `canary-UID-ATTEMPT-NUMBER`.
fn is_canary(word: &str) -> bool {
    let mut parts = word.rsplitn(3, '-');
    let numbered = parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number);
    let of = parts.next().and_then(|head| head.strip_prefix("canary-"));
    let is_hex = |of: &str| !of.is_empty() && of.bytes().all(|byte| byte.is_ascii_hexdigit());
    numbered && of.is_some_and(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_person_reads_is_left_of_a_proof() {
        let text = "west: uid 1a98a82b holds under f2e5f38f.1.1, never ran; east: uid 589261e4-b7d2-4aa0-84b4-d8e093a5bd8d healthy";
        assert_eq!(plain_words(text), "west: holds, never ran; east: healthy");
        let text = "east: uid df8636b0 suspended and observed at generation 2 under 6a58298b.1.2, no pods; savepoint s3://a";
        assert_eq!(plain_words(text), "east: suspended, no pods; savepoint s3://a");
        assert_eq!(
            plain_words("east: suspended and observed at generation 2; gone"),
            "east: suspended; gone"
        );
        for same in [
            "under the table, uid unknown",
            "a generation 2 pod",
            "canary-web-1-2 runs",
        ] {
            assert_eq!(plain_words(same), same);
        }
    }

    #[test]
    fn a_canary_has_no_name() {
        for (text, plain) in [
            (
                "the scheduler has not reached canary canary-f2e5f38fb3e8-1-0 yet",
                "the scheduler has not reached its canary yet",
            ),
            (
                "scheduling suspended, scheduler past canary-f2e5f38fb3e8-1-0; no more",
                "scheduling suspended, scheduler past its canary; no more",
            ),
        ] {
            assert_eq!(plain_words(text), plain);
        }
    }
}
