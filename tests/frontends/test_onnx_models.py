# ruff: noqa: E501 -- tables with a row a line
"""Files as PyTorch's exporters write them: training step by step, what is learnt, and messages."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
import torch.nn.functional as fn  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import nn  # noqa: E402
from torch_peer import Peers  # noqa: E402

from flexflow.core import DataType, FFConfig, FFModel  # noqa: E402
from flexflow.onnx.model import ONNXModel  # noqa: E402

EXPORTERS = ["torchscript", "dynamo"]


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def ids(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape)


def export(module: nn.Module, example: Any, exporter: str, training: bool) -> Any:
    """A file of a module, with the batch left open."""
    dtype = next(module.parameters()).dtype
    tensor = (
        torch.tensor(example) if example.dtype.kind == "i" else torch.tensor(example, dtype=dtype)
    )
    buffer = io.BytesIO()
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
        program = torch.onnx.export(
            module.train(training),
            (tensor,),
            dynamo=True,
            input_names=["x"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=2)},),
            verbose=False,
        )
        return program.model_proto
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        module,
        (tensor,),
        buffer,
        dynamo=False,
        input_names=["x"],
        dynamic_axes={"x": {0: "batch"}},
        training=mode,
        do_constant_folding=not training,
    )
    return onnx.load_from_string(buffer.getvalue())


def build(exporter: str, example: Any, training: bool, renamed: Collection[str]) -> Any:
    """Build the file of a module; ``renamed`` are weights that the exporter folds into others."""

    def of(module: nn.Module) -> Any:
        def into(ffmodel: Any, inputs: Any) -> Any:
            importer = ONNXModel(export(module, example, exporter, training))
            result = importer.apply(ffmodel, {"x": inputs[0]})
            expected = {name for name, _ in module.named_parameters()}
            assert expected - set(importer.weights) == set(renamed)
            return [result], {n: w for n, w in importer.weights.items() if n in expected}

        return into

    return of


class Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Conv2d(channels, out, 1, stride)

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(fn.relu(self.bn1(self.conv1(x)))))
        return fn.relu(y + self.down(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.layers = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        x = fn.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        return self.fc(x.view(x.size(0), -1))


class Tied(nn.Module):
    """A language model whose last layer has the embedding's table."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("position", torch.linspace(-1, 1, 30).reshape(5, 6))

    def forward(self, words: Any) -> Any:
        x = self.norm(self.embedding(words) + self.position)
        return self.head(torch.tanh(self.fc(x)).mean(1) * 2.0)


CNN = nn.Sequential(
    *(nn.Conv2d(1, 4, 3), nn.ELU(), nn.MaxPool2d(2, ceil_mode=True)),
    *(nn.Conv2d(4, 6, (1, 3), padding=(0, 1)), nn.SiLU(), nn.AvgPool2d(2, padding=1)),
    *(nn.Flatten(), nn.Linear(6 * 3 * 4, 5), nn.LogSoftmax(dim=1)),
)
MLP = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5), nn.Sigmoid(), nn.Linear(5, 3))
# What a network is fed with, and the weights that lose their names: a dense layer over more than
# rows is written as a product with its transposed kernel.
NETWORKS = {
    "mlp": (MLP, rand(6, 7), {}),
    "cnn": (CNN, rand(3, 1, 9, 13), {}),
    "classifier": (
        nn.Sequential(
            nn.Embedding(20, 6), nn.Linear(6, 6), nn.GELU(), nn.Flatten(), nn.Linear(42, 4)
        ),
        ids(20, 5, 7),
        {"dynamo": ["1.weight"], "torchscript": ["1.weight"]},
    ),
}


