// A resident data set: arrays with a common first extent, walked in batches, in order or shuffled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace ff {

class Dataset {
 public:
  struct Column {
    std::string input;  // name of the input tensor that it feeds
    TensorType type;    // of the whole array
    const void* data;   // the caller's; not owned
  };

  // Throws when the columns differ in length or are empty.
  explicit Dataset(std::vector<Column> columns);

  int64_t size() const { return size_; }
  const std::vector<Column>& columns() const { return columns_; }

  // The permutation of a shuffled epoch depends on (seed, epoch) alone.
  void begin(int64_t batch, bool shuffle, uint64_t seed, uint64_t epoch, bool drop_last, int64_t position);
  bool begun() const { return batch_ > 0; }
  // Rows of the next batch; 0 when the epoch is over.
  int64_t next_rows() const;
  int64_t position() const { return position_; }
  // Copy the rows of the next batch of a column.
  void gather(size_t column, void* to) const;
  void advance();
  // Of sizes, order and some of the data: differs, most likely, for what is not the same.
  uint64_t digest() const;

 private:
  std::vector<Column> columns_;
  int64_t size_ = 0, batch_ = 0, position_ = 0;
  bool drop_last_ = false;
  std::vector<int64_t> order_;  // empty: as it is
};

}  // namespace ff
