# FlexFlow without CMake: builds, runs, tests and installs. `make help` lists what there is.
#
#   CXX, CXXFLAGS       compiler and its optimisation flags (default: g++, -O2)
#   DEBUG=1             no optimisation, debug information, checked standard library
#   SANITIZE=LIST       sanitizers, such as address,undefined; they build into a folder of their own
#   BUILD=DIR           where everything that is built goes (default: build)
#   FF_CUDA, FF_LEGION  AUTO, ON or OFF: optional plug-ins, each with a folder of its own; LEGION=1 is FF_LEGION=ON
#   LEGION_HOME=DIR     a Legion of yours (default: the one in the package legate of .venv, or else of PYTHON, or else
#                       of .venv-legion, which `make legion-test` makes, or else the one that BUILD had last)
#   ONEDNN_HOME=DIR     a oneDNN >= 3.0 of yours (default: the pinned package, installed into .venv)
#   PYTHON              the interpreter that .venv is made with (default: python3)
#   PREFIX, DESTDIR     where `make install` puts things (default: /usr/local)
#   ARGS                further arguments of run, test and bench, such as ARGS="-k conv2d"

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
JOBS := $(shell nproc)
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif

comma := ,
PYTHON ?= python3
PREFIX ?= /usr/local
override DEBUG := $(filter-out 0,$(DEBUG))
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
CXXFLAGS ?= $(if $(DEBUG),-O0,$(if $(SANITIZE),-O1,-O2))
VERSION := $(shell cat VERSION)

# ---- the environment: .venv, made and kept up to date as tools/requirements says ---------------------------------
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps

# Made anew when another Python is asked for. It is made by the base interpreter, since PYTHON may be the one in .venv.
$(STAMPS)/python: FORCE
	@id=$$($(PYTHON) -c 'import sys; print(sys.base_prefix, sys.version)') && \
	if [ "$$id" != "$$(cat $@ 2>/dev/null)" ]; then \
	  base=$$($(PYTHON) -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))'); \
	  "$$base" -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "flexflow: $$base cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }; \
	  echo "making $(VENV) with $$base"; \
	  rm -rf $(VENV) && "$$base" -m venv $(VENV) && mkdir -p $(STAMPS) && echo "$$id" > $@; \
	fi

# One pip at a time: several sets may be asked for by one parallel make.
$(STAMPS)/%: tools/requirements/%.txt tools/requirements/run.txt $(STAMPS)/python
	@echo "installing tools/requirements/$*.txt into $(VENV)"
	@flock $(STAMPS) $(PY) -m pip install --quiet --disable-pip-version-check -r $< && touch $@

# ---- the library ---------------------------------------------------------------------------------------------------
ONEDNN = $(or $(ONEDNN_HOME),$(VENV))
ONEDNN_READY := $(if $(ONEDNN_HOME),,$(STAMPS)/build)
ONEDNN_LIBRARY = $(firstword $(wildcard $(addprefix $(ONEDNN)/,$(addsuffix /libdnnl.so.3,lib lib64 lib/x86_64-linux-gnu))))

ifdef ONEDNN_HOME
$(if $(ONEDNN_LIBRARY),,$(error No libdnnl.so.3 in $(ONEDNN_HOME)/lib: ONEDNN_HOME must name the prefix of a oneDNN >= 3.0))
endif

FLAGS := $(strip -std=c++20 -fPIC -fvisibility=hidden -fopenmp -fno-math-errno -Wall -Wextra -Werror=return-type $(CXXFLAGS) \
  $(if $(DEBUG),-g -D_GLIBCXX_ASSERTIONS) \
  $(if $(SANITIZE),-O1 -g1 -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined))
INCLUDES = -Inative/src -Inative/include -I$(BUILD)/gen -isystem $(ONEDNN)/include
# oneDNN lies beside the library in a build and in a wheel, in lib/flexflow in an installation. RPATH, not RUNPATH: an
# LD_LIBRARY_PATH that points at another oneDNN must not win. Sanitized libraries find their runtime in the process.
LINK := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN:$$ORIGIN/flexflow' $(if $(SANITIZE),,-Wl,-z,defs)
TYPE := $(if $(DEBUG),debug,release)$(if $(SANITIZE),+$(SANITIZE))

