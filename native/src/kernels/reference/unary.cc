// Elementwise functions of one input and their gradients. f(x, p) has the op's only attribute as p, where it has one; a
// gradient is g(dy, v, p), v being what the op's gradient reads: its input x or its output y.
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "kernels/reference/define.h"
#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

constexpr int64_t kGrain = 4096;

double parameter(const Attrs& attrs) {
  for (const auto& [name, value] : attrs) {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    if (const double* real = std::get_if<double>(&value)) return *real;
  }
  return 0;
}

template <class F>
KernelDef forward(const std::string& op, F f) {
  const auto bind = [f](const BindContext& context) {
    const TensorType& type = context.call.outputs[0];
    return dispatch_number(type.dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([f, n = type.numel(), p = static_cast<T>(parameter(context.call.attrs))](const RunArgs& args) {
        const T* x = args.input<T>(0);
        T* y = args.output<T>(0);
        parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(f(x[i], p));
        });
      });
    });
  };
  return define(op, bind, number_output);
}

template <class F>
KernelDef backward(const std::string& op, F f) {
  const auto bind = [f](const BindContext& context) {
    const TensorType& type = context.call.outputs[0];
    return dispatch_float(type.dtype, [&](auto zero) {
      using T = decltype(zero);
      return make_kernel([f, n = type.numel(), p = static_cast<T>(parameter(context.call.attrs))](const RunArgs& args) {
        const T *dy = args.input<T>(0), *v = args.input<T>(1);
        T* dx = args.output<T>(0);
        parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) dx[i] = f(dy[i], v[i], p);
        });
      });
    });
  };
  return define(op, bind, float_output);
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// P(X <= x) for X standard normal, or its approximation by tanh, and the derivative of x times it.
template <class T>
struct Gelu {
  static constexpr T kSlope = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;  // sqrt(2 / pi)
  static constexpr T kCubic = static_cast<T>(0.044715);

  static T inner(T x) { return std::tanh(kSlope * (x + kCubic * x * x * x)); }
  static T gate(T x, bool approximate) {
    return (1 + (approximate ? inner(x) : std::erf(x / std::numbers::sqrt2_v<T>))) / 2;
  }
  static T derivative(T x, bool approximate) {
    const T density = approximate ? (1 - inner(x) * inner(x)) * kSlope * (1 + 3 * kCubic * x * x) / 2
                                  : std::exp(-x * x / 2) * kSlope / 2;
    return gate(x, approximate) + x * density;
  }
};

template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

std::vector<KernelDef> unary_kernels() {
  std::vector<KernelDef> kernels;
  const auto row = [&](const std::string& op, auto value, auto gradient) {
    kernels.push_back(forward(op, value));
    kernels.push_back(backward(op + "_grad", gradient));
  };
  // Gradients from the output.
  row("relu", [](auto x, auto) { return x < 0 ? 0 : x; }, [](auto dy, auto y, auto) { return y > 0 ? dy : 0; });
  row("sigmoid", [](auto x, auto) { return sigmoid(x); }, [](auto dy, auto y, auto) { return dy * y * (1 - y); });
  row("tanh", [](auto x, auto) { return std::tanh(x); }, [](auto dy, auto y, auto) { return dy * (1 - y * y); });
  row(
      "elu", [](auto x, auto p) { return x > 0 ? x : p * std::expm1(x); },
      [](auto dy, auto y, auto p) { return y > 0 ? dy : dy * (y + p); });
  row("exp", [](auto x, auto) { return std::exp(x); }, [](auto dy, auto y, auto) { return dy * y; });
  row("sqrt", [](auto x, auto) { return std::sqrt(x); }, [](auto dy, auto y, auto) { return dy / (2 * y); });
  row(
      "rsqrt", [](auto x, auto) { return 1 / std::sqrt(x); },
      [](auto dy, auto y, auto) { return -dy * y * y * y / 2; });
  // Gradients from the input.
  row(
      "gelu", [](auto x, auto p) { return x * Gelu<decltype(x + 0.0f)>::gate(x, p != 0); },
      [](auto dy, auto x, auto p) { return dy * Gelu<decltype(x)>::derivative(x, p != 0); });
  row(
      "leaky_relu", [](auto x, auto p) { return x > 0 ? x : p * x; },
      [](auto dy, auto x, auto p) { return x > 0 ? dy : p * dy; });
  row(
      "silu", [](auto x, auto) { return x * sigmoid(x); },
      [](auto dy, auto x, auto) { return dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
  row("log", [](auto x, auto) { return std::log(x); }, [](auto dy, auto x, auto) { return dy / x; });
  row("sin", [](auto x, auto) { return std::sin(x); }, [](auto dy, auto x, auto) { return dy * std::cos(x); });
  row("cos", [](auto x, auto) { return std::cos(x); }, [](auto dy, auto x, auto) { return -dy * std::sin(x); });
  row("abs", [](auto x, auto) { return x < 0 ? -x : x; }, [](auto dy, auto x, auto) { return dy * sign(x); });
  row("square", [](auto x, auto) { return x * x; }, [](auto dy, auto x, auto) { return 2 * dy * x; });
  row(
      "pow", [](auto x, auto p) { return std::pow(x, p); },
      [](auto dy, auto x, auto p) { return p == 0 ? 0 : dy * p * std::pow(x, p - 1); });
  kernels.push_back(forward("negative", [](auto x, auto) { return -x; }));
  kernels.push_back(forward("scalar_add", [](auto x, auto p) { return x + p; }));
  kernels.push_back(forward("scalar_sub", [](auto x, auto p) { return x - p; }));
  kernels.push_back(forward("scalar_multiply", [](auto x, auto p) { return x * p; }));
  kernels.push_back(forward("scalar_true_divide", [](auto x, auto p) { return x / p; }));
  return kernels;
}
REGISTER_KERNELS(unary_kernels);

}  // namespace
}  // namespace ff::reference
