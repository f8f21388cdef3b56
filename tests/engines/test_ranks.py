"""Several ranks: processes that run one script together compute what one process does, and end
together.

The numbers are those of ranks_program.py, which one process runs with the engine "local" as well.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from program import ROOT
from test_strategies import assert_close

from flexflow.core import describe
from flexflow.core._find import library_path

HERE = Path(__file__).parent
PLUGIN = library_path().with_name("libflexflow_legion.so")
LINE = "from flexflow.core import *\nimport os, sys, time\n"
MODEL = """
model = FFModel(FFConfig(batch_size=8))
x = model.create_tensor([8, 4])
model.dense(x, WIDTH)
model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
import numpy as np
data = np.ones((8, 4), np.float32)
model.fit(data, np.ones((8, WIDTH), np.float32), verbose=0)
"""


def missing() -> str:
    """Why ranks cannot be tried here; "" if they can."""
    if "legion" not in describe("engines"):
        return "this build has no engine legion"
    if b"ucp_" not in PLUGIN.read_bytes():
        return "the plug-in was built for a Legion without UCX"
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def environment(**more: str) -> dict[str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("FLEXFLOW_RANK") and k != "PYTHONUNBUFFERED"
    }
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), **more}


def launched(*arguments: str, ranks: int = 2) -> list[str]:
    return [sys.executable, "-m", "flexflow", "launch", "-n", str(ranks), *arguments]


def run(command: list[str], timeout: float, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment(**more), cwd=ROOT
    )


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(LINE + text)
    return str(path)


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_ranks_compute_what_one_process_does(devices: int, tmp_path: Path) -> None:
    program = str(HERE / "ranks_program.py")
    results = []
    for name, command in (
        ("alone", [sys.executable, program]),
        ("ranks", launched("--devices-per-rank", str(devices // 2), program)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        engine = {"FLEXFLOW_ENGINE": "local"} if name == "alone" else {}
        done = run([*command, str(folder), str(devices)], 600, **engine)
        assert done.returncode == 0, done.stdout + done.stderr
        results += [np.load(path) for path in sorted(folder.iterdir()) if path.stem.isdigit()]
    alone, *ranks = results
    assert len(ranks) == 2
    for rank, values in enumerate(ranks):
        assert values.files == alone.files
        for name in alone.files:
            close = 1e-6 if "float32" in name else 1e-12
            np.testing.assert_allclose(
                values[name], alone[name], close, close, err_msg=f"rank {rank}: {name}"
            )


def test_only_rank_0_prints_what_is_printed_once(tmp_path: Path) -> None:
    text = MODEL.replace("WIDTH", "3").replace("verbose=0", "verbose=2")
    done = run(launched(script(tmp_path, text + "print('rank', rank(), 'of', ranks())")), 60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "rank 0 of 2" in lines and "[1] rank 1 of 2" in lines
    assert len([line for line in lines if "loss" in line]) == 1


@pytest.mark.parametrize(
    ("last", "code", "says"),
    [
        ("raise KeyError('lost')", 1, "[1] KeyError: 'lost'"),
        ("os._exit(3)", 3, ""),
        ("sys.exit(4)", 4, ""),
        ("os.kill(os.getpid(), 9)", 128 + 9, ""),
    ],
)
@pytest.mark.parametrize("when", ["before use", "after use"])
def test_a_rank_that_fails_ends_all(
    last: str, code: int, says: str, when: str, tmp_path: Path
) -> None:
    used = MODEL.replace("WIDTH", "3")
    text = f"{used if when == 'after use' else ''}\nif rank() == 1:\n    {last}\n{used}\n"
    start = time.monotonic()
    done = run(launched(script(tmp_path, text + "time.sleep(60)")), 60)
    assert done.returncode == code, done.stdout + done.stderr
    assert time.monotonic() - start < 30
    assert "rank 1 ended" in done.stderr
    assert says in done.stderr


RANK_0 = {"FLEXFLOW_RANK": "0", "FLEXFLOW_RANKS": "2", "FLEXFLOW_ROOT": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"FLEXFLOW_RANK": "x"}, 'FLEXFLOW_RANK is "x"; expected a whole number from 0 to 1'),
        ({"FLEXFLOW_RANK": "2"}, 'FLEXFLOW_RANK is "2"; expected a whole number from 0 to 1'),
        ({"FLEXFLOW_RANKS": "0"}, 'FLEXFLOW_RANKS is "0"; expected a whole number from 1 to 1024'),
        ({"FLEXFLOW_RANKS": ""}, "FLEXFLOW_RANKS is not; set both or none"),
        ({"FLEXFLOW_ROOT": ""}, "FLEXFLOW_ROOT is missing"),
        ({"FLEXFLOW_ROOT": "127.0.0.1:99999"}, "expected HOST:PORT"),
        ({"FLEXFLOW_RANK": "1", "FLEXFLOW_ROOT_TIMEOUT": "1"}, "rank 1 waited 1 seconds"),
        ({"FLEXFLOW_ROOT_SOCKET": "77"}, "a program that a rank starts is none of the ranks"),
        ({"FLEXFLOW_FLAGS": "-ll:networks none"}, 'flag -ll:networks got "none" for 2 ranks'),
    ],
)
def test_what_keeps_a_rank_from_starting_is_told(
    variables: dict[str, str], says: str, tmp_path: Path
) -> None:
    text = MODEL.replace("WIDTH", "3")
    done = run([sys.executable, script(tmp_path, text)], 60, **{**RANK_0, **variables})
    assert done.returncode == 1
    assert says in done.stderr, done.stderr


def test_a_port_in_use_and_a_rank_that_never_comes(tmp_path: Path) -> None:
    command = [sys.executable, script(tmp_path, MODEL.replace("WIDTH", "3"))]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = {**RANK_0, "FLEXFLOW_ROOT": f"127.0.0.1:{taken.getsockname()[1]}"}
        used = run(command, 60, **variables)
    never = run(command, 60, **variables, FLEXFLOW_ROOT_TIMEOUT="1")
    assert used.returncode == never.returncode == 1
    assert "cannot listen at FLEXFLOW_ROOT" in used.stderr, used.stderr
    assert "these did not come: 1" in never.stderr, never.stderr


@pytest.mark.parametrize(
    ("who", "when", "says"),
    [
        (0, "before use", "ended"),  # before or after rank 1 came
        (1, "before use", "rank 1 ended before it used FlexFlow"),
        (1, "after use", "rank 1 has come to its end, and rank 0 goes on"),
    ],
)
def test_a_rank_that_ends_before_the_others(who: int, when: str, says: str, tmp_path: Path) -> None:
    used = MODEL.replace("WIDTH", "3")
    text = f"{used if when == 'after use' else ''}\nif rank() == {who}:\n    sys.exit()\n{used}\n"
    done = run(launched(script(tmp_path, text)), 60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert says in done.stderr, done.stderr


def test_ranks_without_a_launcher_notice_a_death(tmp_path: Path) -> None:
    used = MODEL.replace("WIDTH", "3")
    text = f"{used}\nif rank() == 1:\n    os._exit(3)\n{used}\n"
    with socket.create_server(("127.0.0.1", 0)) as free:
        root = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, script(tmp_path, text)]
    variables = {"FLEXFLOW_RANKS": "2", "FLEXFLOW_ROOT": root}
    other = subprocess.Popen(command, env=environment(FLEXFLOW_RANK="1", **variables), cwd=ROOT)
    done = run(command, 60, FLEXFLOW_RANK="0", **variables)
    assert other.wait(60) == 3
    assert done.returncode == 1
    assert "rank 1 has died" in done.stderr, done.stderr


def test_weights_are_those_of_rank_0(tmp_path: Path) -> None:
    """Also where each rank drew its own, before or after it compiled the model."""
    layer = "    weight = model.get_layers()[0].get_parameters()[0]\n"
    text = f"""
