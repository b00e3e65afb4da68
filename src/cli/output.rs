//! Where words go: data to stdout, the rest to stderr, both without styles where they don't belong.

use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::error::{Error, Kind, Result};
use crate::name::Location;
use crate::redact;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const PLACE: Style = AnsiColor::Blue.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Writes data to stdout. A reader that has heard enough (`| head`) is no error.
pub fn data(text: impl AsRef<str>) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_ref().as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::user(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line for people to stderr. There is nobody to tell when that fails.
pub fn note(line: impl AsRef<str>) {
    let _ = writeln!(anstream::stderr().lock(), "{}", redact::text(line.as_ref()));
}

/// Tells an error and returns the exit code of its kind.
pub fn failed(error: &Error) -> ExitCode {
    note(describe(error));
    ExitCode::from(error.kind().exit_code())
}

/// Tells what is wrong with something in the user's files.
pub fn problem(message: &str, location: Option<&Location>, hint: Option<&str>) {
    note(lines(message, location, hint));
}

fn describe(error: &Error) -> String {
    let bug = "this is a bug in cutover: please report it, with the command and this message";
    let hint = error
        .hint_text()
        .or((error.kind() == Kind::Internal).then_some(bug));
    lines(&error.to_string(), error.location(), hint)
}

fn lines(message: &str, location: Option<&Location>, hint: Option<&str>) -> String {
    let mut text = format!("{ERROR}error:{ERROR:#} {message}");
    if let Some(location) = location {
        text += &format!("\n  {PLACE}-->{PLACE:#} {location}");
    }
    if let Some(hint) = hint {
        text += &format!("\n{HINT}hint:{HINT:#} {hint}");
    }
    text
}

/// Prints what clap has to say: help and version are data, wrong usage is an error of the user (1; 2 means changes). It
/// repeats what was given, a URL with a password in it too.
pub fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        note(error.render().ansi().to_string().trim_end());
    } else {
        let _ = error.print();
    }
    ExitCode::from(u8::from(error.use_stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_next() {
        let error = Error::user("spec.to is missing")
            .at(Location {
                path: "intents/a.yaml".to_owned(),
                line: 5,
                column: 1,
            })
            .hint("name a cluster");
        assert_eq!(
            anstream::adapter::strip_str(&describe(&error)).to_string(),
            "error: spec.to is missing\n  --> intents/a.yaml:5:1\nhint: name a cluster"
        );
        assert!(describe(&Error::internal("x")).contains("a bug"));
    }
}
