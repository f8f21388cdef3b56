#include <algorithm>
#include <numeric>
#include <set>

#include "check.h"
#include "data/dataset.h"

using namespace ff;

namespace {

constexpr int64_t kRows = 23;

struct Data {
  Data() : values(2 * kRows), labels(kRows) {
    for (int64_t i = 0; i < kRows; ++i) {
      values[2 * i] = static_cast<float>(i);
      values[2 * i + 1] = static_cast<float>(-i);
      labels[i] = static_cast<int32_t>(i);
    }
  }

  Dataset make() const {
    return Dataset(
        {{"x", {DType::float32, {kRows, 2}}, values.data()}, {"label", {DType::int32, {kRows, 1}}, labels.data()}});
  }

  std::vector<float> values;
  std::vector<int32_t> labels;
};

// The labels of an epoch in the order in which they come; rows of both columns must stay together.
std::vector<int32_t> epoch(Dataset& data, std::vector<int64_t>* sizes = nullptr) {
  std::vector<int32_t> order;
  while (const int64_t rows = data.next_rows()) {
    std::vector<float> x(static_cast<size_t>(2 * rows));
    std::vector<int32_t> y(static_cast<size_t>(rows));
    data.gather(0, x.data());
    data.gather(1, y.data());
    for (int64_t i = 0; i < rows; ++i) CHECK(x[2 * i] == y[i] && x[2 * i + 1] == -y[i]);
    order.insert(order.end(), y.begin(), y.end());
    if (sizes != nullptr) sizes->push_back(rows);
    data.advance();
  }
  return order;
}

std::vector<int32_t> sorted(std::vector<int32_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(batches_cover_the_data_in_order) {
  const Data source;
  Dataset data = source.make();
  for (const int64_t batch : {1, 4, 22, 23, 24, 100}) {
    std::vector<int64_t> sizes;
    data.begin(batch, false, 0, 0, false, 0);
    CHECK(epoch(data, &sizes) == source.labels, batch);
    CHECK(static_cast<int64_t>(sizes.size()) == (kRows + batch - 1) / batch);
    data.begin(batch, false, 0, 0, true, 0);
    CHECK(static_cast<int64_t>(epoch(data).size()) == kRows / batch * batch, batch);
  }
}

TEST(shuffling_is_a_permutation) {
  const Data source;
  Dataset data = source.make();
  std::set<std::vector<int32_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (uint64_t number = 0; number < 20; ++number) {
      data.begin(4, true, seed, number, false, 0);
      const auto order = epoch(data);
      CHECK(sorted(order) == source.labels);
      orders.insert(order);
      data.begin(7, true, seed, number, false, 0);  // whatever the batch size
      CHECK(epoch(data) == order);
    }
  CHECK(orders.size() == 400, orders.size());
}

TEST(every_place_is_as_likely_as_any_other) {
  const Data source;
  Dataset data = source.make();
  constexpr int kEpochs = 4000;
  std::vector<int> first(kRows, 0), place(kRows, 0);
  for (int number = 0; number < kEpochs; ++number) {
    data.begin(kRows, true, 1, static_cast<uint64_t>(number), false, 0);
    const auto order = epoch(data);
    ++first[static_cast<size_t>(order[0])];
    ++place[static_cast<size_t>(std::find(order.begin(), order.end(), 5) - order.begin())];
  }
  const auto chi_squared = [&](const std::vector<int>& counts) {
    const double expected = static_cast<double>(kEpochs) / kRows;
    return std::accumulate(counts.begin(), counts.end(), 0.0,
                           [&](double sum, int n) { return sum + (n - expected) * (n - expected) / expected; });
  };
  // 22 degrees of freedom: above 48.3 with a probability of 0.001.
  CHECK(chi_squared(first) < 48.3, chi_squared(first));
  CHECK(chi_squared(place) < 48.3, chi_squared(place));
}

TEST(an_epoch_goes_on_where_it_was_left) {
  const Data source;
  Dataset data = source.make();
  data.begin(4, true, 3, 2, false, 0);
  const auto whole = epoch(data);
  data.begin(4, true, 3, 2, false, 8);
  CHECK(epoch(data) == std::vector<int32_t>(whole.begin() + 8, whole.end()));
}

TEST(bad_data_is_refused) {
  const Data source;
  CHECK_THROWS(Dataset({}), "at least one array");
  CHECK_THROWS(Dataset({{"x", {DType::float32, {}}, source.values.data()}}), "is a scalar");
  CHECK_THROWS(Dataset({{"x", {DType::float32, {0, 2}}, source.values.data()}}), "no samples");
  CHECK_THROWS(Dataset({{"x", {DType::float32, {3, 2}}, source.values.data()},
                        {"y", {DType::float32, {4}}, source.values.data()}}),
               "has 4 samples, data for \"x\" has 3");
  Dataset data = source.make();
  CHECK(!data.begun());
  CHECK_THROWS(data.begin(0, false, 0, 0, false, 0), "batch size is 0");
  CHECK_THROWS(data.begin(4, false, 0, 0, false, 24), "position is 24");
}

}  // namespace