import numpy as np
values = np.random.default_rng(rank()).normal(size=(5, 4)).astype(np.float32)
data = np.ones((8, 4), np.float32)
for late in (False, True):
    model = FFModel(FFConfig(batch_size=8))
    model.dense(model.create_tensor([8, 4]), 5)
{layer}    late or weight.set_weights(model, values)
    model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    model.predict(data)
    late and weight.set_weights(model, values)
    expected = data @ np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32).T
    np.testing.assert_allclose(model.predict(data), expected, 1e-5)
    model.fit(data, expected + 1, verbose=0)
    print(late, weight.get_weights().tobytes().hex())
"""
    done = run(launched(script(tmp_path, text)), 60)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("[1] ") for line in done.stdout.splitlines()]
    assert len(lines) == 4 and len(set(lines)) == 2, done.stdout


def test_launchers_in_ranks_and_threads(tmp_path: Path) -> None:
    """What a rank starts is no rank, but may have ranks of its own."""
    text = (
        MODEL.replace("WIDTH", "3")
        + """
import subprocess
inner = [sys.executable, "-c", "from flexflow.core import *; print(FFConfig().num_nodes)"]
alone = subprocess.run(inner, capture_output=True, text=True)
if rank() == 0:
    print(alone.returncode, "none of the" in alone.stderr, flush=True)
    import threading
    from flexflow.core.launch import launch
    codes = []
    thread = threading.Thread(target=lambda: codes.append(launch(inner, 2)))
    thread.start(); thread.join()
    print(codes)
