#!/usr/bin/env bash
# Switches off one safety rule after another (crates/sim/guards, a patch of the core each, with a sentence about what is so without
# it) and shows what in the simulation notices. One that nothing notices has to say in its second line where it is noticed
# instead: the script fails when it doesn't, or when a patch doesn't apply any more. With names, these rules only.
set -euo pipefail
cd "$(dirname "$0")/.."
git diff --quiet -- crates/core || { echo "error: crates/core has changes that are not committed" >&2; exit 2; }

# Else everything would be noticed.
cargo test --quiet --package cutover-sim

names=("$@")
if ((${#names[@]} == 0)); then
    for patch in crates/sim/guards/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi
patch='' unnoticed=()
restore() {
    [[ -z $patch ]] || git apply --reverse "$patch"
    patch=''
}
trap restore EXIT
for name in "${names[@]}"; do
    git apply "crates/sim/guards/$name.patch"
    patch=crates/sim/guards/$name.patch
    printf '\n== %s: %s\n' "$name" "$(head -1 "$patch")"
    cargo test --quiet --package cutover-sim --no-run
    if ! said=$(cargo test --quiet --package cutover-sim 2>&1); then
        grep -A2 -E '^thread .* panicked' <<<"$said" | cut -c1-250 | sed -n 1,3p || true
    elif elsewhere=$(grep -m1 '^Elsewhere: ' "$patch"); then
        echo "nothing notices. $elsewhere"
    else
        echo "nothing notices"
        unnoticed+=("$name")
    fi
    restore
done
if ((${#unnoticed[@]})); then
    printf '\nnothing notices that these are off: %s\n' "${unnoticed[*]}" >&2
    exit 1
fi
