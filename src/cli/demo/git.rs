//! The user's side of the demo: a clone, commits, pushes. With the `git` program; with libgit2 where there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use git2::{IndexAddOption, Repository, RepositoryInitOptions, Signature};

use cutover_core::error::{Error, Result};

const NAME: &str = "demo";
const EMAIL: &str = "demo@localhost";

/// A clone of the demo's repository.
#[derive(Debug)]
pub struct Clone {
    pub dir: PathBuf,
    has_program: bool,
}

impl Clone {
    /// Makes a bare repository, and a clone of it.
    pub fn make(remote: &Path, dir: &Path) -> Result<Self> {
        let mut options = RepositoryInitOptions::new();
        options.bare(true).initial_head("main");
        Repository::init_opts(remote, &options).map_err(failed)?;
        let clone = Repository::clone(&remote.to_string_lossy(), dir).map_err(failed)?;
        // Cloned before there is a commit, so the branch that the first one goes to is not known yet.
        clone.set_head("refs/heads/main").map_err(failed)?;
        let has_program = Command::new("git").arg("--version").output().is_ok();
        Ok(Self {
            dir: dir.to_owned(),
            has_program,
        })
    }

    /// Commits everything in the work tree and pushes it to `main`.
    pub fn push(&self, message: &str) -> Result<()> {
        if self.has_program {
            self.git(&["add", "--all"])?;
            self.git(&["commit", "--quiet", "--message", message])?;
            self.git(&["push", "--quiet", "origin", "HEAD:main"])?;
            return Ok(());
        }
        self.push_by_library(message).map_err(failed)
    }

    /// Returns the log of a branch of the remote, newest first: short id and subject.
    pub fn log(&self, branch: &str) -> Result<Vec<String>> {
        let text = if self.has_program {
            self.git(&["fetch", "--quiet", "origin"])?;
            self.git(&["log", "--format=%h %s", &format!("origin/{branch}")])?
        } else {
            self.log_by_library(branch).map_err(failed)?
        };
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        let mut git = Command::new("git");
        // Ctrl-C in a terminal is for the demo, which lets git come to its end and then cleans up.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut git, 0);
        let output = git
            .current_dir(&self.dir)
            // Whatever the user's own settings are: no signing, no hooks, no prompts.
            .args(["-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null"])
            .args(["-c", "core.autocrlf=false"])
            .args(["-c", &format!("user.name={NAME}"), "-c", &format!("user.email={EMAIL}")])
            .args(arguments)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .map_err(|error| Error::user(format!("cannot run git: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::user(format!("git {}: {why}", arguments.join(" "))))
    }

    fn push_by_library(&self, message: &str) -> Result<(), git2::Error> {
        let clone = Repository::open(&self.dir)?;
        let mut index = clone.index()?;
        index.add_all(["*"], IndexAddOption::DEFAULT, None)?;
        index.write()?;
        let tree = clone.find_tree(index.write_tree()?)?;
        let author = Signature::now(NAME, EMAIL)?;
        let parent = clone.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<_> = parent.iter().collect();
        clone.commit(Some("HEAD"), &author, &author, message, &tree, &parents)?;
        clone
            .find_remote("origin")?
            .push(&["refs/heads/main:refs/heads/main"], None)
    }

    fn log_by_library(&self, branch: &str) -> Result<String, git2::Error> {
        let clone = Repository::open(&self.dir)?;
        clone.find_remote("origin")?.fetch(&[] as &[&str], None, None)?;
        let mut walk = clone.revwalk()?;
        walk.push_ref(&format!("refs/remotes/origin/{branch}"))?;
        let mut text = String::new();
        for id in walk {
            let commit = clone.find_commit(id?)?;
            let subject = String::from_utf8_lossy(commit.message_bytes()).into_owned();
            let id = commit.id().to_string();
            text += &format!("{} {}\n", &id[..7], subject.lines().next().unwrap_or_default());
        }
        Ok(text)
    }
}

fn failed(error: git2::Error) -> Error {
    Error::user(format!("git: {}", error.message()))
}
