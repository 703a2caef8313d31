#!/usr/bin/env bash
# The main job on generated pictures, in a few minutes on two cores: label a picture with a shipped model, train a linear
# model and a small ToST, score both on held-out pictures, label some of these.
#   demo.sh TOST [FOLDER]     FOLDER (default demo/) is replaced
set -euo pipefail
tost=$1 out=${2:-demo}
step() { printf '\n== %s\n' "$*"; }
field() { sed -n "s/^ *\"$1\": \([0-9.]*\).*/\1/p" "$2"; }

if [ -e "$out" ] && [ ! -e "$out/.tost-demo" ]; then
  echo "'$out' exists and is not an earlier demo; move it away or name another folder." >&2
  exit 2
fi
rm -rf "$out"
mkdir -p "$out"
touch "$out/.tost-demo"

step "A model that comes with the program names a picture (the folder is the truth; tost models lists more)"
"$tost" data make shapes --split test --count 1 --quiet --out "$out/picture"
find "$out/picture" -name '*.png' | xargs "$tost" predict shapes --top 3

step "1. A linear model on the pixels, for comparison"
"$tost" train --data shapes --model linear --epochs 3 --out "$out/linear"
step "2. ToST: token statistics instead of attention (about two minutes)"
"$tost" train --data shapes --model tost_nano_p4 --epochs 8 --out "$out/run"

step "3. Both on 2,000 pictures neither has seen"
"$tost" eval "$out/linear" --data shapes --json >"$out/linear.json"
"$tost" eval "$out/run" --data shapes --json >"$out/tost.json"
awk -v a="$(field top1 "$out/linear.json")" -v b="$(field top1 "$out/tost.json")" \
    'BEGIN { printf "  linear model  %5.1f %%\n  ToST          %5.1f %%\n", 100 * a, 100 * b; exit !(b > a) }'

step "4. Labels for single pictures (the folder is the truth)"
"$tost" data make shapes --split test --count 6 --out "$out/pictures"
find "$out/pictures" -name '*.png' | sort | xargs "$tost" predict "$out/run" --top 2

step "5. Look inside"
"$tost" explain "$out/run" --data shapes --samples 128 --bound --out "$out/report"

step "Where everything is"
cat <<END
  $out/report/index.html what each head takes, what each layer compresses: open it in a browser
  $out/run/checkpoints   weights (best and latest), safetensors
  $out/run/metrics.jsonl loss and accuracy by step (scripts/tensorboard_log.py: curves for TensorBoard)
  $out/run/config.json   every setting of the run
  $out/tost.json         its score
  $out/pictures          the six pictures, in a folder per class
  Next: $tost train --help
END
