#include "evenkeel/exchange/length_gather.hpp"

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/collectives/all_gatherv.hpp>
#include <boost/mpi/datatype.hpp>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/base/hash.hpp"
#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/mask.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/plan_serialization.hpp"
#include "exchange/announcement.hpp"

// A sample's shape is fixed-size, so it travels as an MPI datatype built from its serialize function, not as
// an archive.
BOOST_IS_MPI_DATATYPE(evenkeel::LengthEntry)
BOOST_IS_MPI_DATATYPE(evenkeel::SampleShape)
BOOST_IS_MPI_DATATYPE(evenkeel::SampleId)
BOOST_IS_MPI_DATATYPE(evenkeel::WorldRank)

namespace evenkeel {
namespace {

// Where MPI makes progress in several threads, any of them may have written what was received. The thread
// sanitizer does not see inside MPI, so it is shown a copy.
#ifdef __SANITIZE_THREAD__
constexpr bool copies_received_entries = true;
#else
constexpr bool copies_received_entries = false;
#endif

// MPI would send entries piece by piece around a gap.
static_assert(std::has_unique_object_representations_v<LengthEntry>);

std::vector<int> sizes_of(std::span<const Announcement> announced) {
  std::vector<int> sizes;
  for (const Announcement& of_rank : announced)
    sizes.push_back(narrow<int>(of_rank.count, "samples of one rank in a step"));
  return sizes;
}

// Precondition: there are no more samples than an int counts.
std::vector<LengthEntry> entries_of(std::span<const SampleLengths> samples, WorldRank owner) {
  std::vector<LengthEntry> entries;
  entries.reserve(samples.size());
  for (const SampleLengths& sample : samples) {
    const auto position = static_cast<std::int32_t>(entries.size());
    entries.push_back({sample.shape, owner, position, sample.loss_tokens, sample.prompt_hash});
  }
  return entries;
}

// Loss tokens are the marked rows of each sample from `first_row` on, where the batch brings a mask.
template <typename FirstRow>
std::vector<SampleLengths> counted_lengths(const RaggedBatch& batch, FirstRow first_row) {
  std::vector<SampleLengths> lengths;
  lengths.reserve(batch.samples().size());
  for (const SampleShape& shape : batch.samples()) lengths.push_back({shape, -1, 0});
  const Column* mask = batch.find(loss_mask_field);
  if (mask == nullptr || mask->spec().kind != FieldKind::token) return lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    SampleLengths& sample = lengths[static_cast<std::size_t>(i)];
    sample.loss_tokens =
        count_set(*mask, {std::min(rows.begin + first_row(sample.shape), rows.end), rows.end});
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

std::vector<SampleLengths> lengths_of(const RaggedBatch& batch) {
  return counted_lengths(batch, [](const SampleShape&) { return std::int64_t{0}; });
}

std::vector<SampleLengths> lengths_for_sharing(const RaggedBatch& batch) {
  std::vector<SampleLengths> lengths = counted_lengths(
      batch, [](const SampleShape& sample) { return std::max<std::int64_t>(0, sample.prompt - 1); });
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

GatheredLengths gather_lengths(const boost::mpi::communicator& comm, std::span<const SampleLengths> mine,
                               std::optional<std::vector<FieldSpec>> fields,
                               const std::optional<ErrorReport>& my_error, std::string_view call) {
  OwnFields own(std::move(fields));
  const std::vector<Announcement> announced =
      announce(comm, static_cast<std::int64_t>(mine.size()), own.digest(), call, my_error);
  GatheredLengths gathered;
  gathered.fields = std::move(own).agree(comm, digests_of(announced));

  const std::vector<int> sizes = sizes_of(announced);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  (void)narrow<int>(total, "samples of one step");
  // Received where the table keeps them: every rank pays for a copy.
  const std::vector<LengthEntry> my_entries = entries_of(mine, WorldRank{comm.rank()});
  const LengthEntry none;
  std::vector<LengthEntry> entries(static_cast<std::size_t>(total));
  boost::mpi::all_gatherv(comm, my_entries.empty() ? &none : my_entries.data(), entries.data(), sizes);
  if constexpr (copies_received_entries) entries = std::vector<LengthEntry>(entries);
  gathered.table = LengthTable(std::move(entries));
  return gathered;
}

}  // namespace evenkeel