def peers(name: str, exporter: str, dtype: str) -> Peers:
    torch.manual_seed(2)
    module, data, renamed = NETWORKS[name]
    for layer in module.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    return Peers(module, [data], build(exporter, data, False, renamed.get(exporter, ())), dtype)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_training(name: str, exporter: str) -> None:
    ours = peers(name, exporter, "float32")
    ours.tolerance = 1e-4
    ours.check(steps=5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_training_in_float64(name: str) -> None:
    peers(name, "torchscript", "float64").check(steps=5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_resnet_trains() -> None:
    """Exported for training, batch normalisation trains as PyTorch's does."""
    torch.manual_seed(3)
    data = rand(4, 3, 9, 7)
    Peers(ResNet(), [data], build("torchscript", data, True, ())).check(steps=5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_resnet_for_inference(exporter: str) -> None:
    """Exported for inference, normalisation is folded into convolutions; results are eval()'s."""
    torch.manual_seed(3)
    data = rand(4, 3, 9, 7)
    module = ResNet().eval()
    importer = ONNXModel(export(module, data, exporter, False))
    ffmodel = FFModel(FFConfig(device="reference"))
    x = ffmodel.create_tensor([4, 3, 9, 7], DataType.DT_FLOAT)
    result = importer.apply(ffmodel, {"x": x})
    from flexflow.core import CompMode

    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=result)
    expected = module(torch.tensor(data, dtype=torch.float32)).detach().numpy()
    got = ffmodel.predict(data.astype(np.float32))
    assert np.abs(got - expected).max() < 1e-4


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_tied_weights_are_one(exporter: str) -> None:
    torch.manual_seed(4)
    data = ids(11, 3, 5)
    module = Tied()
    importer = ONNXModel(export(module, data, exporter, False), frozen=["position"])
    ffmodel = FFModel(FFConfig(device="reference"))
    x = ffmodel.create_tensor([3, 5], DataType.DT_INT64)
    importer.apply(ffmodel, {"x": x})
    tables = [n for n, w in importer.weights.items() if w.dims == (11, 6)]
    assert len(tables) == 1
    assert not ffmodel.tensor_info(importer.weights["position"].id).trainable


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_buffers_are_known_from_dynamo() -> None:
    data = ids(11, 3, 5)
    importer = ONNXModel(export(Tied(), data, "dynamo", False))
    ffmodel = FFModel(FFConfig())
    importer.apply(ffmodel, {"x": ffmodel.create_tensor([3, 5], DataType.DT_INT64)})
    assert not ffmodel.tensor_info(importer.weights["position"].id).trainable


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_and_other_batches(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(export(MLP.float(), rand(6, 7), "torchscript", False), str(path))
    for source in (path, str(path), onnx.load(path)):
        importer = ONNXModel(source)
        assert importer.inputs == {"x": ("batch", 7)}
        ffmodel = FFModel(FFConfig())
        x = ffmodel.create_tensor([9, 7], DataType.DT_FLOAT)
        assert importer.apply(ffmodel, {"x": x}).dims == (9, 3)
    with pytest.raises(FileNotFoundError):
        ONNXModel(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.onnx", b"", "is empty"),
        ("cut.onnx", b"\x08\x08\x3a\xff\xff", "cannot be read: "),
        ("page.onnx", b"<html>", "cannot be read: "),
        ("half.onnx", b"\x08\x08", "holds no graph with a result"),
        ("page.json", b"<html>", "cannot be read: "),
    ],
)
def test_a_file_that_is_damaged(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} {message}.*expected a file as torch.onnx.export"):
        ONNXModel(path)


def test_not_a_file() -> None:
    with pytest.raises(TypeError, match="filename is int, expected a path or a ModelProto"):
        ONNXModel(3)  # type: ignore[arg-type]


# ---- graphs by hand ----
def graph(nodes: list[Any], initializers: Any = (), outputs: Any = ("y",), opset: int = 17) -> Any:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    results = [helper.make_tensor_value_info(one, TensorProto.UNDEFINED, None) for one in outputs]
    arrays = [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()]
    made = helper.make_graph(nodes, "graph", [x], results, arrays)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])


def apply(proto: Any, dims: Any = (6, 4), dtype: Any = DataType.DT_FLOAT, **options: Any) -> Any:
    ffmodel = FFModel(FFConfig())
    importer = ONNXModel(proto, **options)
    result = importer.apply(ffmodel, {"x": ffmodel.create_tensor(dims, dtype, name="x")})
    return ffmodel, result, importer


def test_names_are_kept() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "/fc:w"], ["/a/out"], "/fc/MatMul"),
        helper.make_node("Add", ["/a/out", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"], "/fc/MatMul"),
    ]
    weights = {"/fc:w": np.ones((4, 3), np.float32), "b": np.zeros(3, np.float32)}
    ffmodel, _, importer = apply(graph(nodes, weights))
    kinds = {layer.name: layer.kind for layer in ffmodel.get_layers().values()}
    assert kinds["/fc/MatMul"] == "linear" and kinds["sum"] == "add"
    assert kinds["/fc/MatMul_1"] == "relu"
    assert {n: w.name for n, w in importer.weights.items()} == {"/fc:w": "/fc:w", "b": "b"}


def test_one_initializer_is_one_weight() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("Identity", ["w"], ["v"]),
        helper.make_node("Gemm", ["t", "v"], ["y"], transB=1),
    ]
    ffmodel, _, importer = apply(graph(nodes, {"w": np.ones((4, 4), np.float32)}))
    kernels = [layer for layer in ffmodel.get_layers().values() if layer.kind == "linear"]
    assert len(kernels) == 2 and list(importer.weights) == ["w"]


def test_initializers_may_be_listed_as_inputs() -> None:
    proto = graph([helper.make_node("Add", ["x", "w"], ["y"])], {"w": np.ones(4, np.float32)})
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    assert apply(proto)[2].inputs == {"x": ("n", 4)}


