"""Models of flexflow.keras as graphs: weights and their layout, sharing, nesting, formats of
images, freezing.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from flexflow.keras import Input, Model, Sequential, backend, layers, optimizers


@pytest.fixture(autouse=True)
def fresh_session() -> Iterator[None]:
    backend.clear_session()
    yield
    backend.set_image_data_format("channels_last")


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def small_cnn() -> Sequential:
    return Sequential(
        [
            Input((6, 5, 3)),
            layers.Conv2D(4, (3, 2), activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


# ---- weights ----


def test_weights_have_keras_order_names_and_layout() -> None:
    model = small_cnn()
    assert [(w.path, w.shape) for w in model.weights] == [
        ("conv2d/kernel", (3, 2, 3, 4)),
        ("conv2d/bias", (4,)),
        ("batch_normalization/gamma", (4,)),
        ("batch_normalization/beta", (4,)),
        ("batch_normalization/moving_mean", (4,)),
        ("batch_normalization/moving_variance", (4,)),
        ("dense/kernel", (64, 2)),
        ("dense/bias", (2,)),
    ]
    assert [w.shape for w in model.get_weights()] == [w.shape for w in model.weights]
    assert model.count_params() == 76 + 16 + 130
    assert sum(w.size for w in model.non_trainable_weights) == 8
    assert model.get_layer("dense").kernel is model.weights[6]


def test_weights_are_there_before_compile_and_kept_through_it() -> None:
    model = small_cnn()
    values = [w + 0.25 for w in model.get_weights()]
    model.set_weights(values)
    x = random(7, 6, 5, 3)
    before = model.predict(x, verbose=0)
    for optimizer in ("sgd", "adam"):
        model.compile(optimizer, "mse")
        for now, value in zip(model.get_weights(), values):
            np.testing.assert_array_equal(now, value)
        np.testing.assert_allclose(model.predict(x, verbose=0), before, 1e-5)


def test_set_weights_between_and_after_fits() -> None:
    model = Sequential([layers.Dense(1, input_shape=(2,))])
    model.compile(optimizers.SGD(0.1), "mse")
    x, y = random(8, 2), random(8, 1, seed=1)
    start = model.get_weights()
    losses = []
    for _ in range(2):
        model.set_weights(start)
        losses.append(model.fit(x, y, epochs=2, shuffle=False, verbose=0).history["loss"])
        assert np.abs(model.get_weights()[0] - start[0]).max() > 1e-4
    assert losses[0] == losses[1]


def test_get_weights_returns_copies() -> None:
    model = Sequential([layers.Dense(1, input_shape=(2,))])
    model.get_weights()[0][:] = 7
    model.predict(random(1, 2), verbose=0)
    model.get_weights()[0][:] = 7
    assert not (model.get_weights()[0] == 7).any()


# ---- sharing ----


def test_a_layer_called_twice_has_one_set_of_weights_and_summed_gradients() -> None:
    shared = layers.Dense(1, use_bias=False)
    a, b = Input((2,)), Input((2,))
    model = Model([a, b], layers.add([shared(a), shared(b)]))
    assert len(model.weights) == 1 and model.layers.count(shared) == 1
    x, y = random(5, 2), random(5, 2, seed=1)
    (kernel,) = model.get_weights()
    np.testing.assert_allclose(model.predict([x, y], verbose=0), (x + y) @ kernel, 1e-5)
    model.compile(optimizers.SGD(0.1), "identity")
    model.train_on_batch([x, y])
    np.testing.assert_allclose(
        model.get_weights()[0], kernel - 0.1 * (x + y).mean(0)[:, None], 1e-4, 1e-6
    )


def test_a_layer_normalization_called_twice_is_shared() -> None:
    shared = layers.LayerNormalization()
    a, b = Input((3,)), Input((3,))
    model = Model([a, b], layers.concatenate([shared(a), shared(b)]))
    assert len(model.weights) == 2
    model.set_weights([np.full(3, 2.0), np.full(3, 1.0)])
    x = random(2, 8, 3)
    centred = x - x.mean(-1, keepdims=True)
    expected = 2 * centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-3) + 1
    found = model.predict(list(x), verbose=0)
    np.testing.assert_allclose(found, np.concatenate(list(expected), 1), 1e-4, 1e-5)


def test_a_batch_normalization_called_twice_moves_its_statistics_twice() -> None:
    shared = layers.BatchNormalization(momentum=0.9)
    a, b = Input((3,)), Input((3,))
    model = Model([a, b], layers.concatenate([shared(a), shared(b)]))
    assert len(model.weights) == 4
    model.compile(optimizers.SGD(0.1), "mse")
    x, y = random(8, 3) + 1, random(8, 3, seed=1) - 2
    model.train_on_batch([x, y], np.zeros((8, 6)))
    _, _, mean, variance = model.get_weights()
    np.testing.assert_allclose(mean, 0.9 * 0.1 * x.mean(0) + 0.1 * y.mean(0), 1e-4)
    np.testing.assert_allclose(variance, 0.81 + 0.09 * x.var(0) + 0.1 * y.var(0), 1e-4)


def test_models_that_share_layers_share_what_they_learn() -> None:
    x = Input((3,))
    hidden = layers.Dense(4, activation="tanh", name="hidden")(x)
    model = Model(x, layers.Dense(1)(hidden))
    features = Model(x, hidden)
    data = random(10, 3)
    before = features.predict(data, verbose=0)
    model.compile(optimizers.SGD(0.5), "mse")
    model.fit(data, random(10, 1), verbose=0)
    after = features.predict(data, verbose=0)
    assert np.abs(after - before).max() > 1e-3
    kernel, bias = model.get_layer("hidden").get_weights()
    np.testing.assert_allclose(after, np.tanh(data @ kernel + bias), 1e-5, 1e-6)
    features.set_weights([np.zeros_like(kernel), np.ones_like(bias)])
    np.testing.assert_array_equal(model.get_weights()[1], np.ones(4))


def test_two_models_trained_in_turn_as_gans_are() -> None:
    noise = Input((2,))
    generator = Model(noise, layers.Dense(3, name="g")(noise))
    picture = Input((3,))
    critic = Model(picture, layers.Dense(1, name="c")(picture))
    critic.compile(optimizers.SGD(0.1), "mse")
    critic.trainable = False
    both = Model(noise, critic(generator(noise)))
    both.compile(optimizers.SGD(0.1), "mse")
    for _ in range(3):
        g, c = generator.get_weights(), critic.get_weights()
        both.train_on_batch(random(4, 2), np.ones((4, 1)))
        np.testing.assert_array_equal(critic.get_weights()[0], c[0])
        assert (generator.get_weights()[0] != g[0]).any()
        critic.trainable = True
        critic.compile(optimizers.SGD(0.1), "mse")
        critic.train_on_batch(generator.predict(random(4, 2), verbose=0), np.zeros((4, 1)))
        assert (critic.get_weights()[0] != c[0]).any()
        critic.trainable = False


def test_memory_is_freed_with_the_last_reference() -> None:
    gc.disable()
    try:
        shared = layers.Dense(3, input_shape=(4,))
        model = Sequential([shared, layers.BatchNormalization(), layers.Dense(1)])
        model.compile("adam", "mse")
        model.fit(random(6, 4), random(6, 1), verbose=0)
        freed = weakref.ref(model.ffmodel)
        kernel = model.get_weights()[0]
        del model
        # The shared layer has its values in the model that trained it last, so it keeps that.
        assert freed() is not None
        np.testing.assert_array_equal(shared.get_weights()[0], kernel)
        del shared
        assert freed() is None
    finally:
        gc.enable()


# ---- nesting ----


def test_nested_models_share_weights_with_their_parts() -> None:
    inner = Sequential(
        [layers.Dense(3, activation="relu", input_shape=(4,)), layers.Dense(2)], name="inner"
    )
    a, b = Input((4,)), Input((4,))
    outer = Model([a, b], layers.Concatenate()([inner(a), inner(b)]))
    assert len(outer.weights) == 4 and inner in outer.layers
    x, y = random(3, 4), random(3, 4, seed=1)
    expected = np.concatenate([inner.predict(x, verbose=0), inner.predict(y, verbose=0)], 1)
    np.testing.assert_allclose(outer.predict([x, y], verbose=0), expected, 1e-5)
    outer.compile("sgd", "mse")
    outer.train_on_batch([x, y], random(3, 4, seed=2))
    np.testing.assert_array_equal(outer.get_weights()[0], inner.get_weights()[0])


def test_a_sequential_of_models() -> None:
    source = Input((6, 5, 3))
    body = Model(source, layers.Conv2D(2, 3)(source))
    model = Sequential([body, layers.Flatten(), Sequential([layers.Dense(3)])])
    assert model.output_shape == (None, 3) and model.input_shape == (None, 6, 5, 3)
    assert model.predict(random(2, 6, 5, 3), verbose=0).shape == (2, 3)


def test_a_nested_model_of_two_outputs() -> None:
    x = Input((3,))
    double = Model(x, [layers.Dense(2, name="left")(x), layers.Dense(2, name="right")(x)])
    y = Input((3,))
    left, right = double(y)
    model = Model(y, layers.Subtract()([left, right]))
    data = random(4, 3)
    lk, lb, rk, rb = double.get_weights()
    np.testing.assert_allclose(
        model.predict(data, verbose=0), data @ lk + lb - data @ rk - rb, 1e-4, 1e-6
    )


def test_a_model_from_a_tensor_in_the_middle() -> None:
    model = small_cnn()
    head = Model(model.layers[1].output, model.output)
    assert [layer.name for layer in head.layers] == ["flatten", "dense"]
    hidden = Model(model.input, model.layers[1].output).predict(random(2, 6, 5, 3), verbose=0)
    expected = model.predict(random(2, 6, 5, 3), verbose=0)
    np.testing.assert_allclose(head.predict(hidden, verbose=0), expected, 1e-5, 1e-6)


def test_inputs_by_name_and_one_that_nothing_needs() -> None:
    a, b, unused = Input((2,), name="a"), Input((2,), name="b"), Input((9,), name="unused")
    model = Model([a, b, unused], layers.subtract([b, a]))
    data = {"b": random(3, 2), "a": random(3, 2, seed=1), "unused": random(3, 9)}
    np.testing.assert_allclose(model.predict(data, verbose=0), data["b"] - data["a"])


def test_layers_are_sorted_by_their_distance_from_the_output() -> None:
    late, early = Input((2,), name="late"), Input((2,), name="early")
    x = layers.Dense(2, name="d1")(early)
    x = layers.Dense(2, name="d2")(x)
    model = Model([late, early], layers.Add(name="add")([x, late]))
    assert [layer.name for layer in model.layers] == ["early", "d1", "late", "d2", "add"]


def test_a_graph_deeper_than_pythons_stack() -> None:
    source = x = Input((1,))
    for _ in range(1500):
        x = layers.Activation("linear")(x)
    model = Model(source, x)
    assert len(model.layers) == 1501
    np.testing.assert_array_equal(model.predict(np.ones((2, 1)), verbose=0), np.ones((2, 1)))


# ---- formats of images ----


def mixed(data_format: str) -> Model:
    """Image layers, elementwise ones, merges along channels and rows, and what needs the axes in
    order.
    """
    backend.set_image_data_format(data_format)
    channels = -1 if data_format == "channels_last" else 1
    source = Input((8, 6, 3) if data_format == "channels_last" else (3, 8, 6))
    a = layers.Conv2D(4, 3, padding="same", strides=2, activation="relu")(source)
    b = layers.AveragePooling2D(2, padding="same")(source)
    x = layers.Concatenate(axis=channels)([a, b])
    x = layers.BatchNormalization(axis=channels)(x)
    x = layers.Activation("sigmoid")(x)
    x = layers.Softmax(axis=channels)(x)
    y = layers.Conv2D(7, 1)(x)
    x = layers.MaxPooling2D((1, 2), 1, "same")(layers.Add()([x, y]))
    x = layers.Concatenate()([layers.Flatten()(x), layers.GlobalAveragePooling2D()(y)])
    return Model(source, layers.Dense(3, activation="softmax")(x))


def test_both_formats_compute_the_same_with_the_same_weights() -> None:
    last, first = mixed("channels_last"), mixed("channels_first")
    assert [w.shape for w in last.weights] == [w.shape for w in first.weights]
    first.set_weights(last.get_weights())
    x, y = random(9, 8, 6, 3), np.arange(9) % 3
    swapped = x.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(
        first.predict(swapped, verbose=0), last.predict(x, verbose=0), 1e-5, 1e-6
    )
    for model, data in ((last, x), (first, swapped)):
        model.compile(optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        model.fit(data, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(last.get_weights(), first.get_weights()):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-6)


def test_images_that_look_like_flexflows_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="read as images of 3 rows and 32 channels"):
        layers.Conv2D(4, 3, padding="same")(Input((3, 32, 32)))


def test_an_image_may_be_the_output() -> None:
    source = Input((4, 5, 2))
    model = Model(source, layers.Conv2D(3, 1, use_bias=False)(source))
    x = random(2, 4, 5, 2)
    np.testing.assert_allclose(
        model.predict(x, verbose=0), x @ model.get_weights()[0][0, 0], 1e-4, 1e-6
    )
    model.compile("sgd", "mse")
    assert model.evaluate(x, x @ model.get_weights()[0][0, 0], verbose=0) < 1e-10


def test_a_chain_of_image_layers_is_turned_once() -> None:
    source = x = Input((8, 8, 3))
    x = layers.Add()([layers.Conv2D(3, 3, padding="same")(x), layers.MaxPooling2D(1)(x)])
    for _ in range(3):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(x)))
    model = Model(source, layers.Flatten()(layers.MaxPooling2D()(x)))
    kinds = [op.kind for op in model.ffmodel.get_layers().values()]
    assert kinds.count("transpose") == 2


# ---- freezing and batch normalisation ----


def test_batch_normalization_moves_its_statistics_as_keras_does() -> None:
    model = Sequential([layers.BatchNormalization(momentum=0.9, input_shape=(3,))])
    model.compile(optimizers.SGD(0.0), "mse")
    x = 2 * random(6, 3) + 1
    model.train_on_batch(x, x)
    _, _, mean, variance = model.get_weights()
    np.testing.assert_allclose(mean, 0.1 * x.mean(0), 1e-4, 1e-6)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * x.var(0), 1e-4)
    expected = (x - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, 1e-4, 1e-5)


def test_batch_normalization_without_scale_and_center() -> None:
    layer = layers.BatchNormalization(center=False, scale=False)
    model = Sequential([Input((4,)), layer])
    assert [w.name for w in model.weights] == ["moving_mean", "moving_variance"]
    model.compile(optimizers.SGD(0.1), "mse")
    # As many samples as features, then others: the batch must not be mistaken for the channels.
    for rows in (4, 7):
        x = random(rows, 4)
        z = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
        loss = model.train_on_batch(x, np.zeros((rows, 4)))
        assert loss == pytest.approx(np.square(z).mean(), rel=1e-4)
    mean, variance = model.get_weights()
    expected = (x - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("how", ["trainable", "training"])
def test_a_frozen_batch_normalization_is_in_inference_mode(how: str) -> None:
    layer = layers.BatchNormalization()
    source = Input((3,))
    model = Model(source, layer(source, training=False if how == "training" else None))
    if how == "trainable":
        layer.trainable = False
        assert not model.trainable_weights and len(model.non_trainable_weights) == 4
    model.set_weights([np.full(3, v, np.float32) for v in (2.0, 1.0, 0.5, 4.0)])
    x = random(5, 3)
    expected = 2 * (x - 0.5) / np.sqrt(4 + 1e-3) + 1
    model.compile(optimizers.SGD(0.1), "mse")
    loss = model.train_on_batch(x, np.zeros((5, 3)))
    assert loss == pytest.approx(np.square(expected).mean(), rel=1e-4)
    gamma, _, mean, variance = model.get_weights()
    np.testing.assert_array_equal([mean, variance], [[0.5] * 3, [4.0] * 3])
    assert (gamma == 2).all() == (how == "trainable")


def test_frozen_layers_stay_as_they_are() -> None:
    model = Sequential([layers.Dense(3, input_shape=(2,)), layers.Dense(1)])
    model.layers[0].trainable = False
    model.compile(optimizers.SGD(0.5, momentum=0.9), "mse")
    before = model.get_weights()
    model.fit(random(8, 2), random(8, 1), epochs=2, verbose=0)
    after = model.get_weights()
    for i in (0, 1):
        np.testing.assert_array_equal(after[i], before[i])
    assert (after[2] != before[2]).any()
    model.layers[0].trainable = True
    for changed in (True, False):  # a model is warned of once, and anew after another change
        model.layers[1].trainable = changed
        with pytest.warns(UserWarning, match="compile\\(\\) again"):
            model.fit(random(8, 2), random(8, 1), verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(random(8, 2), random(8, 1), verbose=0)


def test_trainable_of_a_model_reaches_all_its_layers() -> None:
    inner = small_cnn()
    outer = Sequential([inner, layers.Dense(1)])
    outer.trainable = False
    assert not outer.trainable_weights and not inner.layers[0].trainable
    outer.trainable = True
    assert len(outer.trainable_weights) == 8


# ---- Sequential, summary ----


def test_a_sequential_learns_its_input_shape_from_data() -> None:
    model = Sequential([layers.Dense(3), layers.Dense(1)])
    assert not model.built
    with pytest.raises(ValueError, match="not built yet"):
        model.summary()
    model.compile("sgd", "mse")
    model.fit(random(4, 5), random(4, 1), verbose=0)
    assert model.input_shape == (None, 5) and len(model.get_weights()) == 4


def test_a_layer_that_does_not_fit_leaves_a_sequential_as_it_was() -> None:
    model = Sequential([Input((4,)), layers.Dense(3)])
    with pytest.raises(ValueError, match="expected 4 axes"):
        model.add(layers.Conv2D(2, 3))
    assert len(model.layers) == 1 and model.predict(random(1, 4), verbose=0).shape == (1, 3)
    later = Sequential([layers.Flatten(), layers.Conv2D(2, 3)])
    for _ in range(2):
        with pytest.raises(ValueError, match="expected 4 axes"):
            later.predict(random(1, 4), verbose=0)
    later.pop()
    assert later.predict(random(1, 4), verbose=0).shape == (1, 4)


def test_add_and_pop() -> None:
    model = Sequential([Input((4,)), layers.Dense(3)])
    model.add(layers.Dense(2))
    assert model.predict(random(1, 4), verbose=0).shape == (1, 2)
    kernel = model.get_weights()[0]
    model.pop()
    assert model.predict(random(1, 4), verbose=0).shape == (1, 3)
    np.testing.assert_array_equal(model.get_weights()[0], kernel)


def test_summary_counts_and_fits_its_line_length() -> None:
    lines: list[str] = []
    model = small_cnn()
    model.layers[0].trainable = False
    model.summary(print_fn=lines.append, line_length=60, show_trainable=True)
    text = "\n".join(lines)
    assert (
        "Total params: 222" in text
        and "Trainable params: 138" in text
        and "Non-trainable params: 84" in text
    )
    assert max(map(len, lines)) == 60
    assert any(line.startswith("conv2d (Conv2D)") and line.endswith("N") for line in lines)


def test_summary_of_a_graph_says_what_is_connected(capsys: pytest.CaptureFixture[str]) -> None:
    x = Input((2,), name="x")
    inner = Sequential([layers.Dense(2, input_shape=(2,), name="in_the_middle")], name="inner")
    Model(x, layers.Add(name="sum")([inner(x), x])).summary(expand_nested=True)
    printed = capsys.readouterr().out
    assert "inner, x" in printed and "  in_the_middle (Dense)" in printed
