//! What the machine decides by what it sees: never a writer by what it doesn't see, saw too early, or was told of another
//! failover.

mod beside;
mod doubt;
mod ending;
mod guests;
mod immovable;
mod needed;
mod parents;
mod rebind;
mod release;
mod repair;
mod scene;
mod words;
