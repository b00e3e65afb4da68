//! Signs commits with an SSH key, as git does with `gpg.format=ssh`; `git verify-commit` tells whether a signature is right.

use std::path::PathBuf;

use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::Error;

/// The namespace of signatures of commits (git-config, `gpg.format`): one made for something else is worth nothing.
const NAMESPACE: &str = "git";

/// A private key in OpenSSH's format, ed25519 or ECDSA. Read at each use, so that it may be replaced.
#[derive(Clone, Debug)]
pub struct SigningKey {
    pub path: PathBuf,
    /// A file with the passphrase, if the key has one.
    pub passphrase_file: Option<PathBuf>,
}

impl SigningKey {
    /// Returns the signature of a commit, in the form in which it stands in the commit's header.
    pub(super) fn sign(&self, content: &[u8]) -> Result<String, Error> {
        let bad = |why: &dyn std::fmt::Display| Error::Setting {
            path: self.path.clone(),
            why: format!("it signs no commit: {why}"),
        };
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|error| Error::Setting {
                path: path.clone(),
                why: error.to_string(),
            })
        };
        let mut key = PrivateKey::from_openssh(read(&self.path)?).map_err(|error| bad(&error))?;
        if key.is_encrypted() {
            let Some(file) = &self.passphrase_file else {
                return Err(bad(&"it has a passphrase, and no file with it is named"));
            };
            let passphrase = read(file)?;
            let passphrase = passphrase.lines().next().unwrap_or_default();
            key = key.decrypt(passphrase).map_err(|error| bad(&error))?;
        }
        let signature = key
            .sign(NAMESPACE, HashAlg::Sha512, content)
            .map_err(|error| bad(&error))?;
        let pem = signature.to_pem(LineEnding::LF).map_err(|error| bad(&error))?;
        Ok(pem.trim_end().to_owned())
    }
}