"""
    )
    done = run(launched(script(tmp_path, text)), 60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["1 True", "2", "[0]", "[1] 2"], done.stdout


def test_a_launcher_without_files(tmp_path: Path) -> None:
    """No socket takes the place of the output that is not there."""
    text = MODEL.replace("WIDTH", "3") + "print('x' * 100000); sys.stderr.write('x' * 100000)"
    command = " ".join(launched(script(tmp_path, text)))
    done = run(["sh", "-c", f"{command} <&- >&- 2>&-"], 60)
    assert done.returncode == 0


def compare_random_strategies(folder: Path, per_rank: int, first: int, end: int) -> None:
    program = str(HERE / "ranks_strategies.py")
    arguments = [program, str(folder), str(2 * per_rank), str(first), str(end)]
    alone = run([sys.executable, *arguments], 600, FLEXFLOW_ENGINE="local")
    assert alone.returncode == 0, alone.stderr
    expected = dict(np.load(folder / "0.npz"))
    done = run(launched("--devices-per-rank", str(per_rank), *arguments), 1800)
    assert done.returncode == 0, done.stdout + done.stderr
    for number in (0, 1):
        values = np.load(folder / f"{number}.npz")
        for case in {name.split(":")[0] for name in values.files}:
            theirs = {k: v for k, v in expected.items() if k.split(":")[0] == case}
            assert_close({k: values[k] for k in values.files if k.split(":")[0] == case}, theirs)


def test_random_strategies(tmp_path: Path) -> None:
    compare_random_strategies(tmp_path, 2, 1, 4)


@pytest.mark.nightly
@pytest.mark.parametrize("per_rank", [1, 2])
def test_many_random_strategies(per_rank: int, tmp_path: Path) -> None:
    compare_random_strategies(tmp_path, per_rank, 100 * per_rank, 100 * per_rank + 40)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("dense(x, WIDTH)", "dense(model.dense(x, 2 + rank()), WIDTH)", "plan"),
        ("SGDOptimizer(model)", "SGDOptimizer(model, momentum=0.1 * rank())", "plan"),
        ("batch_size=8", "batch_size=8, seed=rank()", "seed"),
        ("fit(data,", "fit(data + rank(),", "data set"),
        ("ones((8,", "ones((16 - 8 * rank(),", "data set"),
    ],
)
def test_different_programs_are_refused(before: str, after: str, what: str, tmp_path: Path) -> None:
    text = MODEL.replace(before, after).replace("WIDTH", "3")
    done = run(launched(script(tmp_path, text)), 60)
    assert done.returncode == 1
    assert f"has another {what} than rank 0" in done.stderr, done.stderr


def test_too_little_memory_for_what_others_send(tmp_path: Path) -> None:
    text = MODEL.replace("WIDTH", "1000000")
    done = run(launched(script(tmp_path, text)), 60, FLEXFLOW_FLAGS="-ll:csize 8")
    assert done.returncode == 1
    assert "MiB of Legion's memory" in done.stderr, done.stderr
    assert "larger -ll:csize" in done.stderr, done.stderr


def test_devices_are_shared_evenly(tmp_path: Path) -> None:
    text = MODEL.replace("WIDTH", "3").replace("batch_size=8", "batch_size=8, devices=3")
    done = run(launched(script(tmp_path, text)), 60)
    assert done.returncode == 1
    assert "3 for 2 ranks; expected a multiple" in done.stderr, done.stderr


def test_a_line_of_any_rank_is_shown_when_it_is_printed(tmp_path: Path) -> None:
    text = "print('here', rank())\nsys.stdout.flush() if rank() == 0 else os.kill(os.getpid(), 9)"
    done = run(launched(script(tmp_path, text)), 60)
    assert "[1] here 1" in done.stdout.splitlines(), done.stdout + done.stderr


def free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])


def by_hand(path: str, root: str, rank: int) -> subprocess.Popen[str]:
    """A rank of two, started without the launcher."""
    ranks = {"FLEXFLOW_RANK": str(rank), "FLEXFLOW_RANKS": "2", "FLEXFLOW_ROOT": root}
    return subprocess.Popen(
        [sys.executable, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**{k: v for k, v in ranks.items() if v}),
        cwd=ROOT,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_ranks_meet_at_the_root(host: str, tmp_path: Path) -> None:
    try:
        root = f"{host}:{free_port(host)}"
    except OSError:
        pytest.skip(f"this machine has no {host}")
    path = script(tmp_path, MODEL.replace("WIDTH", "3") + "print(model.agree(rank() + 5))")
    processes = [by_hand(path, root, rank) for rank in (1, 0)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "5\n"), err


@pytest.mark.parametrize(("root", "is_wrong"), [("", "missing"), ("nowhere", '"nowhere"')])
def test_a_root_that_is_missing(root: str, is_wrong: str, tmp_path: Path) -> None:
    process = by_hand(script(tmp_path, MODEL.replace("WIDTH", "3")), root, 1)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"ValueError: FLEXFLOW_ROOT is {is_wrong}; expected HOST:PORT" in err, err


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_waits_says_so_and_can_be_interrupted(rank: int, tmp_path: Path) -> None:
    root = f"127.0.0.1:{free_port('127.0.0.1')}"
    process = by_hand(script(tmp_path, MODEL.replace("WIDTH", "3")), root, rank)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"flexflow: rank {rank} waits ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode != 0


def test_mpirun(tmp_path: Path) -> None:
    """With the MPI of the machine, or the one that is installed beside Legion for this test."""
    beside = ROOT / ".venv-legion/bin"
    mpirun = shutil.which("mpirun", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        pytest.skip("there is no mpirun")
    libraries = str(Path(mpirun).parent.parent / "lib")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    program = script(
        tmp_path, MODEL.replace("WIDTH", "3") + "print(rank(), ranks(), describe('runtime'))"
    )
    command = [mpirun, "-n", "2", "--oversubscribe", sys.executable, program]
    done = run(command, 60, LD_LIBRARY_PATH=libraries, **as_root)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 started", "1 2 started"]


@pytest.mark.parametrize("starts", [10, pytest.param(50, marks=pytest.mark.nightly)])
def test_many_starts(starts: int, tmp_path: Path) -> None:
    text = MODEL.replace("WIDTH", "3")
    for _ in range(starts):
        done = run(launched(script(tmp_path, text)), 60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_rank_outlives_the_launcher(number: int, tmp_path: Path) -> None:
    text = MODEL.replace("WIDTH", "3") + "print('pid', os.getpid(), flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        launched(script(tmp_path, text)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        process.send_signal(number)
        process.wait(30)
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
