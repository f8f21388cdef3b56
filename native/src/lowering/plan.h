// A plan: what the devices do in one training step (or evaluation, or prediction), down to single calls of operators,
// buffers and the order between them. An engine executes it and knows no operator by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/call.h"
#include "graph/graph.h"
#include "graph/kernel_query.h"
#include "graph/layout.h"
#include "graph/machine.h"
#include "graph/rect.h"

namespace ff {

using BufferId = int32_t;

enum class Storage : uint8_t {
  state,      // outlives plans: weights, optimizer state, counters; found by name
  input,      // written from outside before a run
  pinned,     // lives as long as the plan: results, and what crosses a section that is run on its own
  temporary,  // in the arena, from its first to its last step
};
const char* name_of(Storage storage);

struct Buffer {
  std::string name;
  TensorType type;
  Layout layout;
  size_t bytes = 0;
  Storage storage = Storage::temporary;
  int device = 0;
  BufferId alias = -1;  // shares the memory of this buffer (a root: roots alias nothing)
  int first = -1;       // steps between which its memory is in use; of roots
  int last = -1;
  size_t offset = 0;  // of a temporary root: in the arena of its device; of an alias: in its root
  Attrs initializer;  // of states: how the first value is drawn, ...
  Rect piece;         // ... the rectangle that lies here of the state of that name ...
  Shape whole;        // ... and its whole shape
};

// A step of another device's queue that must have ended.
struct Wait {
  int device = 0;
  int step = 0;  // in Plan::steps
  bool operator==(const Wait&) const = default;
};

struct Step {
  OpCall call;
  Layouts layouts;
  std::vector<BufferId> inputs, outputs;  // -1: an output that nobody reads
  int device = 0;
  int threads = 1;  // of the device's, for this step
  Section section = Section::forward;
  size_t scratch = 0;
  // Skipped while the state in this buffer has not changed since the step last ran: its output is a packed copy.
  BufferId fresh_with = -1;
  std::vector<Wait> waits;
};

struct PlanInput {
  BufferId buffer = -1;
  unsigned sections = 0;  // bit i: Section i reads it
};

struct Plan {
  Machine machine;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;                  // in an order that respects all waits; a device runs its own in this order
  std::map<std::string, BufferId> results;  // named tensors that can be read after a run
  std::map<std::string, PlanInput> inputs;
  std::vector<size_t> arena;    // bytes by device
  std::vector<size_t> scratch;  // bytes by device

  BufferId root(BufferId id) const { return buffers[id].alias >= 0 ? buffers[id].alias : id; }
  // The bytes of a root that a buffer has.
  struct Span {
    BufferId root;
    size_t begin, end;

    bool meets(const Span& other) const { return root == other.root && begin < other.end && other.begin < end; }
    bool operator==(const Span&) const = default;
  };
  Span span(BufferId id) const {
    const Buffer& buffer = buffers[id];
    const size_t begin = buffer.alias >= 0 ? buffer.offset : 0;
    return {root(id), begin, begin + buffer.bytes};
  }
};

// Of a step that copies rectangles, those which lie where they belong already.
std::vector<Plan::Span> in_place(const Plan& plan, const Step& step);
// The bytes that a step reads of an input: of a move, from the first that it takes to the last.
Plan::Span read_of(const Plan& plan, const Step& step, size_t input);
// All do: the step only gives another name to memory.
bool moves_nothing(const Plan& plan, const Step& step);

// The states of a plan, each with where its pieces lie.
struct StateLayout {
  TensorType type;  // of the whole
  Attrs initializer;
  std::vector<Shard> shards;
};
std::map<std::string, StateLayout> states_of(const Plan& plan);

std::string to_string(const Plan& plan);
// All memory that the plan needs on a device.
size_t bytes_needed(const Plan& plan, int device);
// Bytes per device by kind, and the largest buffers.
std::string memory_report(const Plan& plan);
// Throws an Error that names the largest buffers when a device has less memory than the plan needs there.
void check_memory(const Plan& plan);

}  // namespace ff
