#!/usr/bin/env bash
# Switches off one safety rule after another (crates/sim/guards: a patch of the core each, with a sentence about what is so without
# it) and shows what notices: the simulation, else a unit test of the core. Where neither does, the patch has to say in its second
# line where it is noticed instead: the script fails when it doesn't, or when a patch doesn't apply any more. With names, these
# rules only.
#
# All patches are applied at once, each behind its name in the environment: what is built serves every rule.
set -euo pipefail
cd "$(dirname "$0")/.."
guards=crates/sim/guards
git diff --quiet -- crates/core || { echo "error: crates/core has changes that are not committed" >&2; exit 2; }

names=("$@")
if ((${#names[@]} == 0)); then
    for patch in "$guards"/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

said=$(mktemp)
trap 'git checkout --quiet -- crates/core; rm -f "$said"' EXIT
for name in "${names[@]}"; do
    is_off="std::env::var_os(\"CUTOVER_OFF\").is_some_and(|off| off == \"$name\")"
    sed "s/std::hint::black_box(true)/$is_off/" "$guards/$name.patch" | git apply
done

# Runs the tests of a kind with one rule off; none where there is no name.
run() {
    CUTOVER_OFF=$1 cargo test --package cutover-core --package cutover-sim "${@:2}" >"$said" 2>&1
}

# Which tests failed, and the end of what the first of them tells.
show() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/  noticed by \1/p' "$said"
    awk '/^thread .* panicked/ { on = 1; next } on && (/^$/ || /^note: run with/) { exit } on' "$said" |
        awk '{ line[NR] = $0 } END { for (n = 1; n <= NR; n++) if (n <= 2 || n > NR - 12) print "    " line[n] }' | cut -c1-200
}

cargo test --quiet --package cutover-core --package cutover-sim --no-run
# Else everything would be noticed.
run '' || { cat "$said" >&2; exit 1; }
unnoticed=()
for name in "${names[@]}"; do
    printf '\n== %s: %s\n' "$name" "$(head -1 "$guards/$name.patch")"
    if ! run "$name" --test '*' || ! run "$name" --lib; then
        show
    elif elsewhere=$(grep -m1 '^Elsewhere: ' "$guards/$name.patch"); then
        echo "  nothing here notices. $elsewhere"
    else
        echo "  nothing notices"
        unnoticed+=("$name")
    fi
done
if ((${#unnoticed[@]})); then
    printf '\nnothing notices that these are off: %s\n' "${unnoticed[*]}" >&2
    exit 1
fi
