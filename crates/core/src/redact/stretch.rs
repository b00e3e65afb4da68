//! A slow hash: what shows that something is equal without showing what it is.

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
