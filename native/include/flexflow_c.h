/* The C interface of FlexFlow: one verb per thing one can do, none per operator.
 *
 * Every call returns a status; on failure ff_last_error() gives this thread's message. No exception, abort or
 * exit crosses this line. Handles are opaque numbers: a handle that was closed is an error, never a crash, and
 * an object closed while another thread uses it lives until that call returns. Calls may come from any thread;
 * calls on one graph and its models take turns. Strings are UTF-8; strings that are returned belong to the
 * library and live until this thread's next call. Arrays are passed by pointer and never kept, unless the call
 * says so. */
#ifndef FLEXFLOW_C_H
#define FLEXFLOW_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FF_API __declspec(dllexport)
#else
#define FF_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t ff_handle;
/* A tensor of a graph: the number that ff_graph_add_op gave for an output. */
typedef int64_t ff_tensor;

typedef enum ff_status {
  FF_OK = 0,
  FF_ERROR_VALUE = 1,   /* an argument has a wrong value or shape */
  FF_ERROR_TYPE = 2,    /* an argument has a wrong type */
  FF_ERROR_STATE = 3,   /* the call came at the wrong time, or on a closed handle */
  FF_ERROR_MEMORY = 4,  /* a memory is too small */
  FF_ERROR_INTERNAL = 5 /* a fault of FlexFlow */
} ff_status;

/* The values are FlexFlow's DataType. */
typedef enum ff_dtype {
  FF_BOOL = 40,
  FF_INT32 = 41,
  FF_INT64 = 42,
  FF_FLOAT16 = 43,
  FF_FLOAT32 = 44,
  FF_FLOAT64 = 45,
  FF_BFLOAT16 = 46
} ff_dtype;

typedef enum ff_attr_type {
  FF_ATTR_BOOL = 0,   /* i */
  FF_ATTR_INT = 1,    /* i */
  FF_ATTR_FLOAT = 2,  /* f */
  FF_ATTR_STRING = 3, /* s */
  FF_ATTR_INTS = 4,   /* ints, n */
  FF_ATTR_FLOATS = 5  /* floats, n */
} ff_attr_type;

typedef struct ff_attr {
  const char* name;
  int32_t type;
  int64_t i;
  double f;
  const char* s;
  const int64_t* ints;
  size_t n;
  const double* floats;
} ff_attr;

/* A dense row-major array in the caller's memory. */
typedef struct ff_array {
  void* data;
  int32_t dtype;
  int32_t rank;
  const int64_t* shape;
} ff_array;

typedef struct ff_tensor_info {
  int32_t dtype;
  int32_t rank;
  int64_t shape[8];
  ff_tensor owner_first; /* first output of the op that makes this tensor: its identity as a layer */
  int32_t output;        /* which output of that op this is */
  int32_t is_state;      /* 1: a weight or other state that outlives a step */
  int32_t trainable;
  const char* op;
  const char* name; /* unique in its graph; output k > 0 of an op is "op:k" */
} ff_tensor_info;

/* What a run does with each batch. */
typedef enum ff_section {
  FF_FORWARD = 1,
  FF_LOSS = 2,     /* loss and metrics */
  FF_BACKWARD = 4, /* adds to the gradients of the weights */
  FF_UPDATE = 8,
  FF_TRAIN_STEP = 16, /* forward, loss, backward from zero and update as one optimised step */
  FF_EVALUATE = 32,   /* forward and loss in inference mode */
  FF_PREDICT = 64     /* forward in inference mode */
} ff_section;

typedef struct ff_progress {
  int64_t steps;    /* run by this call */
  int64_t samples;  /* seen by this call */
  int64_t position; /* samples of the epoch that are done */
  int32_t finished; /* 1: the epoch has no more batches */
} ff_progress;

/* A device of a machine that may be nowhere but in a file. */
typedef struct ff_device {
  const char* kind; /* which kernels run there: "cpu", "cuda", ... */
  int32_t threads;
  int32_t node;     /* devices of one node are near each other */
  int32_t space;    /* devices of one address space read each other's memory as their own; -1: one of its own */
  int64_t memory;   /* bytes */
  double bandwidth; /* of its memory, bytes per second */
  double launch;    /* seconds of a call beyond its work */
} ff_device;

/* How fast a device computes in a type; every device needs one for float32. */
typedef struct ff_rate {
  int32_t device;
  int32_t dtype;
  double flops; /* per second */
} ff_rate;

/* One direction of a connection. Ends are numbers of devices or, after them, of switches. */
typedef struct ff_link {
  int32_t from;
  int32_t to;
  double latency;   /* seconds */
  double bandwidth; /* bytes per second */
} ff_link;

