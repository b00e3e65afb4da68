//! What an operating system says.

/// Leaves the number of an error of the system out, which its words say already.
pub fn without_number(text: &str) -> &str {
    match text.rsplit_once(" (os error ") {
        Some((words, rest)) if rest.ends_with(')') => words,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_stay() {
        let text = std::io::Error::from_raw_os_error(2).to_string();
        assert_eq!(without_number(&text), "No such file or directory");
        assert_eq!(
            without_number("it (os error 2) goes on"),
            "it (os error 2) goes on"
        );
    }
}
