"""The C interface. Written by tools/gen_abi.py from native/include/flexflow_c.h; do not edit."""

from __future__ import annotations

from ctypes import (
    CDLL,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any

# Of all that follows; the library carries it too, so that one of another interface is refused.
DIGEST = "f16baa36678b8c08"

ff_handle = c_uint64
ff_tensor = c_int64
ff_status = c_int
FF_OK = 0
FF_ERROR_VALUE = 1
FF_ERROR_TYPE = 2
FF_ERROR_STATE = 3
FF_ERROR_MEMORY = 4
FF_ERROR_INTERNAL = 5
ff_dtype = c_int
FF_BOOL = 40
FF_INT32 = 41
FF_INT64 = 42
FF_FLOAT16 = 43
FF_FLOAT32 = 44
FF_FLOAT64 = 45
FF_BFLOAT16 = 46
ff_attr_type = c_int
FF_ATTR_BOOL = 0
FF_ATTR_INT = 1
FF_ATTR_FLOAT = 2
FF_ATTR_STRING = 3
FF_ATTR_INTS = 4
FF_ATTR_FLOATS = 5


class ff_attr(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int32),
        ("i", c_int64),
        ("f", c_double),
        ("s", c_char_p),
        ("ints", POINTER(c_int64)),
        ("n", c_size_t),
        ("floats", POINTER(c_double)),
    ]


class ff_array(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
    ]


class ff_tensor_info(Structure):
    _fields_ = [
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 8),
        ("owner_first", ff_tensor),
        ("output", c_int32),
        ("is_state", c_int32),
        ("trainable", c_int32),
        ("op", c_char_p),
        ("name", c_char_p),
    ]


ff_section = c_int
FF_FORWARD = 1
FF_LOSS = 2
FF_BACKWARD = 4
FF_UPDATE = 8
FF_TRAIN_STEP = 16
FF_EVALUATE = 32
FF_PREDICT = 64


class ff_progress(Structure):
    _fields_ = [
        ("steps", c_int64),
        ("samples", c_int64),
        ("position", c_int64),
        ("finished", c_int32),
    ]


class ff_device(Structure):
    _fields_ = [
        ("kind", c_char_p),
        ("threads", c_int32),
        ("node", c_int32),
        ("space", c_int32),
        ("memory", c_int64),
        ("bandwidth", c_double),
        ("launch", c_double),
    ]


class ff_rate(Structure):
    _fields_ = [
        ("device", c_int32),
        ("dtype", c_int32),
        ("flops", c_double),
    ]


class ff_link(Structure):
    _fields_ = [
        ("from", c_int32),
        ("to", c_int32),
        ("latency", c_double),
        ("bandwidth", c_double),
    ]


class ff_simulated(Structure):
    _fields_ = [
        ("seconds", c_double),
        ("moved", c_int64 * 4),
        ("devices", c_size_t),
        ("links", c_size_t),
        ("stays", c_size_t),
    ]


class ff_simulated_device(Structure):
    _fields_ = [
        ("busy", c_double),
        ("exposed", c_double),
        ("memory", c_int64),
    ]


class ff_simulated_link(Structure):
    _fields_ = [
        ("source", c_int32),
        ("target", c_int32),
        ("busy", c_double),
    ]


ff_lane = c_int
FF_LANE_CALLS = 0
FF_LANE_MOVES = 1
FF_LANE_LINK = 2


class ff_stay(Structure):
    _fields_ = [
        ("lane", c_int32),
        ("at", c_int32),
        ("bytes", c_int64),
        ("begin", c_double),
        ("end", c_double),
        ("op", c_char_p),
        ("name", c_char_p),
    ]


class ff_estimate(Structure):
    _fields_ = [
        ("seconds", c_double),
        ("compute", c_double),
        ("sync", c_double),
        ("memory", c_double),
        ("lower_bound", c_double),
        ("exact", c_int32),
    ]



