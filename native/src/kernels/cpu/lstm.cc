// The steps of an LSTM: in each, a product with weight_hh, which is packed once, and a pass over the units.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/parallel.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/simd.h"

namespace ff::cpu {
namespace {

using Desc = dnnl::memory::desc;

#define FF_INLINE __attribute__((always_inline)) inline

// e^x to two units in the last place, without a call, so that loops over it become vector code (Cody and Waite, 1980:
// x is a multiple of ln 2 and a rest).
FF_INLINE float fast_exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float n = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const float p =
      1 + r * (1 + r * (0.5f + r * (0.166666667f + r * (0.0416666667f + r * (0.00833333333f + r * 0.00138888889f)))));
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}
FF_INLINE float fast_sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }
FF_INLINE float fast_tanh(float x) { return 1 - 2 / (1 + fast_exp(2 * x)); }

// One sample and step: sums become gates, in place, and give the new states.
FF_SIMD void forward_units(float* gates, const float* before, float* cells, float* y, int64_t units) {
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float i = fast_sigmoid(gates[u]), f = fast_sigmoid(gates[units + u]);
    const float g = fast_tanh(gates[2 * units + u]), o = fast_sigmoid(gates[3 * units + u]);
    const float c = f * before[u] + i * g;
    gates[u] = i;
    gates[units + u] = f;
    gates[2 * units + u] = g;
    gates[3 * units + u] = o;
    cells[u] = c;
    y[u] = o * fast_tanh(c);
  }
}

struct Row {
  const float *gates, *cells, *before, *dy;
};

FF_SIMD void backward_units(const Row& row, const float* dh, float* dc, float* dgates, int64_t units) {
  const float *gates = row.gates, *cells = row.cells, *before = row.before, *dy = row.dy;
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float i = gates[u], f = gates[units + u], g = gates[2 * units + u], o = gates[3 * units + u];
    const float cell = fast_tanh(cells[u]), d = dh[u] + dy[u];
    const float c = dc[u] + d * o * (1 - cell * cell);
    dgates[u] = c * g * i * (1 - i);
    dgates[units + u] = c * before[u] * f * (1 - f);
    dgates[2 * units + u] = c * i * (1 - g * g);
    dgates[3 * units + u] = d * cell * o * (1 - o);
    dc[u] = c * f;
  }
}

Desc matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride = 1) {
  return {{rows, columns}, dnnl::memory::data_type::f32, dnnl::memory::dims{row_stride, column_stride}};
}

// a kernel, for rows that lie apart, with a kernel that is packed once per run.
class Product {
 public:
  // Rows of a are `stride` apart, or `first` in the first step of a scan.
  Product(int64_t rows, const Desc& kernel, int64_t stride, int64_t first, int64_t out_stride, bool add) {
    const auto dims = kernel.get_dims();
    const Desc any(dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
    const Desc out_desc = matrix(rows, dims[1], out_stride);
    dnnl::primitive_attr attr = user_scratchpad();
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum();
      attr.set_post_ops(sum);
    }
    const Desc a = matrix(rows, dims[0], stride);
    const dnnl::matmul::primitive_desc pd(dnnl_engine(), a, any, out_desc, attr);
    const Desc packed = pd.weights_desc();
    const Desc head = matrix(rows, dims[0], first);
    const dnnl::matmul::primitive_desc head_pd(dnnl_engine(), head, packed, out_desc, attr);
    const dnnl::reorder::primitive_desc pack_pd(dnnl_engine(), kernel, dnnl_engine(), packed, user_scratchpad());
    const auto args = [&](const Desc& x, const dnnl::matmul::primitive_desc& made) {
      return std::vector<Arg>{in(DNNL_ARG_SRC, 0, x), in(DNNL_ARG_WEIGHTS, 1, packed), out(DNNL_ARG_DST, 0, out_desc),
                              scratch(made.scratchpad_desc())};
    };
    const std::vector<Arg> pack_args = {in(DNNL_ARG_FROM, 0, kernel), out(DNNL_ARG_TO, 0, packed),
                                        scratch(pack_pd.scratchpad_desc())};
    make_ = [=, step_args = args(a, pd), first_args = args(head, head_pd)](Product& made) {
      made.pack_.add(dnnl::reorder(pack_pd), pack_args);
      made.step_.add(dnnl::matmul(pd), step_args);
      made.first_.add(dnnl::matmul(head_pd), first_args);
    };
    packed_bytes_ = (packed.get_size() + 63) / 64 * 64;
    scratch_ = packed_bytes_ + std::max({pd.scratchpad_desc().get_size(), head_pd.scratchpad_desc().get_size(),
                                         pack_pd.scratchpad_desc().get_size()});
  }

  size_t scratch_bytes() const { return scratch_; }
  void bind() { make_(*this); }

  void pack(const float* kernel, void* scratch) { run(pack_, {kernel, nullptr}, scratch, scratch); }
  void multiply(const float* a, float* out, void* scratch, bool first) {
    run(first ? first_ : step_, {a, scratch}, out, scratch);
  }