SOURCES := $(wildcard $(addprefix native/,$(shell sed 's/\#.*//' native/sources.list)))
OBJECTS := $(SOURCES:native/%.cc=$(BUILD)/obj/%.o)
TEST_SOURCES := $(wildcard tests/native/*.cc)
TEST_OBJECTS := $(TEST_SOURCES:tests/%.cc=$(BUILD)/obj/tests/%.o)
NATIVE_TESTS := $(if $(TEST_SOURCES),$(BUILD)/native_tests)

# As in CMakeLists.txt: libflexflow.so never depends on an optional part, but asking for one that is missing is an error.
optional_part = $(if $(filter ON,$($(1))),$(if $(wildcard native/src/$(2)),,$(error $(1)=ON asks for $(3), but this \
  version has none: there is no native/src/$(2). Use $(1)=AUTO or $(1)=OFF)))
$(call optional_part,FF_CUDA,kernels/cuda/*.cu,CUDA kernels)

# ---- the Legion plug-in --------------------------------------------------------------------------------------------
# Sanitizers do not see into Legion, so a sanitized build has the plug-in only when it is asked for.
FF_LEGION ?= $(if $(filter-out 0,$(LEGION)),ON,$(if $(SANITIZE),OFF,AUTO))
legate_of = $(shell $(1) -c 'import importlib.util as u; s = u.find_spec("legate"); s and print(*s.submodule_search_locations)' 2>&-)
ifneq ($(FF_LEGION),OFF)
LEGION_AT := $(or $(LEGION_HOME),$(call legate_of,$(PY)),$(call legate_of,$(PYTHON)),\
  $(abspath $(wildcard .venv-legion/lib/python*/site-packages/legate)),$(shell head -n 1 $(BUILD)/gen/legion 2>&-))
LEGION_HEADER := $(firstword $(wildcard $(addprefix $(LEGION_AT)/include/,legate/deps/legion.h legion.h)))
# A legate with UCX leaves UCX to who loads it; it lies in packages beside legate.
LEGION_LIBRARIES := $(wildcard $(addprefix $(dir $(LEGION_AT)),libucx/lib/libucs.so.0 libucx/lib/libucp.so.0 \
  nvidia/libcal/cu12/lib/libucc.so.1) $(foreach l,legion-legate realm-legate legion realm,$(LEGION_AT)/lib*/lib$(l).so))
endif
LEGION_READY :=
$(if $(filter-out OFF,$(FF_LEGION)),$(if $(LEGION_HOME),$(if $(LEGION_HEADER),,$(error There is no Legion in \
  $(LEGION_HOME): LEGION_HOME must name the prefix of one, or the folder of a package legate))))
ifeq ($(FF_LEGION)$(LEGION_HEADER),ON)
LEGION_READY := $(STAMPS)/legion
endif
PLUGINS := $(if $(LEGION_HEADER),$(addprefix $(BUILD)/,libflexflow_legion.so libflexflow_nocuda.so))
LEGION_SOURCES := $(wildcard $(addprefix native/,$(shell sed 's/\#.*//' native/legion.list)))
LEGION_OBJECTS := $(LEGION_SOURCES:native/%.cc=$(BUILD)/obj/%.o)
LEGION_TESTS := $(if $(LEGION_HEADER),$(addprefix $(BUILD)/,legion_joined legion_host))
$(LEGION_OBJECTS) $(BUILD)/obj/tests/native/legion/joined.o: private INCLUDES += -isystem $(patsubst %/legion.h,%,$(LEGION_HEADER))
$(LEGION_OBJECTS) $(BUILD)/obj/tests/native/legion/joined.o: $(BUILD)/gen/legion
# Where Legion is when all are packages of one environment, and where it is now. RPATH, not RUNPATH, as above.
LEGION_LINK = -Wl,--allow-shlib-undefined,--disable-new-dtags,--no-as-needed \
  -Wl,-rpath,'$$ORIGIN/../../legate/lib64:$$ORIGIN/../../libucx/lib:$$ORIGIN/../../nvidia/libcal/cu12/lib' \
  $(foreach l,$(LEGION_LIBRARIES),-Wl$(comma)-rpath$(comma)$(patsubst %/,%,$(dir $(l))) $(l))

