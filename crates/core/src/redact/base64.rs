//! Base64 (RFC 4648, with padding), which is how `data` of a Secret is written.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0_usize, |group, byte| group << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[group >> (18 - 6 * place) & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// Decodes what [`base64`] encodes; `None` if it isn't that.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut group, mut bits) = (0_usize, 0);
    for digit in digits.bytes() {
        group = group << 6 | ALPHABET.iter().position(|known| *known == digit)?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(group >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}
