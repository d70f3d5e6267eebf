#include "evenkeel/exchange/length_gather.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/base/hash.hpp"
#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/mask.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "exchange/announcement.hpp"
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
  std::vector<LengthEntry> entries;
  entries.reserve(samples.size());
  for (const SampleSummary& sample : samples) {
    const auto position = static_cast<std::int32_t>(entries.size());
    entries.push_back({sample.shape, owner, position, sample.loss_tokens, sample.prompt_hash});
  }
  return entries;
}

// The rows of a sample in a loss mask that can carry loss, among all rows of the mask. A response token that
// starts its sample is predicted nowhere; shared prefixes predict response tokens alone.
RowRange rows_with_loss(const RaggedBatch& batch, std::int64_t i, FieldKind kind, bool shared) {
  const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
  RowRange rows = batch.rows_of(kind, i);
  const bool of_responses = kind == FieldKind::response_token;
  if (of_responses && sample.prompt == 0 && !rows.empty()) ++rows.begin;
  if (of_responses || !shared || rows.empty()) return rows;
  return {rows.begin + std::clamp<std::int64_t>(sample.prompt - 1, 0, rows.size() - 1), rows.end - 1};
}

// Loss tokens are the marked rows of each sample, where the batch brings a mask.
std::vector<SampleSummary> counted_lengths(const RaggedBatch& batch, bool shared) {
  std::vector<SampleSummary> lengths;
  lengths.reserve(batch.samples().size());
  for (const SampleShape& shape : batch.samples()) lengths.push_back({shape, -1, 0});
  const Column* mask = batch.find(loss_mask_field);
  if (mask == nullptr || mask->spec().kind == FieldKind::sample) return lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    lengths[static_cast<std::size_t>(i)].loss_tokens =
        count_set(*mask, rows_with_loss(batch, i, mask->spec().kind, shared));
  }
  return lengths;
}

// One word of FNV-1a, 8 bytes at a time.
std::uint64_t hashed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * fnv1a_prime;
  return hash ^ hash >> 29;
}

// Every lane takes each fourth token: multiplications of one lane wait for each other.
std::uint64_t hash_of(std::span<const std::int64_t> tokens) noexcept {
  constexpr std::size_t num_lanes = 4;
  std::array<std::uint64_t, num_lanes> lanes{fnv1a_basis, fnv1a_basis + 1, fnv1a_basis + 2, fnv1a_basis + 3};
  while (tokens.size() >= num_lanes) {
    for (std::size_t i = 0; i < num_lanes; ++i)
      lanes[i] = hashed(lanes[i], static_cast<std::uint64_t>(tokens[i]));
    tokens = tokens.subspan(num_lanes);
  }
  std::uint64_t hash = fnv1a_basis;
  for (const std::uint64_t lane : lanes) hash = hashed(hash, lane);
  for (const std::int64_t token : tokens) hash = hashed(hash, static_cast<std::uint64_t>(token));
  return hash;
}

// Prompts lie apart, and the processor notices a new one too late by itself.
void fetch(std::span<const std::int64_t> tokens) noexcept {
  constexpr std::size_t tokens_of_line = 8;
  constexpr std::size_t farthest = 512;
  for (std::size_t i = 0; i < std::min(tokens.size(), farthest); i += tokens_of_line)
    __builtin_prefetch(&tokens[i]);
}

}  // namespace

std::vector<SampleSummary> summaries_of(const RaggedBatch& batch) {
  return counted_lengths(batch, false);
}

std::vector<SampleSummary> summaries_for_sharing(const RaggedBatch& batch) {
  std::vector<SampleSummary> lengths = counted_lengths(batch, true);
  if (batch.size() == 0) return lengths;
  const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
  const auto prompt_of = [&](std::int64_t i) {
    return tokens.subspan(static_cast<std::size_t>(batch.rows_of(FieldKind::token, i).begin),
                          static_cast<std::size_t>(batch.samples()[static_cast<std::size_t>(i)].prompt));
  };
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    if (i + 1 < batch.size()) fetch(prompt_of(i + 1));
    lengths[static_cast<std::size_t>(i)].prompt_hash = hash_of(prompt_of(i));
  }
  return lengths;
}

GatheredLengths gather_lengths(const boost::mpi::communicator& comm, std::span<const SampleSummary> mine,
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
  gather_values(comm, lists, my_entries.data(), entries.data(), sizeof(LengthEntry));
  if constexpr (copies_received_entries) entries = std::vector<LengthEntry>(entries);
  gathered.table = LengthTable(std::move(entries));
  return gathered;
}

}  // namespace evenkeel
