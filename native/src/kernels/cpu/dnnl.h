// What every kernel over oneDNN shares: the engine, memory descriptors from our types and layouts, and a kernel object
// that executes a chain of primitives on prepared arguments.
#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace ff::cpu {

const dnnl::engine& dnnl_engine();

dnnl::memory::data_type data_type(DType dtype);

// Dense row-major; a scalar is a vector of one element.
dnnl::memory::desc dense_desc(const TensorType& type);
// Any layout that the primitive likes.
dnnl::memory::desc any_desc(const TensorType& type);
// The descriptor of a layout, and the layout of a descriptor (dense ones become the dense Layout).
dnnl::memory::desc desc_of(const TensorType& type, const Layout& layout);
Layout layout_of(const TensorType& type, const dnnl::memory::desc& desc);

// Where the memory of one primitive argument comes from.
struct Arg {
  enum class From { input, output, scratch };
  int dnnl_arg;  // DNNL_ARG_SRC, ...
  From from;
  int index = 0;  // of the input or output; byte offset into the scratch
  dnnl::memory::desc desc;
};

// Executes primitives in turn; scratchpads are the caller's (scratchpad_mode::user).
class PrimitiveKernel : public Kernel {
 public:
  PrimitiveKernel() = default;
  PrimitiveKernel(dnnl::primitive primitive, std::vector<Arg> args) { add(std::move(primitive), std::move(args)); }
  void add(dnnl::primitive primitive, std::vector<Arg> args);
  void run(const RunArgs& args) override;

 private:
  struct Bound {
    Arg::From from;
    int index;
    dnnl::memory memory;
  };
  struct Stage {
    dnnl::primitive primitive;
    std::vector<Bound> bound;
    std::vector<dnnl_exec_arg_t> exec;
  };
  std::vector<Stage> stages_;
};

Arg in(int dnnl_arg, int index, const dnnl::memory::desc& desc);
Arg out(int dnnl_arg, int index, const dnnl::memory::desc& desc);
Arg scratch(const dnnl::memory::desc& desc, int offset = 0);  // DNNL_ARG_SCRATCHPAD

// Attributes with the scratchpad left to the caller.
dnnl::primitive_attr user_scratchpad();

}  // namespace ff::cpu
