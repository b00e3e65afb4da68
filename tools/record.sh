#!/usr/bin/env bash
# Records docs/images/move.svg, the animation at the top of README: a job moves from east to west in the sandbox, followed with
# `cutover status --watch`. Everything shown is what the program prints.
#
#     tools/record.sh [PROGRAM [SVG]]        PROGRAM: the cutover to record, target/release/cutover unless named
#
# Needs Git, Python 3 with venv, and npm. Installs what records a terminal (asciinema) and what draws the recording (svg-term-cli)
# once, into a cache.
set -euo pipefail
asciinema=2.4.0 svg_term=2.1.1

# The session: this script again, inside the recorder, in the clone of the repository.
if [[ ${1-} == --session ]]; then
    type() {
        printf '\e[1;32m$\e[0m '
        sleep 0.3
        for ((at = 0; at < ${#1}; at++)); do printf '%s' "${1:at:1}"; sleep "${2:-0.03}"; done
        sleep 0.2
        echo
    }
    type 'cutover status'
    cutover status
    sleep 2
    type 'cutover migrate orders --to west --healthy-for 3s --push'
    cutover migrate orders --to west --healthy-for 3s --push
    # Quickly: the job stops within a second.
    type 'cutover status orders-to-west --watch' 0.007
    cutover status orders-to-west --watch &
    cutover wait orders-to-west >/dev/null
    sleep 5
    kill $!
    printf '\e[0m'
    exit
fi

program=$(realpath -e "${1:-$(dirname "$0")/../target/release/cutover}")
svg=$(realpath -m "${2:-$(dirname "$0")/../docs/images/move.svg}")
script=$(realpath "$0")
tools=${XDG_CACHE_HOME:-$HOME/.cache}/cutover/record/$asciinema-$svg_term
if [[ ! -x $tools/node_modules/.bin/svg-term ]]; then
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet "asciinema==$asciinema"
    npm install --silent --no-audit --no-fund --prefix "$tools" "svg-term-cli@$svg_term"
fi

# A home directory of its own: nothing of the person who records appears.
world=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait; rm -rf "$world"' EXIT
mkdir "$world/bin"
ln -s "$program" "$world/bin/cutover"
export PATH=$world/bin:$PATH HOME=$world LC_ALL=C.UTF-8 KUBECONFIG=$world/sandbox/karmada.kubeconfig
unset GIT_CONFIG_GLOBAL XDG_CONFIG_HOME XDG_STATE_HOME CUTOVER_STATE_DIR NO_COLOR
git config --global user.name Ann
git config --global user.email ann@example.com
cd "$world"
cutover init fleet >/dev/null 2>&1
git init --quiet -b main fleet
git -C fleet add .
git -C fleet commit --quiet -m Begin
git init --quiet --bare -b main fleet.git
git -C fleet remote add origin ../fleet.git
git -C fleet push --quiet -u origin main
cutover sandbox --dir sandbox >sandbox.log 2>&1 &
servers+=($!)
until [[ -s $KUBECONFIG ]]; do kill -0 "${servers[0]}"; sleep 0.1; done
cutover run --repo fleet.git --kubeconfig "$KUBECONFIG" >run.log 2>&1 &
servers+=($!)
for ((second = 0; second < 60; second++)); do
    cutover status 2>/dev/null | grep -q 'FlinkDeployment.*east.*healthy' && break
    sleep 1
done

cd fleet
"$tools/venv/bin/asciinema" rec --quiet --overwrite --cols 94 --rows 20 --command "bash '$script' --session" ../move.cast
"$tools/node_modules/.bin/svg-term" --window --no-cursor --in ../move.cast --out "$svg"
# The font that shows a symbol may be wider than the text's: fix the width of each text that has symbols, in columns.
python3 - "$svg" <<'PYTHON'
import re, sys
from pathlib import Path

svg = Path(sys.argv[1])
columns = lambda text: f'<text{text[1]} textLength="{1.002 * len(text[2]):.3f}" lengthAdjust="spacingAndGlyphs">{text[2]}<'
svg.write_text(re.sub(r"<text([^>]*)>([^<&]*[^\x00-\x7f][^<&]*)<", columns, svg.read_text()))
PYTHON
printf '%s: %d KiB, %.0f s\n' "$svg" $(($(stat -c %s "$svg") / 1024)) "$(tail -1 ../move.cast | sed -E 's/^\[([0-9.]+).*/\1/')"
