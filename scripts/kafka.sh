#!/usr/bin/env bash
# A real Apache Kafka on this machine, one node in KRaft mode, for the tests and the demo. No Docker, no root.
#
#   scripts/kafka.sh start  [--name N] [--own]               start it, print KAFKA_BOOTSTRAP=127.0.0.1:PORT
#   scripts/kafka.sh stop   [--name N] [--keep-data] [--kill] stop it and delete its data
#   scripts/kafka.sh status [--name N]                       say whether it runs; exit 1 if not
#   scripts/kafka.sh env    [--name N]                       print KAFKA_BOOTSTRAP=… of a running one
#   scripts/kafka.sh pid    [--name N]                       print its process id (to send SIGSTOP, SIGCONT)
#   scripts/kafka.sh run    [--name N] [--keep-data] -- COMMAND…
#                                                            start, run COMMAND with KAFKA_BOOTSTRAP set, stop
#   scripts/kafka.sh tool   CLASS ARGUMENT…                  run org.apache.kafka.tools.CLASS
#
# If KAFKA_BOOTSTRAP is set, `start` and `run` use that cluster and start nothing, unless --own is given.
# After `stop --keep-data`, `start` brings back the same port and data; --kill ends it by SIGKILL, as a crash would.
# --root DIR keeps the instance's files there instead of in a temporary folder.
# KAFKA_HEAP sets Java's heap (default 1g), KAFKA_START_SECONDS how long `start` waits (default 90).
set -euo pipefail

readonly VERSION=4.4.0
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/kafka" && pwd)
readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/slipstream-async/kafka-$VERSION
readonly TEMPORARY=${TMPDIR:-/tmp}/slipstream-async-kafka-$(id -u)
readonly START_SECONDS=${KAFKA_START_SECONDS:-90}
readonly STOP_SECONDS=20
readonly PORT_TRIES=5
readonly QUIET=-Dorg.slf4j.simpleLogger.defaultLogLevel=warn