def test_several_results() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    _, results, importer = apply(graph(nodes, outputs=("y", "z", "y", "x")))
    assert [one.name for one in results] == ["y", "z", "y", "x"]
    assert importer.outputs == ["y", "z", "y", "x"]


def test_literals_are_not_learnt() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["y"]),
    ]
    weights = {"two": np.array(2, np.float32), "w": np.ones(4, np.float32)}
    ffmodel, _, importer = apply(graph(nodes, weights), frozen=["w"])
    assert list(importer.weights) == ["w"]
    assert not ffmodel.tensor_info(importer.weights["w"].id).trainable
    with pytest.raises(ValueError, match="frozen names no initializer: {'v'}"):
        ONNXModel(graph(nodes, weights), frozen=["v"])


def test_local_functions() -> None:
    twice = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    proto = graph([helper.make_node("Twice", ["x"], ["y"], domain="local")])
    proto.functions.append(twice)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    ffmodel, _, _ = apply(proto)
    assert [layer.kind for layer in ffmodel.get_layers().values()] == ["add"]


# ---- messages ----
def test_every_problem_is_listed() -> None:
    body = helper.make_graph([], "body", [], [])
    nodes = [
        helper.make_node("Erf", ["x"], ["a"], "erf"),
        helper.make_node(
            "MaxPool", ["a"], ["b", "where"], "pool", kernel_shape=[2, 2], dilations=[2, 2]
        ),
        helper.make_node("Shape", ["b"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["g"]),
        helper.make_node("Reshape", ["b", "g"], ["c"]),
        helper.make_node("Attention", ["c"], ["d"], "attention", domain="com.microsoft"),
        helper.make_node("Elu", ["d"], ["e"], "elu", beta=2.0),
        helper.make_node("If", ["zero"], ["f"], "if", then_branch=body, else_branch=body),
        helper.make_node("RandomNormal", [], ["r"], "noise", shape=[4]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    with pytest.raises(NotImplementedError) as caught:
        apply(graph(nodes, {"zero": np.array(0)}))
    lines = str(caught.value).splitlines()
    expected = [
        "Erf 'erf': there is no such operator here",
        "MaxPool 'pool': dilations=[2, 2], but only [1, 1] is supported",
        "Attention 'attention': there is no domain 'com.microsoft' here",
        "Elu 'elu': attribute beta=2.0 is not known here",
        "If 'if': its constant result cannot be computed",
        "RandomNormal 'noise': it draws random numbers",
    ]
    assert lines[0] == f"ONNXModel: not supported, {len(expected)} in all:"
    for line, part in zip(lines[1:], expected):
        assert line.strip().startswith(part)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("NonZero", "x", "y", {})], "NonZero 'y': there is no such operator"),
        (
            [("Reshape", "x n", "y", {}), ("Abs", "x", "z", {})],
            "Reshape 'y': the shape is computed",
        ),
        ([("Pow", "x x", "y", {})], "Pow 'y': the exponent is computed"),
        ([("Dropout", "x", "a y", {})], "result 'y': output 'y' of Dropout 'a'"),
        ([("Slice", "x k k k two", "y", {})], "a slice with step 2"),
        ([("Gather", "x pair", "y", {})], r"indices \[0, 2\]"),
        ([("Cast", "x", "y", {"to": 17})], "to=17, a type that FlexFlow has not"),
        ([("AveragePool", "x", "y", {"kernel_shape": [2]})], r"a window \[2\] over"),
        ([("Relu", "x x", "y", {})], "2 inputs, expected at most 1"),
        ([("Gemm", "x", "y", {})], "Gemm 'y': 1 inputs, expected at least 2"),
        ([("MaxPool", "x", "y", {})], "MaxPool 'y': attribute kernel_shape is missing"),
        ([("Add", "x x", "y", {"broadcast": 1})], "attribute broadcast=1 is not known"),
    ],
)
def test_message(nodes: Any, message: str) -> None:
    made = [helper.make_node(o, i.split(), y.split(), **a) for o, i, y, a in nodes]
    constants = {
        "k": np.array([1]),
        "two": np.array([2]),
        "pair": np.array([0, 2]),
        "w": np.ones((2, 4, 4), np.float32),
        "n": np.ones(2, np.float32),
    }
    if "computed" in message and "shape" in message:
        made.insert(0, helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64))
        del constants["n"]
    with pytest.raises(NotImplementedError, match=message):
        apply(graph(made, constants))


def test_wrong_inputs() -> None:
    proto = graph([helper.make_node("Relu", ["x"], ["y"])])
    with pytest.raises(ValueError, match=r"input 'x' is of shape \(6, 5\), expected \('n', 4\)"):
        apply(proto, [6, 5])
    with pytest.raises(TypeError, match="input 'x' is int64, expected float32"):
        apply(proto, dtype=DataType.DT_INT64)
    ffmodel = FFModel(FFConfig())
    with pytest.raises(ValueError, match=r"got tensors for \['z'\], expected \['x'\]"):
        ONNXModel(proto).apply(ffmodel, {"z": ffmodel.create_tensor([6, 4])})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 32
    with pytest.raises(ValueError, match="export with dynamic_axes"):
        apply(proto)