$(STAMPS)/legion: tools/requirements/legion.txt $(STAMPS)/python
	@echo "installing $< into $(VENV)"
	@flock $(STAMPS) $(PY) -m pip install --quiet --disable-pip-version-check --no-deps -r $< && touch $@

# Environments of other packages, which must not come among those of .venv.
.venv-legion/.installed: tools/requirements/mpi.txt
.venv-%/.installed: tools/requirements/%.txt $(STAMPS)/python
	@echo "installing $(filter %.txt,$^) into $(@D)"
	@rm -rf $(@D) && $(PY) -m venv $(@D) && \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(addprefix -r ,$(filter %.txt,$^)) && touch $@

# A make of its own, for two reasons: oneDNN is in place when its rules are read, and a bare `make -j` gets a bound
# (a hundred compilers at once take more memory than most machines have).
BOUNDED_MAKE = +@$(MAKE) --no-print-directory $(if $(filter -j,$(MAKEFLAGS)),-j$(JOBS))

all: library $(STAMPS)/run ## build the library and the launcher flexflow_python (the default)
library: $(ONEDNN_READY) $(LEGION_READY)
	$(BOUNDED_MAKE) $(BUILD)/libflexflow.so $(BUILD)/flexflow_python plugins
native-tests: library
	$(if $(NATIVE_TESTS),$(BOUNDED_MAKE) $(NATIVE_TESTS) plugin-tests)

# Asked for by name, since the outer make read its rules before Legion was installed.
plugins: $(PLUGINS)
	@:
plugin-tests: $(LEGION_TESTS)
	@:
$(BUILD)/libflexflow.so: $(OBJECTS) $(BUILD)/libdnnl.so.3
	@echo "linking $@"
	@$(CXX) -shared $(FLAGS) $(LDFLAGS) $(LINK) -Wl,-soname,libflexflow.so -o $@ $^
$(BUILD)/libflexflow_legion.so: $(LEGION_OBJECTS)
	@echo "linking $@"
	@$(CXX) -shared $(FLAGS) $(LDFLAGS) -Wl,-soname,libflexflow_legion.so -o $@ $^ $(LEGION_LINK)
$(BUILD)/libflexflow_nocuda.so: $(BUILD)/obj/stubs/nocuda.o
	@$(CXX) -shared $(FLAGS) $(LDFLAGS) -Wl,-soname,libcuda.so.1 -o $@ $^
$(BUILD)/legion_joined: $(BUILD)/obj/tests/native/legion/joined.o $(OBJECTS) $(BUILD)/libdnnl.so.3
	@echo "linking $@"
	@$(CXX) $(FLAGS) $(LDFLAGS) $(LINK) -o $@ $^ $(LEGION_LINK)
$(BUILD)/native_tests: $(TEST_OBJECTS) $(OBJECTS) $(BUILD)/libdnnl.so.3
	@echo "linking $@"
	@$(CXX) $(FLAGS) $(LDFLAGS) $(LINK) -o $@ $^


