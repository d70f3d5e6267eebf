#include "exchange/gather/length_gather.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "exchange/gather/announcement.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

// If MPI makes progress in several threads, any of these threads may write received data. The thread
// sanitizer does not see the synchronization inside MPI and would report a data race, so builds with the
// sanitizer copy the received data.
#ifdef __SANITIZE_THREAD__
constexpr bool copies_received_entries = true;
#else
constexpr bool copies_received_entries = false;
#endif

// Entries are sent as raw bytes.
static_assert(std::is_trivially_copyable_v<LengthEntry> &&
              std::has_unique_object_representations_v<LengthEntry>);

// Precondition: the number of samples fits in an int.
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
  work([&] {
    (void)narrow<std::int32_t>(mine.size(), "samples of one rank in a step", hint_for_large_steps);
    own = OwnFields(std::move(fields));
    my_entries = entries_of(mine, WorldRank{comm.rank()});
  });
  const Announcements all = announce(comm, {std::ssize(mine), own.digest(), {}}, call, work.error());
  GatheredLengths gathered;
  gathered.fields = std::move(own).agree(comm, all.digests);

  std::vector<std::int64_t> counts;
  std::ranges::transform(all.by_rank, std::back_inserter(counts), &Announcement::count);
  const GatherLayout lists(counts, "samples of one step");
  std::vector<LengthEntry> entries(lists.total);
  gather_values<LengthEntry>(comm, lists, my_entries, entries);
  if constexpr (copies_received_entries) entries = std::vector<LengthEntry>(entries);
  gathered.table = LengthTable(std::move(entries));
  return gathered;
}

}  // namespace evenkeel
