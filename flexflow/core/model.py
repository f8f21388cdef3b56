"""FFModel: building, training and using a network."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from flexflow.core import checkpoint
from flexflow.core.arrays import from_storage, numpy_storage, results_beside
from flexflow.core.checks import boolean, integer
from flexflow.core.dataloader import DataSet, SingleDataLoader
from flexflow.core.layer import Op
from flexflow.core.metrics import PerfMetrics
from flexflow.core.progress import ProgressBar, say
from flexflow.core.running import ALL_STEPS, RunningModel
from flexflow.core.schedules import Schedule
from flexflow.core.tensor import Tensor
from flexflow.core.types import DataType, is_floating

Data = Union[SingleDataLoader, np.ndarray, Sequence[Any], None]


class FFModel(RunningModel):
    """A model: a graph of layers, their weights, and how they are trained.

    Args:
        ffconfig: its configuration.

    Deleting the last reference frees all of its memory; its tensors do not keep it alive.

    >>> import numpy as np
    >>> ffmodel = FFModel(FFConfig())
    >>> x = ffmodel.create_tensor([32, 8], DataType.DT_FLOAT)
    >>> y = ffmodel.softmax(ffmodel.dense(ffmodel.dense(x, 16, ActiMode.AC_MODE_RELU), 3))
    >>> ffmodel.compile(
    ...     SGDOptimizer(ffmodel, lr=0.1),
    ...     LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    ...     [MetricsType.METRICS_ACCURACY],
    ... )
    >>> data = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    >>> labels = data[:, :3].argmax(1)
    >>> history = ffmodel.fit(data, labels, epochs=20, verbose=0)
    >>> history[-1].get_accuracy() > 90
    True
    >>> ffmodel.predict(data).shape
    (300, 3)
    """

    def __repr__(self) -> str:
        state = "not compiled" if self._compiled is None else "compiled"
        return f"<FFModel of {len(self._layers)} layers, {state}>"

    # ---- data ----
    def create_data_loader(
        self, batch_tensor: Tensor, full_array: Any, **keywords: Any
    ) -> SingleDataLoader:
        """A loader that feeds a tensor from an array; see SingleDataLoader for the keywords.

        >>> ffmodel.create_data_loader(x, np.zeros((100, 16), np.float32)).num_samples
        100
        """
        return SingleDataLoader(self, batch_tensor, full_array, **keywords)

    def data_set(self, x: Data, y: Data = None) -> DataSet:
        """The data of all inputs, and of the label if ``y`` is given, as one data set.

        Args:
            x: an array if the model has one input; a list of arrays in the order in which inputs
                were created; or loaders.
            y: an array or a loader.

        Raises:
            ValueError: arrays that are too many or too few, or do not fit their tensors.
            TypeError: data that do not convert.
        """
        return DataSet([(loader.input, loader.array) for loader in self._loaders(x, y)])

    def _loaders(self, x: Data, y: Data) -> list[SingleDataLoader]:
        several = isinstance(x, (list, tuple))
        values: Sequence[Any] = x if several else [x]  # type: ignore[assignment]
        loaders = [value for value in values if isinstance(value, SingleDataLoader)]
        if not loaders:
            loaders = self._loaders_of_arrays(values)
        elif len(loaders) < len(values):
            raise TypeError("x: got loaders and arrays; expected all of one kind")
        if not loaders:
            raise ValueError(
                "x: all inputs have attached arrays, which hold one batch; use forward(), or give "
                "data to at least one of them"
            )
        if isinstance(y, SingleDataLoader):
            loaders.append(y)
        elif y is not None:
            loaders.append(SingleDataLoader(self, self.label_tensor, y))
        return loaders

    def _loaders_of_arrays(self, arrays: Sequence[Any]) -> list[SingleDataLoader]:
        inputs = [n for n in self._inputs_of(self.output_tensor.id) if n not in self._attached]
        if len(arrays) != len(inputs) or any(array is None for array in arrays):
            names = ", ".join(self.tensor_info(number).name for number in inputs)
            given = sum(array is not None for array in arrays)
            raise ValueError(
                f"x: got {given} arrays, the model has {len(inputs)} inputs ({names}); give a list "
                "of one array each, in this order (a single array as np.asarray; no dict)"
            )
        return [
            SingleDataLoader(self, Tensor(self, number), array)
            for number, array in zip(inputs, arrays)
        ]

    # ---- whole epochs ----
    def fit(
        self,
        x: Data = None,
        y: Data = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        shuffle: bool | None = None,
        drop_last: bool = False,
        verbose: int = 1,
    ) -> list[PerfMetrics]:
        """Train on a data set.

        Args:
            x, y: see ``data_set``; ``y`` is needed.
            batch_size: None: that of the first input. A last, smaller batch is trained on as well.
            epochs: how many times.
            shuffle: draw a new order in each epoch; None: what the loaders say, False for arrays.
            drop_last: leave out a last, smaller batch.
            verbose: 0: silent; 1: a bar on a terminal, and a line per epoch; 2: the line.

        Returns:
            Loss and metrics of each epoch, measured while the weights change.

        Raises:
            FlexFlowError: not compiled for training.
            ValueError: see ``data_set``; a class id or an embedding id out of range.
            FloatingPointError: the loss became NaN or infinite, the message says in which step; or
                a weight did.
            ValueError: a cross-entropy became negative, since the output is no probability.

        Ctrl-C ends it within a tenth of a second; the weights stay as they are then.
        """
        self._need_compiled("fit")
        if y is None:
            raise ValueError("fit: y is missing; it takes the labels")
        epochs = integer(epochs, "fit: epochs", 0)
        drop_last = boolean(drop_last, "fit: drop_last")
        loaders = self._loaders(x, y)
        shuffle = _one_setting(loaders) if shuffle is None else boolean(shuffle, "fit: shuffle")
        # Shuffled orders go on where the loaders, or the last fit on arrays, left off.
        first = max(self._epochs, *(loader.epoch for loader in loaders))
        data = DataSet([(loader.input, loader.array) for loader in loaders])
        history = []
        for number in range(epochs):
            data.begin(
                self._batch_size(batch_size),
                shuffle=shuffle,
                seed=self.seed,
                epoch=first + number,
                drop_last=drop_last or any(loader.drop_last for loader in loaders),
            )
            title = f"epoch {number + 1}/{epochs}"
            history.append(self._one_epoch("train", data, title, verbose))
            self._epochs = first + number + 1
        if self._ffconfig.profiling and verbose:
            say(self.profile_report())
        return history

    def eval(
        self,
        x: Data = None,
        y: Data = None,
        batch_size: int | None = None,
        *,
        verbose: int = 1,
    ) -> PerfMetrics:
        """Loss and metrics of a data set, in inference mode; the arguments are those of ``fit``.

        The result also stays in ``get_perf_metrics()``.
        """
        self._need_compiled("eval")
        if y is None:
            raise ValueError("eval: y is missing; it takes the labels")
        data = self.data_set(x, y)
        data.begin(self._batch_size(batch_size))
        return self._one_epoch("evaluate", data, "eval", verbose)

    def predict(self, x: Data, batch_size: int | None = None) -> np.ndarray:
        """The output for each row of the data, in inference mode.

        Args:
            x: see ``data_set``.
            batch_size: None: that of the first input.

        Returns:
            An array of (samples, ...) with the output's type; bfloat16 becomes float32. It is
            cuPyNumeric's if one of ``x`` is.
        """
        self._need_compiled("predict")
        data = self.data_set(x)
        data.begin(self._batch_size(batch_size))
        output = self.output_tensor
        shape = (data.num_samples, *output.dims[1:])
        results, values = results_beside(x, shape, output.dtype)
        narrow = output.data_type is DataType.DT_BFLOAT16
        rows = np.empty(shape, numpy_storage(output.data_type)) if narrow else values
        for _ in self.run("predict", data, predictions=rows):
            pass
        if narrow:
            values[...] = from_storage(rows, output.data_type)
        return results

    def _batch_size(self, batch_size: int | None) -> int:
        if batch_size is None:
            return self.tensor_info(self._inputs[0]).dims[0]
        return integer(batch_size, "batch_size", 1)

    def _one_epoch(self, step: str, data: DataSet, title: str, verbose: int) -> PerfMetrics:
        verbose = _verbosity(verbose)
        self.reset_metrics()
        every = self._ffconfig.print_freq if verbose else 0
        bar = ProgressBar(title, data.num_samples, verbose, every)
        metrics = self.get_perf_metrics()
        steps = 0
        for progress in self.run(step, data, every or ALL_STEPS):
            metrics = self.get_perf_metrics()
            # No samples: another thread that uses the model has just begun to count anew.
            if metrics.samples and not math.isfinite(metrics.loss):
                raise FloatingPointError(
                    f"{title}: the loss became {metrics.loss} in step {steps + 1}"
                    + (f" to {steps + progress.steps}" if progress.steps > 1 else "")
                    + "; a smaller learning rate, or smaller data, may help"
                )
            if metrics.samples and metrics.loss < 0 and self._probabilities:
                raise ValueError(
                    f"{title}: the loss became {metrics.loss:.4g}: it takes probabilities, and the "
                    "output left [0, 1]; end the model with softmax() or a sigmoid, or compile "
                    "with loss_attributes={'from_logits': True}"
                )
            steps += progress.steps
            bar.update(progress.position, progress.steps, str(metrics))
        bar.close(str(metrics))
        self._expect_finite_weights(title)
        return metrics

    def _expect_finite_weights(self, title: str) -> None:
        """A layer may hide NaN from the loss: the maximum of NaN and 0 is 0 to many a CPU."""
        for layer in self._layers.values():
            for weight in layer.get_parameters():
                if is_floating(weight.data_type) and not np.isfinite(weight.get_weights()).all():
                    raise FloatingPointError(
                        f"{title}: {weight.name} contains NaN or infinity; a smaller learning "
                        "rate, or other weights, may help"
                    )

    # ---- checkpoints ----
    def save_checkpoint(
        self, path: str | os.PathLike[str], loaders: Sequence[SingleDataLoader] = ()
    ) -> None:
        """Write all that training needs to go on into one file: weights, running statistics, the
        optimizer's state with its step and learning rate, the counters of random numbers, the
        totals of metrics, and the epochs that ``fit`` has run. Save between steps: gradients that
        wait for an update are not kept.

        Args:
            path: of the file, which is replaced at once: whatever stops the program, it is the old
                one or the new one; a hidden ``.tmp`` file beside it may be left over, and can be
                removed. ``numpy.load`` reads it.
            loaders: those of a manual loop, whose epochs and positions are kept by the names of
                their inputs.

        Raises:
            FlexFlowError: not compiled.
            OSError: the file cannot be written. ValueError: two loaders feed one input.

        >>> import tempfile
        >>> _ = ffmodel.dense(x, 4)
        >>> ffmodel.compile(AdamOptimizer(ffmodel), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ffmodel.save_checkpoint(folder + "/run.npz")
        ...     ffmodel.load_checkpoint(folder + "/run.npz")
        """
        self._need_compiled("save_checkpoint")
        checkpoint.save(self, path, loaders, self._epochs)

    def load_checkpoint(
        self, path: str | os.PathLike[str], loaders: Sequence[SingleDataLoader] = ()
    ) -> None:
        """Go on where ``save_checkpoint`` was called. In the same program, what follows is what
        would have followed, to the bit; under another strategy, up to rounding. A model that was
        compiled without an optimizer, or for inference, takes what it has a use for.

        Args:
            path: of the file.
            loaders: those to set to the epochs and positions that were kept.

        Raises:
            FlexFlowError: not compiled.
            OSError: the file cannot be read.
            ValueError: it is damaged or no checkpoint, or of another model, optimizer or loader;
                the message names what differs, and everything stays as it was.
        """
        self._need_compiled("load_checkpoint")
        self._epochs = checkpoint.load(self, path, loaders)
        self.zero_gradients()
        if self._optimizer is not None and not isinstance(self._optimizer.learning_rate, Schedule):
            self._optimizer.learning_rate = self.get_scalar("learning_rate")

    # ---- layers ----
    def get_layers(self) -> dict[int, Op]:
        """All layers by their number, in the order in which they were made.

        >>> _ = ffmodel.dense(x, 4, name="first")
        >>> ffmodel.get_layers()
        {0: <Op 0 first: linear>}
        """
        return dict(self._layers)

    def get_layer_by_id(self, layer_id: int) -> Op:
        """A layer by its number.

        Raises:
            ValueError: there is none.
        """
        if integer(layer_id, "get_layer_by_id: layer_id") in self._layers:
            return self._layers[layer_id]
        raise ValueError(f"there is no layer {layer_id}; the model has {len(self._layers)}")

    def get_last_layer(self) -> Op:
        """The layer that was made last.

        Raises:
            ValueError: there is none.
        """
        return self.get_layer_by_id(len(self._layers) - 1)

    def get_layer_by_name(self, layer_name: str) -> Op:
        """A layer by its name. A name that was given twice got a suffix the second time.

        Raises:
            ValueError: there is none; the message lists those that there are.
        """
        for layer in self._layers.values():
            if layer.name == layer_name:
                return layer
        names = ", ".join(layer.name for layer in self._layers.values())
        raise ValueError(f"there is no layer {layer_name!r}; the model has {names or 'none'}")

    def layer_of(self, tensor: Tensor) -> Op | None:
        """The layer that makes a tensor; None for inputs, constants and weights."""
        return self._layer_by_tensor.get(tensor.id)

    def get_tensor_by_id(self, id: int) -> Tensor:
        """A tensor by its ``id``.

        Raises:
            ValueError: there is none.
        """
        return Tensor(self, integer(id, "get_tensor_by_id: id"))

    def print_layers(self, id: int = -1) -> None:
        """Print a layer, or all of them (-1): number, name, operator, extents and weights.

        >>> _ = ffmodel.dense(x, 4, name="first")
        >>> ffmodel.print_layers()
        0 first (linear): [64, 16] -> [64, 4]; first/kernel [4, 16], first/bias [4]
        """
        layers = list(self._layers.values()) if id == -1 else [self.get_layer_by_id(id)]
        for layer in layers:
            print(_line(layer))

    def close(self) -> None:
        """Free the model's memory now; what uses it afterwards raises FlexFlowError."""
        if self._optimizer is not None:
            self._optimizer.detach(self)
        if self._compiled is not None:
            self._compiled.close()
        self._graph.close()


def _one_setting(loaders: Sequence[SingleDataLoader]) -> bool:
    settings = {loader.shuffle for loader in loaders}
    if len(settings) > 1:
        raise ValueError(
            "fit: some loaders shuffle and some do not; make them alike, or give shuffle"
        )
    return settings.pop()


def _verbosity(verbose: int) -> int:
    return int(verbose) if isinstance(verbose, bool) else integer(verbose, "verbose", 0, 2)


def _line(layer: Op) -> str:
    inputs = [layer.get_input_by_id(i) for i in range(layer.get_number_inputs())]
    outputs = [layer.get_output_by_id(i) for i in range(layer.get_number_outputs())]
    taken = ", ".join(str(list(tensor.dims)) for tensor in inputs)
    made = ", ".join(str(list(tensor.dims)) for tensor in outputs)
    weights = ", ".join(f"{weight.name} {list(weight.dims)}" for weight in layer.get_parameters())
    return f"{layer.idx} {layer.name} ({layer.kind}): {taken} -> {made}" + (
        f"; {weights}" if weights else ""
    )