# For tests: Legion's start of a script, without legion_python. Which driver of CUDA it loads is settled here, since it
# links Legion.
NO_DRIVER = $(shell $(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null || echo $(BUILD)/nocuda/libcuda.so.1)
$(BUILD)/legion_host: tests/legion_host/legion_host.cc $(BUILD)/nocuda/libcuda.so.1 $(BUILD)/gen/flags
	@echo "linking $@"
	@$(CXX) $(FLAGS) $(CPPFLAGS) -DHOST_FOLDER='"$(CURDIR)/tests/legion_host"' -isystem $(patsubst %/legion.h,%,$(LEGION_HEADER)) -rdynamic -o $@ $< \
	  $(LDFLAGS) $(LEGION_LINK) $(if $(NO_DRIVER),-Wl$(comma)-rpath$(comma)$(abspath $(BUILD)/nocuda) $(NO_DRIVER))
$(BUILD)/nocuda/libcuda.so.1: $(BUILD)/libflexflow_nocuda.so
	@mkdir -p $(@D); ln -sf ../libflexflow_nocuda.so $@

$(BUILD)/obj/tests/%.o: tests/%.cc $(BUILD)/gen/flags | $(BUILD)/gen/build_info.h
	$(compile)
$(BUILD)/obj/%.o: native/%.cc $(BUILD)/gen/flags | $(BUILD)/gen/build_info.h
	$(compile)
define compile
	@echo "compiling $<"; mkdir -p $(@D)
	@$(CXX) $(FLAGS) $(CPPFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@
endef
-include $(OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d) $(LEGION_OBJECTS:.o=.d)

# Changed flags, another compiler or another oneDNN recompile everything; the file is touched only then.
COMPILER = $(shell $(CXX) --version | head -n 1)
$(BUILD)/gen/build_info.h: FORCE
	@sh tools/build_info.sh $@ "$(COMPILER)" "$(strip $(FLAGS) $(CPPFLAGS))" "$(TYPE)" $(ONEDNN)/include
$(BUILD)/gen/flags: FORCE
	@mkdir -p $(@D); { printf '%s\n' "$(COMPILER)" "$(FLAGS) $(CPPFLAGS) $(INCLUDES)" "$(LDFLAGS)"; \
	grep 'VERSION_[MP]' $(ONEDNN)/include/oneapi/dnnl/dnnl_version.h; } > $@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(BUILD)/gen/legion: FORCE
	@mkdir -p $(@D); { echo $(LEGION_AT); grep -s LEGION_VERSION $(LEGION_HEADER:.h=_defines.h); } > $@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(BUILD)/libdnnl.so.3: $(BUILD)/gen/flags $(ONEDNN_LIBRARY)
	@mkdir -p $(@D); cp -L $(ONEDNN_LIBRARY) $@
# Written every time: it names the checkout, which may have been moved.
launcher = 's|@PACKAGE@|$(1)|; s|@LIBRARY@|$(2)|; s|@ENVIRONMENT@|$(3)|' tools/package/flexflow_python.in
$(BUILD)/flexflow_python: FORCE
	@mkdir -p $(@D); sed $(call launcher,$(CURDIR),$$here/libflexflow.so,$(CURDIR)/$(VENV)) > $@; chmod 755 $@

# ---- running and checking --------------------------------------------------------------------------------------
# A run from here uses this very build, whatever the shell has exported.
RUN = FLEXFLOW_LIBRARY="$(abspath $(BUILD))/libflexflow.so" $(PY)

run: library $(STAMPS)/run ## train a convolutional network on handwritten digits
	@$(RUN) -m examples.python.keras.digits_cnn $(ARGS)
test: native-tests $(STAMPS)/test ## run the test suite
	$(if $(NATIVE_TESTS),timeout 900 $(NATIVE_TESTS))
	$(RUN) -m pytest $(ARGS)
check-builds: library $(STAMPS)/test $(STAMPS)/packaging ## try every way to build and install, in scratch folders
	$(RUN) -m pytest tests/packaging -m packaging $(ARGS)
sanitize: ## build with address and undefined-behaviour sanitizers into build-asan and test that; SAMPLE=N: every N-th test
	@$(MAKE) --no-print-directory BUILD=build-asan SANITIZE=address,undefined sanitized-test
sanitize-threads: ## build with the thread sanitizer into build-tsan and test the engines of that
	@$(MAKE) --no-print-directory BUILD=build-tsan SANITIZE=thread thread-sanitized-test
golden: library $(STAMPS)/test ## write the printed plans of tests/golden anew; read what `git diff tests/golden` shows
	$(RUN) -m pytest tests/engines/test_plans.py -k golden --update-golden
nightly: library $(STAMPS)/test ## the long tests, random ones with many more cases, and all benchmarks
	$(RUN) -m pytest -m nightly --timeout 3600 $(ARGS)
	@$(MAKE) --no-print-directory sanitize
	@$(MAKE) --no-print-directory cupynumeric-test
	$(MAKE) bench
	$(RUN) benchmarks/training.py --profile
	$(RUN) benchmarks/threads.py
	$(RUN) benchmarks/scaling.py
	$(RUN) benchmarks/simulator.py
	@$(MAKE) --no-print-directory legion-nightly
bench: library $(STAMPS)/test ## compare the training step with PyTorch's
	$(RUN) benchmarks/training.py $(ARGS)
lint: $(STAMPS)/lint ## check format, types, layers, size budgets and the generated interface
	find native tests examples -name '*.h' -o -name '*.c' -o -name '*.cc' | xargs -r $(VENV)/bin/clang-format --dry-run -Werror
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(PY) -m mypy
	$(PY) tools/check_layers.py
	$(PY) tools/size.py
	$(PY) tools/gen_abi.py --check
format: $(STAMPS)/lint ## put C++ and Python into the house format
	find native tests examples -name '*.h' -o -name '*.c' -o -name '*.cc' | xargs -r $(VENV)/bin/clang-format -i
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format
venv: $(foreach set,build run test packaging lint,$(STAMPS)/$(set)) ## only make .venv, complete
wheel: $(STAMPS)/python ## build a wheel into build/dist
	$(PY) -m pip wheel --no-deps --wheel-dir build/dist .

# Python itself is not sanitized, so the runtime comes first in the process by preloading; libstdc++ goes with it, or
# the first exception finds no thrower to hand over to. Leaks are checked where all code is ours: in the native tests.
sanitized-test: native-tests $(STAMPS)/test
	$(if $(NATIVE_TESTS),timeout 1800 $(NATIVE_TESTS))
	LD_PRELOAD="$(foreach l,libasan.so libubsan.so libstdc++.so.6,$(shell $(CXX) -print-file-name=$(l)))" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	$(RUN) -m pytest -n $(JOBS) --timeout 1200 $(if $(SAMPLE),--sample $(SAMPLE)) $(ARGS)

# The tests in which several threads compute. Reports go to the terminal, and end a process with status 66. Older runtimes
# of the sanitizer do not start where addresses are drawn from more than 28 bits: setarch has none drawn, where it may.
THREADED_TESTS := devices threads strategies limits
TSAN = TSAN_OPTIONS=suppressions="$(CURDIR)/tests/engines/tsan.supp" $(shell setarch -R true 2>&- && echo setarch -R)
thread-sanitized-test: native-tests $(STAMPS)/test
	$(if $(NATIVE_TESTS),$(TSAN) timeout 900 $(NATIVE_TESTS))
	$(TSAN) env LD_PRELOAD="$(foreach l,libtsan.so libstdc++.so.6,$(shell $(CXX) -print-file-name=$(l)))" \
	$(RUN) -m pytest --timeout 600 --capture=sys $(THREADED_TESTS:%=tests/engines/test_%.py) $(ARGS)

# The engine of Legion: what belongs to it, and then tests of engines in general, of which it runs some only.
LEGION_OWN := $(wildcard $(addprefix tests/engines/test_,endings.py fork.py legion_programs.py ranks.py))
LEGION_TOO := $(addprefix tests/engines/test_,strategies.py devices.py fit.py resources.py)
legion-test: .venv-legion/.installed ## build with the Legion of the package legate, in .venv-legion, and test its engine
	@$(MAKE) --no-print-directory legion-tested
legion-tested: native-tests $(STAMPS)/test
	timeout 300 $(NATIVE_TESTS) legion
	$(RUN) -m pytest $(LEGION_OWN) -k "legion or ranks" $(ARGS)
	FLEXFLOW_ENGINE=legion $(RUN) -m pytest $(LEGION_TOO) --hypothesis-profile sanitized $(ARGS)
	FLEXFLOW_ENGINE=legion $(RUN) -m pytest tests/engines/test_whole_models.py \
	  -k "not resnet18 and (shared or hybrid or pipeline or float32)" $(ARGS)
# All tests of engines; a forked child has no runtime to go on with.
legion-nightly: .venv-legion/.installed ## run all tests of the engines on Legion, and compare its speed
	@$(MAKE) --no-print-directory native-tests $(STAMPS)/test
	FLEXFLOW_ENGINE=legion $(RUN) -m pytest tests/engines --ignore tests/engines/test_fork.py --timeout 3600 $(ARGS)
	$(RUN) benchmarks/engines.py
# Not in CI: its packages take 4 GB.
cupynumeric-test: .venv-legion/.installed .venv-cupynumeric/.installed ## test beside cuPyNumeric, in .venv-cupynumeric
	@$(MAKE) --no-print-directory library $(STAMPS)/test
	FLEXFLOW_LEGATE_PYTHON=$(CURDIR)/.venv-cupynumeric/bin/python $(RUN) -m pytest tests/engines/test_legate.py $(ARGS)

# ---- installing --------------------------------------------------------------------------------------------------
TO = $(DESTDIR)$(PREFIX)
SITE = lib/$(shell $(PYTHON) -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/site-packages
PACKAGE_FILES := $(shell find flexflow -type f ! -path '*/__pycache__/*')
MANIFEST := lib/flexflow/install_manifest.txt
# The same files as `cmake --install` puts there, and the same manifest, so that uninstall serves both.
INSTALLED = lib/libflexflow.so lib/flexflow/libdnnl.so.3 include/flexflow_c.h bin/flexflow_python \
  lib/pkgconfig/flexflow.pc lib/cmake/FlexFlow/FlexFlowConfig.cmake lib/cmake/FlexFlow/FlexFlowConfigVersion.cmake \
  share/doc/flexflow/LICENSE share/doc/flexflow/NOTICE $(PLUGINS:$(BUILD)/%=lib/flexflow/%) $(addprefix $(SITE)/,$(PACKAGE_FILES))

install: library ## install into PREFIX: library, header, CMake and pkg-config files, Python package, launcher
	@if [ -f "$(TO)/$(MANIFEST)" ]; then $(MAKE) --no-print-directory uninstall; fi
	install -D -m 644 -t "$(TO)/lib" $(BUILD)/libflexflow.so
	install -D -m 644 -t "$(TO)/lib/flexflow" $(BUILD)/libdnnl.so.3 $(PLUGINS)
	install -D -m 644 -t "$(TO)/include" native/include/flexflow_c.h
	install -D -m 644 -t "$(TO)/share/doc/flexflow" LICENSE NOTICE
	install -d "$(TO)/bin" "$(TO)/lib/pkgconfig" "$(TO)/lib/cmake/FlexFlow"
	sed 's|@VERSION@|$(VERSION)|' tools/package/flexflow.pc.in > "$(TO)/lib/pkgconfig/flexflow.pc"
	for f in Config ConfigVersion; do \
	  sed 's|@VERSION@|$(VERSION)|' tools/package/FlexFlow$$f.cmake.in > "$(TO)/lib/cmake/FlexFlow/FlexFlow$$f.cmake"; done
	sed $(call launcher,$$here/../$(SITE),$$here/../lib/libflexflow.so,$$here/..) > "$(TO)/bin/flexflow_python"
	chmod 755 "$(TO)/bin/flexflow_python"
	@for f in $(PACKAGE_FILES); do install -D -m 644 "$$f" "$(TO)/$(SITE)/$$f" || exit 1; done
	@printf '%s\n' $(INSTALLED) > "$(TO)/$(MANIFEST)"
uninstall: ## remove what an installation put into PREFIX, and nothing else
	@[ -f "$(TO)/$(MANIFEST)" ] || { echo "flexflow: nothing is installed in $(TO) (no $(MANIFEST))" >&2; exit 1; }
	cd "$(TO)" && xargs -d '\n' rm -f < $(MANIFEST) && rm $(MANIFEST)
	@cd "$(TO)" && for d in lib/flexflow lib/cmake/FlexFlow share/doc/flexflow lib/python*/site-packages/flexflow; do \
	  if [ -d "$$d" ]; then find "$$d" -name __pycache__ -prune -exec rm -r {} + ; find "$$d" -type d -empty -delete; fi; done

clean: ## remove what was built here (.venv stays: `rm -r .venv` removes it)
	rm -rf $(BUILD)
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1@\2/p' $(firstword $(MAKEFILE_LIST)) | column -t -s @
	@sed -n '/^#  /s/^#//p' $(firstword $(MAKEFILE_LIST))

FORCE:
.PHONY: FORCE all library plugins native-tests plugin-tests run test check-builds sanitize sanitized-test legion-test \
  legion-tested legion-nightly cupynumeric-test nightly bench lint format venv wheel install uninstall clean help
