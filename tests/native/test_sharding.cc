// The law of the house, operator by operator: the parts of a call, each run on its rectangles of the operands, put
// together, are the whole. Every index is cut into two and into three uneven parts and, on the reference kernels, every
// pair of indices into two each.
#include <set>

#include "calls.h"
#include "check.h"

using namespace ff;
using namespace calls;

namespace {

std::set<int> whole_dims(const OpDef& def, const OpCall& call) {
  std::set<int> dims;
  if (def.whole_axis.empty()) return dims;
  const AttrSpec* spec = def.find_attr(def.whole_axis);
  const std::vector<int64_t> axes = spec->type == AttrType::integers
                                        ? call.attrs.ints(spec->name)
                                        : std::vector<int64_t>{call.attrs.integer(spec->name)};
  for (const int64_t axis : axes) dims.insert(normal_axis(axis, call.inputs[0].rank(), call.name));
  return dims;
}

Box with_part(Box box, size_t index, int part, int parts) {
  const int64_t global = box[index].global;
  box[index].origin = global * part / parts;
  box[index].extent = global * (part + 1) / parts - box[index].origin;
  return box;
}

// Do all parts of a cut of this index make the whole of an output?
bool lacks(const OpDef& def, const OpCall& call, const Box& box, size_t index, int parts, int output) {
  for (int part = 0; part < parts; ++part)
    if (operand_region(def, call, with_part(box, index, part, parts), {true, output}).extent !=
        call.outputs[output].shape)
      return false;
  return true;
}

// An index that no output has is combined away; if one has it, outputs without it are the same in all parts.
bool combined(const OpDef& def, const OpCall& call, const Box& box, size_t index, int parts) {
  for (size_t k = 0; k < call.outputs.size(); ++k)
    if (call.outputs[k].dtype != DType::opaque && !lacks(def, call, box, index, parts, static_cast<int>(k)))
      return false;
  return true;
}

// A cut that the fused kernel forbids is lowered by expansion instead: through an axis that it needs whole, or before
// an activation of the combined sum.
bool kept_whole(const OpDef& def, const OpCall& call, const Box& box, size_t index) {
  if (call.attrs.has("activation") && call.attrs.text("activation") != "none" && combined(def, call, box, index, 2))
    return true;
  for (const auto& [name, reason] : def.whole_indices)
    if (box[index].name == name) return true;
  if (def.whole_axis.empty()) return false;
  const Rect all = operand_region(def, call, box, {false, 0});
  const Rect part = operand_region(def, call, with_part(box, index, 0, 2), {false, 0});
  for (const int d : whole_dims(def, call))
    if (all.extent[d] != part.extent[d]) return true;
  return false;
}

std::vector<Operand> operands(const OpCall& call) {
  std::vector<Operand> all;
  for (size_t i = 0; i < call.inputs.size(); ++i) all.push_back({false, static_cast<int>(i)});
  for (size_t k = 0; k < call.outputs.size(); ++k) all.push_back({true, static_cast<int>(k)});
  return all;
}

const TensorType& type_of(const OpCall& call, Operand operand) {
  return (operand.output ? call.outputs : call.inputs)[operand.index];
}

double identity_of(Combiner combiner) {
  return combiner == Combiner::max ? -1e30 : combiner == Combiner::min ? 1e30 : combiner == Combiner::prod ? 1 : 0;
}

double combine(Combiner combiner, double a, double b) {
  switch (combiner) {
    case Combiner::max:
      return std::max(a, b);
    case Combiner::min:
      return std::min(a, b);
    case Combiner::prod:
      return a * b;
    case Combiner::any:
      return a != 0 || b != 0;
    default:
      return a + b;
  }
}

// One output, put together from its parts. Where parts lie apart they must tile it; where each covers the whole they
// are partial results.
struct Assembly {
  Assembly(TensorType type, Combiner combiner)
      : combiner(combiner), sum(std::move(type)), covered(static_cast<size_t>(sum.type.numel()), 0) {
    for (int64_t i = 0; i < sum.type.numel(); ++i) sum.set(i, identity_of(combiner));
  }

  // A part that another box made too.
  void compare(const Rect& rect, const Array& part) const {
    each_element(sum.type.shape, rect,
                 [&](int64_t whole, int64_t at) { CHECK(sum.get(whole) == part.get(at), "parts differ"); });
  }

  void put(const Rect& rect, const Array& part) {
    each_element(sum.type.shape, rect, [&](int64_t whole, int64_t at) {
      sum.set(whole, combine(combiner, sum.get(whole), part.get(at)));
      ++covered[static_cast<size_t>(whole)];
    });
  }

