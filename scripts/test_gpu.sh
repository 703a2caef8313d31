#!/bin/sh
# The tests and benches that need a GPU: scripts/test_gpu.sh BUILD_DIR
# Prints a summary and keeps it, with all output, in BUILD_DIR/gpu_tests. Ends with 1 where something failed.
set -u
build=$1
out=$build/gpu_tests
mkdir -p "$out"
summary=$out/summary.txt
: > "$summary"
say() { printf '%s\n' "$*" | tee -a "$summary"; }

if ! command -v nvidia-smi > /dev/null || ! nvidia-smi -L > "$out/devices.txt" 2>&1; then
  say "not run: no GPU (nvidia-smi names none on this machine)"
  exit 0
fi
say "$(cat "$out/devices.txt")"
say "$("$build/tost" info | sed -n 's/^tost /built  tost /p')"

failed=0
# run NAME COMMAND...
run() {
  name=$1
  shift
  if "$@" > "$out/$name.txt" 2>&1; then result=passed; else result=FAILED failed=1; fi
  # There is a GPU, so a torch that sees none (of an older driver, say) has not passed what it left out.
  if grep -q -e 'no CUDA device is visible' -e 'not run: no GPU' "$out/$name.txt"; then result=FAILED failed=1; fi
  counts=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\./\1 passed/p; s/^\[  SKIPPED \] \([0-9]*\) tests*.*/\1 skipped/p; s/^ *\([0-9]*\) FAILED TESTS*.*/\1 failed/p' "$out/$name.txt" | paste -sd, -)
  say "$result  $name  $counts"
}

# Models and commands are among the tests, see tests/device_*_test.cc.
run models_and_commands "$build/tests/device_tests"
for dtype in float32 bfloat16; do
  for form in "" --causal; do
    run "bench_$dtype$form" "$build/tost" bench op --device cuda --dtype $dtype $form --shapes 8x1024,2x4096,32x4096,1x16384
  done
done
run bench_model "$build/tost" bench model --device cuda --precision fp32,bf16 \
    --model tost_cab_small_12_p16,tost_gpt_base --batch 1,64 --format json
python=.venv/bin/python  # where scripts/setup.sh puts torch, unless there was one
[ -x "$python" ] || python=python3
peers() { "${PEERS_PYTHON:-$python}" bench/peers/gpu.py --library "$build/lib/libtost_torch.so" --tost "$build/tost" "$@"; }
run peers peers --markdown "$out/peers.md" --json "$out/peers.json"
run speed_figure peers --markdown "$out/speed.md" --json "$out/speed.json" --figure "$out/speed.svg"
say "all output is in $out"
exit $failed
