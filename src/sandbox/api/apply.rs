//! Server-side apply: merging, ownership, conflicts. Decides; stores nothing.
