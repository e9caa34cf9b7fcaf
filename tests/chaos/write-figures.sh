#!/usr/bin/env bash
# write-figures.sh FIGURES DOCUMENT: puts the rows of FIGURES, with date, commit and machine, between the two markers
# of DOCUMENT. `make chaos LENGTH=full` calls it.
set -euo pipefail

figures=$1 document=$2
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- src examples tests 2>/dev/null || commit+=" with changes"
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)

{
  sed '/<!-- figures -->/q' "$document"
  printf '\n%s, commit %s, %s cores (%s).\n\n' "$(date -u +%F)" "$commit" "$(nproc)" "${cpu:-unknown}"
  printf '| harness | figure | value |\n|---|---|---|\n'
  cat "$figures"
  printf '\n'
  sed -n '/<!-- end of figures -->/,$p' "$document"
} >"$document.new"
mv "$document.new" "$document"
