# Recipes for people who carry on the work; CI calls what stands behind them. `just` is on PyPI as rust-just.

# List the recipes
default:
    @just --list

# Format, lint and type-check
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo check --package cutover-core
    cargo check --package cutover --no-default-features

# What to run after each change: unit tests and lints of the crates that changed, and whether all above them compiles
quick *since:
    tools/quick.sh {{ since }}

# Run all tests, or those whose names contain a filter
test *filter:
    cargo test {{ filter }}

# Switch off one safety rule of a migration after another (or those that are named), and show what notices
guards *names:
    tools/guards.sh {{ names }}

# Run migrations through troubles drawn from so many seeds; a failure names its seed, to be the `first` of another run
simulate seeds="20" first="1":
    CUTOVER_SEEDS={{ seeds }} CUTOVER_FIRST_SEED={{ first }} cargo test --test all faults::seeds::

# Measure what the status branch costs: days, migrations and pushes a day
bench-status *sizes:
    cargo bench --bench status -- {{ sizes }}

# Measure what sync costs, on a real API server; `just bench scale 4000` one row at one size
bench *row:
    cargo bench --bench sync -- {{ row }}

# Build the real API server and the helm that some tests run; seconds when they are there
kube-tools:
    tools/build.sh
    tools/helm.sh

# Run what doesn't need Karmada's controllers on a real API server, and compare it with the sandbox's on so many
# generated sequences of requests from a seed on
test-kube count="1500" seed="1": kube-tools
    CI=true cargo test --test all -- on_kube:: real_server:: admission::
    CI=true CUTOVER_DIFFERENTIAL={{ count }}:{{ seed }} cargo test --test all differential::

# Generate schemas/ and deploy/crds/
gen:
    cargo run --quiet -- schema --dir .

# Generate what `cutover validate` knows of Kubernetes' own kinds, from the real API server of tools/go.mod
gen-kubernetes: kube-tools
    CI=true CUTOVER_ACCEPT=1 cargo test --test all real_server::the_schema_of_built_in_kinds

# Accept what transcripts and snapshots have become; look at the diff before you commit
accept:
    TRYCMD=overwrite cargo test --test all cli::
    CUTOVER_ACCEPT=1 cargo test --test all disruptions::the_table
    CUTOVER_ACCEPT=1 cargo test --test all -- install::kustomize_runs telemetry::the_reference reference:: profiles:: how_to:: screens:: mistakes::
    INSTA_UPDATE=always cargo test

# The control plane is the one that CUTOVER_E2E_KUBECONFIG and CUTOVER_E2E_MEMBERS name
# (docs/reference/sandbox.md#end-to-end-suite), else a sandbox.
# Run the end-to-end suite; `just e2e plain` plays the scenarios whose names contain that
e2e scenario="":
    CUTOVER_E2E_ONLY={{ scenario }} cargo test --test all e2e:: -- --nocapture

# Show the whole story on this machine
demo *flags:
    cargo run --release -- demo {{ flags }}

# Everything that has to hold before a change is merged
ci:
    .ci/run

# Lines of Rust by room, tests included
lines:
    @for room in src crates/* tests benches; do printf '%7d %s\n' "$(find "$room" -name '*.rs' -print0 | xargs -0 cat | wc -l)" "$room"; done
