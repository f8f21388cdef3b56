#include "graph/moves.h"

#include "base/error.h"

namespace ff {

// Each piece as integers: input, from.origin, to.origin, extent.
Moves::Moves(const OpCall& call) : target_(whole_of(call.outputs[0].shape)), combiner_(call.attrs.text("combiner")) {
  const std::vector<int64_t>& numbers = call.attrs.ints("pieces");
  const size_t rank = call.outputs[0].rank(), size = 3 * rank + 1;
  for (size_t at = 0; at + size <= numbers.size(); at += size) {
    const auto dims = [&](size_t k) {
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(at + 1 + k * rank);
      return Shape(begin, begin + static_cast<std::ptrdiff_t>(rank));
    };
    pieces_.push_back({static_cast<int>(numbers[at]), {dims(0), dims(2)}, {dims(1), dims(2)}});
  }
}

void Moves::add(int input, const Rect& source, const Rect& rect) {
  pieces_.push_back({input, relative_to(rect, source), relative_to(rect, target_)});
}

Attrs Moves::attrs() const {
  std::vector<int64_t> numbers;
  for (const MovePiece& piece : pieces_) {
    numbers.push_back(piece.input);
    for (const Shape* shape : {&piece.from.origin, &piece.to.origin, &piece.to.extent})
      numbers.insert(numbers.end(), shape->begin(), shape->end());
  }
  return {{"pieces", numbers}, {"combiner", combiner_}};
}

}  // namespace ff
