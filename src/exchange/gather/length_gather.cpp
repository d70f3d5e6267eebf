#include "exchange/gather/length_gather.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

// Where MPI makes progress in several threads, any of them may have written what was received. The thread
// sanitizer does not see inside MPI, so it is shown a copy.
#ifdef __SANITIZE_THREAD__
constexpr bool copies_received_entries = true;
#else
constexpr bool copies_received_entries = false;
#endif

// Entries travel as they lie in memory.
static_assert(std::is_trivially_copyable_v<LengthEntry> &&
              std::has_unique_object_representations_v<LengthEntry>);

// Samples of all ranks that a rank with `own` makes room for before it knows their number: as a rule enough,
// and pages that are never touched take no memory.
std::int64_t likely_total(std::int64_t own, int ranks) {
  constexpr std::int64_t least = 1024;
  return std::max(least, 2 * own * ranks);
}

// Precondition: there are no more samples than an int counts.
std::vector<LengthEntry> entries_of(std::span<const SampleSummary> samples, WorldRank owner) {
  EVENKEEL_PRECONDITION(cheap, std::in_range<std::int32_t>(samples.size()), samples.size());
  std::vector<LengthEntry> entries;
  entries.reserve(samples.size());
  for (const SampleSummary& sample : samples) {
    const auto position = static_cast<std::int32_t>(entries.size());
    entries.push_back({sample.shape, owner, position, sample.loss_tokens, sample.prompt_hash});
  }
  return entries;
}

}  // namespace

GatheredLengths gather_lengths(const Communicator& comm, std::span<const SampleSummary> mine,
                               std::optional<std::vector<FieldSpec>> fields,
                               const std::optional<ErrorReport>& my_error, const CallKey& call) {
  GuardedWork work(my_error);
  OwnFields own;
  std::vector<LengthEntry> my_entries;
  // Received where the table keeps them: every rank pays for a copy.
  std::vector<LengthEntry> entries;
  const std::int64_t room = likely_total(std::ssize(mine), comm.size());
  work([&] {
    (void)narrow<std::int32_t>(mine.size(), "samples of one rank in a step");
    own = OwnFields(std::move(fields));
    my_entries = entries_of(mine, WorldRank{comm.rank()});
    entries.reserve(static_cast<std::size_t>(room));
  });
  const Announcements& all = announce(comm, {std::ssize(mine), room, own.digest(), {}}, call, work.error());
  GatheredLengths gathered;
  gathered.fields = std::move(own).agree(comm, all.digests);

  RankLists& lists = RankLists::of(comm);
  std::ranges::transform(all.of_ranks, lists.words().begin(), &Announcement::count);
  const std::int64_t total = lists.take_words_as_sizes("samples of one step");
  const auto resize = [&] { entries.resize(static_cast<std::size_t>(total)); };
  if (total <= std::ranges::min(all.of_ranks, {}, &Announcement::room).room) {
    resize();
  } else {
    together(comm, resize);
  }
  gather_values<LengthEntry>(comm, lists, my_entries, entries);
  if constexpr (copies_received_entries) entries = std::vector<LengthEntry>(entries);
  gathered.table = LengthTable(std::move(entries));
  return gathered;
}

}  // namespace evenkeel