/* ---- library ---- */
FF_API const char* ff_last_error(void);
/* what: "version", "build", "abi" (a digest of this interface), "options", "engines", "engine" (the one that a compile
 * takes which names none), "runtime" (of Legion: "none", "started" here, "found" running), "ranks" (the number of this
 * process and how many run the program, as "0 1"), "devices", "cpu", "ops", "op:NAME" (its documentation, attributes
 * and rules, one "key: value" a line), or "machine:ENGINE" (the machine of an engine, whose runtime is started or
 * joined for it: lines "nodes: N" and "devices: N", then others for people; flags of the runtime follow the name, one
 * a line). */
FF_API ff_status ff_describe(const char* what, const char** text);
/* Leave and end the runtimes that engines have started or joined, as happens by itself when the process ends. Where the
 * program is a task of such a runtime, call it when the task ends. Models on these engines cannot run any more. Does
 * nothing where several ranks run the program: they end together, when their processes do. */
FF_API ff_status ff_close_runtimes(void);
/* Close any handle. Closing one twice is an FF_ERROR_STATE. */
FF_API ff_status ff_close(ff_handle handle);

/* ---- graph ---- */
/* seed: of initial weights and of every random op that has no seed of its own. */
FF_API ff_status ff_graph_create(int64_t seed, ff_handle* graph);
/* Append an operator. Inputs of the graph, constants and free weights are operators too ("input", "constant",
 * "weight"). An operator that owns weights makes them itself, named NAME/kernel and so on, when only its data
 * inputs are given; given as further inputs, weights are shared. name may be NULL. outputs has room for
 * capacity numbers; *n_outputs says how many there are. */
FF_API ff_status ff_graph_add_op(ff_handle graph, const char* op, const char* name, const ff_attr* attrs,
                                 size_t n_attrs, const ff_tensor* inputs, size_t n_inputs, ff_tensor* outputs,
                                 size_t capacity, size_t* n_outputs);
FF_API ff_status ff_graph_tensor_info(ff_handle graph, ff_tensor tensor, ff_tensor_info* info);
/* The inputs of the operator that makes a tensor, weights included. */
FF_API ff_status ff_graph_op_inputs(ff_handle graph, ff_tensor tensor, ff_tensor* inputs, size_t capacity,
                                    size_t* n_inputs);
FF_API ff_status ff_graph_find(ff_handle graph, const char* name, ff_tensor* tensor);
/* Change attributes of a weight: initializer and its numbers, seed, l1, l2, trainable. A weight whose value was drawn
 * already is drawn anew unless it was written or trained. */
FF_API ff_status ff_graph_set_weight(ff_handle graph, ff_tensor weight, const ff_attr* attrs, size_t n_attrs);
FF_API ff_status ff_graph_text(ff_handle graph, const char** text);
/* The indices along which the operator that makes a tensor can be split, one a line: name, extent, and what a split is:
 * "sample" (of the batch), "parameter" (cuts weights), "attribute" (other dimensions of the output), "reduction"
 * (leaves partial results) or "whole: " and the reason why there is none. */
FF_API ff_status ff_graph_indices(ff_handle graph, ff_tensor tensor, const char** text);
/* Floating-point operations of the operator that makes a tensor, forward. */
FF_API ff_status ff_graph_flops(ff_handle graph, ff_tensor tensor, double* flops);
/* What a strategy comes to in the forward pass, one fact a line, its fields separated by tabs and lists by spaces:
 *   op, the first tensor that it makes, its devices, its splits as index:parts, the number of micro-batches that it is
 *   computed in one by one (0: it is not), which the splits leave out.
 *   edge, from such a tensor, to such a tensor, the moves between devices on it: "repartition", "combine", "replicate",
 *   "reduction", or none where all parts find what they read on their own device. An operator that is computed in
 *   steps may move what it made itself.
 * Weights and constants have no lines. Options: stages, place:NAME, share_update:WEIGHT and recompute:NAME, as for
 * ff_compile. */
FF_API ff_status ff_graph_layout(ff_handle graph, const ff_attr* options, size_t n_options, const char** text);

/* ---- tensors ---- */
/* Weights and other state can be read and written at any time, also before compile; an input can be written at
 * any time; any tensor of the graph can be read once a forward has run, and its gradient after a backward. The
 * array must have the tensor's shape; its dtype is converted if that loses nothing but precision. */
FF_API ff_status ff_tensor_read(ff_handle graph, ff_tensor tensor, const ff_array* array);
FF_API ff_status ff_tensor_write(ff_handle graph, ff_tensor tensor, const ff_array* array);
FF_API ff_status ff_gradient_read(ff_handle graph, ff_tensor tensor, const ff_array* array);

/* ---- state ---- */
/* What outlives steps: weights, running statistics, optimizer state, counters, totals of metrics; by number, in the
 * order of their names. Number 0 gives first values to all that the last compile will need. *count says how many there
 * are; a number beyond it leaves info alone. owner_first is -1 for what is no tensor of the graph. */
