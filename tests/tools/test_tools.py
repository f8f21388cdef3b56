"""The tools that keep the house in order find what they are there to find."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str, *arguments: object) -> tuple[int, str]:
    command = [sys.executable, str(TOOLS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("native/src/graph/a.h", '#include "ops/op.h"', "graph may not include ops"),
        ("native/src/search/a.cc", '#include "kernels/kernel.h"', "search may not include kernels"),
        ("native/src/engines/a.cc", '# include "ops/op.h"', "engines may not include ops"),
        (
            "native/src/engines/null/a.cc",
            '#include "kernels/cpu/k.h"',
            "may not include kernels/cpu",
        ),
        ("native/src/graph/a.h", '#include "../ops/op.h"', "must be a path from native/src"),
        ("native/src/ops/a.cc", '#include "op.h"', "must be a path from native/src"),
        ("native/src/graph/a.h", "#include <ops/op.h>", "is a header of ours"),
        ("native/src/graph/a.h", "#include WHERE", "include of a macro"),
        ("native/src/lowering/a.h", "#include <dnnl.hpp>", "dnnl.hpp is for kernels only"),
        ("native/src/ops/a.h", '#include "flexflow_c.h"', "flexflow_c.h is for c_api only"),
        ("native/src/extra/a.h", "", "no layer"),
        ("native/src/ops/extra/a.h", "", "no layer"),
        ("native/src/a.h", "", "no layer"),
        (
            "flexflow/keras/a.py",
            "import flexflow.torch.model as m",
            "may not import flexflow.torch",
        ),
        ("flexflow/keras/a.py", "from flexflow import core, onnx", "may not import flexflow.onnx"),
        ("flexflow/core/a.py", "def f():\n  from flexflow.keras import x", "may not import"),
        ("flexflow/core/a.py", "import_module('flexflow.keras')", "may not import"),
        ("flexflow/torch/a.py", "from ..core import x", "relative import"),
        ("flexflow/onnx/a.py", "from ctypes import c_int", "ctypes is for core only"),
        ("flexflow/extra/a.py", "", "no layer"),
    ],
)
def test_layers_fault(name: str, text: str, fault: str, tmp_path: Path) -> None:
    headers = ("ops/op.h", "kernels/kernel.h", "kernels/cpu/k.h", "graph/graph.h")
    write(tmp_path, **{f"native/src/{h}": "" for h in headers})
    assert tool("check_layers.py", tmp_path) == (0, "layers ok\n")
    write(tmp_path, **{name: text})
    status, told = tool("check_layers.py", tmp_path)
    assert status == 1
    assert told.startswith(f"{name}:") and fault in told


def test_layers_allow_what_the_design_allows(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "native/src/graph/graph.h": "#include <vector>\n",
            "native/src/kernels/kernel.h": '#include "graph/graph.h"\n',
            "native/src/kernels/cpu/k.cc": '#include "dnnl.hpp"\n#include "kernels/kernel.h"\n',
            "native/src/c_api/c.cc": '#include "flexflow_c.h"\n#include "kernels/kernel.h"\n',
            "flexflow/core/a.py": "import ctypes\nimport flexflow.core.b\n",
            "flexflow/keras/a.py": "import numpy\nfrom flexflow.core import FFModel\n",
            "flexflow/__main__.py": "from flexflow.core import x\n",
        },
    )
    assert tool("check_layers.py", tmp_path) == (0, "layers ok\n")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"flexflow/a.py": "x = 1\n" * 701}, "over the cap: 701 lines: flexflow/a.py"),
        ({"tests/a.py": "x = 1\n" * 701}, "over the cap: 701 lines"),
        ({"flexflow/a.py": "x = 1\n" * 401}, "a tenth of all files is longer than 400"),
        ({"flexflow/a.py": "def f():\n" + "  x = 1\n" * 100}, "101 lines: flexflow/a.py:1 f"),
        ({"flexflow/a.py": "def f():\n" + "  x = 1\n" * 40}, "a tenth of all functions"),
        ({"native/a.cc": "int a;\n" * 20}, "comments   0.0 %"),
        ({"native/a.cc": "int a;\n" * 17 + "/* x\n y\n z */\n"}, "comments   15.0 %"),
    ],
)
def test_size_fault(files: dict[str, str], fault: str, tmp_path: Path) -> None:
    write(tmp_path, **files)
    status, told = tool("size.py", tmp_path)
    assert status == 1 and fault in told


def test_size_leaves_docstrings_and_long_tests_alone(tmp_path: Path) -> None:
    docstring = "def f():\n  '''x\n" + "  line\n" * 90 + "  '''\n  return 1\n"
    write(tmp_path, **{"flexflow/a.py": docstring, "tests/a.py": "x = 1\n" * 600})
    assert tool("size.py", tmp_path)[0] == 0


HEADER = """
#ifndef X_H
#define X_H
#define FF_MAX_RANK 8
/* A comment; with a semicolon { and a brace. */
typedef uint64_t ff_handle; // a trailing one;
typedef enum ff_kind { FF_A, FF_B = 5, FF_C } ff_kind;
typedef struct ff_pair {
  const char* name;
  int64_t shape[FF_MAX_RANK];
} ff_pair;
typedef void (*ff_callback)(void* context, ff_handle);
FF_API const char* ff_text(void);
FF_API ff_kind ff_do(ff_handle h, const ff_pair* pairs, const char** text,
                     double x, ff_callback done);
#endif
"""


def test_gen_abi_reads_every_form_of_declaration() -> None:
    sys.path.insert(0, str(TOOLS))
    try:
        from gen_abi import Header
    finally:
        sys.path.remove(str(TOOLS))
    module: dict = {}
    exec(Header(HEADER).python(), module)
    constants = {name: module[name] for name in ("FF_MAX_RANK", "FF_A", "FF_B", "FF_C")}
    assert constants == {"FF_MAX_RANK": 8, "FF_A": 0, "FF_B": 5, "FF_C": 6}
    pair = module["ff_pair"](b"x")
    assert pair.name == b"x" and len(pair.shape) == 8
    assert module["FUNCTIONS"]["ff_text"] == ((), module["c_char_p"])
    arguments, result = module["FUNCTIONS"]["ff_do"]
    assert result is module["c_int"]
    assert arguments == (
        module["c_uint64"],
        module["POINTER"](module["ff_pair"]),
        module["POINTER"](module["c_char_p"]),
        module["c_double"],
        module["ff_callback"],
    )
    with pytest.raises(SystemExit, match="unknown type: long"):
        Header("FF_API long ff_bad(void);")
    with pytest.raises(SystemExit, match="cannot read"):
        Header("int ff_bad(void);")


def test_generated_interface_is_current() -> None:
    assert tool("gen_abi.py", "--check") == (0, "abi ok\n")


def test_generated_table_of_splits_is_current() -> None:
    pytest.importorskip("torch")
    assert tool("gen_splits.py", "--check") == (0, "splits ok\n")
