// Calls of operators with values, run by the kernels of a device: what the tests of the operators' promises share.
#pragma once

#include <cstring>
#include <functional>

#include "base/half.h"
#include "engines/state.h"
#include "kernels/kernel.h"
#include "ops/op.h"

namespace calls {

using namespace ff;

// A dense tensor with values of its own.
struct Array {
  explicit Array(TensorType t) : type(std::move(t)), memory(type.bytes()) {}

  double get(int64_t i) const;
  void set(int64_t i, double value);
  template <class T>
  T* as() const {
    return static_cast<T*>(memory.data());
  }

  TensorType type;
  Memory memory;
};

using Arrays = std::vector<Array>;

// A call worth testing. Inputs are the data and the weights; their values are drawn, then `prepare` may make them fit
// each other (a gradient wants what its forward op gave).
struct Sample {
  std::string op;
  Attrs attrs;
  std::vector<TensorType> inputs;
  std::function<void(const OpCall&, Arrays&, const std::string& device)> prepare = {};

  std::string name() const;
};

// At least one of every operator that has a kernel; real is the type of its floating-point tensors.
std::vector<Sample> samples(DType real);

// The call with attributes completed and outputs inferred, over its whole iteration space.
OpCall call_of(const Sample& sample);
Arrays draw_inputs(const Sample& sample, const OpCall& call, const std::string& device);

// Run a call (the whole or a part of it), all layouts dense; inplace: output first lies in the memory of input second.
Arrays run(const OpCall& call, const Arrays& inputs, const std::string& device,
           const std::vector<std::pair<int, int>>& inplace = {});

// The elements of a rectangle, and back.
Array cut(const Array& array, const Rect& rect);
void each_element(const Shape& shape, const Rect& rect, const std::function<void(int64_t whole, int64_t part)>& body);

// Largest difference, relative to the largest value (of 1 at least).
double difference(const Array& a, const Array& b);

}  // namespace calls
