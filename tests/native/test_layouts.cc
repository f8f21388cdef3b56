// Physical layouts of the CPU's kernels: what is brought into one and back is unchanged, and kernels compute the same
// in the layouts that they prefer as in dense ones.
#include "calls.h"
#include "check.h"

using namespace ff;
using namespace calls;

namespace {

Memory reordered(const TensorType& type, const void* from, const Layout& from_layout, const Layout& to_layout) {
  const OpCall call{.op = "reorder",
                    .name = "reorder",
                    .attrs = {{"to", to_layout.name()}},
                    .inputs = {type},
                    .outputs = {type},
                    .box = {}};
  const Layouts layouts{{from_layout}, {to_layout}};
  Memory to(to_layout.dense() ? type.bytes() : to_layout.info()->bytes);
  const Memory scratch(kernel_query().scratch(call, "cpu", layouts) + 64);
  void* out = to.data();
  bind_kernel({call, layouts, 2}, "cpu")->run({&from, &out, scratch.data()});
  return to;
}

TEST(reordering_there_and_back_changes_nothing) {
  int blocked = 0;
  for (const Sample& sample : samples(DType::float32)) {
    const OpCall call = call_of(sample);
    if (op_def(call.op).view || !kernel_query().supported(call, "cpu")) continue;
    const Layouts layouts = kernel_query().layouts(call, "cpu", std::vector<Layout>(call.inputs.size()));
    for (const auto& [types, side] : {std::pair{&call.inputs, &layouts.inputs}, {&call.outputs, &layouts.outputs}})
      for (size_t i = 0; i < types->size(); ++i) {
        const Layout& layout = (*side)[i];
        if (layout.dense()) continue;
        ++blocked;
        Array array((*types)[i]);
        for (int64_t k = 0; k < array.type.numel(); ++k) array.set(k, static_cast<double>(k));
        const Memory there = reordered(array.type, array.memory.data(), Layout(), layout);
        const Memory back = reordered(array.type, there.data(), layout, Layout());
        CHECK(std::memcmp(back.data(), array.memory.data(), array.type.bytes()) == 0, sample.name(), ": ",
              layout.name());
      }
  }
  CHECK(blocked > 0, "no kernel asks for a layout of its own");
}

TEST(preferred_layouts_compute_the_same) {
  for (const Sample& sample : samples(DType::float32)) {
    const OpCall call = call_of(sample);
    if (op_def(call.op).view || !op_def(call.op).residuals.empty() || !kernel_query().supported(call, "cpu")) continue;
    const Layouts layouts = kernel_query().layouts(call, "cpu", std::vector<Layout>(call.inputs.size()));
    const Arrays inputs = draw_inputs(sample, call, "cpu"), dense = run(call, inputs, "cpu");
    std::vector<Memory> in, out;
    std::vector<const void*> in_pointers;
    std::vector<void*> out_pointers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Layout& layout = layouts.inputs[i];
      if (!layout.dense()) in.push_back(reordered(inputs[i].type, inputs[i].memory.data(), Layout(), layout));
      in_pointers.push_back(layout.dense() ? inputs[i].memory.data() : in.back().data());
    }
    for (size_t k = 0; k < dense.size(); ++k) {
      out.emplace_back(layouts.outputs[k].dense() ? dense[k].type.bytes() : layouts.outputs[k].info()->bytes);
      out_pointers.push_back(out.back().data());
    }
    const Memory scratch(kernel_query().scratch(call, "cpu", layouts) + 64);
    bind_kernel({call, layouts, 2}, "cpu")->run({in_pointers.data(), out_pointers.data(), scratch.data()});
    for (size_t k = 0; k < dense.size(); ++k) {
      Array made(dense[k].type);
      if (made.type.numel() == 0) continue;
      const Layout& layout = layouts.outputs[k];
      const Memory back = layout.dense() ? std::move(out[k]) : reordered(made.type, out[k].data(), layout, Layout());
      std::memcpy(made.memory.data(), back.data(), made.type.bytes());
      CHECK(difference(made, dense[k]) < 4e-6, sample.name(), ": output ", k);
    }
  }
}

}  // namespace
