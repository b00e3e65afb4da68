//! Signed commits, as git itself judges them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cutover::repo::{Branch, Draft, Error, Files, Message, Published, SigningKey};
use tempfile::TempDir;

use crate::support::git::{Mirrored, Origin};

const STATUS: &str = "cutover/status";

/// Keys, and a file that says whose they are.
struct Keys(TempDir);

impl Keys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn make(&self, name: &str, kind: &str, passphrase: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", kind, "-N", passphrase, "-f"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        path
    }

    /// Trusts a key, and no other, for the default author.
    fn allow(&self, key: &Path) -> PathBuf {
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let file = self.0.path().join("allowed_signers");
        std::fs::write(&file, format!("cutover@cutover.dev namespaces=\"git\" {public}")).unwrap();
        file
    }
}

fn verify(origin: &Origin, allowed: &Path) -> Output {
    Command::new("git")
        .arg("-C")
        .arg(origin.path())
        .args(["-c", "gpg.format=ssh", "-c"])
        .arg(format!("gpg.ssh.allowedSignersFile={}", allowed.display()))
        .args(["verify-commit", "-v", STATUS])
        .output()
        .unwrap()
}

async fn publish(origin: &Origin, key: SigningKey) -> Result<Published, Error> {
    let repo = Mirrored::with(origin.url(), |options| options.signing = Some(key)).await;
    let draft = |_: &cutover::repo::Tip<'_>| {
        Ok(Draft {
            message: Message::new("status: signed").body("äöü\n\nmore"),
            files: Files::Edit([("a".to_owned(), Some(b"1".to_vec()))].into()),
        })
    };
    repo.publish(Branch::Status, draft).await
}

#[tokio::test]
async fn git_believes_a_signature_of_a_key_that_it_knows_and_no_other() {
    let keys = Keys::new();
    for kind in ["ed25519", "ecdsa"] {
        let origin = Origin::with(&[("README.md", "hello")]);
        let path = keys.make(kind, kind, "");
        let key = SigningKey {
            path: path.clone(),
            passphrase_file: None,
        };
        publish(&origin, key).await.unwrap();
        let verified = verify(&origin, &keys.allow(&path));
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success(), "{kind}: {said}");
        assert!(
            said.contains("Good \"git\" signature for cutover@cutover.dev"),
            "{kind}: {said}"
        );
        let stranger = keys.make(&format!("stranger-{kind}"), kind, "");
        assert!(
            !verify(&origin, &keys.allow(&stranger)).status.success(),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_key_with_a_passphrase_needs_the_right_one() {
    let keys = Keys::new();
    let path = keys.make("locked", "ed25519", "swordfish");
    let passphrase = keys.0.path().join("passphrase");
    let key = |passphrase_file: Option<PathBuf>| SigningKey {
        path: path.clone(),
        passphrase_file,
    };
    let origin = Origin::with(&[("README.md", "hello")]);
    let none = publish(&origin, key(None)).await.unwrap_err();
    assert!(none.to_string().contains("passphrase"), "{none}");
    std::fs::write(&passphrase, "wrong-swordfish\n").unwrap();
    let wrong = publish(&origin, key(Some(passphrase.clone()))).await.unwrap_err();
    assert!(!format!("{wrong} {wrong:?}").contains("swordfish"), "{wrong}");
    assert_eq!(origin.tip(STATUS), None, "nothing is published unsigned instead");
    std::fs::write(&passphrase, "swordfish\n").unwrap();
    publish(&origin, key(Some(passphrase))).await.unwrap();
    assert!(verify(&origin, &keys.allow(&path)).status.success());
}
