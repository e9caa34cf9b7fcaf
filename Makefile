# make demo        installs what is missing, runs examples/flights; SLIPSTREAM_BROKER=kafka://… or booblik://… moves it,
#                  ARGS=--outage stops its weather in the middle, ARGS=--hold lets flights wait instead of correcting them
# make demo-reset  forgets what the demo stored here, its topics included
# make chaos       kills, stops and cuts off an app on a real Kafka: LENGTH=short, full or a number of kills; SEED=n
# make test        installs what is missing, starts its own Kafka unless KAFKA_BOOTSTRAP is set, runs everything
# make bench       measures against the floors of docs/benchmarks.md and writes it; BENCH="hello proxy" runs some rows
# make bench-peers runs the same counting here and in other engines on one broker and writes that into the same page
#
# RocksDB and librdkafka are C++ and C, and take most of the time of a first build. They are built once, for demo and
# tests alike, in a folder outside the checkout: one profile, no RUSTFLAGS, and never another set of their features.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Where rustup puts cargo: a shell from before it was installed does not look there.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/slipstream-async
export CARGO_TARGET_DIR ?= $(CACHE)/target
undefine RUSTFLAGS
unexport RUSTFLAGS

# Every feature but `ssl` and `zstd`, which change how librdkafka is built; check-features says how those are checked.
FEATURES := avro,cli
# What is checked alone. The crate beside the library keeps zlib's and librdkafka's build the same (its Cargo.toml).
SINGLE_FEATURES := macros json msgpack avro rocksdb kafka log booblik cli
CHECK := cargo check --quiet -p slipstream-async -p slipstream-feature-checks

# Java is only needed where a Kafka has to be started.
KAFKA_PART := $(if $(KAFKA_BOOTSTRAP),,kafka)

# The bench runs the build that the tests use, with this crate optimised as in a release: the C++ parts are always built
# optimised, so that nothing of them is built again.
OWN := profile.dev.package.slipstream-async
BENCH_BUILD := --profile dev --config '$(OWN).opt-level=3' --config '$(OWN).codegen-units=1' \
	--config '$(OWN).debug-assertions=false' --config '$(OWN).overflow-checks=false'
BENCH ?=

.PHONY: bench bench-peers chaos help demo demo-reset setup-demo setup-chaos test setup-test style check-features \
	run-tests docs package

help:
	@sed -n 's/^# \(make .*\|  *ARGS=.*\)/\1/p' Makefile

# ---- the demo --------------------------------------------------------------------------------------------------------

setup-demo:
	@scripts/setup.sh build

# Its topics are in a log on disk, so that a second run finds everything where the first one left it.
demo: setup-demo
	@cargo build -p slipstream-async --example flights
	@cargo run --quiet -p slipstream-async --example flights -- $(ARGS)

demo-reset:
	rm -rf state/flights state/_broker

# ---- the tests -------------------------------------------------------------------------------------------------------

# One after the other, cheap ones first; with `make -j` too, since all of them wait for the same cargo lock.
test: setup-test
	@$(MAKE) --no-print-directory style
	@$(MAKE) --no-print-directory run-tests
	@$(MAKE) --no-print-directory check-features
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory package

setup-test:
	@scripts/setup.sh build $(KAFKA_PART) test
	@scripts/python.sh >/dev/null

# `make test` runs the short form of the same. The full form writes what it measured into the documentation, where
# issues and readers find it.
LENGTH ?= short
SEED ?=
FIGURES := $(CARGO_TARGET_DIR)/chaos-figures.md
setup-chaos:
	@scripts/setup.sh build $(KAFKA_PART)

chaos: setup-chaos
	@rm -f $(FIGURES)
	@cargo build --quiet -p slipstream-async --features $(FEATURES) --example chaos_app
	CHAOS_LENGTH=$(LENGTH) CHAOS_SEED=$(SEED) CHAOS_FIGURES=$(FIGURES) scripts/kafka.sh run --name "chaos-$$$$" -- \
	  cargo test --quiet -p slipstream-async --features $(FEATURES) --test chaos -- --nocapture
	CHAOS_LENGTH=$(LENGTH) CHAOS_SEED=$(SEED) CHAOS_FIGURES=$(FIGURES) scripts/kafka.sh run --name "schedules-$$$$" -- \
	  cargo test --quiet -p slipstream-async --features $(FEATURES) --test checkpoint property:: -- --nocapture
	@if [[ $(LENGTH) == full ]]; then tests/chaos/write-figures.sh $(FIGURES) docs/reliability.md; fi

style:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features $(FEATURES) -- -D warnings

# Units, integration tests, the documentation's examples, UI tests and the other members. The examples are built too,
# since tests run them.
run-tests:
	scripts/kafka.sh run --name "make-test-$$$$" -- cargo test --workspace --features $(FEATURES) --no-fail-fast

# None, each alone, default, and all. `ssl` and `zstd` only choose what librdkafka is linked with; to check the code
# that depends on them without compiling librdkafka again, the compiler is told that they are on, and Cargo is not.
check-features:
	$(CHECK) --no-default-features
	for feature in $(SINGLE_FEATURES); do \
	  echo "alone: $$feature"; $(CHECK) --no-default-features --features slipstream-async/$$feature; \
	done
	$(CHECK)
	cargo rustc --quiet -p slipstream-async --lib --features $(FEATURES) --profile check -- \
	  --cfg 'feature="ssl"' --cfg 'feature="zstd"'

# RUSTDOCFLAGS reaches rustdoc only; it rebuilds nothing.
docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --features $(FEATURES)

# Packs and builds both crates as a registry would get them.
package:
	cargo package --quiet --allow-dirty -p slipstream-async-macros -p slipstream-async

# ---- the benchmarks --------------------------------------------------------------------------------------------------

bench: setup-test
	@BENCH_WRITE=1 scripts/kafka.sh run --name bench -- cargo bench $(BENCH_BUILD) --bench bench -- $(BENCH)

# Ours is the row `kafka-count`.
bench-peers: setup-test
	@scripts/setup.sh peers
	@scripts/kafka.sh run --name peers -- scripts/peers.sh cargo bench $(BENCH_BUILD) --bench bench --
