#include "transport/gather_lists.hpp"

#include <algorithm>
#include <memory>

#include "base/narrow.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {

RankLists& RankLists::of(const Communicator& comm) {
  return comm_attribute<RankLists>(
      comm, [&] { return together(comm, [&] { return std::make_unique<RankLists>(comm.size()); }); });
}

std::int64_t RankLists::take_words_as_sizes(std::string_view what) {
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    offsets_[rank] = narrow<int>(total, what);
    sizes_[rank] = narrow<int>(words_[rank], what);
    total += words_[rank];
  }
  return narrow<int>(total, what);
}

RankLists& gather_counts(const Communicator& comm, std::int64_t mine,
                         const std::optional<ErrorReport>& error) {
  constexpr std::int64_t failed = -1;
  RankLists& lists = RankLists::of(comm);
  const std::int64_t word = error ? failed : mine;
  comm.all_gather(word, lists.words());
  const auto first = std::ranges::find(lists.words(), failed);
  if (first != lists.words().end())
    fail_with_report_of(comm, static_cast<int>(first - lists.words().begin()), error);
  return lists;
}

}  // namespace evenkeel
