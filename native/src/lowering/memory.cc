// Where buffers live: results share the memory of inputs that end there, and temporaries are packed into one arena by
// lifetime.
#include <algorithm>

#include "base/error.h"
#include "graph/moves.h"
#include "lowering/lower.h"
#include "ops/op.h"

namespace ff {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void touch(Plan& plan, BufferId id, int step) {
  if (id < 0) return;
  Buffer& root = plan.buffers[plan.root(id)];
  if (root.first < 0) root.first = step;
  root.last = std::max(root.last, step);
}

void find_lifetimes(Plan& plan) {
  for (Buffer& buffer : plan.buffers) buffer.first = buffer.last = -1;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const BufferId id : plan.steps[s].inputs) touch(plan, id, static_cast<int>(s));
    for (const BufferId id : plan.steps[s].outputs) touch(plan, id, static_cast<int>(s));
  }
}

// By root: do steps of several devices use it? Whoever overwrote it would have to wait for the others.
std::vector<bool> used_by_several(const Plan& plan) {
  std::vector<int> user(plan.buffers.size(), -1);
  std::vector<bool> several(plan.buffers.size());
  for (const Step& step : plan.steps)
    for (const auto* ids : {&step.inputs, &step.outputs})
      for (const BufferId id : *ids) {
        if (id < 0) continue;
        const BufferId root = plan.root(id);
        several[root] = several[root] || (user[root] >= 0 && user[root] != step.device);
        user[root] = step.device;
      }
  return several;
}

// What a step can do in place: what its op says, and a sum grows in what was summed up before.
std::vector<std::pair<int, int>> pairs_in_place(const Step& step) {
  if (step.call.op != "move") return op_def(step.call.op).inplace_pairs;
  const Moves moves(step.call);
  const bool grows = step.call.attrs.text("combiner") != "copy" && moves.pieces().size() > 1 &&
                     std::all_of(moves.pieces().begin(), moves.pieces().end(), [&](const MovePiece& piece) {
                       return piece.to.extent == step.call.outputs[0].shape &&
                              step.call.inputs[piece.input].shape == step.call.outputs[0].shape;
                     });
  return grows ? std::vector<std::pair<int, int>>{{0, 0}} : std::vector<std::pair<int, int>>{};
}

// An output takes over the memory of an input whose last use this is, where the op can work in place.
void share_in_place(Plan& plan) {
  std::vector<bool> common = used_by_several(plan);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    for (const auto& [output, input] : pairs_in_place(step)) {
      if (static_cast<size_t>(output) >= step.outputs.size() || static_cast<size_t>(input) >= step.inputs.size())
        continue;
      const BufferId made = step.outputs[output];
      const Plan::Span there = plan.span(step.inputs[input]);
      const BufferId root = there.root;
      Buffer& from = plan.buffers[root];
      Buffer& to = plan.buffers[made];
      const bool ends_here = from.storage == Storage::temporary && from.last == static_cast<int>(s);
      const bool alone = std::count_if(step.inputs.begin(), step.inputs.end(),
                                       [&](BufferId id) { return plan.root(id) == root; }) == 1;
      if (!ends_here || !alone || common[root] || to.alias >= 0 || to.storage != Storage::temporary ||
          to.bytes > there.end - there.begin || to.layout != plan.buffers[step.inputs[input]].layout)
        continue;
      for (Buffer& buffer : plan.buffers)
        if (buffer.alias == made) {
          buffer.alias = root;
          buffer.offset += there.begin;
        }
      to.alias = root;
      to.offset = there.begin;
      from.last = to.last;
      common[root] = common[made];
    }
  }
}

// Memory that another device reads is free when its own device knows that it has been read: when it has waited for a
// later step of the reader, to read what that made. Else it would have to wait in order to reuse it.
class Keeping {
 public:
  explicit Keeping(Plan& plan)
      : plan_(plan),
        writers_(plan.buffers.size()),
        known_(plan.machine.devices.size(), std::vector<int>(plan.machine.devices.size(), -1)),
        reads_(known_.size()) {}

