#!/usr/bin/env bash
# Has two versions carry out one migration by turns: each is killed at the end of each phase, and the other goes on. The ledger of
# the sandbox judges that there were never two writers and that no state was lost.
#
#     tools/upgrade.sh REVISION        the other version: a tag or a commit
set -euo pipefail
cd "$(dirname "$0")/.."
other=$(mktemp -d)
trap 'git worktree remove --force "$other/source" || true; rm -rf "$other"' EXIT
git worktree add --quiet --detach "$other/source" "$1"
CARGO_TARGET_DIR=$other/target cargo build --locked --package cutover --manifest-path "$other/source/Cargo.toml"
CUTOVER_OTHER_VERSION=$other/target/debug/cutover cargo test --locked --test all process::killed_in_each_phase
