#include <cmath>
#include <vector>

#include "kernels/reference/dispatch.h"

namespace ff::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Gates are (batch, steps, 4 units): input, forget, cell, output.
struct Sizes {
  int64_t batch, steps, units;
  explicit Sizes(const TensorType& gates) : batch(gates.dim(0)), steps(gates.dim(1)), units(gates.dim(2) / 4) {}
};

struct LstmScan {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Sizes n(call.inputs[0]);
    for (int64_t b = 0; b < n.batch; ++b) {
      const T *h = args.input<T>(2) + b * n.units, *c = args.input<T>(3) + b * n.units;
      for (int64_t t = 0; t < n.steps; ++t) {
        const int64_t row = b * n.steps + t;
        T *gates = args.output<T>(3) + row * 4 * n.units, *cells = args.output<T>(4) + row * n.units;
        add_hidden(n, args.input<T>(0) + row * 4 * n.units, args.input<T>(1), h, gates);
        T* y = args.output<T>(0) + row * n.units;
        for (int64_t u = 0; u < n.units; ++u) {
          cells[u] = static_cast<T>(static_cast<double>(gates[n.units + u]) * c[u] +
                                    static_cast<double>(gates[u]) * gates[2 * n.units + u]);
          y[u] = static_cast<T>(gates[3 * n.units + u] * std::tanh(static_cast<double>(cells[u])));
        }
        h = y;
        c = cells;
      }
      std::copy_n(h, n.units, args.output<T>(1) + b * n.units);
      std::copy_n(c, n.units, args.output<T>(2) + b * n.units);
    }
  }

  template <class T>
  static void add_hidden(const Sizes& n, const T* x, const T* kernel, const T* h, T* gates) {
    for (int64_t g = 0; g < 4 * n.units; ++g) {
      double sum = x[g];
      for (int64_t u = 0; u < n.units; ++u) sum += static_cast<double>(kernel[g * n.units + u]) * h[u];
      gates[g] = static_cast<T>(g / n.units == 2 ? std::tanh(sum) : sigmoid(sum));
    }
  }
};

struct LstmScanGrad {
  template <class T>
  void operator()(T, const OpCall& call, const RunArgs& args) const {
    const Sizes n(call.inputs[1]);
    for (int64_t b = 0; b < n.batch; ++b) {
      std::vector<double> dh(args.input<T>(5) + b * n.units, args.input<T>(5) + (b + 1) * n.units);
      std::vector<double> dc(args.input<T>(6) + b * n.units, args.input<T>(6) + (b + 1) * n.units);
      for (int64_t t = n.steps; t-- > 0;) {
        const int64_t row = b * n.steps + t;
        const T* before = t > 0 ? args.input<T>(2) + (row - 1) * n.units : args.input<T>(3) + b * n.units;
        step(n, args, row, before, dh, dc);
      }
      std::copy(dh.begin(), dh.end(), args.output<T>(1) + b * n.units);
      std::copy(dc.begin(), dc.end(), args.output<T>(2) + b * n.units);
    }
  }

  // From the gradients of the states after a step to those before it.
  template <class T>
  static void step(const Sizes& n, const RunArgs& args, int64_t row, const T* before, std::vector<double>& dh,
                   std::vector<double>& dc) {
    const T *gates = args.input<T>(1) + row * 4 * n.units, *cells = args.input<T>(2) + row * n.units;
    T* dgates = args.output<T>(0) + row * 4 * n.units;
    for (int64_t u = 0; u < n.units; ++u) {
      const double i = gates[u], f = gates[n.units + u], g = gates[2 * n.units + u], o = gates[3 * n.units + u];
      const double cell = std::tanh(static_cast<double>(cells[u]));
      const double d = dh[u] + args.input<T>(4)[row * n.units + u];
      dc[u] += d * o * (1 - cell * cell);
      dgates[u] = static_cast<T>(dc[u] * g * i * (1 - i));
      dgates[n.units + u] = static_cast<T>(dc[u] * before[u] * f * (1 - f));
      dgates[2 * n.units + u] = static_cast<T>(dc[u] * i * (1 - g * g));
      dgates[3 * n.units + u] = static_cast<T>(d * cell * o * (1 - o));
      dc[u] *= f;
    }
    for (int64_t u = 0; u < n.units; ++u) {
      dh[u] = 0;
      for (int64_t g = 0; g < 4 * n.units; ++g)
        dh[u] += static_cast<double>(dgates[g]) * args.input<T>(0)[g * n.units + u];
    }
  }
};

std::vector<KernelDef> lstm_kernels() {
  return {float_kernel("lstm_scan", LstmScan{}), float_kernel("lstm_scan_grad", LstmScanGrad{})};
}

REGISTER_KERNELS(lstm_kernels);

}  // namespace
}  // namespace ff::reference
