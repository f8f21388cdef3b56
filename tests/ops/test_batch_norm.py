"""batch_norm beyond its row: running statistics, inference, frozen layers, groups of rows (in which
it is lowered to batch_norm_groups and running_statistics)."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tolerances import assert_close

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer, Strategy

DEVICES = [("float64", "reference"), ("float32", "cpu")]
SHAPES = [(8, 3), (4, 5, 3), (3, 4, 5, 2), (2, 17, 3, 3)]
random = np.random.default_rng(0)


class Norm:
    """One batch_norm of an input, with the sum of its output as the loss."""

    def __init__(self, shape, dtype="float64", device="reference", mode=CompMode.TRAINING, **attrs):
        self.model = FFModel(FFConfig(device=device))
        self.x = self.model.create_tensor(shape, dtype)
        self.y = self.model.batch_norm(self.x, relu=False, **attrs)
        layer = self.y.owner_op
        self.gamma, self.beta, self.mean, self.var = layer.get_parameters()
        optimizer = SGDOptimizer(self.model, lr=0.1) if mode is CompMode.TRAINING else None
        self.model.compile(optimizer, LossType.LOSS_IDENTITY, comp_mode=mode)

    def write(self, x: np.ndarray) -> None:
        self.model.label_tensor.set_tensor(self.model, np.zeros(x.shape))
        self.x.set_tensor(self.model, x)


def images(*shape: int) -> np.ndarray:
    return (random.normal(size=shape) * 2 + 0.5).astype(np.float32)


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("momentum", "groups"), [(0.9, 1), (0.5, 1), (0.0, 1), (0.9, 2), (0.5, 2)])
def test_running_statistics(
    shape: tuple[int, ...], momentum: float, groups: int, dtype: str, device: str
) -> None:
    """PyTorch's momentum is the share of the new statistics; its variance is unbiased. Groups move
    them like batches that come one after the other."""
    if groups > 1:
        shape = (2 * shape[0] + 1, *shape[1:])
    norm = Norm(shape, dtype, device, momentum=momentum, groups=groups)
    mean = torch.zeros(shape[1], dtype=torch.float64)
    var = torch.ones(shape[1], dtype=torch.float64)
    for _ in range(3):
        x = images(*shape)
        norm.write(x)
        norm.model.forward()
        for part in torch.tensor(x).double().tensor_split(groups):
            F.batch_norm(part, mean, var, training=True, momentum=1 - momentum)
        norm.y.get_tensor()  # reading does not count the batch again
        assert_close(norm.mean.get_weights(), mean.numpy(), dtype, "mean")
        assert_close(norm.var.get_weights(), var.numpy(), dtype, "variance")


def test_biased_running_variance() -> None:
    norm = Norm((6, 3), unbiased=False, momentum=0.0)
    x = images(6, 3)
    norm.write(x)
    norm.model.forward()
    np.testing.assert_allclose(norm.var.get_weights(), x.astype(np.float64).var(0), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_inference_takes_running_statistics(
    shape: tuple[int, ...], dtype: str, device: str
) -> None:
    norm = Norm(shape, dtype, device)
    values = [random.uniform(0.5, 2, size=shape[1]).astype(np.float32) for _ in range(4)]
    gamma, beta, mean, var = values
    for weight, value in zip((norm.gamma, norm.beta, norm.mean, norm.var), values):
        weight.set_weights(norm.model, value)
    x = images(2 * shape[0] + 1, *shape[1:])
    expected = F.batch_norm(*(torch.tensor(a).double() for a in (x, mean, var, gamma, beta)))
    assert_close(norm.model.predict(x), expected.numpy(), dtype, "prediction")
    for weight, value in zip((norm.gamma, norm.beta, norm.mean, norm.var), values):
        np.testing.assert_array_equal(weight.get_weights(), value.astype(dtype))


def test_fit_moves_statistics_like_the_manual_loop() -> None:
    x = images(10, 3)
    y = np.zeros_like(x)
    fitted, by_hand = Norm((4, 3)), Norm((4, 3))
    fitted.model.fit(x, y, verbose=0)
    for rows in (slice(0, 4), slice(4, 8), slice(8, 10)):
        by_hand.write(x[rows])
        by_hand.model.zero_gradients()
        by_hand.model.forward()
        by_hand.model.backward()
        by_hand.model.update()
    for name in ("gamma", "beta", "mean", "var"):
        ours, theirs = getattr(fitted, name), getattr(by_hand, name)
        np.testing.assert_allclose(ours.get_weights(), theirs.get_weights(), rtol=1e-12)


def test_evaluation_moves_nothing() -> None:
    norm = Norm((4, 3))
    x = images(8, 3)
    norm.model.eval(x, np.zeros_like(x), verbose=0)
    norm.model.predict(x)
    np.testing.assert_array_equal(norm.mean.get_weights(), np.zeros(3))
    np.testing.assert_array_equal(norm.var.get_weights(), np.ones(3))


@pytest.mark.parametrize("frozen", ["scale", "center"])
def test_scale_and_shift_can_be_left_out(frozen: str) -> None:
    norm = Norm((4, 3), **{frozen: False})
    norm.model.fit(images(8, 3), np.zeros((8, 3)), verbose=0)
    stays = norm.gamma if frozen == "scale" else norm.beta
    np.testing.assert_array_equal(stays.get_weights(), np.full(3, frozen == "scale"))


def test_constant_channels_are_safe() -> None:
    """A variance of 0 divides by the root of eps."""
    norm = Norm((4, 3))
    norm.write(np.ones((4, 3)))
    norm.model.forward()
    norm.model.backward()
    np.testing.assert_array_equal(norm.y.get_tensor(), np.zeros((4, 3)))
    assert np.isfinite(norm.x.get_gradients()).all()


def test_a_biased_variance_of_groups() -> None:
    norm = Norm((7, 3), unbiased=False, momentum=0.0, groups=2)
    x = images(7, 3)
    norm.write(x)
    norm.model.forward()
    last = x[4:].astype(np.float64)
    np.testing.assert_allclose(norm.mean.get_weights(), last.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.var.get_weights(), last.var(0), rtol=1e-12)


def test_groups_are_checked() -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([4, 3])
    with pytest.raises(ValueError, match=r'"norm": .*"groups" is 5 for a batch of 4 rows'):
        model.batch_norm(x, name="norm", groups=5)
    with pytest.raises(ValueError, match=r"norm: groups: got 0, expected at least 1"):
        model.batch_norm(x, name="norm", groups=0)
    with pytest.raises(ValueError, match=r'"groups" is -1 for a batch of 4 rows'):
        model.op("batch_norm", [x], outputs=1, groups=-1)


def by_groups(x: torch.Tensor, groups: int) -> torch.Tensor:
    return torch.cat([F.batch_norm(p, None, None, training=True) for p in x.tensor_split(groups)])


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 8, 11])
def test_groups_of_another_batch(rows: int, dtype: str, device: str) -> None:
    """As many as there were, but no more than rows; a group of one row gives its shift."""
    norm = Norm((8, 3, 2), dtype, device, groups=4)
    x = images(rows, 3, 2)
    norm.write(x)
    norm.model.forward()
    expected = by_groups(torch.tensor(x).double(), min(rows, 4))
    assert_close(norm.y.get_tensor(), expected.numpy(), dtype, "output")


def test_a_smaller_last_batch_of_groups() -> None:
    """11 rows in steps of 4, which has 3 rows left for the last one."""
    x = images(11, 3)
    norm = Norm((4, 3), groups=4, momentum=0.5)
    norm.model.fit(x, np.zeros_like(x), verbose=0)
    mean = torch.zeros(3, dtype=torch.float64)
    for row in torch.tensor(x).double():
        mean = 0.5 * mean + 0.5 * row
    np.testing.assert_allclose(norm.mean.get_weights(), mean.numpy(), rtol=1e-12)


def test_all_outputs_with_groups() -> None:
    """Statistics of each group; in inference the running ones stand in for them."""
    for mode in (CompMode.TRAINING, CompMode.INFERENCE):
        model = FFModel(FFConfig(device="reference"))
        x = model.create_tensor([5, 3], "float64")
        outputs = model.op("batch_norm", [x], outputs=5, groups=2)
        assert [tuple(t.dims) for t in outputs[1:]] == [(3,), (3,), (2, 3), (2, 3)]
        loss = LossType.LOSS_IDENTITY
        model.compile(SGDOptimizer(model), loss, comp_mode=mode, output=outputs[3])
        values = images(5, 3).astype(np.float64)
        model.label_tensor.set_tensor(model, np.zeros((2, 3)))
        x.set_tensor(model, values)
        model.forward()
        expected = np.stack([values[:3].mean(0), values[3:].mean(0)])
        if mode is CompMode.INFERENCE:
            expected = np.zeros((2, 3))
        np.testing.assert_allclose(outputs[3].get_tensor(), expected, rtol=1e-12)


def ghost(strategy: Strategy | None, groups: int, device: str = "reference") -> FFModel:
    model = FFModel(FFConfig(batch_size=12, device=device))
    t = model.create_tensor([12, 4, 3], "float64" if device == "reference" else "float32")
    t = model.batch_norm(model.sin(t, name="first"), relu=False, groups=groups, name="norm")
    model.dense(model.flat(t), 2, name="top")
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    model.compile(SGDOptimizer(model, lr=0.1), loss, strategy=strategy)
    return model


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 12])
@pytest.mark.parametrize(
    "strategy",
    [
        *(Strategy.data_parallel(n) for n in (2, 3, 4)),
        Strategy(4).split("norm", c=2),
        Strategy(4).split("first", sample=4).split("norm", start=1, c=3),
    ],
)
def test_devices_share_groups(strategy: Strategy, groups: int, device: str) -> None:
    x, y = images(29, 4, 3), images(29, 2)
    models = [ghost(None, groups, device), ghost(strategy, groups, device)]
    for model in models:
        model.fit(x, y, epochs=2, verbose=0)
    tolerance = 1e-9 if device == "reference" else 1e-3
    for one, other in zip(*(model.get_layers().values() for model in models)):
        for p, q in zip(one.get_parameters(), other.get_parameters()):
            np.testing.assert_allclose(
                q.get_weights(), p.get_weights(), rtol=tolerance, atol=tolerance, err_msg=p.name
            )


@pytest.mark.parametrize("groups", [2, 4])
def test_whole_groups_need_no_exchange(groups: int) -> None:
    """But for what the running statistics and the weights' gradients are made of."""
    plan = ghost(Strategy.data_parallel(2), groups).plan()
    assert plan.count("= batch_norm_groups(") == plan.count("= batch_norm_grad(") == 2
    moved = re.findall(r"= move\(.*# (\S*norm\S*)@\d$", plan, re.M)
    assert set(moved) == {
        "combine/norm:1",
        "combine/norm:2",
        "reduction/norm/reduce_sum",
        "reduction/norm/reduce_sum_1",
    }


def test_groups_can_be_placed_by_name() -> None:
    plan = ghost(Strategy(3).split("norm", sample=3), 3).plan()
    assert plan.count("= batch_norm_groups(") == 3
    listed = Strategy(2).split("norm", g=2).bind(ghost(None, 4))
    assert dict(listed.rules[0][1].splits) == {"g": 2}


@pytest.mark.parametrize("before", range(20))
def test_groups_in_graphs_of_any_size(before: int) -> None:
    """Lowering adds nodes to a graph that grows, and so moves, at some sizes."""
    model = FFModel(FFConfig(device="reference"))
    x = t = model.create_tensor([5, 3], "float64")
    for _ in range(before):
        t = model.scalar_multiply(t, 1.0)
    y = model.batch_norm(t, relu=False, groups=2)
    model.compile(SGDOptimizer(model), LossType.LOSS_IDENTITY, strategy=Strategy.data_parallel(4))
    values = images(5, 3)
    x.set_tensor(model, values)
    model.label_tensor.set_tensor(model, np.zeros((5, 3)))
    model.forward()
    expected = by_groups(torch.tensor(values).double(), 2)
    np.testing.assert_allclose(y.get_tensor(), expected.numpy(), rtol=1e-9)
