// What is known of each part of a range of numbers, such as the bytes of a memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace ff {

template <class T>
class Intervals {
 public:
  // From now on this holds for [begin, end).
  void assign(size_t begin, size_t end, T value) {
    if (begin >= end) return;
    split(begin);
    split(end);
    runs_.erase(runs_.lower_bound(begin), runs_.lower_bound(end));
    runs_.emplace(begin, Run{end, std::move(value)});
  }

  // visit(begin, end, value) for what is known of [begin, end), in order; changes to the value hold for this part only.
  // Of gaps nothing is known: T().
  template <class F>
  void visit(size_t begin, size_t end, F&& visit) {
    if (begin >= end) return;
    split(begin);
    split(end);
    size_t at = begin;
    while (at < end) {
      auto it = runs_.lower_bound(at);
      if (it == runs_.end() || it->first > at)
        it = runs_.emplace_hint(it, at, Run{it == runs_.end() ? end : std::min(end, it->first), T()});
      visit(it->first, it->second.end, it->second.value);
      at = it->second.end;
    }
  }

 private:
  struct Run {
    size_t end;
    T value;
  };

  void split(size_t at) {
    const auto after = runs_.upper_bound(at);
    if (after == runs_.begin()) return;
    const auto it = std::prev(after);
    if (it->first == at || it->second.end <= at) return;
    runs_.emplace(at, it->second);
    it->second.end = at;
  }

  std::map<size_t, Run> runs_;  // by where they begin
};

}  // namespace ff
