//! How an intent went on between two looks at what the status branch says of it.

/// An intent as `status.yaml` has it, as far as that says how it went on.
pub(super) trait Recorded {
    type Phase: Copy + PartialEq + std::fmt::Display;

    /// Where its record stands: that is whose it is.
    fn record(&self) -> &str;

    fn place(&self) -> String;

    fn stage(&self) -> (Self::Phase, u32);
}

/// Says how an intent went on since `before`, if it did.
pub(super) fn change<R: Recorded>(before: &[R], now: &R) -> Option<String> {
    let was = before.iter().find(|was| was.record() == now.record());
    let (name, (phase, attempt)) = (now.place(), now.stage());
    match was.map(Recorded::stage) {
        Some((was, before)) if was == phase && before == attempt => None,
        Some((was, before)) if before == attempt => Some(format!("{name}: {was} → {phase}")),
        _ => Some(format!("{name}: {phase}")),
    }
}
