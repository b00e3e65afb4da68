#!/usr/bin/env bash
# Prints the path of helm, and builds it once from source where it is missing: the tests of deploy/chart render the chart with
# it. CUTOVER_HELM names a folder with another one. Needs Go.
set -euo pipefail

version=v3.22.0
folder=${CUTOVER_HELM:-${XDG_CACHE_HOME:-$HOME/.cache}/cutover/helm/$version}
if [[ -x $folder/helm ]]; then
    echo "$folder/helm"
    exit
fi
if ! command -v go >/dev/null; then
    echo "error: Go is needed to build helm" >&2
    exit 1
fi

mkdir -p "$folder"
unfinished=$(mktemp -d "$folder/building.XXXXXX")
trap 'rm -rf "$unfinished"' EXIT
echo "building helm $version into $folder: some minutes, once" >&2
# The Kubernetes that charts are rendered for; a released helm has it from its build, too.
of=helm.sh/helm/v3/pkg kubernetes=36
flags="-s -w"
for package in "$of/chartutil" "$of/lint/rules"; do
    flags+=" -X $package.k8sVersionMajor=1 -X $package.k8sVersionMinor=$kubernetes"
done
# Another Go than the installed one is fetched when the module asks for a newer one.
GOBIN=$unfinished CGO_ENABLED=0 GOTOOLCHAIN=${GOTOOLCHAIN:-auto} \
    go install -ldflags "$flags" "helm.sh/helm/v3/cmd/helm@$version" >&2
mv "$unfinished/helm" "$folder/"
echo "$folder/helm"
