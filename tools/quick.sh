#!/usr/bin/env bash
# What a person runs after each change: lints and unit tests of the crates that have changed since another revision (main, unless
# one is named), uncommitted changes included, and whether everything above them still compiles.
# What is in tests/all is checked, not run: `cargo test --test all ROOM::` runs a room of it.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}

crates=()
while IFS= read -r crate; do crates+=("$crate"); done < <(
    { git diff --name-only "$since" --; git ls-files --others --exclude-standard; } |
        sed -nE 's#^crates/([a-z]+)/.*#cutover-\1#p; s#^src/.*#cutover#p' | sort -u
)
took() { printf '== %s: %d s\n' "$1" $((SECONDS - begun)); begun=$SECONDS; }
begun=$SECONDS

cargo fmt --all --check
if ((${#crates[@]})); then
    printf 'changed: %s\n' "${crates[*]}"
    packages=() plain=()
    for crate in "${crates[@]}"; do
        packages+=(--package "$crate")
        # What is compiled for one look at its tests is not optimised.
        plain+=(--config "profile.dev.package.$crate.opt-level=0")
    done
    # Megabytes of text are for what is optimised: `cargo test` has them.
    cargo test "${plain[@]}" "${packages[@]}" --lib --quiet -- --skip ::cost::
    took "unit tests"
    cargo clippy "${packages[@]}" --lib --tests --quiet -- -D warnings
    took "lints"
fi
cargo check --workspace --all-targets --quiet
took "everything above"