  Combiner combiner;
  Array sum;
  std::vector<int> covered;
};

class Splitting {
 public:
  Splitting(const Sample& sample, const std::string& device, double tolerance)
      : sample_(sample),
        device_(device),
        tolerance_(tolerance),
        def_(op_def(sample.op)),
        call_(call_of(sample)),
        box_(iteration_space(def_, call_)) {
    call_.box = box_;
    for (Array& array : draw_inputs(sample, call_, device)) inputs_.push_back(std::move(array));
    for (Array& array : run(call_, inputs_, device)) outputs_.push_back(std::move(array));
    for (const Operand operand : operands(call_)) {
      if (type_of(call_, operand).dtype == DType::opaque) continue;
      const Rect whole = operand_region(def_, call_, box_, operand);
      CHECK((whole == Rect{Shape(whole.extent.size(), 0), type_of(call_, operand).shape}), sample.name(), ": operand ",
            operand.index);
    }
  }

  void check_all(bool pairs) {
    std::vector<size_t> free;
    for (size_t i = 0; i < box_.size(); ++i)
      if (box_[i].global > 1 && !kept_whole(def_, call_, box_, i)) free.push_back(i);
    for (const size_t i : free)
      for (const int parts : {2, 3})
        if (box_[i].global >= parts) check({{i, parts}});
    for (size_t a = 0; pairs && a < free.size(); ++a)
      for (size_t b = a + 1; b < free.size(); ++b) check({{free[a], 2}, {free[b], 2}});
  }

 private:
  using Cut = std::vector<std::pair<size_t, int>>;  // index, number of parts

  std::vector<Box> boxes(const Cut& cut) const {
    std::vector<Box> all = {box_};
    for (const auto& [index, parts] : cut) {
      std::vector<Box> next;
      for (const Box& box : all)
        for (int part = 0; part < parts; ++part) next.push_back(with_part(box, index, part, parts));
      all = std::move(next);
    }
    return all;
  }

  // Is the part of an output that this box makes one that an earlier box made too?
  bool repeated(const Cut& cut, const Box& box, int output) const {
    for (const auto& [index, parts] : cut)
      if (box[index].origin > 0 && lacks(def_, call_, box_, index, parts, output) &&
          !combined(def_, call_, box_, index, parts))
        return true;
    return false;
  }

  void check(const Cut& cut) {
    std::string where = sample_.name();
    for (const auto& [index, parts] : cut) where += cat(" / ", box_[index].name, " in ", parts);
    const Combiner combiner = def_.iteration ? def_.iteration->combiner : Combiner::sum;
    std::vector<Assembly> made;
    for (const TensorType& type : call_.outputs) made.emplace_back(type, combiner);
    for (const Box& box : boxes(cut)) {
      OpCall part = call_;
      part.box = box;
      Arrays in;
      for (size_t i = 0; i < part.inputs.size(); ++i) {
        in.push_back(calls::cut(inputs_[i], operand_region(def_, call_, box, {false, static_cast<int>(i)})));
        part.inputs[i] = in.back().type;
      }
      for (size_t k = 0; k < part.outputs.size(); ++k)
        if (part.outputs[k].dtype != DType::opaque)
          part.outputs[k].shape = operand_region(def_, call_, box, {true, static_cast<int>(k)}).extent;
      Arrays out;
      const std::string error = check::thrown([&] {
        for (Array& array : run(part, in, device_)) out.push_back(std::move(array));
      });
      CHECK(error.empty(), device_, " ", where, ": ", error);
      if (!error.empty()) return;
      for (size_t k = 0; k < out.size(); ++k) {
        if (call_.outputs[k].dtype == DType::opaque) continue;
        const Rect rect = operand_region(def_, call_, box, {true, static_cast<int>(k)});
        if (!repeated(cut, box, static_cast<int>(k)))
          made[k].put(rect, out[k]);
        else if (cut.size() == 1)
          made[k].compare(rect, out[k]);
      }
    }
    for (size_t k = 0; k < made.size(); ++k) {
      if (call_.outputs[k].dtype == DType::opaque) continue;
      int expected = 1;
      for (const auto& [index, parts] : cut)
        if (combined(def_, call_, box_, index, parts)) expected *= parts;
      for (const int count : made[k].covered)
        CHECK(count == expected, where, ": output ", k, " is covered ", count, " times, not ", expected);
      CHECK(difference(made[k].sum, outputs_[k]) <= tolerance_, device_, " ", where, ": output ", k, " differs by ",
            difference(made[k].sum, outputs_[k]));
    }
  }

