#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace ff {

Dataset::Dataset(std::vector<Column> columns) : columns_(std::move(columns)) {
  if (columns_.empty()) bad_value("a data set needs at least one array");
  for (const Column& column : columns_) {
    if (column.type.rank() == 0)
      bad_value("data for \"", column.input, "\" is a scalar; expected an array with the samples along its first axis");
    if (column.type.shape[0] != columns_[0].type.shape[0])
      bad_value("data for \"", column.input, "\" has ", column.type.shape[0], " samples, data for \"",
                columns_[0].input, "\" has ", columns_[0].type.shape[0], "; all arrays must have the same number");
  }
  size_ = columns_[0].type.shape[0];
  if (size_ == 0) bad_value("data for \"", columns_[0].input, "\" has no samples");
}

void Dataset::begin(int64_t batch, bool shuffle, uint64_t seed, uint64_t epoch, bool drop_last, int64_t position) {
  if (batch < 1) bad_value("batch size is ", batch, "; expected at least 1");
  if (position < 0 || position > size_) bad_value("position is ", position, "; expected 0 to ", size_);
  batch_ = batch;
  drop_last_ = drop_last;
  position_ = position;
  order_.clear();
  if (!shuffle) return;
  order_.resize(static_cast<size_t>(size_));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  constexpr uint64_t kShuffleStream = 0x5A0FF1E5;  // apart from the streams of operators
  RandomStream random(seed, kShuffleStream, epoch);
  for (int64_t i = size_ - 1; i > 0; --i) {
    const uint64_t bits =
        uint64_t{random.bits(static_cast<uint64_t>(2 * i))} << 32 | random.bits(static_cast<uint64_t>(2 * i + 1));
    std::swap(order_[static_cast<size_t>(i)], order_[bits % static_cast<uint64_t>(i + 1)]);
  }
}

int64_t Dataset::next_rows() const {
  const int64_t left = size_ - position_;
  if (left >= batch_) return batch_;
  return drop_last_ ? 0 : left;
}

void Dataset::gather(size_t column, void* to) const {
  const Column& source = columns_[column];
  const size_t row = source.type.bytes() / static_cast<size_t>(size_);
  const int64_t rows = next_rows();
  const char* data = static_cast<const char*>(source.data);
  if (order_.empty()) {
    std::memcpy(to, data + static_cast<size_t>(position_) * row, static_cast<size_t>(rows) * row);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(static_cast<char*>(to) + static_cast<size_t>(i) * row,
                data + static_cast<size_t>(order_[static_cast<size_t>(position_ + i)]) * row, row);
}

void Dataset::advance() { position_ += next_rows(); }

uint64_t Dataset::digest() const {
  constexpr int64_t kRows = 16;
  constexpr size_t kBytes = 256;  // of a row
  std::string seen = cat(size_, " ", batch_, " ", position_, " ", drop_last_);
  for (int64_t i = 0; i < std::min(kRows, size_); ++i) {
    const int64_t at = i * size_ / kRows % size_;
    const auto row = static_cast<size_t>(order_.empty() ? at : order_[static_cast<size_t>(at)]);
    for (const Column& column : columns_) {
      const size_t bytes = column.type.bytes() / static_cast<size_t>(size_);
      seen.append(static_cast<const char*>(column.data) + row * bytes, std::min(bytes, kBytes));
    }
  }
  return std::hash<std::string>()(seen);
}

}  // namespace ff
