#pragma once

#include <cstddef>
#include <vector>

#include "transport/block_list.hpp"
#include "transport/messages/messages.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// One side of an exchange in messages, which take bytes from where they lie as they travel: rows that are
/// looked at through a view are copied together for them before, or apart after. Other bytes stay where they
/// are.
class StagedViews {
 public:
  /// Local; takes all memory that it needs. Of the lists between this rank and those that are `wanted`; they
  /// must stand as long as this does.
  StagedViews(const std::vector<BlockList>& lists, const WantedRanks& wanted);
  StagedViews(const StagedViews&) = delete;
  StagedViews& operator=(const StagedViews&) = delete;

  /// The lists, those that are wanted plain.
  [[nodiscard]] const std::vector<BlockList>& lists() const noexcept { return any() ? plain_ : lists_; }

  /// Copies what is sent to where messages take it.
  void gather() const noexcept { viewed_.copy_to(staged_, viewed_.bytes()); }
  /// Copies what has been received to where it belongs.
  void scatter() const noexcept { staged_.copy_to(viewed_, viewed_.bytes()); }

 private:
  [[nodiscard]] bool any() const noexcept { return !viewed_.empty(); }
  void make_plain(BlockList& list, const std::byte*& staging) const;

  const std::vector<BlockList>& lists_;
  BlockList viewed_;  // of all lists that are wanted, what is looked at through a view
  HeapBytes bytes_;
  BlockList staged_;              // the same, as it travels
  std::vector<BlockList> plain_;  // where there is any
};

}  // namespace evenkeel
