#!/usr/bin/env bash
# Puts `cutover` on the path of a workflow's next steps: one that is there, or a release, whose provenance is checked.
set -euo pipefail

refuse() {
    echo "::error title=cutover::$1"
    exit 1
}

if [[ -n "${BINARY:-}" ]]; then
    [[ -x "$BINARY" ]] || refuse "$BINARY is no program"
    mkdir -p "$RUNNER_TEMP/cutover-bin"
    ln -sf "$(realpath "$BINARY")" "$RUNNER_TEMP/cutover-bin/cutover"
    echo "$RUNNER_TEMP/cutover-bin" >> "$GITHUB_PATH"
    exit 0
fi

release='^v[0-9]+(\.[0-9]+)*(-[0-9A-Za-z.]+)?$'
version="${VERSION:-${ACTION_REF:-}}"
commit=
if [[ "$version" =~ ^[0-9a-f]{40}$ ]]; then
    commit=$version
    version=
    # Only the archive's name comes from the tag. What is trusted is the commit: the provenance has to name it.
    tags=$(gh api --paginate "repos/$ACTION_REPOSITORY/releases" --jq '.[] | select(.draft | not) | .tag_name')
    while read -r tag; do
        [[ "$tag" =~ $release ]] || continue
        if [[ "$(gh api "repos/$ACTION_REPOSITORY/commits/tags/$tag" --jq .sha)" == "$commit" ]]; then
            version=$tag
            break
        fi
    done <<< "$tags"
    [[ -n "$version" ]] || refuse "the action is used at commit $commit, of which $ACTION_REPOSITORY has no release: use the \
commit of a release, or name a release in the input 'version'"
elif [[ ! "$version" =~ $release ]]; then
    refuse "the action is used at '$version', which is no release and no commit of one: name one in its input 'version'"
fi
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64) target=aarch64-unknown-linux-musl ;;
    *) refuse "there is no release for $(uname -s) on $(uname -m)" ;;
esac
archive="cutover-$version-$target.tar.gz"
cd "$RUNNER_TEMP"
gh release download "$version" --repo "$ACTION_REPOSITORY" --pattern "$archive" --clobber
# Built by the release workflow of that repository, from that tag (and that commit), and by nobody else.
source=(--source-ref "refs/tags/$version")
[[ -z "$commit" ]] || source+=(--source-digest "$commit")
gh attestation verify "$archive" --repo "$ACTION_REPOSITORY" \
    --signer-workflow "$ACTION_REPOSITORY/.github/workflows/release.yml" "${source[@]}"
mkdir -p cutover-bin
tar -xzf "$archive" -C cutover-bin --strip-components=1
echo "$RUNNER_TEMP/cutover-bin" >> "$GITHUB_PATH"
