//! Where words go: data to stdout, the rest to stderr, both without styles where they don't belong.
//!
//! Whatever a text quotes of others, nothing here moves a cursor or commands a workflow's runner ([`cutover_base::escape`]); what
//! does so on purpose has a function of its own.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::error::{ContextKind, ContextValue};

use super::progress;
use cutover_base::escape;
use cutover_core::error::{Error, Kind, Result};
use cutover_core::redact;
use cutover_git::RemoteUrl;
use cutover_karmada::name::Location;

/// The heading, in help, of flags that say how a command writes what it finds.
pub const OUTPUT: &str = "Output options";

const ERROR: Style = AnsiColor::Red.on_default().bold();
const PLACE: Style = AnsiColor::Blue.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Writes text for people to stdout.
pub fn data(text: impl AsRef<str>) -> Result<()> {
    raw(escape::terminal(text.as_ref()))
}

/// Returns words of others as they may stand in a line of [`data`].
pub fn line(words: &str) -> String {
    escape::line(&redact::text(words))
}

/// Writes JSON to stdout.
pub fn json(text: impl AsRef<str>) -> Result<()> {
    raw(escape::json(text.as_ref()))
}

/// Writes workflow commands to stdout, whose data was escaped when they were made.
pub fn commands(text: impl AsRef<str>) -> Result<()> {
    raw(text)
}

/// Writes a patch to stdout: for people on a terminal, byte by byte for programs.
pub fn patch(text: impl AsRef<str>) -> Result<()> {
    if std::io::stdout().is_terminal() {
        data(text)
    } else {
        raw(text)
    }
}

/// Clears the terminal.
pub fn clear() -> Result<()> {
    raw("\u{1b}[2J\u{1b}[H")
}

/// Writes what holds nothing of others, or was made safe. A reader that has heard enough (`| head`) is no error.
pub fn raw(text: impl AsRef<str>) -> Result<()> {
    let written = progress::beside(|| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_ref().as_bytes()).and_then(|()| out.flush())
    });
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::user(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line for people to stderr. There is nobody to tell when that fails.
pub fn note(line: impl AsRef<str>) {
    let line = escape::terminal(&redact::text(line.as_ref()));
    let _ = progress::beside(|| writeln!(anstream::stderr().lock(), "{line}"));
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
    let mut text = format!("{ERROR}error:{ERROR:#} {}", indented(message));
    if let Some(location) = location {
        let location = escape::visible(&location.to_string());
        text += &format!("\n  {PLACE}-->{PLACE:#} {location}");
    }
    if let Some(hint) = hint {
        text += &format!("\n{HINT}hint:{HINT:#} {}", indented(hint));
    }
    text
}

/// Returns a message whose further lines can't be taken for messages of their own.
fn indented(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(escape::line).collect();
    lines.join("\n  ")
}

/// Prints what clap has to say: help and version are data, wrong usage is an error of the user (1; 2 means changes). It
/// repeats what was given, a URL with a password in it too.
pub fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let mut text = error.render().ansi().to_string();
        // Where a password ends isn't known of what is no URL: nothing before the last `@` is shown.
        if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
            && value.contains('@')
        {
            text = text.replace(value.as_str(), &RemoteUrl::hidden(value));
        }
        note(text.trim_end());
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

    #[test]
    fn what_an_error_quotes_forges_no_line_and_no_style() {
        let error = Error::user("pa\u{1b}[31m\n::error::x\nhint: rm -rf /").at(Location {
            path: "a\n::error::\u{202e}.yaml".to_owned(),
            line: 1,
            column: 1,
        });
        let text = escape::terminal(&describe(&error));
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "error: pa\\u{1b}[31m\n  :\\u{3a}error::x\n  hint: rm -rf /\n  --> a\\n::error::\\u{202e}.yaml:1:1"
        );
    }
}
