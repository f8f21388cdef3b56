// Legate, when it is the one whose Legion runtime we joined.
#pragma once

#include <functional>

namespace ff::legion {

// Have Legate call this before it ends its runtime, for which it waits until all top-level tasks have ended; false
// where no Legate is in this process.
bool before_legate_ends(std::function<void()> callback);

}  // namespace ff::legion
