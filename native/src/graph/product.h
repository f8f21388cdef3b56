// Sums of products over named indices, "b n k, b k m -> b n m": what einsum says and what batch_matmul means.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "graph/call.h"

namespace ff {

// The names of the dimensions of two factors and of their product.
struct Product {
  using Names = std::vector<std::string>;
  Names a, b, c;

  // Throws naming `who` where the text is no such line, or a name stands in only one of the three.
  static Product parse(const std::string& equation, const std::string& who);
};

// "b0 b1 n k": the names, spelt.
std::string to_string(const Product::Names& names);

// Of a call of einsum or batch_matmul.
Product product_of(const OpCall& call);

// One loop of the nest: by how many elements each of a, b and c moves; 0 where it stands still.
struct ProductLoop {
  int64_t extent = 1;
  std::array<int64_t, 3> strides{};
};

// The loops over the indices of c, in its order, then those that are summed. All operands are dense.
struct ProductLoops {
  std::vector<ProductLoop> kept, summed;
};
ProductLoops loops_of(const OpCall& call);

}  // namespace ff
