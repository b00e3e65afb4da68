#!/usr/bin/env bash
# Turns the inputs of the action into the flags of `cutover review`. Inputs come as variables: none is ever a part of a script.
set -euo pipefail

flags=(--output github --key "$REPORT_KEY" --fail-on "$FAIL_ON" --report "$RUNNER_TEMP/cutover-report.md")
[[ -z "$REVISION" ]] || flags+=(--revision="$REVISION")
[[ "$COMMENT" == true ]] || flags+=(--no-comment)

if [[ -n "$KUBECONFIG_FILE" ]]; then
    flags+=(--kubeconfig "$KUBECONFIG_FILE")
elif [[ -n "$KUBECONFIG_TEXT" ]]; then
    kubeconfig="$RUNNER_TEMP/cutover-kubeconfig"
    trap 'rm -f "$kubeconfig"' EXIT
    (umask 077 && printf '%s\n' "$KUBECONFIG_TEXT" > "$kubeconfig")
    flags+=(--kubeconfig "$kubeconfig")
else
    flags+=(--offline)
fi
unset KUBECONFIG_TEXT

# Where a runner is used again, what was mirrored of a repository stays out of the next one's way.
export CUTOVER_STATE_DIR="$RUNNER_TEMP/cutover-state"
cutover review "${flags[@]}" -- "$REPOSITORY_PATH"
