//! Keyed and slow hashes: what shows that something is equal without showing what it is.

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

/// HMAC-SHA-256 (RFC 2104) with a key of 32 bytes.
#[derive(Clone)]
pub struct Hmac([u8; 32]);

impl Hmac {
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub fn digest(&self, message: &[u8]) -> [u8; 32] {
        let inner = Sha256::new()
            .chain_update(self.padded(0x36))
            .chain_update(message)
            .finalize();
        Sha256::new()
            .chain_update(self.padded(0x5c))
            .chain_update(inner)
            .finalize()
            .into()
    }

    fn padded(&self, with: u8) -> [u8; BLOCK] {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(self.0) {
            *byte ^= key;
        }
        block
    }
}

impl std::fmt::Debug for Hmac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hmac")
    }
}

/// How often the hash is repeated: about a tenth of a second, which each guess at a weak secret costs too.
const ROUNDS: usize = 200_000;

/// Returns a hash that is slow to compute (PBKDF2 with HMAC-SHA-256): from one that covers a weak secret and that many
/// people see, the secret could be guessed otherwise. `None` if the cryptographic library refuses.
pub fn stretched(message: &[u8], salt: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digest = openssl::hash::MessageDigest::sha256();
    openssl::pkcs5::pbkdf2_hmac(message, salt, ROUNDS, digest, &mut hash).ok()?;
    Some(hash)
}
