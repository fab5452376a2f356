# The front door. Every recipe is one script; `make help` lists them. Nothing else is needed to build by hand:
# cmake --preset release && cmake --build build/release
HOST ?= 127.0.0.1
PORT ?= 8000
PRESET ?= release

.DEFAULT_GOAL := help
.PHONY: help deps build run test unit check format asan tsan fuzz arm bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what building needs (apt, when root or with sudo; else print the command)
	@scripts/install_dependencies.sh build

build: deps ## build the release binary: build/release/tandem
	@scripts/build.sh release tandem

run: build ## install what is missing, build, serve the bundled model on HOST:PORT (127.0.0.1:8000)
	@exec build/release/tandem serve --host $(HOST) --port $(PORT)

test: ## install what is missing, build, run every test
	@scripts/run_tests.sh

unit: deps ## build and run the unit tests of PRESET (release, dev, asan-ubsan, tsan)
	@scripts/build.sh $(PRESET)
	@scripts/run_ctest.sh $(PRESET)

check: ## layers, headers alone, format, tree, lint
	@scripts/install_dependencies.sh check
	@scripts/run_checks.sh

format: ## rewrite the sources as clang-format-19 writes them
	@scripts/check_format.sh --fix

asan: ## unit tests and a short end-to-end run under the address and undefined-behaviour sanitizers
	@scripts/run_sanitizer.sh asan-ubsan

tsan: ## tests of the threaded modules under the thread sanitizer
	@scripts/run_sanitizer.sh tsan

fuzz: ## run each fuzzer of tests/fuzz for FUZZ_SECONDS (300) under the address sanitizer
	@scripts/install_dependencies.sh sanitizer
	@scripts/run_fuzz.sh

arm: ## cross compile for Arm and run the lower floors' tests under emulation (Debian)
	@scripts/run_arm.sh

bench: ## build and list the benchmarks of bench/
	@scripts/install_dependencies.sh bench
	@scripts/run_bench.sh

clean: ## remove build/ (compiled objects stay in ccache)
	@rm -rf build
