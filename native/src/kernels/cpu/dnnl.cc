#include "kernels/cpu/dnnl.h"

#include "base/error.h"

namespace ff::cpu {
namespace {

struct DnnlLayout : LayoutInfo {
  DnnlLayout(std::string name, const dnnl::memory::desc& desc)
      : LayoutInfo(std::move(name), desc.get_size()), desc(desc) {}
  dnnl::memory::desc desc;
};

dnnl::memory::dims dims_of(const TensorType& type) {
  return type.shape.empty() ? dnnl::memory::dims{1} : dnnl::memory::dims(type.shape.begin(), type.shape.end());
}

// Strides and inner blocks say all about a blocked layout of a given tensor type.
std::string name_of_desc(const dnnl::memory::desc& desc) {
  return cat("s", join(desc.get_strides(), "."), "|p", join(desc.get_padded_dims(), "."), "|b",
             join(desc.get_inner_blks(), "."), "@", join(desc.get_inner_idxs(), "."));
}

dnnl::stream& stream() {
  thread_local dnnl::stream s(dnnl_engine());
  return s;
}

}  // namespace

const dnnl::engine& dnnl_engine() {
  // Never destroyed: kernels of a model that outlives main's statics may still hold memory of it.
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type data_type(DType dtype) {
  using T = dnnl::memory::data_type;
  switch (dtype) {
    case DType::float32:
      return T::f32;
    case DType::bfloat16:
      return T::bf16;
    case DType::float16:
      return T::f16;
    case DType::int32:
      return T::s32;
    case DType::float64:
      return T::f64;
    case DType::opaque:
      return T::u8;
    default:
      FF_CHECK(false, "oneDNN has no dtype ", name_of(dtype));
  }
}

dnnl::memory::desc dense_desc(const TensorType& type) {
  const dnnl::memory::dims dims = dims_of(type);
  dnnl::memory::dims strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * std::max<int64_t>(dims[d], 1);
  return {dims, data_type(type.dtype), strides};
}

dnnl::memory::desc any_desc(const TensorType& type) {
  return {dims_of(type), data_type(type.dtype), dnnl::memory::format_tag::any};
}

dnnl::memory::desc desc_of(const TensorType& type, const Layout& layout) {
  if (layout.dense()) return dense_desc(type);
  const auto* info = dynamic_cast<const DnnlLayout*>(layout.info());
  FF_CHECK(info != nullptr, "a layout that is not oneDNN's: ", layout.name());
  return info->desc;
}

Layout layout_of(const TensorType& type, const dnnl::memory::desc& desc) {
  if (desc == dense_desc(type)) return {};
  return Layout(std::make_shared<DnnlLayout>(name_of_desc(desc), desc));
}

void PrimitiveKernel::add(dnnl::primitive primitive, std::vector<Arg> args) {
  Stage stage{.primitive = std::move(primitive), .bound = {}, .exec = {}};
  for (Arg& arg : args) {
    if (arg.desc.get_size() == 0) continue;
    stage.bound.push_back({arg.from, arg.index, dnnl::memory(arg.desc, dnnl_engine(), nullptr)});
    stage.exec.push_back({arg.dnnl_arg, stage.bound.back().memory.get()});
  }
  stages_.push_back(std::move(stage));
}

void PrimitiveKernel::run(const RunArgs& args) {
  for (Stage& stage : stages_) {
    for (Bound& bound : stage.bound) {
      void* pointer = bound.from == Arg::From::input    ? const_cast<void*>(args.in[bound.index])
                      : bound.from == Arg::From::output ? args.out[bound.index]
                                                        : static_cast<char*>(args.scratch) + bound.index;
      bound.memory.set_data_handle(pointer);
    }
    const dnnl_status_t status = dnnl_primitive_execute(stage.primitive.get(), stream().get(),
                                                        static_cast<int>(stage.exec.size()), stage.exec.data());
    FF_CHECK(status == dnnl_success, "oneDNN status ", static_cast<int>(status));
  }
}

Arg in(int dnnl_arg, int index, const dnnl::memory::desc& desc) { return {dnnl_arg, Arg::From::input, index, desc}; }

Arg out(int dnnl_arg, int index, const dnnl::memory::desc& desc) { return {dnnl_arg, Arg::From::output, index, desc}; }

Arg scratch(const dnnl::memory::desc& desc, int offset) {
  return {DNNL_ARG_SCRATCHPAD, Arg::From::scratch, offset, desc};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace ff::cpu
