#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/task.hpp"

namespace evenkeel::context {

/// Makes the end of a tree earlier: takes micro-batches of a rank that ends last, and of some other ranks,
/// apart and puts their items, roughly by falling work, where all ends are earlier than that. (Ruin and
/// recreate; Schrimpf et al., 2000.) Until the end is `enough`, or so many places were looked at, which are
/// subtracted. Never worse. What is random has a fixed seed.
void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough, std::int64_t& looks_left);

}  // namespace evenkeel::context