FF_API ff_status ff_state_info(ff_handle graph, size_t index, ff_tensor_info* info, size_t* count);
/* By the name that info gave, whole, wherever its pieces lie. */
FF_API ff_status ff_state_read(ff_handle graph, const char* name, const ff_array* array);
FF_API ff_status ff_state_write(ff_handle graph, const char* name, const ff_array* array);

/* ---- data sets ---- */
/* Arrays with a common first extent, fed to input tensors. The arrays are not copied: they must outlive the
 * data set. */
FF_API ff_status ff_dataset_create(ff_handle graph, const ff_tensor* inputs, const ff_array* arrays, size_t n,
                                   ff_handle* dataset);
/* Start an epoch at sample position. shuffle: a permutation that depends on seed and epoch alone. drop_last: leave
 * out a last, smaller batch. */
FF_API ff_status ff_dataset_begin(ff_handle dataset, int64_t batch, int32_t shuffle, int64_t seed, int64_t epoch,
                                  int32_t drop_last, int64_t position);

/* ---- models ---- */
/* Compile the graph up to one output tensor. Options (all but the first optional):
 *   output (int), mode ("training" | "inference"), loss (name of a loss op or ""), loss_* (attributes of that op),
 *   metrics (comma-separated names), optimizer (name of an update op or ""), optimizer_* (its attributes),
 *   learning_rate (float), schedule (name of a schedule op that the rate follows), schedule_* (its attributes),
 *   clip_norm (float: the most that the norm of all gradients together may be; 0: any),
 *   engine (name), device ("cpu" | "reference"), devices (int), threads (int, 0: all),
 *   runtime_flags (text, one word a line: of the runtime that an engine starts, such as "-ll:util" and "1"),
 *   fuse (bool: rewrite into fused operators, default true),
 *   place:OP (text "0 b0:2:1": an operator from device 0 on, index b0 in 2 parts that lie 1 device apart),
 *   share_update:WEIGHT (bool: devices with copies of a weight update a slice each),
 *   recompute:OP (bool: what the operator makes is not kept for the backward pass but computed again there).
 * The label tensor is an input of the graph made by this call. The last model compiled is the one that tensor reads
 * and writes speak of. */
FF_API ff_status ff_compile(ff_handle graph, const ff_attr* options, size_t n_options, ff_handle* model);
/* Split and place the operators of a model otherwise, between steps; weights, optimizer state, counters and metrics
 * stay. Options: engine, devices, threads, runtime_flags, place:OP, share_update:WEIGHT and recompute:OP, as for
 * ff_compile. A failure leaves the model as it was. */
FF_API ff_status ff_model_place(ff_handle model, const ff_attr* options, size_t n_options);
FF_API ff_status ff_model_label(ff_handle model, ff_tensor* label);
/* Run sections for up to max_steps batches of a data set, or for slice_ms milliseconds (0: no limit), whichever ends
 * first; at least one batch is run unless the epoch is over. dataset 0: one step on what the input tensors hold.
 * predictions (may be NULL): rows of the output are written here, from row progress->position at entry on. */
FF_API ff_status ff_run(ff_handle model, int32_t sections, ff_handle dataset, int64_t max_steps, double slice_ms,
                        const ff_array* predictions, ff_progress* progress);
/* Copy the next batch of the data set into the input tensors and move on; *rows says how many samples it had. */
FF_API ff_status ff_next_batch(ff_handle model, ff_handle dataset, int64_t* rows);
FF_API ff_status ff_zero_gradients(ff_handle model);
/* Scalars of the model by name: "learning_rate", "step". */
FF_API ff_status ff_scalar_get(ff_handle model, const char* name, double* value);
FF_API ff_status ff_scalar_set(ff_handle model, const char* name, double value);
/* Running totals since the last reset: "samples", "loss", "correct" and one sum per metric. *n: room in values, then
 * how many there are. names (may be NULL) gets the names, separated by commas. */
FF_API ff_status ff_metrics_read(ff_handle model, double* values, size_t* n, const char** names);
FF_API ff_status ff_metrics_reset(ff_handle model);
/* The plan that a run of these sections follows, as text; what = "plan" | "memory" | "graph" | "profile". */
FF_API ff_status ff_model_text(ff_handle model, const char* what, int32_t sections, const char** text);
/* In a program of several processes: value becomes what it is in the first one, when all have called this; alone it
 * stays as it is. */
FF_API ff_status ff_agree(ff_handle model, int64_t* value);
/* Time each step of the plan while on; read with ff_model_text(model, "profile", ...). */
FF_API ff_status ff_profile(ff_handle model, int32_t on);

