#include "evenkeel/exchange/length_gather.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/collectives/all_gatherv.hpp>
#include <boost/mpi/datatype.hpp>
#include <vector>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/plan_serialization.hpp"

// A sample's shape is fixed-size, so it travels as an MPI datatype built from its serialize function, not as
// an archive.
BOOST_IS_MPI_DATATYPE(evenkeel::SampleLengths)
BOOST_IS_MPI_DATATYPE(evenkeel::SampleShape)
BOOST_IS_MPI_DATATYPE(evenkeel::SampleId)

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::SampleLengths& sample, unsigned /*version*/) {
  archive& sample.shape;
  archive& sample.loss_tokens;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

constexpr std::int64_t failed = -1;

std::vector<int> sizes_of(std::span<const std::int64_t> counts) {
  std::vector<int> sizes;
  for (const std::int64_t count : counts)
    sizes.push_back(narrow<int>(count, "samples of one rank in a step"));
  return sizes;
}

}  // namespace

std::vector<SampleLengths> lengths_of(const RaggedBatch& batch) {
  std::vector<SampleLengths> lengths;
  for (const SampleShape& shape : batch.samples()) lengths.push_back({shape, -1});
  const Column* mask = batch.find(loss_mask_field);
  if (mask == nullptr || mask->spec().kind != FieldKind::token) return lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    std::int64_t& count = lengths[static_cast<std::size_t>(i)].loss_tokens = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) count += is_set(*mask, row) ? 1 : 0;
  }
  return lengths;
}

LengthTable gather_lengths(const boost::mpi::communicator& comm, std::span<const SampleLengths> mine,
                           const std::optional<ErrorReport>& my_error) {
  std::vector<std::int64_t> counts;
  boost::mpi::all_gather(comm, my_error ? failed : static_cast<std::int64_t>(mine.size()), counts);
  if (std::ranges::find(counts, failed) != counts.end()) fail_together(comm, my_error);
  const std::vector<int> sizes = sizes_of(counts);
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  (void)narrow<int>(total, "samples of one step");

  std::vector<SampleLengths> samples(static_cast<std::size_t>(total));
  const SampleLengths none;
  boost::mpi::all_gatherv(comm, mine.empty() ? &none : mine.data(), samples.data(), sizes);
  std::vector<LengthEntry> entries;
  entries.reserve(samples.size());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    for (std::int64_t i = 0; i < counts[rank]; ++i) {
      const SampleLengths& sample = samples[entries.size()];
      entries.push_back({sample.shape, WorldRank{static_cast<int>(rank)}, i, sample.loss_tokens});
    }
  }
  return LengthTable(std::move(entries));
}

}  // namespace evenkeel
