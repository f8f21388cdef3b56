// The graph of one step, made from the user's graph: cut to what is asked for, at the batch size asked for, in training
// or inference mode, with loss, metrics, gradients and updates as further nodes.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/kernel_query.h"
#include "parallel/pcg.h"

namespace ff {

// Fixed when a model is compiled.
struct CompileSpec {
  Value output;      // in the user's graph
  Value label;       // likewise; invalid: no loss
  std::string loss;  // name of a loss op, "" for none
  Attrs loss_attrs;
  std::string optimizer;  // name of an update op, "" for none
  Attrs optimizer_attrs;
  std::string schedule;  // name of an op that computes the learning rate from the step, "" for none
  Attrs schedule_attrs;
  double clip_norm = 0;  // the most that the norm of all gradients may be; 0: any
  Attrs metrics;         // flags of the metrics op
  bool fuse = true;
  int64_t seed = 0;
  std::string device = "cpu";
  Strategy strategy;
};

// What one kind of run asks for.
struct StepSpec {
  bool training = false;  // mode of dropout and batch normalisation
  bool loss = false;      // loss and metrics
  bool backward = false;
  bool update = false;
  bool separate_sections = false;  // gradients are added to states, sections run one by one
  int64_t batch = 0;               // 0: the user's
  std::vector<Value> pinned;       // tensors of the user's graph to keep readable
  std::vector<Value> pinned_gradients;

  auto operator<=>(const StepSpec&) const = default;
};

Graph build_step(const Graph& user, const CompileSpec& compile, const StepSpec& step, const KernelQuery& kernels);

// ---- its stages ----
// A copy of what the roots need, at another batch size; old values to new.
struct Copied {
  Graph graph;
  std::vector<NodeId> map;  // user's node -> node
  Value operator()(Value value) const { return {map[value.node], value.index}; }
};
// The batch size that the graph was built with: the first extent of its first input; 0 when there is none.
int64_t batch_size(const Graph& user);
Copied copy_for_batch(const Graph& user, const std::vector<Value>& roots, int64_t batch);
// Composite ops are shorthand: they give way to what they stand for.
void expand_composites(Graph& graph);
// Dropout and its like in inference mode; the step counter for random ops in training mode.
void set_mode(Graph& graph, bool training, int64_t seed);
// Replace a node by its expansion: activations that are attributes become nodes.
void expand_activations(Graph& graph);
// Expand what no kernel of the device takes.
void expand_unsupported(Graph& graph, const std::string& device, const KernelQuery& kernels);
// Compute in float32 where no kernel of the device takes float16 or bfloat16.
void promote_halves(Graph& graph, const std::string& device, const KernelQuery& kernels);
// Gradients of a scalar with respect to every tensor in `wanted`, as nodes; invalid where none flows.
std::vector<Value> gradients(Graph& graph, Value loss, const std::vector<Value>& wanted);
// Activations back into the op before them, and losses onto logits, where a kernel takes the fused form.
void fuse_losses(Graph& graph, NodeId loss);
void fuse_activations(Graph& graph, const CompileSpec& compile, const KernelQuery& kernels);
// Mark what the strategy wants computed again; once all is fused, let backward read copies of it.
void mark_recomputed(Graph& graph, const Strategy& strategy);
void recompute(Graph& graph);
// Expand ops that would be split where their kernels cannot be: batch normalisation over samples, softmax over classes.
void expand_split(Graph& graph, const Strategy& strategy);

}  // namespace ff
