#include "lowering/lower.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/op.h"

namespace ff {
namespace {

class Lowering {
 public:
  Lowering(const FlatGraph& flat, const Machine& machine, const KernelQuery& kernels, const LowerOptions& options)
      : flat_(flat),
        graph_(flat.graph),
        kernels_(kernels),
        options_(options),
        order_(schedule(flat, machine, options.separate_sections)) {
    plan_.machine = machine;
    of_value_.resize(graph_.size());
    for (const Assignment& assignment : graph_.assignments) assigned_.insert({assignment.value, assignment.state});
  }

  Plan run() {
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      of_value_[id].resize(node.outputs.size(), -1);
      if (node.op == "weight")
        add_state(id);
      else if (node.op == "input")
        add_input(id);
      else
        add_call(id);
      finish_section(id);
    }
    for (const auto& [name, value] : graph_.outputs) plan_.results[name] = dense(value, Storage::pinned);
    place_buffers(plan_, options_.separate_sections);
    for (auto& [name, input] : plan_.inputs)
      for (const Step& step : plan_.steps)
        for (const BufferId read : step.inputs)
          if (plan_.root(read) == input.buffer) input.sections |= 1u << static_cast<unsigned>(step.section);
    add_waits(plan_);
    return std::move(plan_);
  }

 private:
  int device(NodeId id) const { return flat_.locals[id].device; }
  const std::string& kind(int device) const { return plan_.machine.devices[device].kind; }

  BufferId add_buffer(std::string name, int device, TensorType type, Storage storage, Layout layout = {}) {
    Buffer buffer;
    buffer.device = device;
    buffer.name = std::move(name);
    buffer.type = std::move(type);
    buffer.layout = std::move(layout);
    buffer.bytes = buffer.layout.dense() ? buffer.type.bytes() : buffer.layout.info()->bytes;
    buffer.storage = storage;
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size()) - 1;
  }

  BufferId add_piece(NodeId id, Storage storage) {
    const Local& local = flat_.locals[id];
    const BufferId buffer = add_buffer(local.state, local.device, graph_.node(id).outputs[0], storage);
    plan_.buffers[buffer].piece = local.piece;
    plan_.buffers[buffer].whole = local.whole;
    return of_value_[id][0] = buffer;
  }

  void add_state(NodeId id) { plan_.buffers[add_piece(id, Storage::state)].initializer = graph_.node(id).attrs; }

  void add_input(NodeId id) { plan_.inputs[flat_.locals[id].state].buffer = add_piece(id, Storage::input); }