die() { echo "kafka.sh: $*" >&2; exit 1; }
say() { echo "kafka.sh: $*" >&2; }
usage() { sed -n '2,/^set -euo/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

# ---- jars ------------------------------------------------------------------------------------------------------

# Fills the cache once. The folder gets its name only when it is complete, so that an interrupted run leaves none.
fetch_jars() {
  [[ -d $CACHE/libs ]] && return
  command -v java >/dev/null || die "Java is missing: run scripts/setup.sh kafka"
  command -v mvn >/dev/null || die "Maven is missing: run scripts/setup.sh kafka"
  mkdir -p "$CACHE"
  (
    flock 8
    [[ -d $CACHE/libs ]] && exit
    say "fetching Apache Kafka $VERSION (once, into $CACHE)"
    rm -rf "$CACHE/libs.part"
    mvn -q -B -f "$HERE/pom.xml" dependency:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$CACHE/libs.part" >&2
    mv "$CACHE/libs.part" "$CACHE/libs"
  ) 8>"$CACHE/lock"
}

java_with_jars() { java "$QUIET" -cp "$CACHE/libs/*" "$@"; }

# ---- one instance ----------------------------------------------------------------------------------------------

# The pid of the running instance; fails if there is none. The command line is compared as well, since after a crash
# of the machine another process may have the number.
running_pid() {
  local pid
  pid=$(cat "$DIR/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "kafka.Kafka $DIR/server.properties" || return 1
  echo "$pid"
}

port() { sed -n 's/^advertised.listeners=PLAINTEXT:\/\/127.0.0.1://p' "$DIR/server.properties"; }

# A port below the range that the kernel hands out by itself, and that nobody listens on.
free_port() {
  local candidate
  while :; do
    candidate=$((20000 + RANDOM % 12000))
    taken "$candidate" || { echo "$candidate"; return; }
  done
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

write_properties() {
  local port controller_port
  port=$(free_port)
  controller_port=$(free_port)
  while [[ $controller_port == "$port" ]]; do controller_port=$(free_port); done
  sed -e "s|@PORT@|$port|g" -e "s|@CONTROLLER_PORT@|$controller_port|g" -e "s|@DATA@|$DIR/data|g" \
    "$HERE/server.properties.in" >"$DIR/server.properties"
}

format_data() {
  local id
  rm -rf "$DIR/data"
  # Kafka's own form of a random id: 16 bytes in URL-safe base64. The first letter keeps it from looking like an option.
  id=k$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c2-21)A
  java_with_jars kafka.tools.StorageTool format -t "$id" -c "$DIR/server.properties" >"$DIR/format.log" 2>&1 ||
    die "the data directory could not be prepared: $(tail -n 5 "$DIR/format.log")"
}

# In a session of its own, so that Ctrl-C reaches the tests and not the broker that they still need to drain into.
launch() {
  setsid java "-Xmx${KAFKA_HEAP:-1g}" "$QUIET" -cp "$CACHE/libs/*" \
    kafka.Kafka "$DIR/server.properties" </dev/null >>"$DIR/kafka.log" 2>&1 9>&- &
  echo $! >"$DIR/pid"
}

# Asks for the cluster's metadata (Metadata v1, no topics) and succeeds when it names a broker: before that the port
# may already be open while the node still waits to be admitted.
answers() {
  timeout 2 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "\0\0\0\016\0\003\0\001\0\0\0\001\377\377\0\0\0\0" >&3
    brokers=$(head -c 12 <&3 | od -An -tu1 -j8 | tr -d " \n")
    [[ -n $brokers && $brokers != 0000 ]]' bash "$1" 2>/dev/null
}

# 0: it answers; 1: it ended by itself; 2: too slow.
await_answer() {
  local end=$((SECONDS + START_SECONDS))
  while ((SECONDS < end)); do
    answers "$(port)" && return 0
    kill -0 "$(cat "$DIR/pid")" 2>/dev/null || return 1
    sleep 0.1
  done
  return 2
}

end_process() { # pid, seconds until SIGKILL
  local end=$((SECONDS + $2))
  kill -TERM "$1" 2>/dev/null || return 0
  kill -CONT "$1" 2>/dev/null || true # a process under SIGSTOP would never see the first signal
  while ((SECONDS < end)); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill_process "$1"
}

kill_process() {
  kill -KILL "$1" 2>/dev/null || return 0
  while kill -0 "$1" 2>/dev/null; do sleep 0.05; done
}

# ---- commands --------------------------------------------------------------------------------------------------

uses_other_cluster() { [[ -n ${KAFKA_BOOTSTRAP:-} && $OWN == no ]]; }

start() {
  if uses_other_cluster; then
    echo "KAFKA_BOOTSTRAP=$KAFKA_BOOTSTRAP"
    return
  fi
  fetch_jars
  mkdir -p "$DIR"
  exec 9>"$DIR/lock"
  flock 9
  running_pid >/dev/null || start_process
  echo "KAFKA_BOOTSTRAP=127.0.0.1:$(port)"
}

start_process() {
  local try outcome
  if [[ ! -f $DIR/data/meta.properties ]]; then
    write_properties
    format_data
  elif taken "$(port)"; then
    say "port $(port) is used by another process now; '$NAME' moves to a new one"
    write_properties
  fi
  for ((try = 1; try <= PORT_TRIES; try++)); do
    : >"$DIR/kafka.log"
    launch
    outcome=0
    await_answer || outcome=$?
    ((outcome == 0)) && return
    end_process "$(cat "$DIR/pid")" 5
    rm -f "$DIR/pid"
    # Someone took a port between the choice and the start: choose again.
    [[ $outcome == 1 ]] && grep -q 'BindException\|already in use' "$DIR/kafka.log" || break
    write_properties
  done
  tail -n 30 "$DIR/kafka.log" >&2
  die "'$NAME' did not answer within $START_SECONDS s; its log is $DIR/kafka.log"
}

stop() {
  local pid
  [[ -d $DIR ]] || return 0
  exec 9>"$DIR/lock"
  flock 9
  if pid=$(running_pid); then
    if [[ $KILL == yes ]]; then kill_process "$pid"; else end_process "$pid" "$STOP_SECONDS"; fi
  fi
  rm -f "$DIR/pid"
  [[ $KEEP_DATA == yes ]] || rm -rf "$DIR"
}

status() {
  local pid
  if pid=$(running_pid); then
    echo "'$NAME' runs on 127.0.0.1:$(port), pid $pid, files in $DIR"
  elif [[ -f $DIR/data/meta.properties ]]; then
    echo "'$NAME' is stopped, its data kept in $DIR"
    return 1
  else
    echo "'$NAME' does not run"
    return 1
  fi
}

print_env() {
  running_pid >/dev/null || die "'$NAME' does not run"
  echo "KAFKA_BOOTSTRAP=127.0.0.1:$(port)"
}

# The command gets a process group of its own, so that a signal sent to this script alone (by make, say) can be passed
# on to all of it, and the broker outlives it.
run() {
  (($# > 0)) || usage
  local line
  if uses_other_cluster || running_pid >/dev/null; then
    trap 'stop_command' EXIT # what was there before stays
  else
    trap 'stop_command; stop' EXIT
  fi
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  line=$(start)
  export "${line?}"
  say "using ${line#*=}"
  set -m
  "$@" &
  COMMAND=$!
  set +m
  wait "$COMMAND" && CODE=0 || CODE=$?
  COMMAND=
  exit "$CODE"
}

COMMAND=
stop_command() {
  [[ -n $COMMAND ]] || return 0
  local end=$((SECONDS + STOP_SECONDS))
  kill -TERM -- "-$COMMAND" 2>/dev/null || return 0
  while kill -0 -- "-$COMMAND" 2>/dev/null && ((SECONDS < end)); do sleep 0.1; done
  kill -KILL -- "-$COMMAND" 2>/dev/null || true
}

main() {
  local command=${1:-}
  [[ -n $command ]] && shift || usage
  if [[ $command == tool ]]; then
    (($# > 0)) || usage
    fetch_jars
    java_with_jars "org.apache.kafka.tools.$1" "${@:2}"
    return
  fi
  ROOT=$TEMPORARY NAME=default OWN=no KEEP_DATA=no KILL=no
  while (($# > 0)); do
    case $1 in
      --name) NAME=${2:?--name needs a value}; shift 2 ;;
      --root) ROOT=${2:?--root needs a value}; shift 2 ;;
      --own) OWN=yes; shift ;;
      --keep-data) KEEP_DATA=yes; shift ;;
      --kill) KILL=yes; shift ;;
      --) shift; break ;;
      *) usage ;;
    esac
  done
  [[ $NAME =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || die "a name is made of letters, digits, '.', '_' and '-', not '$NAME'"
  DIR=$(realpath -m "$ROOT/$NAME")
  case $command in
    start) start ;;
    stop) stop ;;
    status) status ;;
    env) print_env ;;
    pid) running_pid || die "'$NAME' does not run" ;;
    run) run "$@" ;;
    *) usage ;;
  esac
}

main "$@"
