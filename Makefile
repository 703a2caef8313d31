# make          set up and build: build/release/tost
# make demo     train a small ToST on generated pictures, score it, predict, say where things are
# make try      build the small program, which needs no torch; name a picture, write a text, serve a page (TRY_SERVE=0: no page)
# make small    only builds that program, and the C interface: build/small; NATIVE=OFF: for other processors than this one, too
# make try-web  the same engine in a browser tab: build/web/try, by emscripten
# make serve    a page and OpenAI's API with the shipped models (models/)
# make models   train the shipped models again: DATA=folder of their data
# make test     all tests;  make test-fast: those that take seconds
# make asan     the fast tests under the address and undefined-behaviour sanitizers
# make tsan     the server's tests under the thread sanitizer
# make test-gpu the GPU's tests and benches in the cuda build, with a summary
# make test-arm what runs models on 64-bit Arm: cross-compiled, tested under qemu
# make test-windows  the same on 64-bit Windows: cross-compiled by mingw, tested under wine
# make fuzz     feed the readers of files hostile input: SECONDS_EACH=600
# make ops      the operator library alone (needs only torch and Highway)
# make wheel    the Python package, with kernels and without: build/python/dist
# make wheel-pure  the one without kernels, for every system
# make wheel-arm  the same for 64-bit Arm, cross-compiled: build/python/arm
# make wheel-cli  the program of build/release as a second wheel
# make test-python  the tests of both in a fresh environment, with the torch of .venv or TORCH_VERSION=2.11.0;
#               MODELS=1: those of the models for timm and transformers too; KITS=1: docs/kits.md
# make study    an environment for tost.study and tost.tasks: build/study/bin/python, with numpy and matplotlib
# make test-web every kind of page in Debian's chromium, by Playwright in an environment of its own
# make site     the documentation as pages: build/site/index.html
# make install  into PREFIX (default /usr/local)
# TOST_TORCH=…  build against this torch: a torch package folder, or a python that has torch
PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)
SECONDS_EACH ?= 600
PREFIX ?= /usr/local
DATA ?= ../shared/data
PLAYWRIGHT ?= 1.65.2
export TOST_TORCH TORCH_VERSION MODELS TRY_SERVE
# Two tests at a time share the cores: waiting threads must not spin (see tost/cli/main.cc).
export OMP_WAIT_POLICY ?= passive
CTEST := ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) --no-tests=error
# What ctest does not say: the tests within a program that were skipped.
SKIPPED := grep -hE '^\[  SKIPPED \] \w+(/\w+)*\.\S+$$' $(BUILD)/Testing/Temporary/LastTest.log | sort -u

.PHONY: all setup configure build demo serve models test test-fast asan tsan test-gpu test-arm test-windows fuzz ops wheel wheel-pure wheel-arm wheel-cli test-python study test-web small try try-web site install format clean
all: build

setup:
	@scripts/setup.sh

configure: setup
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)

build: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@echo "Built $(BUILD)/tost"

demo: configure
	@cmake --build $(BUILD) -j $(JOBS) --target tost
	@scripts/demo.sh $(BUILD)/tost

serve: configure
	@cmake --build $(BUILD) -j $(JOBS) --target tost
	@$(BUILD)/tost serve

models: configure
	@cmake --build $(BUILD) -j $(JOBS) --target tost
	@scripts/train_shipped.py $(BUILD)/tost $(DATA)

test: build
	@$(CTEST); status=$$?; $(SKIPPED); exit $$status

test-fast: build
	@$(CTEST) -L fast; status=$$?; $(SKIPPED); exit $$status

asan: setup
	@$(MAKE) --no-print-directory PRESET=asan test-fast

# LibTorch is not instrumented: what only its code can see is left out (tests/tsan.supp).
tsan:
	@$(MAKE) --no-print-directory PRESET=tsan configure
	@cmake --build build/tsan -j $(JOBS) --target serve_tests
	@OMP_NUM_THREADS=1 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp ignore_noninstrumented_modules=1 history_size=7 allocator_may_return_null=1" \
	  build/tsan/tests/serve_tests