/* ---- simulation ---- */
typedef struct ff_simulated {
  double seconds;   /* of a step */
  int64_t moved[4]; /* bytes between devices: tensors as they are, parts of one, several put together, sums */
  size_t devices;
  size_t links;
  size_t stays;
} ff_simulated;

typedef struct ff_simulated_device {
  double busy;    /* seconds in which it computes; moves count where they take turns with calls */
  double exposed; /* seconds in which it moves data and does not compute */
  int64_t memory; /* bytes, at most */
} ff_simulated_device;

typedef struct ff_simulated_link {
  int32_t source; /* a device, or after them a switch */
  int32_t target;
  double busy;
} ff_simulated_link;

typedef enum ff_lane { FF_LANE_CALLS = 0, FF_LANE_MOVES = 1, FF_LANE_LINK = 2 } ff_lane;

/* What a device or a link does for some time. The strings live as long as the simulation. */
typedef struct ff_stay {
  int32_t lane;  /* a device's calls, the moves beside them, or a link */
  int32_t at;    /* which device or link */
  int64_t bytes; /* that cross a link */
  double begin;  /* seconds */
  double end;
  const char* op;
  const char* name;
} ff_stay;

/* Measure what the calls of a step cost on this machine, as far as that is not known yet, for slice_ms milliseconds (0:
 * no limit); *left: how many calls are not known. Costs are of the process: all models share them. */
FF_API ff_status ff_costs_measure(ff_handle model, int32_t sections, double slice_ms, int64_t* left);
/* All that are known, one a line: seconds, a tab, and what they depend on. */
FF_API ff_status ff_costs_text(const char** text);
/* Let one be known that was measured by another process. */
FF_API ff_status ff_costs_set(const char* key, double seconds);
/* Simulate a step: on a machine model, whose costs are estimated from its rates; machine 0: on the machine that the
 * model was compiled for, with measured costs. */
FF_API ff_status ff_simulate(ff_handle model, int32_t sections, ff_handle machine, ff_handle* simulation);
FF_API ff_status ff_simulation_total(ff_handle simulation, ff_simulated* total);
/* Arrays as long as the total says. stays: of devices in the order of the plan, then of links by begin. */
FF_API ff_status ff_simulation_read(ff_handle simulation, ff_simulated_device* devices, ff_simulated_link* links,
                                    ff_stay* stays);

/* ---- machine models ---- */
/* A machine to search strategies for. overlap: its devices move data while they compute. */
FF_API ff_status ff_machine_create(const char* name, const ff_device* devices, size_t n_devices, const ff_rate* rates,
                                   size_t n_rates, int32_t switches, const ff_link* links, size_t n_links,
                                   int32_t overlap, ff_handle* machine);
/* The fastest way for a megabyte from a device to another: its links by number, its latency, and the bandwidth of its
 * narrowest link, which is infinite from a device to itself. */
FF_API ff_status ff_machine_route(ff_handle machine, int32_t from, int32_t to, int32_t* links, size_t capacity,
                                  size_t* n_links, double* latency, double* bandwidth);

/* ---- search ---- */
/* What a step is estimated to take under a strategy. */
typedef struct ff_estimate {
  double seconds;     /* the larger of the next two where devices move data while they compute, else their sum */
  double compute;     /* calls, and moves that they wait for */
  double sync;        /* sums of gradients */
  double memory;      /* bytes on a device */
  double lower_bound; /* seconds that no strategy within the memory is below, of those that are searched */
  int32_t exact;      /* the search's answer is proven to be the best */
} ff_estimate;

/* A search for the strategy of a compiled model on a machine. Options: sample, attribute, parameter, reduction (true:
 * such indices may be split), most (candidates of an op), seed, seconds (after which the best so far is the answer),
 * iterations (the same; of a walk, proposals), method ("elimination", "mcmc" or "exhaustive"), alpha (of mcmc: a step
 * that is slower by a part p is taken with the probability exp(-alpha p)). */
FF_API ff_status ff_search_create(ff_handle model, ff_handle machine, const ff_attr* options, size_t n_options,
                                  ff_handle* search);
/* A strategy, as in ff_compile, that the answer must not be worse than. Before the first ff_search_run. */
FF_API ff_status ff_search_start_from(ff_handle search, const ff_attr* strategy, size_t n);
/* Let it run for so long, or see that it is over; errors of the search come from here. */
FF_API ff_status ff_search_run(ff_handle search, double slice_ms, int32_t* finished);
/* End it soon, with the best so far. */
FF_API ff_status ff_search_stop(ff_handle search);
/* The answer (which = -1), or what a strategy that it started from comes to: one op a line, its name, a tab, and its
 * placement as in ff_compile. */
FF_API ff_status ff_search_read(ff_handle search, int32_t which, ff_estimate* estimate, const char** strategy);

#ifdef __cplusplus
}
#endif
#endif /* FLEXFLOW_C_H */
