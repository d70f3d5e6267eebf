#include "exchange/gather/announcement.hpp"

#include <algorithm>
#include <span>

#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t failed = -1;

[[noreturn]] void throw_different_calls(const Communicator& comm, const CallKey& mine,
                                        std::span<const Announcement> announced) {
  const auto texts = all_gather_lists<char>(comm, mine.text, {}, "bytes of step names");
  GuardedWork work;
  work.run_on_replicated_data([&] {
    std::string calls;
    for (std::size_t rank = 0; rank < announced.size(); ++rank) {
      const auto same = [&](const Announcement& other) { return other.call == announced[rank].call; };
      const auto first = std::ranges::find_if(announced, same) - announced.begin();
      if (static_cast<std::size_t>(first) != rank) continue;
      const auto text = [&](std::size_t number) {
        return std::string(texts.list_of(number).begin(), texts.list_of(number).end());
      };
      calls += (calls.empty() ? "rank " : ", rank ") + std::to_string(rank) + " " + text(rank);
      if (rank != 0 && text(rank) == text(0)) calls += ", a different call with the same name";
    }
    throw InputError("step", "ranks make different calls: " + calls,
                     "Make each call on all ranks, with the same step, in the same order");
  });
  fail_with_report_of(comm, 0, work.error());
}

}  // namespace

Announcements announce(const Communicator& comm, Announcement mine, const CallKey& call,
                       const std::optional<ErrorReport>& error) {
  Announcements all(comm.size());
  if (error) mine.count = failed;
  mine.call = call.words;
  comm.all_gather<Announcement>(mine, all.by_rank);
  const auto first = std::ranges::find(all.by_rank, failed, &Announcement::count);
  if (first != all.by_rank.end())
    fail_with_report_of(comm, static_cast<int>(first - all.by_rank.begin()), error);
  const auto differs = [&](const Announcement& other) { return other.call != all.by_rank.front().call; };
  if (std::ranges::any_of(all.by_rank, differs)) throw_different_calls(comm, call, all.by_rank);
  std::ranges::transform(all.by_rank, all.digests.begin(), &Announcement::fields);
  return all;
}

}  // namespace evenkeel
