"""Builds the native library for pip, by CMake.

A wheel carries the library and what it loads (oneDNN, GCC's OpenMP runtime) in ``flexflow/lib``. An
editable installation leaves everything in the checkout's ``build``, where the package looks for it;
nothing that is built lands beside the sources. pyproject.toml holds what is not about building.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
# For setuptools' own folders too.
WHEEL_BUILD = ROOT / "build" / "wheel"


def build_requirements() -> list[str]:
    """CMake from PyPI, where the machine has none or one that is too old."""
    if shutil.which("cmake"):
        text = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
        found = re.search(r"(\d+)\.(\d+)", text)
        if found and (int(found[1]), int(found[2])) >= (3, 20):
            return []
    return ["cmake>=3.20"]


class BuildNative(Command):
    """Build libflexflow.so; put it into the package unless the installation is editable."""

    description = "build libflexflow.so by CMake"
    user_options: ClassVar = []
    editable_mode = False  # set by setuptools

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Configure, build and, for a wheel, install the component that belongs into one."""
        folder = ROOT / "build" if self.editable_mode else WHEEL_BUILD / "cmake"
        options = [f"-DPython3_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"]
        for name in ("ONEDNN_HOME", "LEGION_HOME", "FF_LEGION"):
            if os.environ.get(name):
                options.append(f"-D{name}={os.environ[name]}")
        if not self.editable_mode:
            options.append("-DFF_RELOCATABLE=ON")
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
        cmake("-S", ROOT, "-B", folder, *options)
        cmake("--build", folder, "--parallel", jobs)
        if not self.editable_mode:
            cmake("--install", folder, "--component", "wheel", "--prefix", self.library_folder())

    def library_folder(self) -> Path:
        return Path(self.build_lib, "flexflow", "lib")

    def get_source_files(self) -> list[str]:
        return []  # MANIFEST.in names them

    def get_outputs(self) -> list[str]:
        return [] if self.editable_mode else [str(f) for f in self.library_folder().glob("*")]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


def cmake(*arguments: object) -> None:
    subprocess.run(["cmake", *map(str, arguments)], check=True)


class Build(build):
    sub_commands: ClassVar = [*build.sub_commands, ("build_native", None)]

    def run(self) -> None:
        # Left from an earlier version, it would slip removed modules into a new wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class Wheel(bdist_wheel):
    """The library is loaded by ctypes: tied to a platform, to no version of Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class NativeDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True  # none in fact, but the package belongs into the platform's folder


WHEEL_BUILD.mkdir(parents=True, exist_ok=True)
setup(
    setup_requires=build_requirements(),
    cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": Wheel},
    distclass=NativeDistribution,
    options={
        "build": {"build_base": str(WHEEL_BUILD)},
        "egg_info": {"egg_base": str(WHEEL_BUILD)},
    },
)