  void run() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      if (moves_nothing(plan_, step)) continue;
      for (const BufferId id : step.inputs) read(id, s);
      for (const BufferId id : step.outputs)
        if (id >= 0) writers_[plan_.root(id)].push_back({plan_.span(id), s});
    }
    for (const auto& reads : reads_)
      for (const Read& read : reads) keep(read.root, static_cast<int>(plan_.steps.size()) - 1);
  }

 private:
  struct Write {
    Plan::Span span;
    int step;
  };
  struct Read {
    BufferId root;
    int device, step;
  };

  void read(BufferId id, int s) {
    const int device = plan_.steps[s].device;
    const Plan::Span span = plan_.span(id);
    for (const Write& write : writers_[span.root]) {
      const int maker = plan_.steps[write.step].device;
      if (maker == device || !write.span.meets(span) || write.step <= known_[device][maker]) continue;
      known_[device][maker] = write.step;
      release(device, maker, s);
    }
    const Buffer& root = plan_.buffers[span.root];
    if (root.storage == Storage::temporary && root.device != device)
      reads_[root.device].push_back({span.root, device, s});
  }

  void release(int device, int reader, int s) {
    std::erase_if(reads_[device], [&](const Read& read) {
      const bool over = read.device == reader && read.step <= known_[device][reader];
      if (over) keep(read.root, s - 1);
      return over;
    });
  }

  void keep(BufferId root, int last) { plan_.buffers[root].last = std::max(plan_.buffers[root].last, last); }

  Plan& plan_;
  std::vector<std::vector<Write>> writers_;  // by root
  std::vector<std::vector<int>> known_;      // by device and other device: the last step that it knows to have ended
  std::vector<std::vector<Read>> reads_;     // by device: of its memory by others, not known to have ended
};

// What crosses a boundary of sections that run on their own must survive until the plan is run again.
void pin_crossings(Plan& plan) {
  for (Buffer& buffer : plan.buffers) {
    if (buffer.alias >= 0 || buffer.storage != Storage::temporary || buffer.first < 0) continue;
    if (plan.steps[buffer.first].section != plan.steps[buffer.last].section) buffer.storage = Storage::pinned;
  }
}

// Greedy packing, large buffers first, each at the lowest offset where it meets no other of its lifetime.
size_t pack(Plan& plan, int device) {
  std::vector<Buffer*> todo;
  for (Buffer& buffer : plan.buffers)
    if (buffer.alias < 0 && buffer.storage == Storage::temporary && buffer.first >= 0 && buffer.device == device)
      todo.push_back(&buffer);
  std::stable_sort(todo.begin(), todo.end(), [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  std::vector<Buffer*> placed;  // by offset
  size_t total = 0;
  for (Buffer* buffer : todo) {
    size_t offset = 0;
    for (const Buffer* other : placed) {
      const bool overlap = other->first <= buffer->last && buffer->first <= other->last;
      if (!overlap) continue;
      if (offset + aligned(buffer->bytes) <= other->offset) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    buffer->offset = offset;
    total = std::max(total, offset + aligned(buffer->bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer,
                                   [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; }),
                  buffer);
  }
  return total;
}

}  // namespace

void place_buffers(Plan& plan, bool separate_sections) {
  share_moves(plan);
  find_lifetimes(plan);
  if (separate_sections) pin_crossings(plan);
  share_in_place(plan);
  if (plan.machine.devices.size() > 1) Keeping(plan).run();
  plan.arena.assign(plan.machine.devices.size(), 0);
  plan.scratch.assign(plan.machine.devices.size(), 0);
  for (size_t d = 0; d < plan.machine.devices.size(); ++d) plan.arena[d] = pack(plan, static_cast<int>(d));
  for (const Step& step : plan.steps)
    plan.scratch[step.device] = std::max(plan.scratch[step.device], aligned(step.scratch));
}

}  // namespace ff
