#include "service/synthetic_source.hpp"

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <random>

#include "evenkeel/mesh/fail_together.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::LengthRow& row, unsigned /*version*/) {
  archive& row.prompt;
  archive& row.response;
  archive& row.group;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

constexpr std::int64_t vocabulary = 32000;

// The longest sample fits the default cap of 8192 tokens, so that a job without a file runs as it comes.
constexpr std::int64_t longest_prompt = 2048;
constexpr std::int64_t longest_response = 6144;

// One engine a sample, so that a sample's tokens do not depend on who makes it.
void fill_tokens(std::span<std::int64_t> tokens, std::uint64_t seed, std::int64_t sample) {
  std::seed_seq seeds{seed >> 32, seed & 0xffffffff, static_cast<std::uint64_t>(sample)};
  std::mt19937_64 engine(seeds);
  for (std::int64_t& token : tokens) token = static_cast<std::int64_t>(engine() % vocabulary);
}

}  // namespace

SyntheticSource::SyntheticSource(std::int64_t samples, std::uint64_t seed) : samples_(samples) {
  spec_.seed = seed;
  spec_.prompt_length.max = longest_prompt;
  spec_.response_length.max = longest_response;
  spec_.prompts = (samples + spec_.group_size - 1) / spec_.group_size;
  validate(spec_);
}

RaggedBatch SyntheticSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleId> ids;
  for (const std::int64_t position : positions) ids.emplace_back(position);
  return synthetic_samples(spec_, ids);
}

LengthTableSource::LengthTableSource(const boost::mpi::communicator& comm, const std::filesystem::path& path,
                                     std::uint64_t seed)
    : seed_(seed) {
  together(comm, [&] {
    if (comm.rank() == 0) rows_ = read_length_table(path);
  });
  boost::mpi::broadcast(comm, rows_, 0);
}

RaggedBatch LengthTableSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  for (const std::int64_t position : positions) {
    const LengthRow& row = rows_[static_cast<std::size_t>(position)];
    shapes.push_back({SampleId{position}, row.group, row.prompt, row.response});
  }
  RaggedBatch batch(std::move(shapes));
  const std::span<std::int64_t> tokens =
      batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}})
          .values<std::int64_t>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    fill_tokens(tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())),
                seed_, positions[static_cast<std::size_t>(i)]);
  }
  return batch;
}

}  // namespace evenkeel