def broken(change: Any) -> Any:
    """A file of one Gemm, to which something was done."""
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "fc")
    proto = graph([node], {"w": np.ones((4, 2), np.float32)})
    change(proto.graph)
    return proto


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.ClearField("initializer"), "Gemm 'fc' takes 'w', which no input, initializer"),
        (lambda g: g.node.add(op_type="Abs", input=["x"], output=["y"]), "Abs 'y' gives 'y', which Gemm 'fc' gives, too"),
        (lambda g: g.node.add(op_type="Abs", input=["x"], output=["w"]), "gives 'w', which an input or initializer gives"),
        (lambda g: g.node.add(op_type="Abs", input=["x"]), "Abs '' has no output"),
        (lambda g: g.node[0].input.__setitem__(0, "y"), "Gemm 'fc' takes 'y', the result of Gemm 'fc', .*a cycle"),
        (lambda g: g.node[0].output.__setitem__(0, "z"), "no node gives the result 'y'"),
        (lambda g: g.ClearField("output"), "no node gives the result ''"),
        (lambda g: setattr(g.initializer[0], "data_type", 99), "initializer 'w' of type 99 .* cannot be read"),
        (lambda g: setattr(g.initializer[0], "raw_data", b"123"), "initializer 'w' of type 1 .* cannot be read"),
        (lambda g: g.initializer[0].dims.__setitem__(0, -4), r"initializer 'w' has the extents \[-4, 2\]"),
    ],
)  # fmt: skip
def test_a_graph_that_cannot_be_computed(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"ONNXModel: .*{message}"):
        ONNXModel(broken(change))


def test_nodes_in_another_order() -> None:
    nodes = [
        helper.make_node("Abs", ["b"], ["y"], "last"),
        helper.make_node("Exp", ["x"], ["a"], "first"),
        helper.make_node("Neg", ["a"], ["b"], "middle"),
    ]
    ffmodel, _, _ = apply(graph(nodes))
    assert [layer.name for layer in ffmodel.get_layers().values()] == ["first", "middle", "last"]


def test_a_newer_operator_set_is_refused() -> None:
    proto = graph([helper.make_node("Relu", ["x"], ["y"])], opset=99)
    with pytest.raises(NotImplementedError, match="version 99, known .* up to .*opset_version="):
        ONNXModel(proto)


def test_an_input_of_a_type_that_flexflow_lacks() -> None:
    proto = graph([helper.make_node("Relu", ["x"], ["y"])])
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(NotImplementedError, match="input 'x' is of ONNX's type 8"):
        ONNXModel(proto)


def test_a_window_that_contradicts_the_weight() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", kernel_shape=[5, 5])
    proto = graph([node], {"w": np.ones((2, 3, 3, 3), np.float32)})
    del proto.graph.input[0].type.tensor_type.shape.dim[:]
    for _ in range(4):
        proto.graph.input[0].type.tensor_type.shape.dim.add(dim_param="n")
    with pytest.raises(ValueError, match=r"Conv 'conv': kernel_shape=\[5, 5\].*are \[3, 3\]"):
        apply(proto, [2, 3, 9, 9])


def test_arguments_of_another_kind() -> None:
    proto = graph([helper.make_node("Relu", ["x"], ["y"])])
    model: Any = ONNXModel(proto)
    with pytest.raises(TypeError, match=r"input_dict is NoneType, expected a dict .*\['x'\]"):
        model.apply(FFModel(FFConfig()), None)
    with pytest.raises(TypeError, match="ffmodel is NoneType"):
        model.apply(None, {})
    with pytest.raises(TypeError, match="training: got 'no', expected True or False"):
        ONNXModel(proto, training="no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="frozen is 'w', expected a list"):
        ONNXModel(proto, frozen="w")


def test_wrong_shapes_name_the_node() -> None:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "fc")
    with pytest.raises(ValueError, match="Gemm 'fc'"):
        apply(graph([node], {"w": np.ones((3, 2), np.float32)}))


def test_onnx_is_imported_late() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "from flexflow.onnx.model import ONNXModel\n"
        "try: ONNXModel('a.onnx')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "flexflow.onnx needs the onnx package: pip install 'flexflow[onnx]'\n"


def test_docstrings() -> None:
    import doctest

    import flexflow.onnx.model

    result = doctest.testmod(flexflow.onnx.model)
    assert result.attempted > 5 and result.failed == 0


def test_example() -> None:
    pytest.importorskip("sklearn")
    command = [sys.executable, "-m", "examples.python.onnx.digits_cnn"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
