#!/usr/bin/env bash
# The same counting by us, by a bare loop and by other engines, on one broker and one topic, one after the other. Writes
# the table "Beside other engines" of docs/benchmarks.md. `make bench-peers` calls it:
#
#   scripts/kafka.sh run -- scripts/peers.sh BENCH…
#
# BENCH… is the command that runs the benchmark's rows, whose names are added. It fills the topic. Every program counts
# the whole topic 1 + PEERS_PASSES times (default 3) in one process, each time from an empty store; the first pass, which
# warms up, is left out, and the median of the others is the figure. Needs what `scripts/setup.sh peers test` installs.
set -euo pipefail

readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly PEERS=$HERE/tests/peers
readonly PAGE=$HERE/docs/benchmarks.md
readonly PASSES=${PEERS_PASSES:-3}
readonly RECORDS=1000000 KEYS=10000
readonly QUIET=-Dorg.slf4j.simpleLogger.defaultLogLevel=error

die() { echo "peers.sh: $*" >&2; exit 1; }
say() { echo "peers.sh: $*" >&2; }
version_of() { sed -n "/<artifactId>$1</{n;s/.*<version>\(.*\)<.*/\1/p}" "$PEERS/pom.xml"; }

# Fills the cache once. The folder gets its name only when it is complete.
fetch_jars() {
  [[ -d $JARS ]] && return
  say "fetching Kafka Streams (once, into $JARS)"
  mkdir -p "$(dirname "$JARS")"
  (
    flock 8
    [[ -d $JARS ]] && exit
    rm -rf "$JARS.part"
    mvn -q -B -f "$PEERS/pom.xml" dependency:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$JARS.part" >&2
    mv "$JARS.part" "$JARS"
  ) 8>"$JARS.lock"
}

# Each pass has a state folder of its own in here.
work() { printf '%s %s %s %s %s %s' "$BENCH_COUNT_TOPIC" $RECORDS $KEYS "$PASSES" "$1" "$FOLDER"; }

# shellcheck disable=SC2046 # six words
kafka_streams() { java "$QUIET" -cp "$JARS/*" "$PEERS/CountPerUser.java" $(work "$1"); }
# shellcheck disable=SC2046
quix_streams() { "$PYTHON" "$PEERS/count_per_user.py" $(work "$1"); }

row() { # program, guarantee, records per second
  awk -v floor="$FLOOR" -v rate="$3" -v program="$1" -v guarantee="$2" \
    'BEGIN { printf "| %s | %s | %d | %.2f |\n", program, guarantee, rate, rate / floor }'
}

table() {
  local commit cpu
  commit=$(git -C "$HERE" rev-parse --short HEAD 2>/dev/null || echo unknown)
  cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  printf '\nMeasured on %s at commit %s, on %s cores of %s.\n\n' "$(date -u +%F)" "$commit" "$(nproc)" "${cpu:-unknown}"
  printf '| program | guarantee | records/s | to the bare loop |\n|---|---|---|---|\n'
  cat "$FOLDER/rows"
  printf '\n'
}

write_page() {
  grep -q '<!-- peers -->' "$PAGE" && grep -q '<!-- end of peers -->' "$PAGE" || die "$PAGE has lost its markers"
  {
    sed '/<!-- peers -->/q' "$PAGE"
    table
    sed -n '/<!-- end of peers -->/,$p' "$PAGE"
  } >"$PAGE.new"
  mv "$PAGE.new" "$PAGE"
}

main() {
  (($# > 0)) || die "the command that runs the benchmark is missing"
  [[ -n ${KAFKA_BOOTSTRAP:-} ]] || die "KAFKA_BOOTSTRAP is not set: scripts/kafka.sh run sets it"
  local streams quix ours rate guarantee
  streams=$(version_of kafka-streams)
  quix=$(sed -n 's/^quixstreams==//p' "$PEERS/requirements.txt")
  JARS=${XDG_CACHE_HOME:-$HOME/.cache}/slipstream-async/streams-$streams
  fetch_jars
  PYTHON=$("$HERE/scripts/python.sh" "$PEERS/requirements.txt")
  FOLDER=$(mktemp -d)
  trap 'rm -rf "$FOLDER"' EXIT

  unset BENCH_SCALE BENCH_WRITE # the other programs count what is counted by default
  export BENCH_COUNT_TOPIC=peers-$$ BENCH_PAIRS=$PASSES
  "$@" kafka-count count-floor | tee "$FOLDER/bench" >&2
  FLOOR=$(awk '$1 == "count-floor" { print $3 }' "$FOLDER/bench")
  [[ -n $FLOOR ]] || die "the benchmark printed no floor"
  row "bare librdkafka loop" "position stored with the counts" "$FLOOR" >"$FOLDER/rows"
  ours=$(awk '$1 == "kafka-count" { print $3 }' "$FOLDER/bench")
  [[ -z $ours ]] || row "slipstream-async, \`Table\`" "exactly once" "$ours" >>"$FOLDER/rows"
  for guarantee in exactly_once_v2 at_least_once; do
    rate=$(kafka_streams "$guarantee")
    row "Kafka Streams $streams" "\`$guarantee\`" "$rate" >>"$FOLDER/rows"
  done
  for guarantee in exactly-once at-least-once; do
    rate=$(quix_streams "$guarantee")
    row "Quix Streams $quix" "\`$guarantee\`" "$rate" >>"$FOLDER/rows"
  done
  table
  write_page
}

main "$@"
