"""Every way to build and install FlexFlow, as a user walks it, in scratch folders.

What is checked is what a program then has in its memory: which package, and exactly one
libflexflow.so with the oneDNN that belongs to it. Build folders are shared and copied, so that few
of these tests compile the whole library.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("probe.py")
VERSION = (ROOT / "VERSION").read_text().strip()
SITE = "lib/python{}.{}/site-packages".format(*sys.version_info)
PINS = str(ROOT / "tools/requirements/packaging.txt")
# What a fresh shell has: nothing that the make or the user around this test has set. cmake and
# pkg-config come from our environment only where the machine has none; pip is held to the same
# cmake, since another one would compile a build folder anew.
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")},
    "PATH": f"{os.environ['PATH']}:{Path(sys.executable).parent}",
    "HOME": os.environ["HOME"],
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_CONSTRAINT": PINS,
    "PIP_BUILD_CONSTRAINT": PINS,
}


def run(*command: object, cwd: object = "/", status: int = 0, **environment: object) -> str:
    """What a command prints; its exit status must be the expected one."""
    done = subprocess.run(
        [str(c) for c in command],
        cwd=str(cwd),
        env=ENVIRONMENT | {k: str(v) for k, v in environment.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


class Loaded(NamedTuple):
    """The package and the library that a program got."""

    package: Path
    library: Path
    version: str


def probe(*python: object, cwd: object = "/", **environment: object) -> Loaded:
    """Train a step under the given python; tell what it loaded, if that fits together."""
    script = () if "-m" in map(str, python) else (PROBE,)
    found = json.loads(run(*python, *script, cwd=cwd, **environment).splitlines()[-1])
    assert len(found["libflexflow.so"]) == 1
    library = Path(found["libflexflow.so"][0])
    places = (library.parent, library.parent / "flexflow")
    assert found["libdnnl.so.3"] in [[f"{place}/libdnnl.so.3"] for place in places]
    return Loaded(Path(found["package"]).parents[2], library, found["version"])


def files_below(folder: Path) -> set[str]:
    return {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()}


def source_files(checkout: Path) -> set[str]:
    """What is in a checkout apart from build folders, bytecode and what begins with a dot."""
    files = files_below(checkout)
    return {f for f in files if not f.startswith(("build", ".")) and "__pycache__" not in f}


def copy_checkout(to: Path, build: Iterable[Path] = ()) -> Path:
    """A copy of the sources, and of build folders: with relative paths, so that make goes on."""
    for name in source_files(ROOT):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    for folder in build:
        shutil.copytree(folder, to / folder.name, symlinks=True)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return to


@pytest.fixture(scope="module")
def cmake_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that CMake has built in place, in a folder whose name has a space."""
    checkout = copy_checkout(tmp_path_factory.mktemp("cmake") / "flex flow")
    options = ("-DFF_BUILD_TESTS=ON", f"-DPython3_EXECUTABLE={sys.executable}")
    run("cmake", "-B", "build", *options, cwd=checkout)
    run("cmake", "--build", "build", "--parallel", os.cpu_count(), cwd=checkout)
    return checkout


@pytest.fixture(scope="module")
def cmake_prefix(cmake_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", "build", "--prefix", prefix, cwd=cmake_checkout)
    return prefix


@pytest.fixture(scope="module")
def wheel(cmake_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, ".", cwd=cmake_checkout)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def two_checkouts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two checkouts of two versions, built by make; the other has two build folders."""
    top = tmp_path_factory.mktemp("two")
    run("make", "library", cwd=ROOT)
    checkouts = [copy_checkout(top / name, [ROOT / "build"]) for name in ("one", "other")]
    for checkout, version in zip(checkouts, ("1.0.0", "2.0.0")):
        (checkout / "VERSION").write_text(version)
        run("make", cwd=checkout)
    shutil.copytree(checkouts[1] / "build", checkouts[1] / "build-second")
    (checkouts[1] / "VERSION").write_text("3.0.0")
    run("make", "BUILD=build-second", cwd=checkouts[1])
    return checkouts[0], checkouts[1]


def environment_with(folder: Path, *requirements: object, cwd: object = "/") -> Path:
    """A fresh virtual environment with these installed; returns its folder of programs."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", *requirements, cwd=cwd)
    return folder / "bin"