  void add_call(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& def = op_def(node.op);
    if (def.view) {
      const BufferId source = in_layout(node.inputs[0], {}, node.section);
      of_value_[id][0] = add_buffer(node.name, device(id), node.outputs[0], Storage::temporary);
      plan_.buffers[of_value_[id][0]].alias = plan_.root(source);
      assign({id, 0});
      return;
    }
    const std::string& kind = this->kind(device(id));
    OpCall call = graph_.call(id);
    call.box = flat_.locals[id].box;
    for (const int output : def.residuals)
      if (static_cast<size_t>(output) < call.outputs.size())
        call.outputs[output].shape = {static_cast<int64_t>(kernels_.residual(call, kind, output))};
    std::vector<Layout> available;
    for (const Value& input : node.inputs) available.push_back(plan_.buffers[buffer_of(input)].layout);
    Step step{.call = std::move(call),
              .layouts = {},
              .inputs = {},
              .outputs = {},
              .device = device(id),
              .section = node.section,
              .waits = {}};
    step.layouts = kernels_.layouts(step.call, kind, available);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      step.inputs.push_back(in_layout(node.inputs[i], step.layouts.inputs[i], node.section));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Value value{id, static_cast<int32_t>(k)};
      of_value_[id][k] =
          add_buffer(graph_.name(value), device(id), step.call.outputs[k], Storage::temporary, step.layouts.outputs[k]);
      step.outputs.push_back(of_value_[id][k]);
    }
    share_out(step);
    plan_.steps.push_back(std::move(step));
    for (size_t k = 0; k < node.outputs.size(); ++k) assign({id, static_cast<int32_t>(k)});
  }

  // A step that is done before a second thread has woken up is left to one. Kernels may ask for scratch by thread: they
  // are asked under the number that they will be bound with.
  void share_out(Step& step) const {
    constexpr double kFlops = 2e6, kBytes = 256 << 10;
    const Device& device = plan_.machine.devices[step.device];
    double bytes = 0;
    for (const auto* tensors : {&step.call.inputs, &step.call.outputs})
      for (const TensorType& type : *tensors) bytes += static_cast<double>(type.bytes());
    const bool small = op_def(step.call.op).flops(step.call) <= kFlops && bytes <= kBytes;
    step.threads = small ? 1 : device.threads;
    set_thread_count(step.threads);
    step.scratch = kernels_.scratch(step.call, device.kind, step.layouts);
    set_thread_count(device.threads);
  }

  BufferId buffer_of(Value value) const {
    FF_CHECK(!of_value_[value.node].empty(), graph_.name(value), " is used before it is made");
    const BufferId buffer = of_value_[value.node][value.index];
    return buffer;
  }

  // The buffer that holds a value in a layout; a reorder makes it once, in the section that makes the value (of a
  // state: in the one that first asks).
  BufferId in_layout(Value value, const Layout& layout, Section asking) {
    const BufferId source = buffer_of(value);
    if (plan_.buffers[source].layout == layout) return source;
    const auto key = std::make_pair(source, layout.name());
    if (const auto it = reordered_.find(key); it != reordered_.end()) return it->second;
    const Buffer& from = plan_.buffers[source];
    const BufferId to = add_buffer(from.name + "@" + layout.name(), from.device, from.type, Storage::temporary, layout);
    const Node& maker = graph_.node(value.node);
    add_copy(source, to, maker.op == "weight" ? asking : maker.section);
    return reordered_[key] = to;
  }

  // A step that copies one buffer into another, from layout to layout.
  void add_copy(BufferId from, BufferId to, Section section) {
    const Buffer& source = plan_.buffers[from];
    OpCall call{.op = "reorder",
                .name = plan_.buffers[to].name,
                .attrs = {},
                .inputs = {source.type},
                .outputs = {source.type},
                .box = {}};
    Step step{.call = std::move(call),
              .layouts = {{source.layout}, {plan_.buffers[to].layout}},
              .inputs = {from},
              .outputs = {to},
              .device = source.device,
              .section = section,
              .waits = {}};
    share_out(step);
    const BufferId root = plan_.root(from);
    const bool constant_here =
        plan_.buffers[root].storage == Storage::state && !is_assigned_state(plan_.buffers[root].name);
    if (constant_here && plan_.buffers[to].storage == Storage::temporary) {
      // A packed copy of a weight that this plan does not change is kept between runs.
      plan_.buffers[to].storage = Storage::pinned;
      step.fresh_with = root;
    }
    plan_.steps.push_back(std::move(step));
  }

  bool is_assigned_state(const std::string& name) const {
    return std::any_of(graph_.assignments.begin(), graph_.assignments.end(),
                       [&](const Assignment& a) { return flat_.locals[a.state].state == name; });
  }

  // A value that a state takes: made in the state's own memory where the op allows and nobody reads the old value
  // later, copied at the end of the section else.
  void assign(Value value) {
    const auto it = assigned_.find(value);
    if (it == assigned_.end()) return;
    const NodeId state = it->second;
    const BufferId target = buffer_of({state, 0});
    const BufferId made = buffer_of(value);
    const Node& node = graph_.node(value.node);
    const auto& pairs = op_def(node.op).inplace_pairs;
    const bool reads_state = std::find(node.inputs.begin(), node.inputs.end(), Value{state, 0}) != node.inputs.end();
    const bool in_place = !reads_state || std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return pair.first == value.index && node.inputs[pair.second] == Value{state, 0};
    });
    if (in_place && !op_def(node.op).view && plan_.buffers[made].layout.dense() && !read_later({state, 0}, value.node))
      plan_.buffers[made].alias = target;
    else
      copies_.push_back({made, target, node.section});
  }

  // Does a node after this one read the old value of a state, itself or through a view?
  bool read_later(Value state, NodeId after) const {
    const BufferId target = buffer_of(state);
    const auto reads = [&](Value input) {
      const auto& made = of_value_[input.node];
      return input == state || (!made.empty() && made[input.index] >= 0 && plan_.root(made[input.index]) == target);
    };
    return std::any_of(std::find(order_.begin(), order_.end(), after) + 1, order_.end(), [&](NodeId id) {
      return std::any_of(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end(), reads);
    });
  }

  // Copies into states come last in their section (in the whole step where sections are not run on their own).
  void finish_section(NodeId id) {
    const auto next = std::find(order_.begin(), order_.end(), id) + 1;
    const bool last = next == order_.end();
    if (!last && !(options_.separate_sections && graph_.node(*next).section != graph_.node(id).section)) return;
    for (const auto& copy : copies_) add_copy(copy.from, copy.to, copy.section);
    copies_.clear();
  }

  BufferId dense(Value value, Storage storage) {
    const BufferId buffer = in_layout(value, {}, graph_.node(value.node).section);
    Buffer& root = plan_.buffers[plan_.root(buffer)];
    if (root.storage == Storage::temporary) root.storage = storage;
    return buffer;
  }

  struct Copy {
    BufferId from, to;
    Section section;
  };

  const FlatGraph& flat_;
  const Graph& graph_;
  const KernelQuery& kernels_;
  const LowerOptions& options_;
  const std::vector<NodeId> order_;
  Plan plan_;
  std::vector<std::vector<BufferId>> of_value_;
  std::map<std::pair<BufferId, std::string>, BufferId> reordered_;
  std::map<Value, NodeId> assigned_;
  std::vector<Copy> copies_;
};

}  // namespace

Plan lower(const Pcg& pcg, const Machine& machine, const KernelQuery& kernels, const LowerOptions& options) {
  check(pcg, machine);
  return Lowering(flatten(pcg, machine), machine, kernels, options).run();
}

}  // namespace ff