 private:
  void run(PrimitiveKernel& kernel, std::array<const void*, 2> inputs, void* output, void* scratch) const {
    kernel.run({inputs.data(), &output, static_cast<char*>(scratch) + packed_bytes_});
  }

  std::function<void(Product&)> make_;  // primitives are made at bind only
  PrimitiveKernel pack_, step_, first_;
  size_t packed_bytes_ = 0, scratch_ = 0;
};

struct Sizes {
  int64_t batch, steps, units;
  explicit Sizes(const TensorType& gates) : batch(gates.dim(0)), steps(gates.dim(1)), units(gates.dim(2) / 4) {}

  // body(sample), shared among the cores.
  template <class Body>
  void each_sample(Body body) const {
    parallel_for(batch, std::max<int64_t>(1, 2048 / units), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) body(b);
    });
  }
};

class Forward : public Kernel {
 public:
  explicit Forward(const OpCall& call) : n_(call.inputs[0]), product_(product(n_)) { product_.bind(); }

  static Product product(const Sizes& n) {
    // weight_hh is (4 units, units), and its transpose is what the states meet.
    return {n.batch, matrix(n.units, 4 * n.units, 1, n.units), n.steps * n.units, n.units, n.steps * 4 * n.units, true};
  }

  void run(const RunArgs& args) override {
    float *y = args.output<float>(0), *gates = args.output<float>(3), *cells = args.output<float>(4);
    const int64_t all = n_.batch * n_.steps * 4 * n_.units;
    if (gates != args.input<float>(0)) std::copy_n(args.input<float>(0), all, gates);
    product_.pack(args.input<float>(1), args.scratch);
    for (int64_t t = 0; t < n_.steps; ++t) {
      product_.multiply(t == 0 ? args.input<float>(2) : y + (t - 1) * n_.units, gates + t * 4 * n_.units, args.scratch,
                        t == 0);
      n_.each_sample([&](int64_t b) {
        const int64_t row = b * n_.steps + t;
        const float* before = t == 0 ? args.input<float>(3) + b * n_.units : cells + (row - 1) * n_.units;
        forward_units(gates + row * 4 * n_.units, before, cells + row * n_.units, y + row * n_.units, n_.units);
      });
    }
    for (int64_t b = 0; b < n_.batch; ++b) {
      const int64_t last = (b * n_.steps + n_.steps - 1) * n_.units;
      std::copy_n(y + last, n_.units, args.output<float>(1) + b * n_.units);
      std::copy_n(cells + last, n_.units, args.output<float>(2) + b * n_.units);
    }
  }

 private:
  Sizes n_;
  Product product_;
};

class Backward : public Kernel {
 public:
  explicit Backward(const OpCall& call) : n_(call.inputs[1]), product_(product(n_)) { product_.bind(); }

  static Product product(const Sizes& n) {
    const int64_t stride = n.steps * 4 * n.units;
    return {n.batch, matrix(4 * n.units, n.units, n.units), stride, stride, n.units, false};
  }

  // The gradients of the states run along in the outputs for those before the first step.
  void run(const RunArgs& args) override {
    float *dgates = args.output<float>(0), *dh = args.output<float>(1), *dc = args.output<float>(2);
    std::copy_n(args.input<float>(5), n_.batch * n_.units, dh);
    std::copy_n(args.input<float>(6), n_.batch * n_.units, dc);
    product_.pack(args.input<float>(0), args.scratch);
    for (int64_t t = n_.steps; t-- > 0;) {
      n_.each_sample([&](int64_t b) {
        const int64_t row = b * n_.steps + t, at = row * n_.units;
        const float* cells = args.input<float>(2);
        const float* before = t == 0 ? args.input<float>(3) + b * n_.units : cells + at - n_.units;
        backward_units({args.input<float>(1) + 4 * at, cells + at, before, args.input<float>(4) + at},
                       dh + b * n_.units, dc + b * n_.units, dgates + 4 * at, n_.units);
      });
      product_.multiply(dgates + t * 4 * n_.units, dh, args.scratch, false);
    }
  }

 private:
  Sizes n_;
  Product product_;
};

template <class K>
KernelDef scan_kernel(const std::string& op, int gates) {
  KernelDef def;
  def.op = op;
  def.device = "cpu";
  def.supported = filled_float32;
  def.scratch = [gates](const OpCall& call, const Layouts&) {
    return K::product(Sizes(call.inputs[gates])).scratch_bytes();
  };
  def.bind = [](const BindContext& context) { return std::make_unique<K>(context.call); };
  return def;
}

std::vector<KernelDef> lstm_kernels() {
  return {scan_kernel<Forward>("lstm_scan", 0), scan_kernel<Backward>("lstm_scan_grad", 1)};
}

REGISTER_KERNELS(lstm_kernels);

}  // namespace
}  // namespace ff::cpu