# name: (types of the arguments, type of the result)
FUNCTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "ff_last_error": ((), c_char_p),
    "ff_describe": ((c_char_p, POINTER(c_char_p),), ff_status),
    "ff_close_runtimes": ((), ff_status),
    "ff_close": ((ff_handle,), ff_status),
    "ff_graph_create": ((c_int64, POINTER(ff_handle),), ff_status),
    "ff_graph_add_op": ((ff_handle, c_char_p, c_char_p, POINTER(ff_attr), c_size_t, POINTER(ff_tensor), c_size_t, POINTER(ff_tensor), c_size_t, POINTER(c_size_t),), ff_status),
    "ff_graph_tensor_info": ((ff_handle, ff_tensor, POINTER(ff_tensor_info),), ff_status),
    "ff_graph_op_inputs": ((ff_handle, ff_tensor, POINTER(ff_tensor), c_size_t, POINTER(c_size_t),), ff_status),
    "ff_graph_find": ((ff_handle, c_char_p, POINTER(ff_tensor),), ff_status),
    "ff_graph_set_weight": ((ff_handle, ff_tensor, POINTER(ff_attr), c_size_t,), ff_status),
    "ff_graph_text": ((ff_handle, POINTER(c_char_p),), ff_status),
    "ff_graph_indices": ((ff_handle, ff_tensor, POINTER(c_char_p),), ff_status),
    "ff_graph_flops": ((ff_handle, ff_tensor, POINTER(c_double),), ff_status),
    "ff_graph_layout": ((ff_handle, POINTER(ff_attr), c_size_t, POINTER(c_char_p),), ff_status),
    "ff_tensor_read": ((ff_handle, ff_tensor, POINTER(ff_array),), ff_status),
    "ff_tensor_write": ((ff_handle, ff_tensor, POINTER(ff_array),), ff_status),
    "ff_gradient_read": ((ff_handle, ff_tensor, POINTER(ff_array),), ff_status),
    "ff_state_info": ((ff_handle, c_size_t, POINTER(ff_tensor_info), POINTER(c_size_t),), ff_status),
    "ff_state_read": ((ff_handle, c_char_p, POINTER(ff_array),), ff_status),
    "ff_state_write": ((ff_handle, c_char_p, POINTER(ff_array),), ff_status),
    "ff_dataset_create": ((ff_handle, POINTER(ff_tensor), POINTER(ff_array), c_size_t, POINTER(ff_handle),), ff_status),
    "ff_dataset_begin": ((ff_handle, c_int64, c_int32, c_int64, c_int64, c_int32, c_int64,), ff_status),
    "ff_compile": ((ff_handle, POINTER(ff_attr), c_size_t, POINTER(ff_handle),), ff_status),
    "ff_model_place": ((ff_handle, POINTER(ff_attr), c_size_t,), ff_status),
    "ff_model_label": ((ff_handle, POINTER(ff_tensor),), ff_status),
    "ff_run": ((ff_handle, c_int32, ff_handle, c_int64, c_double, POINTER(ff_array), POINTER(ff_progress),), ff_status),
    "ff_next_batch": ((ff_handle, ff_handle, POINTER(c_int64),), ff_status),
    "ff_zero_gradients": ((ff_handle,), ff_status),
    "ff_scalar_get": ((ff_handle, c_char_p, POINTER(c_double),), ff_status),
    "ff_scalar_set": ((ff_handle, c_char_p, c_double,), ff_status),
    "ff_metrics_read": ((ff_handle, POINTER(c_double), POINTER(c_size_t), POINTER(c_char_p),), ff_status),
    "ff_metrics_reset": ((ff_handle,), ff_status),
    "ff_model_text": ((ff_handle, c_char_p, c_int32, POINTER(c_char_p),), ff_status),
    "ff_agree": ((ff_handle, POINTER(c_int64),), ff_status),
    "ff_profile": ((ff_handle, c_int32,), ff_status),
    "ff_costs_measure": ((ff_handle, c_int32, c_double, POINTER(c_int64),), ff_status),
    "ff_costs_text": ((POINTER(c_char_p),), ff_status),
    "ff_costs_set": ((c_char_p, c_double,), ff_status),
    "ff_simulate": ((ff_handle, c_int32, ff_handle, POINTER(ff_handle),), ff_status),
    "ff_simulation_total": ((ff_handle, POINTER(ff_simulated),), ff_status),
    "ff_simulation_read": ((ff_handle, POINTER(ff_simulated_device), POINTER(ff_simulated_link), POINTER(ff_stay),), ff_status),
    "ff_machine_create": ((c_char_p, POINTER(ff_device), c_size_t, POINTER(ff_rate), c_size_t, c_int32, POINTER(ff_link), c_size_t, c_int32, POINTER(ff_handle),), ff_status),
    "ff_machine_route": ((ff_handle, c_int32, c_int32, POINTER(c_int32), c_size_t, POINTER(c_size_t), POINTER(c_double), POINTER(c_double),), ff_status),
    "ff_search_create": ((ff_handle, ff_handle, POINTER(ff_attr), c_size_t, POINTER(ff_handle),), ff_status),
    "ff_search_start_from": ((ff_handle, POINTER(ff_attr), c_size_t,), ff_status),
    "ff_search_run": ((ff_handle, c_double, POINTER(c_int32),), ff_status),
    "ff_search_stop": ((ff_handle,), ff_status),
    "ff_search_read": ((ff_handle, c_int32, POINTER(ff_estimate), POINTER(c_char_p),), ff_status),
}


def declare(library: CDLL) -> None:
    """Give every function of the library its types, so that ctypes checks what is passed."""
    for name, (arguments, result) in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
