#!/usr/bin/env bash
# What the small program does, for someone who has just built it: writes a text, then serves the page until Ctrl-C.
#   try.sh TOST [FLAGS OF TOST SERVE]
#   TRY_SERVE=0   without the page, as where nobody could end it (no terminal, as in a pipe or in CI); 1: with it in any case
set -euo pipefail
tost=$1
shift
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
  printf '\nThe page and the API: %s serve words\n' "$tost"
  exit
fi
printf '\nOpen this address in a browser; Ctrl-C ends the server.\n'
exec "$tost" serve words --no-explain --port 0 --drain-seconds 2 "$@"
