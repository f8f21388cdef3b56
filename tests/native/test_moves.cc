// What crosses from one sharding to another: the op "move" as the four parallel ops, and each the adjoint of its dual:
// <A x, y> = <x, A^T y>.
#include <cmath>

#include "calls.h"
#include "check.h"
#include "graph/moves.h"

using namespace ff;
using namespace calls;

namespace {

constexpr DType kReal = DType::float64;

Array run_move(const Moves& moves, const Arrays& inputs, const Shape& out) {
  OpCall call{.op = "move", .name = "move", .attrs = moves.attrs(), .inputs = {}, .outputs = {{kReal, out}}, .box = {}};
  for (const Array& input : inputs) call.inputs.push_back(input.type);
  return std::move(run(call, inputs, "reference")[0]);
}

Array numbers(const Shape& shape, double seed) {
  Array array({kReal, shape});
  for (int64_t i = 0; i < array.type.numel(); ++i) array.set(i, std::sin(seed + 1.7 * static_cast<double>(i)));
  return array;
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.type.numel(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

const Rect kLeft{{0, 0}, {3, 2}}, kRight{{0, 2}, {3, 3}}, kAll{{0, 0}, {3, 5}};

// Repartition cuts what Combine puts together.
TEST(repartition_and_combine_are_adjoint) {
  const Array x = numbers({3, 5}, 0.1), left = numbers({3, 2}, 0.2), right = numbers({3, 3}, 0.3);
  Arrays whole, parts;
  whole.push_back(cut(x, kAll));
  parts.push_back(cut(left, {{0, 0}, {3, 2}}));
  parts.push_back(cut(right, {{0, 0}, {3, 3}}));
  Moves to_left(kLeft), to_right(kRight), combine(kAll);
  to_left.add(0, kAll, kLeft);
  to_right.add(0, kAll, kRight);
  combine.add(0, kLeft, kLeft);
  combine.add(1, kRight, kRight);
  const double cut_then = dot(run_move(to_left, whole, {3, 2}), left) + dot(run_move(to_right, whole, {3, 3}), right);
  CHECK(std::abs(cut_then - dot(x, run_move(combine, parts, {3, 5}))) < 1e-12, cut_then);
}

// Replicate copies what Reduction sums.
TEST(replicate_and_reduction_are_adjoint) {
  const Array x = numbers({3, 5}, 0.4), y0 = numbers({3, 5}, 0.5), y1 = numbers({3, 5}, 0.6);
  Arrays one, two;
  one.push_back(cut(x, kAll));
  two.push_back(cut(y0, kAll));
  two.push_back(cut(y1, kAll));
  Moves replicate(kAll), reduction(kAll, "sum");
  replicate.add(0, kAll, kAll);
  reduction.add(0, kAll, kAll);
  reduction.add(1, kAll, kAll);
  const Array copy = run_move(replicate, one, {3, 5});
  const double copied = dot(copy, y0) + dot(copy, y1);
  CHECK(std::abs(copied - dot(x, run_move(reduction, two, {3, 5}))) < 1e-12, copied);
}

// Partial results need not cover the same rectangles.
TEST(a_sum_of_rectangles) {
  const Array a = numbers({3, 2}, 0.7), b = numbers({3, 5}, 0.8);
  Arrays terms;
  terms.push_back(cut(a, {{0, 0}, {3, 2}}));
  terms.push_back(cut(b, kAll));
  Moves moves(kAll, "sum");
  moves.add(0, kLeft, kLeft);
  moves.add(1, kAll, kAll);
  const Array sum = run_move(moves, terms, {3, 5});
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 5; ++column) {
      const double expected = b.get(row * 5 + column) + (column < 2 ? a.get(row * 2 + column) : 0.0);
      CHECK(sum.get(row * 5 + column) == expected, row, " ", column);
    }
}

TEST(other_combinations) {
  const Array a = numbers({2, 3}, 0.9), b = numbers({2, 3}, 1.1);
  const Rect all{{0, 0}, {2, 3}};
  Arrays terms;
  terms.push_back(cut(a, all));
  terms.push_back(cut(b, all));
  for (const std::string combiner : {"max", "min", "prod"}) {
    Moves moves(all, combiner);
    moves.add(0, all, all);
    moves.add(1, all, all);
    const Array made = run_move(moves, terms, {2, 3});
    for (int64_t i = 0; i < 6; ++i) {
      const double x = a.get(i), y = b.get(i);
      CHECK(made.get(i) == (combiner == "max" ? std::max(x, y) : combiner == "min" ? std::min(x, y) : x * y), i);
    }
  }
}

TEST(rectangles) {
  const Rect outer{{0, 0}, {4, 6}}, inner{{1, 2}, {2, 3}};
  CHECK(contains(outer, inner) && !contains(inner, outer), "contains");
  int64_t left = 0;
  for (const Rect& rest : difference(outer, inner)) {
    CHECK(!intersection(rest, inner), "what is left meets what was taken");
    left += volume(rest);
  }
  CHECK(left == volume(outer) - volume(inner), left);
  CHECK(!intersection({{0}, {2}}, {{2}, {3}}), "neighbours do not meet");
  const Range last = part_of(64, 2, 3);
  CHECK(last.origin == 43 && last.extent == 21, last.origin, " ", last.extent);
  std::vector<int> from(24), to(24, -1);
  for (int i = 0; i < 24; ++i) from[static_cast<size_t>(i)] = i;
  copy_rect(inner, sizeof(int), from.data(), outer, to.data(), outer);
  for (int i = 0; i < 24; ++i) {
    const bool inside = i / 6 >= 1 && i / 6 < 3 && i % 6 >= 2 && i % 6 < 5;
    CHECK(to[static_cast<size_t>(i)] == (inside ? i : -1), i);
  }
}

}  // namespace