def test_cmake_in_place(cmake_checkout: Path) -> None:
    built = Loaded(cmake_checkout, cmake_checkout / "build/libflexflow.so", VERSION)
    shutil.copy(PROBE, cmake_checkout / "probe_here.py")
    assert probe(sys.executable, "-m", "probe_here", cwd=cmake_checkout) == built
    assert probe(cmake_checkout / "build/flexflow_python") == built
    (cmake_checkout / "probe_here.py").unlink()
    run("ctest", "--output-on-failure", cwd=cmake_checkout / "build")


def test_launcher_passes_all_on(two_checkouts: tuple[Path, Path], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    launcher = two_checkouts[0] / "build/flexflow_python"
    assert run(launcher, script, "a b", "-ll:cpu", "2", status=7) == "['a b', '-ll:cpu', '2']\n"
    (tmp_path / "link").symlink_to(launcher)
    assert run(tmp_path / "link", script, status=7, FLEXFLOW_PYTHON=sys.executable) == "[]\n"


def test_installed_prefix_can_be_moved(cmake_prefix: Path, tmp_path: Path) -> None:
    prefix = shutil.copytree(cmake_prefix, tmp_path / "moved")
    installed = Loaded(prefix / SITE, prefix / "lib/libflexflow.so", VERSION)
    assert probe(prefix / "bin/flexflow_python", FLEXFLOW_PYTHON=sys.executable) == installed
    assert probe(sys.executable, PYTHONPATH=prefix / SITE) == installed


C_PROGRAM = """
#include <flexflow_c.h>
#include <stdio.h>
int main(void) {
  const char* text;
  if (ff_describe("version", &text) != FF_OK) return 1;
  puts(text);
  return 0;
}
"""
CMAKE_CONSUMER = """
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(FlexFlow {version} REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer FlexFlow::flexflow)
"""


def test_cmake_package(cmake_prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(C_PROGRAM)
    lists = tmp_path / "CMakeLists.txt"
    configure = ("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={cmake_prefix}")
    lists.write_text(CMAKE_CONSUMER.format(version=VERSION))
    run(*configure, cwd=tmp_path)
    run("cmake", "--build", "build", cwd=tmp_path)
    assert run(tmp_path / "build/consumer").strip() == VERSION
    lists.write_text(CMAKE_CONSUMER.format(version="99.0"))
    assert "compatible with requested version" in run(*configure, cwd=tmp_path, status=1)


def test_pkg_config(cmake_prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(C_PROGRAM)
    search = {"PKG_CONFIG_PATH": cmake_prefix / "lib/pkgconfig"}
    assert run("pkg-config", "--modversion", "flexflow", **search).strip() == VERSION
    flags = run("pkg-config", "--cflags", "--libs", "flexflow", **search).split()
    compiler = ("gcc", "-Wall", "-Wextra", "-pedantic", "-Werror")
    run(*compiler, "main.c", *flags, "-o", "consumer", cwd=tmp_path)
    assert run(tmp_path / "consumer").strip() == VERSION


def test_make_and_cmake_install_the_same_files(cmake_prefix: Path, tmp_path: Path) -> None:
    options = (f"PREFIX={tmp_path}", f"PYTHON={sys.executable}", "FF_LEGION=OFF")
    run("make", "install", *options, cwd=ROOT)
    installed = files_below(tmp_path)
    assert installed == files_below(cmake_prefix)
    assert installed - {"lib/flexflow/install_manifest.txt"} == set(
        (tmp_path / "lib/flexflow/install_manifest.txt").read_text().split()
    )
    library = Loaded(tmp_path / SITE, tmp_path / "lib/libflexflow.so", VERSION)
    assert probe(tmp_path / "bin/flexflow_python", FLEXFLOW_PYTHON=sys.executable) == library

    # Uninstalling takes what python wrote beside the package, and leaves a file of somebody else.
    run(sys.executable, "-m", "compileall", "-q", tmp_path / SITE / "flexflow")
    (tmp_path / "lib/mine").touch()
    run("make", "uninstall", f"PREFIX={tmp_path}", cwd=ROOT)
    assert files_below(tmp_path) == {"lib/mine"}
    assert not (tmp_path / SITE / "flexflow").exists()


def test_wheel_runs_without_compiler(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.startswith(f"flexflow-{VERSION}-py3-none-linux_")
    programs = environment_with(tmp_path / "venv", wheel)
    site = tmp_path / "venv" / SITE
    loaded = Loaded(site, site / "flexflow/lib/libflexflow.so", VERSION)
    # No PATH: no compiler, no cmake, no git.
    assert probe(programs / "python", PATH="/nonexistent") == loaded
    assert probe(programs / "flexflow_python", PATH="/nonexistent") == loaded
    # Its own OpenMP runtime, not one that a compiler brought to this machine.
    script = (
        "from flexflow.core._lib import library; library(); print(open('/proc/self/maps').read())"
    )
    maps = run(programs / "python", "-c", script)
    assert f"{site}/flexflow/lib/libgomp.so.1" in maps


def test_pip_install_from_sources(cmake_checkout: Path, wheel: Path, tmp_path: Path) -> None:
    programs = environment_with(tmp_path / "venv", ".", cwd=cmake_checkout)
    site = tmp_path / "venv" / SITE
    assert probe(programs / "python") == Loaded(site, site / "flexflow/lib/libflexflow.so", VERSION)


def test_editable_install_and_clean_sources(
    cmake_checkout: Path, wheel: Path, tmp_path: Path
) -> None:
    programs = environment_with(tmp_path / "venv", "-e", ".", cwd=cmake_checkout)
    built = Loaded(cmake_checkout, cmake_checkout / "build/libflexflow.so", VERSION)
    assert probe(programs / "python") == built
    assert probe(programs / "flexflow_python") == built
    # The environment that pip built in is gone; the build folder that it left must go on working.
    next((cmake_checkout / "native/src/c_api").glob("*.cc")).touch()
    run("cmake", "--build", "build", "--parallel", os.cpu_count(), cwd=cmake_checkout)
    # After a build in place, a wheel and an editable installation, the sources are as they were.
    assert source_files(cmake_checkout) == source_files(ROOT)


def test_source_archive_is_complete(cmake_checkout: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path, cwd=cmake_checkout)
    with tarfile.open(next(tmp_path.iterdir())) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("native/", "flexflow/", "tools/", "tests/", "examples/")
    assert {f for f in source_files(ROOT) if f.startswith(folders) or "/" not in f} <= held


def test_two_checkouts_never_mix(two_checkouts: tuple[Path, Path]) -> None:
    one, other = two_checkouts
    for checkout in (one, other):
        shutil.copy(PROBE, checkout / "probe_here.py")
    for checkout, version in ((one, "1.0.0"), (other, "2.0.0"), (one, "1.0.0")):
        own = Loaded(checkout, checkout / "build/libflexflow.so", version)
        assert probe(sys.executable, "-m", "probe_here", cwd=checkout) == own
        assert probe(checkout / "build/flexflow_python", cwd=one) == own


def test_two_build_folders_never_mix(two_checkouts: tuple[Path, Path]) -> None:
    checkout = two_checkouts[1]
    second = Loaded(checkout, checkout / "build-second/libflexflow.so", "3.0.0")
    assert probe(checkout / "build-second/flexflow_python") == second
    assert probe(sys.executable, PYTHONPATH=checkout, FLEXFLOW_LIBRARY=second.library) == second
    assert probe(sys.executable, PYTHONPATH=checkout).version == "2.0.0"


def test_missing_library_says_what_to_do(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "unbuilt")
    load = (sys.executable, "-c", "from flexflow.core._find import library_path; library_path()")
    told = run(*load, status=1, PYTHONPATH=checkout)
    assert f"{checkout}/build/libflexflow.so" in told and f"run `make` in {checkout}" in told
    told = run(*load, status=1, PYTHONPATH=checkout, FLEXFLOW_LIBRARY="/nowhere/libflexflow.so")
    assert "FLEXFLOW_LIBRARY is '/nowhere/libflexflow.so'" in told


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("FF_CUDA=ON", "FF_CUDA=ON asks for"),
        ("FF_LEGION=ON", "There is no Legion in"),
        ("FF_LEGION=AUTO", "There is no Legion in"),
    ],
)
def test_a_missing_optional_part_is_named(option: str, message: str, tmp_path: Path) -> None:
    home = f"LEGION_HOME={tmp_path}"
    options = (f"-D{option}", f"-D{home}")
    assert message in run("cmake", "-S", ROOT, "-B", tmp_path, *options, status=1)
    assert message in run("make", option, home, f"BUILD={tmp_path}", cwd=ROOT, status=2)


def test_a_missing_onednn_is_named(tmp_path: Path) -> None:
    home = f"ONEDNN_HOME={tmp_path}"
    told = run("cmake", "-S", ROOT, "-B", tmp_path / "build", f"-D{home}", status=1)
    assert str(tmp_path) in told and "pip install onednn-devel-cpu-gomp" in told
    told = run("make", home, f"BUILD={tmp_path}/build", cwd=ROOT, status=2)
    assert str(tmp_path) in told and "ONEDNN_HOME must name" in told


@pytest.fixture(scope="module")
def legion_home() -> Path:
    """Where a Legion is that the plug-in can be built for; `make legion-test` installs one."""
    home = Path(os.environ.get("LEGION_HOME", ROOT / ".venv-legion" / SITE / "legate"))
    if not home.is_dir():
        pytest.skip(f"there is no Legion in {home}; set LEGION_HOME, or run `make legion-test`")
    return home


def runs_on_legion(*python: object, **environment: object) -> None:
    """A program finds the plug-in that belongs to its library, and a runtime starts."""
    told = run(*python, "-m", "flexflow", "info", "--engine", "legion", **environment)
    assert "engines:  legion, local, null" in told and "started" in told


def test_the_plug_in_by_make(legion_home: Path, tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout", [ROOT / "build"])
    legion = ("FF_LEGION=ON", f"LEGION_HOME={legion_home}")
    run("make", *legion, cwd=checkout)
    runs_on_legion(sys.executable, PYTHONPATH=checkout)
    prefix = tmp_path / "prefix"
    run("make", "install", f"PREFIX={prefix}", f"PYTHON={sys.executable}", *legion, cwd=checkout)
    runs_on_legion(prefix / "bin/flexflow_python", FLEXFLOW_PYTHON=sys.executable)
    run("make", "uninstall", f"PREFIX={prefix}", cwd=checkout)
    assert files_below(prefix) == set()


def test_the_plug_in_by_cmake(cmake_checkout: Path, legion_home: Path, tmp_path: Path) -> None:
    """The last test of this checkout, since the others expect it without the plug-in."""
    options = ("-DFF_LEGION=ON", f"-DLEGION_HOME={legion_home}")
    run("cmake", "-B", "build", *options, cwd=cmake_checkout)
    run("cmake", "--build", "build", "--parallel", os.cpu_count(), cwd=cmake_checkout)
    runs_on_legion(sys.executable, PYTHONPATH=cmake_checkout)
    run("cmake", "--install", "build", "--prefix", tmp_path, cwd=cmake_checkout)
    runs_on_legion(tmp_path / "bin/flexflow_python", FLEXFLOW_PYTHON=sys.executable)
