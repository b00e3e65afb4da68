#!/usr/bin/env bash
# Builds etcd and kube-apiserver, which some tests run against, and prints the folder they are in. Builds them once:
# the folder is named after go.sum, and CUTOVER_KUBE_TOOLS names another one. Needs Go.
set -euo pipefail
cd "$(dirname "$0")"

sum=$(sha256sum go.sum)
folder=${CUTOVER_KUBE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/cutover/kube-tools/${sum:0:12}}
if [[ -x $folder/etcd && -x $folder/kube-apiserver ]]; then
    echo "$folder"
    exit
fi
if ! command -v go >/dev/null; then
    echo "error: Go is needed to build kube-apiserver and etcd" >&2
    exit 1
fi

kubernetes=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" { print $3 }' go.mod)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
# Another Go than the installed one is fetched when go.mod asks for a newer one.
export CGO_ENABLED=0 GOTOOLCHAIN=${GOTOOLCHAIN:-auto}

mkdir -p "$folder"
unfinished=$(mktemp -d "$folder/building.XXXXXX")
trap 'rm -rf "$unfinished"' EXIT
echo "building etcd and kube-apiserver $kubernetes into $folder: several minutes, once" >&2
go build -buildvcs=false -o "$unfinished/etcd" -ldflags "-s -w" go.etcd.io/etcd/server/v3 >&2
go build -buildvcs=false -o "$unfinished/kube-apiserver" -ldflags "$flags" k8s.io/kubernetes/cmd/kube-apiserver >&2
mv "$unfinished/etcd" "$unfinished/kube-apiserver" "$folder/"
echo "$folder"
