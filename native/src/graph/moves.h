// The work of the op "move": rectangles of its inputs that are copied into its output, or combined with what is there.
// One op for everything that crosses from one sharding to another.
#pragma once

#include <vector>

#include "graph/rect.h"

namespace ff {

struct MovePiece {
  int input = 0;
  Rect from, to;  // of the input and of the output, each from its own origin
};

class Moves {
 public:
  // Copies into an output that holds this rectangle of the whole tensor.
  explicit Moves(Rect target) : target_(std::move(target)) {}
  // Combines by "sum", "max", "min", "prod" or "any" instead.
  Moves(Rect target, std::string combiner) : target_(std::move(target)), combiner_(std::move(combiner)) {}
  // What an op's attributes say.
  explicit Moves(const OpCall& call);

  // A rectangle of the whole tensor from an input that holds `source` of it.
  void add(int input, const Rect& source, const Rect& rect);
  Attrs attrs() const;

  const std::vector<MovePiece>& pieces() const { return pieces_; }

 private:
  Rect target_;
  std::string combiner_ = "copy";
  std::vector<MovePiece> pieces_;
};

}  // namespace ff
