//! The shell blocks of the tutorial and of README, run to the letter by a shell with the built program, and what a page says that
//! they print.
//!
//! The first word after the fence is the language; what follows it in a block of `sh`:
//! - `terminal=2`: another terminal than the first one
//! - `serves`: it goes on until Ctrl-C; it is ready when it has printed what the page shows
//! - `fails`: its last command ends with another code than 0
//! - `eventually`: a reader repeats it until it shows what the page says
//! - `kubectl`: it needs kubectl, and is left out where there is none
//!
//! A block of `text` is what the block before it prints: `...` stands for lines, `[..]` for anything in a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use snapbox::{Assert, IntoData};
use tempfile::TempDir;

use crate::support::kubectl;
use crate::support::wait::wait_for;

const ANY: u32 = 0;
/// What the longest block takes, the whole demo, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// Blocks that no test runs, by how they begin, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("cargo install", "it builds what the tests are given"),
    ("cargo test", "it is what runs this"),
];

/// A block of shell commands.
#[derive(Debug)]
struct Block {
    /// What stands behind the language.
    words: Vec<String>,
    commands: String,
    prints: Option<String>,
}

impl Block {
    fn is(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    fn terminal(&self) -> &str {
        let named = self.words.iter().find_map(|word| word.strip_prefix("terminal="));
        named.unwrap_or("1")
    }

    fn is_left_out(&self) -> bool {
        let why = LEFT_OUT
            .iter()
            .find(|(begins, _)| self.commands.starts_with(begins));
        if let Some((begins, why)) = why {
            note(&format!("left out: {begins}: {why}"));
        }
        why.is_some()
    }

    /// Returns in which way the output is not what the page shows.
    fn differs(&self, output: &str) -> Option<String> {
        let prints = self.prints.as_ref()?;
        let compared = Assert::new().try_eq(None, output.into_data(), prints.as_str().into_data());
        compared.err().map(|error| error.to_string())
    }
}

/// Writes past the test harness, which keeps the words of tests that pass to itself.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns the shell blocks of a page in order.
fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let (mut blocks, mut inside): (Vec<Block>, Option<(String, String)>) = (Vec::new(), None);
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                inside = Some((info.to_string(), String::new()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                panic!("{page}: a block is indented: nothing says what it is");
            }
            Event::Text(more) => {
                if let Some((_, text)) = &mut inside {
                    *text += &more;
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let (info, text) = inside.take().unwrap();
                let mut words = info.split_whitespace().map(str::to_owned);
                match words.next().as_deref() {
                    Some("sh") => blocks.push(Block {
                        words: words.collect(),
                        commands: text,
                        prints: None,
                    }),
                    Some("text") => blocks.last_mut().unwrap().prints = Some(text),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    blocks
}

/// A reader's machine: a directory, a home, and terminals that are opened when they are first named.
struct Machine {
    dir: TempDir,
    terminals: BTreeMap<String, Terminal>,
    /// How many blocks were run.
    run: usize,
}

/// A shell that is given one block after the other. Dropped, it is killed with all that runs in it.
struct Terminal {
    shell: Child,
    /// `None`: the reader is leaving.
    stdin: Option<ChildStdin>,
    /// Where everything goes that is printed.
    log: PathBuf,
    /// How much of it was looked at.
    read: usize,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let identity = "[user]\n\tname = Reader\n\temail = reader@example.com\n";
        std::fs::write(dir.path().join("home/.gitconfig"), identity).unwrap();
        Self {
            dir,
            terminals: BTreeMap::new(),
            run: 0,
        }
    }

    /// Runs the blocks of a page in order.
    async fn follow(&mut self, page: &str) {
        let has_kubectl = kubectl::is_there(ANY).await;
        for block in blocks(page) {
            let needs_kubectl = block.commands.lines().any(|line| line.starts_with("kubectl "));
            assert_eq!(needs_kubectl, block.is("kubectl"), "{page}: {}", block.commands);
            if !block.is_left_out() && (has_kubectl || !needs_kubectl) {
                self.run(&block).await;
            }
        }
    }

    async fn run(&mut self, block: &Block) {
        self.run += 1;
        let script = self.dir.path().join(format!("block-{}.sh", self.run));
        std::fs::write(&script, &block.commands).unwrap();
        let dir = self.dir.path();
        let terminal = self.terminals.entry(block.terminal().to_owned());
        let terminal = terminal.or_insert_with_key(|name| Terminal::open(dir, name));
        if block.is("serves") {
            terminal.serve(&script, block).await;
        } else {
            terminal.run(&script, block).await;
        }
    }

    /// Presses Ctrl-C in each terminal, as a reader does at the end, and waits until all that ran there has ended.
    async fn leave(mut self) {
        for (_, mut terminal) in std::mem::take(&mut self.terminals).into_iter().rev() {
            terminal.signal("INT");
            terminal.stdin = None;
            let what = format!("terminal ends: {}", terminal.log.display());
            wait_for(&what)
                .until(|| terminal.shell.try_wait().unwrap().is_some())
                .await;
        }
    }
}

impl Terminal {
    fn open(dir: &Path, name: &str) -> Self {
        let log = dir.join(format!("terminal-{name}.log"));
        let output = File::create(&log).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_cutover"));
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        // A home of its own, and nothing of what whoever runs the tests has set.
        let shell = shell
            .env_clear()
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("HOME", dir.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .current_dir(dir.join("work"))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let mut shell = shell.spawn().unwrap();
        Self {
            stdin: shell.stdin.take(),
            shell,
            log,
            read: 0,
        }
    }

    fn enter(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Begins what goes on until Ctrl-C, and waits until it has printed what the page shows.
    async fn serve(&mut self, script: &Path, block: &Block) {
        self.enter(&format!(". {} </dev/null", script.display()));
        let is_ready = || block.differs(&printed(&self.log, self.read)).is_none();
        let differs = || block.differs(&printed(&self.log, self.read)).unwrap_or_default();
        wait_for(&block.commands).until_or(is_ready, differs).await;
    }

    /// Runs a block to its end, again and again where a reader would.
    async fn run(&mut self, script: &Path, block: &Block) {
        let again = if block.is("eventually") {
            Duration::from_mins(1)
        } else {
            Duration::ZERO
        };
        let begun = std::time::Instant::now();
        loop {
            let (code, output) = self.once(script, block).await;
            let is_code = (code != 0) == block.is("fails");
            let differs = block.differs(&output);
            if is_code && differs.is_none() {
                return;
            }
            let differs = differs.unwrap_or(output);
            assert!(
                begun.elapsed() < again,
                "{}ended with {code}:\n{differs}",
                block.commands
            );
        }
    }

    /// Runs a block in this shell; returns the code of its last command, and what it printed. Where nothing may fail, what does
    /// ends the shell.
    async fn once(&mut self, script: &Path, block: &Block) -> (i32, String) {
        const END: &str = "-- the block ended with ";
        let may_fail = block.is("fails") || block.is("eventually");
        let set = if may_fail { "set +e" } else { "set -e" };
        self.enter(&format!(
            "{set}; . {} </dev/null; echo \"{END}$?\"",
            script.display()
        ));
        let (log, read, shell) = (&self.log, self.read, &mut self.shell);
        let mut died = None;
        let ended = || {
            let output = printed(log, read);
            died = shell.try_wait().unwrap();
            died.is_some() || output.contains(END) && output.ends_with('\n')
        };
        let story = || printed(log, read);
        wait_for(&block.commands)
            .within(PATIENCE)
            .until_or(ended, story)
            .await;
        let output = printed(log, read);
        let Some((before, code)) = output.split_once(END) else {
            panic!("{}ended with {died:?}:\n{output}", block.commands);
        };
        let result = (code.trim().parse().unwrap(), before.to_owned());
        self.read += std::fs::read(log).unwrap().len() - read;
        result
    }

    fn signal(&self, name: &str) {
        let group = format!("-{}", self.shell.id());
        let sent = Command::new("kill").args(["-s", name, "--", &group]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.shell.try_wait().unwrap().is_none() {
            self.signal("KILL");
            let _ = self.shell.wait();
        }
    }
}

/// Returns what a log has after so many bytes.
fn printed(log: &Path, read: usize) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap()[read..]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_works_to_the_letter() {
    let mut machine = Machine::new();
    machine.follow("docs/tutorial.md").await;
    assert!(machine.run >= 10, "{}", machine.run);
    machine.leave().await;
}

/// README begins where somebody has a Karmada, whose kubeconfig lies in the directory.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_readme_work_to_the_letter() {
    let mut machine = Machine::new();
    let karmada = Block {
        words: vec!["terminal=karmada".to_owned(), "serves".to_owned()],
        commands: "cutover sandbox --dir .\n".to_owned(),
        prints: Some("./karmada.kubeconfig\n...\nCtrl-C ends it; nothing is kept.\n".to_owned()),
    };
    machine.run(&karmada).await;
    machine.follow("README.md").await;
    assert!(machine.run >= 3, "{}", machine.run);
    machine.leave().await;
}