  const Sample& sample_;
  const std::string device_;
  const double tolerance_;
  const OpDef& def_;
  OpCall call_;
  Box box_;
  Arrays inputs_, outputs_;
};

void check_device(const std::string& device, DType real, double tolerance, bool pairs) {
  for (const Sample& sample : samples(real)) {
    const OpDef& def = op_def(sample.op);
    if (!def.unsplittable_reason.empty() || def.view || !kernel_query().supported(call_of(sample), device)) continue;
    const std::string error = check::thrown([&] { Splitting(sample, device, tolerance).check_all(pairs); });
    CHECK(error.empty(), device, " ", sample.name(), ": ", error);
  }
}

TEST(parts_make_the_whole_on_reference) { check_device("reference", DType::float64, 1e-12, true); }
TEST(parts_make_the_whole_on_cpu) { check_device("cpu", DType::float32, 2e-6, false); }

// The workspace of a maximum is opaque: the gradient of a part takes the one that the forward call of that part made.
TEST(parts_of_a_maximum_keep_their_workspaces) {
  const Shape image = {4, 6, 5, 5};
  const Attrs attrs = {{"kernel", std::vector<int64_t>{3, 2}}, {"stride", std::vector<int64_t>{2, 1}}};
  for (const auto& [device, real] : {std::pair{"reference", DType::float64}, {"cpu", DType::float32}}) {
    const Sample sample{"pool2d", attrs, {{real, image}}};
    const OpCall forward = call_of(sample);
    const Arrays x = draw_inputs(sample, forward, device);
    Attrs grad_attrs = forward.attrs;
    grad_attrs.erase("workspace");
    grad_attrs.set("input_shape", image);
    const auto gradient = [&](const Array& part, const Box& box) {
      OpCall call = forward;
      call.box = box;
      call.inputs[0] = part.type;
      call.outputs[0].shape[0] = part.type.dim(0);
      call.outputs[0].shape[1] = part.type.dim(1);
      Arrays in;
      in.push_back(cut(part, {{0, 0, 0, 0}, part.type.shape}));
      Arrays made = run(call, in, device), given;
      OpCall back{.op = "pool2d_grad",
                  .name = "grad",
                  .attrs = grad_attrs,
                  .inputs = {made[0].type, made[1].type},
                  .outputs = {part.type},
                  .box = box};
      given.push_back(std::move(made[0]));  // y serves as dy
      given.push_back(std::move(made[1]));
      return std::move(run(back, given, device)[0]);
    };
    const Box box = iteration_space(op_def("pool2d"), forward);
    const Array whole = gradient(x[0], box);
    for (size_t index = 0; index < box.size(); ++index) {
      Assembly made(whole.type, Combiner::sum);
      for (int part = 0; part < 2; ++part) {
        const Box piece = with_part(box, index, part, 2);
        const Rect rect = operand_region(op_def("pool2d"), forward, piece, {false, 0});
        made.put(rect, gradient(cut(x[0], rect), piece));
      }
      CHECK(difference(made.sum, whole) == 0, device, " ", box[index].name);
    }
  }
}

// Views move no memory: only their regions are to be checked. Element i of the input is element i of the output.
TEST(parts_of_views_hold_the_same_elements) {
  for (const Sample& sample : samples(DType::float64)) {
    const OpDef& def = op_def(sample.op);
    if (!def.view) continue;
    const OpCall call = call_of(sample);
    const Box box = iteration_space(def, call);
    for (size_t index = 0; index < box.size(); ++index)
      for (int part = 0; part < 2 && box[index].global > 1; ++part) {
        std::set<int64_t> in, out;
        const Box cut = with_part(box, index, part, 2);
        each_element(call.inputs[0].shape, operand_region(def, call, cut, {false, 0}),
                     [&](int64_t whole, int64_t) { in.insert(whole); });
        each_element(call.outputs[0].shape, operand_region(def, call, cut, {true, 0}),
                     [&](int64_t whole, int64_t) { out.insert(whole); });
        CHECK(in == out && !in.empty(), sample.name(), " / ", box[index].name);
      }
  }
}

TEST(every_operator_has_a_sample) {
  std::set<std::string> sampled;
  for (const Sample& sample : samples(DType::float64)) sampled.insert(sample.op);
  for (const OpDef* def : all_ops()) {
    // Inputs and weights are memory that others fill; moves have tests of their own, and the gradient of a maximum over
    // windows is tested with its forward op.
    const bool source = def->name == "input" || def->name == "weight" || def->name == "move";
    CHECK(source || sampled.count(def->name) == 1, def->name);
    CHECK(source || !def->unsplittable_reason.empty() || def->iteration || (def->indices && def->region), def->name);
  }
}

}  // namespace
