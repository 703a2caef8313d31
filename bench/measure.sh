#!/usr/bin/env bash
# Every table and the plot of docs/performance.md, on a machine that is otherwise idle:
#   bench/measure.sh [FOLDER]     default build/performance; TOST (build/release/tost), THREADS (2), REPEAT (11)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/performance}
tost=${TOST:-build/release/tost}
threads=${THREADS:-2}
repeat=${REPEAT:-11}
mkdir -p "$out"

say() { printf '[measure] %s\n' "$*" >&2; }
model() { "$tost" bench model --threads "$threads" --repeat "$repeat" "$@"; }
table() {  # NAME ARGUMENTS...
  say "$1"
  model --output "$out/$1.json,$out/$1.md" "${@:2}"
}

vision=tost_cab_tiny_12_p16,tost_cab_small_12_p16,tost_cab_medium_24_p16
table vision --model "$vision" --batch 1,16 --precision fp32,bf16,int8 --engine on
table vision-plain --model "$vision" --batch 1,16 --precision fp32,bf16 --engine off
table prefill --model tost_gpt_base --test prefill --tokens 1k,8k --precision fp32,bf16,int8 --work
table decode --model tost_gpt_base --test decode --tokens 512 --precision fp32,bf16,int8,int4 --work
table memory --model tost_gpt_base --test prefill --tokens 1k,100k --precision fp32,bf16 --repeat 1 --warmup 0 --no-floor --engine on
say peers
bench/peers/run.sh --threads "$threads" --tost "$tost" --markdown "$out/peers.md" --json "$out/peers.json" >/dev/null
bench/peers/run.sh --threads "$threads" --tost "$tost" --models tost_gpt_base --batches 1 --tokens 512,2048 --rounds 3 \
  --markdown "$out/peers-language.md" --json "$out/peers-language.json" >/dev/null
say start-up
build/peers/bin/python bench/start_up.py "$tost" >"$out/start-up.md"
say training
build/peers/bin/python bench/peers/train.py --threads "$threads" >"$out/train-vision-eager.jsonl"
build/peers/bin/python bench/peers/train.py --model tost_gpt_base --batch 1 --threads "$threads" >"$out/train-language-eager.jsonl"
say "done: $out"
