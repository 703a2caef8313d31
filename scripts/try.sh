#!/usr/bin/env bash
# What the small program does, for someone who has just built it: names a picture where it can, writes a text, then serves
# the page until Ctrl-C.
#   try.sh TOST [FLAGS OF TOST SERVE]
#   TRY_SERVE=0   without the page, as where nobody could end it (no terminal, as in a pipe or in CI); 1: with it in any case
set -euo pipefail
tost=$1
shift
models=(words)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The first sample of the page; its name is the truth.
samples=$(dirname "$0")/../web/samples.js
picture=$folder/$(sed -n '/name:/{s/.*name: "\([a-z]*\)".*/\1/p;q}' "$samples").png
sed -n '/png:/{s/.*png: "\([^"]*\)".*/\1/p;q}' "$samples" | base64 -d > "$picture"
if "$tost" predict shapes "$picture" --top 3 2> /dev/null; then models+=(shapes); fi
rm -r "$folder"
"$tost" generate words --prompt "The king" --max-tokens 60 --temperature 0.8 --stats
case ${TRY_SERVE:-} in
  0) serve=false ;;
  1) serve=true ;;
  '') [ -t 0 ] && [ -t 1 ] && serve=true || serve=false ;;
  *)
    echo "TRY_SERVE is '$TRY_SERVE'; it must be 0 or 1." >&2
    exit 2
    ;;
esac
if ! $serve; then
  printf '\nThe page and the API: %s serve %s\n' "$tost" "${models[*]}"
  exit
fi
printf '\nOpen this address in a browser; Ctrl-C ends the server.\n'
exec "$tost" serve "${models[@]}" --port 0 --drain-seconds 2 "$@"
