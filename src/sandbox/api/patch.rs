//! Patches other than apply: JSON patch, merge patch, strategic merge patch.
