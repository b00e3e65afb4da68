#!/usr/bin/env bash
# Puts `cutover` on the path of a workflow's next steps: one that is there, or a release, whose provenance is checked.
set -euo pipefail

if [[ -n "${BINARY:-}" ]]; then
    [[ -x "$BINARY" ]] || { echo "::error title=cutover::$BINARY is no program"; exit 1; }
    mkdir -p "$RUNNER_TEMP/cutover-bin"
    ln -sf "$(realpath "$BINARY")" "$RUNNER_TEMP/cutover-bin/cutover"
    echo "$RUNNER_TEMP/cutover-bin" >> "$GITHUB_PATH"
    exit 0
fi

version="${VERSION:-${ACTION_REF:-}}"
if [[ ! "$version" =~ ^v[0-9]+(\.[0-9]+)*(-[0-9A-Za-z.]+)?$ ]]; then
    echo "::error title=cutover::the action is used at '$version', which is no release: name one in its input 'version'"
    exit 1
fi
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64) target=aarch64-unknown-linux-musl ;;
    *) echo "::error title=cutover::there is no release for $(uname -s) on $(uname -m)"; exit 1 ;;
esac
archive="cutover-$version-$target.tar.gz"
cd "$RUNNER_TEMP"
gh release download "$version" --repo "$ACTION_REPOSITORY" --pattern "$archive" --clobber
# Built by the release workflow of that repository, from that tag, and by nobody else.
gh attestation verify "$archive" --repo "$ACTION_REPOSITORY" \
    --signer-workflow "$ACTION_REPOSITORY/.github/workflows/release.yml" --source-ref "refs/tags/$version"
mkdir -p cutover-bin
tar -xzf "$archive" -C cutover-bin --strip-components=1
echo "$RUNNER_TEMP/cutover-bin" >> "$GITHUB_PATH"