# Without a GPU there is nothing to build for.
test-gpu:
	@if nvidia-smi -L > /dev/null 2>&1; then \
	  $(MAKE) --no-print-directory PRESET=cuda configure && \
	  cmake --build build/cuda -j $(JOBS) --target tost device_tests; \
	fi
	@scripts/test_gpu.sh build/cuda

test-arm:
	@scripts/setup_arm.sh
	@test -e build/arm/build.ninja || cmake --preset arm
	@cmake --build build/arm -j $(JOBS)
	@scripts/test_emulated.sh arm build/arm

test-windows:
	@scripts/setup_windows.sh
	@test -e build/windows/build.ninja || cmake --preset windows
	@cmake --build build/windows -j $(JOBS)
	@scripts/test_emulated.sh windows build/windows

fuzz:
	@fuzz/run.sh $(SECONDS_EACH)

ops: setup
	@cmake -S . -B build/ops -G Ninja -DTOST_OPS_ONLY=ON
	@cmake --build build/ops -j $(JOBS)

wheel: setup
	@JOBS=$(JOBS) scripts/wheel.sh

wheel-pure:
	@scripts/wheel.sh pure

wheel-arm: setup
	@JOBS=$(JOBS) scripts/wheel_arm.sh

wheel-cli:
	@$(MAKE) --no-print-directory PRESET=release configure
	@cmake --build build/release -j $(JOBS) --target tost
	@scripts/wheel_cli.sh

test-python: wheel
	@scripts/test_python.sh

study:
	@test -x build/study/bin/python || python3 -m venv build/study
	@build/study/bin/python -c 'import numpy, matplotlib' 2>/dev/null || build/study/bin/python -m pip install -q --disable-pip-version-check numpy matplotlib
	@echo "Use it: PYTHONPATH=python build/study/bin/python -m tost.study --help"

test-web: configure
	@command -v chromium > /dev/null || { echo "chromium is missing: apt-get install -y chromium"; exit 1; }
	@test -x build/web/env/bin/python || python3 -m venv build/web/env
	@build/web/env/bin/python -c 'import matplotlib, playwright' 2>/dev/null || \
	  build/web/env/bin/python -m pip install -q --disable-pip-version-check playwright==$(PLAYWRIGHT) matplotlib
	@cmake --build $(BUILD) -j $(JOBS) --target tost
	@if command -v em++ > /dev/null; then scripts/build_try.sh; else echo "em++ is missing: the page in a tab is not tested"; fi
	@build/web/env/bin/python tests/web_test.py $(BUILD)/tost

# What runs models, without torch: no LibTorch is downloaded or linked.
SMALL := tost tost_c
NATIVE ?= ON
small:
	@TOST_SMALL=1 scripts/setup.sh
	@{ test -e build/small/build.ninja && grep -qs TOST_NATIVE:BOOL=$(NATIVE) build/small/CMakeCache.txt; } || cmake -S . -B build/small -G Ninja -DCMAKE_BUILD_TYPE=Release -DTOST_WITHOUT_TORCH=ON -DTOST_BUILD_TESTS=OFF -DTOST_JOIN=32 -DTOST_NATIVE=$(NATIVE)
	@cmake --build build/small -j $(JOBS) --target $(SMALL)

try: SMALL := tost
try: small
	@scripts/try.sh build/small/tost

try-web:
	@scripts/build_try.sh

site:
	@test -x .venv/bin/python || python3 -m venv .venv
	@.venv/bin/python -c 'import mkdocs' 2>/dev/null || .venv/bin/python -m pip install -q --disable-pip-version-check mkdocs==1.6.1
	@.venv/bin/python scripts/site.py
	@echo "Built build/site/index.html"

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build
