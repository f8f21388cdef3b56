"""What a module or a class of this front end shows, and what it says of Keras's names that it
lacks: one table of what to use in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_PREPARE = "prepare the arrays with NumPy before fit()"
_SAVE = (
    "save the values with np.savez(path, *model.get_weights()), and load them into a model that is "
    "built alike with model.set_weights([*np.load(path).values()])"
)
_CODE = "keep the code that builds the model, and the values of get_weights()"
_TRACE = "use layers.Activation, Add, Multiply, Reshape and the like, or write it in PyTorch"
_SEQUENCES = "use LSTM, or Flatten and Dense, over a fixed number of steps"
_ROW = "use Reshape to images of one row and the 2D layer of this kind"
_RATE = "set optimizer.learning_rate, or use callbacks.LearningRateScheduler"
_MEASURE = "compute it from what predict() returns"
_LOOP = "use fit(), train_on_batch() or test_on_batch()"

# The module or class -> what to use instead -> Keras's names, for which that is the advice.
INSTEAD: dict[str, dict[str, str]] = {
    "": {
        "build the model of flexflow.keras.layers": "applications legacy quantizers wrappers",
        "leave it out": "distribution tree visualization",
        "use layers; a Model is run on arrays": "Function Operation Variable ops random",
        "leave constraints out": "constraints",
        "all is computed in float32": "config dtype_policies mixed_precision",
        _PREPARE: "preprocessing",
        _SAVE: "saving export",
        "use utils.set_random_seed(), and int seeds": "SeedGenerator",
    },
    "layers": {
        _SEQUENCES: (
            "AdditiveAttention Attention Bidirectional ConvLSTM1D ConvLSTM2D ConvLSTM3D GRU GRUCell"
            " GroupQueryAttention LSTMCell Masking MultiHeadAttention RNN RepeatVector"
            " SimpleRNN SimpleRNNCell StackedRNNCells TimeDistributed"
        ),
        _TRACE: "Lambda TFSMLayer TorchModuleWrapper Wrapper",
        _ROW: (
            "AveragePooling1D AvgPool1D Conv1D Convolution1D GlobalAveragePooling1D"
            " GlobalAvgPool1D MaxPool1D MaxPooling1D SeparableConv1D"
        ),
        "use layers for images (2D)": (
            "AveragePooling3D AvgPool3D Conv3D Convolution3D GlobalAveragePooling3D"
            " GlobalAvgPool3D GlobalMaxPooling3D MaxPool3D MaxPooling3D"
        ),
        "use Conv2D(channels, ..., groups=channels)": "DepthwiseConv1D DepthwiseConv2D",
        "use Conv2D(channels, ..., groups=channels) and then Conv2D(filters, 1)": "SeparableConv2D",
        "use Conv2D and Dense": (
            "Conv1DTranspose Conv2DTranspose Conv3DTranspose UpSampling1D UpSampling2D UpSampling3D"
        ),
        "use MaxPooling2D with the size of the image, and Flatten": (
            "GlobalMaxPool1D GlobalMaxPool2D GlobalMaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D"
        ),
        "use padding='same' of Conv2D and MaxPooling2D": (
            "ZeroPadding1D ZeroPadding2D ZeroPadding3D"
        ),
        "cut the images with NumPy before fit()": "Cropping1D Cropping2D Cropping3D",
        "use Activation('elu')": "ELU",
        "use LeakyReLU": "PReLU ThresholdedReLU",
        "use Add": "Average average",
        "use BatchNormalization or LayerNormalization": (
            "GroupNormalization RMSNormalization SpectralNormalization UnitNormalization"
        ),
        "use Dropout": (
            "AlphaDropout GaussianDropout GaussianNoise SpatialDropout1D SpatialDropout2D"
            " SpatialDropout3D"
        ),
        "use kernel_regularizer of the layers": "ActivityRegularization",
        _PREPARE: (
            "CategoryEncoding CenterCrop Discretization HashedCrossing Hashing IntegerLookup"
            " Normalization RandomBrightness RandomContrast RandomCrop RandomFlip RandomRotation"
            " RandomTranslation RandomZoom Rescaling Resizing StringLookup TextVectorization"
        ),
        "leave it out": "Identity InputSpec",
    },
    "models": {
        _SAVE: "load_model save_model",
        _CODE: "clone_model model_from_config model_from_json",
    },
    "optimizers": {
        "use SGD or Adam": (
            "Adadelta Adafactor Adagrad AdamW Adamax Ftrl Lamb Lion LossScaleOptimizer Muon Nadam"
            " RMSprop"
        ),
        "use the class": "deserialize serialize",
    },
    "optimizers.schedules": {
        "use CosineDecay": "CosineDecayRestarts",
        "use ExponentialDecay or PolynomialDecay": "InverseTimeDecay",
        "use the class": "deserialize serialize",
    },
    "callbacks": {
        "use EarlyStopping(restore_best_weights=True), or keep model.get_weights() in "
        "on_epoch_end of a Callback": "BackupAndRestore ModelCheckpoint SwapEMAWeights",
        "use LearningRateScheduler": "ReduceLROnPlateau",
        "use the History that fit() returns": "CSVLogger RemoteMonitor TensorBoard",
        "derive a class from Callback": "LambdaCallback",
        "leave it out: fit() raises a FloatingPointError": "TerminateOnNaN",
    },
    "losses": {
        "use MeanSquaredError or MeanAbsoluteError": (
            "CosineSimilarity Huber LogCosh MeanAbsolutePercentageError"
            " MeanSquaredLogarithmicError Poisson Tversky"
        ),
        "use BinaryCrossentropy or CategoricalCrossentropy": (
            "BinaryFocalCrossentropy CTC CategoricalFocalCrossentropy CategoricalHinge Dice Hinge"
            " KLDivergence SquaredHinge"
        ),
        "give compile() the name or the class": (
            "binary_crossentropy categorical_crossentropy deserialize mean_absolute_error"
            " mean_squared_error serialize sparse_categorical_crossentropy"
        ),
    },
    "metrics": {
        _MEASURE: (
            "AUC BinaryCrossentropy BinaryIoU CosineSimilarity F1Score FBetaScore FalseNegatives"
            " FalsePositives Hinge Huber IoU KLDivergence LogCoshError Mean"
            " MeanAbsolutePercentageError MeanIoU MeanSquaredLogarithmicError Poisson Precision"
            " R2Score Recall SparseTopKCategoricalAccuracy Sum TopKCategoricalAccuracy"
            " TrueNegatives TruePositives"
        ),
        "give compile() the name or the class": "deserialize serialize",
    },
    "initializers": {
        "give a function of (shape, dtype) that returns an array": (
            "Identity IdentityInitializer OrthogonalInitializer STFT"
        ),
        "use the class": "deserialize serialize",
    },
    "regularizers": {"use L1, L2 or L1L2": "OrthogonalRegularizer deserialize l1 l2 serialize"},
    "activations": {
        "use relu, elu, selu, gelu or silu": (
            "celu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh log_sigmoid mish"
            " soft_shrink softplus softsign sparsemax squareplus tanh_shrink threshold"
        ),
        "give the name": "deserialize serialize",
    },
    "utils": {
        "use model.summary()": "model_to_dot plot_model",
        _PREPARE: (
            "FeatureSpace PyDataset Sequence audio_dataset_from_directory get_file"
            " image_dataset_from_directory img_to_array load_img pad_sequences split_dataset"
            " text_dataset_from_directory timeseries_dataset_from_array"
        ),
        "leave it out": ("CustomObjectScope custom_object_scope register_keras_serializable"),
    },
    "datasets": {
        "use digits, mnist or cifar10, or np.load() a file of yours": (
            "boston_housing california_housing cifar100 fashion_mnist imdb reuters"
        ),
    },
    "backend": {
        "float32 is what there is": "set_epsilon set_floatx",
        "use layers": "cast concatenate dot exp log max mean reshape sqrt square sum variable",
        _RATE: "get_value set_value",
    },
    "Layer": {
        _CODE: "build_from_config from_config get_build_config get_config",
        "use kernel_regularizer, and metrics of compile()": "add_loss add_metric losses",
        "all is computed in float32": "compute_dtype dtype_policy quantize",
        "use input_shape": "input_spec",
        _SAVE: "load_own_variables save_own_variables",
    },
    "Model": {
        _SAVE: "export load_weights save save_weights",
        _CODE: "to_json to_yaml",
        "use what fit() and evaluate() return": "compute_loss compute_metrics metrics",
        _LOOP: "fit_generator make_predict_function predict_step test_step train_step",
        "keep the values of get_weights()": "get_metrics_result reset_metrics reset_states",
    },
    "Optimizer": {
        _CODE: "from_config get_config",
        _LOOP: "apply apply_gradients iterations minimize variables",
        "compile() starts it anew": "build load_own_variables save_own_variables set_weights",
    },
    "LearningRateSchedule": {_CODE: "from_config get_config"},
    "Metric": {
        _MEASURE: "add_weight reset_state result update_state variables",
        _CODE: "from_config get_config",
    },
    "Loss": {
        "override nothing: give compile() a loss of flexflow.keras.losses": "call",
        _CODE: "from_config get_config",
    },
}


def advice(place: str, name: str) -> str | None:
    """What to use in the place of a name of Keras's that is not here; None if nothing is known.

    Args:
        place: a module within flexflow.keras, or a class.

    >>> advice("layers", "ELU")
    "use Activation('elu')"
    """
    for hint, names in INSTEAD.get(place, {}).items():
        if name in names.split():
            return hint
    return None


def of_module(
    module: str, names: Sequence[str]
) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose public names are known.

    >>> fail, names = of_module("flexflow.keras.layers", ["Dense"])
    >>> names()
    ['Dense']
    """
    place = module.partition("flexflow.keras")[2].lstrip(".")

    def missing(name: str) -> NoReturn:
        hint = advice(place, name)
        if hint is not None:
            raise AttributeError(f"{module}.{name} is not supported yet; {hint}")
        raise AttributeError(f"{module} has no {name!r}; it has {', '.join(sorted(names))}")

    return missing, lambda: sorted(names)


class Explained:
    """A class of Keras that says of the methods that it lacks what to use instead."""

    # Never called for what is there.
    def __getattr__(self, name: str) -> Any:
        for base in type(self).__mro__:
            hint = advice(base.__name__, name)
            if hint is not None:
                raise AttributeError(f"{type(self).__name__}.{name} is not supported yet; {hint}")
        # Fails as it did before, also for a property that raised an error of its own.
        return object.__getattribute__(self, name)
