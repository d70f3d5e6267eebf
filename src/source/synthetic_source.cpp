#include "source/synthetic_source.hpp"

#include <algorithm>
#include <random>
#include <type_traits>

#include "base/hash.hpp"
#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t vocabulary = 32000;

// The longest sample fits within the default cap of 8192 tokens, so that a job without files runs with the
// defaults.
constexpr std::int64_t longest_prompt = 2048;
constexpr std::int64_t longest_response = 6144;

// Uses one engine per sample, so that a sample's tokens do not depend on which rank makes them.
void fill_tokens(std::span<std::int64_t> tokens, std::uint64_t seed, std::int64_t sample) {
  std::seed_seq seeds{seed >> 32, seed & 0xffffffff, static_cast<std::uint64_t>(sample)};
  std::mt19937_64 engine(seeds);
  for (std::int64_t& token : tokens) token = static_cast<std::int64_t>(engine() % vocabulary);
}

void broadcast_rows(const Communicator& comm, std::vector<FileLengths>& rows) {
  static_assert(std::is_trivially_copyable_v<FileLengths>);
  constexpr std::int64_t rows_per_block = std::int64_t{1} << 20;
  std::int64_t count = std::ssize(rows);
  comm.broadcast(count, 0);
  run_together(comm, [&] { rows.resize(static_cast<std::size_t>(count)); });
  for (std::int64_t first = 0; first < count; first += rows_per_block) {
    const auto piece = std::span(rows).subspan(
        static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(rows_per_block, count - first)));
    comm.broadcast(std::as_writable_bytes(piece), 0);
  }
}

[[noreturn]] void reject_length(const std::string& path, std::int64_t sample, const FileLengths& row,
                                std::int64_t max_tokens) {
  throw LimitError(
      path,
      "sample " + std::to_string(sample) + " has " + format_plain_count(row.prompt + row.response, "token") +
          ", above the cap of " + format_plain_count(max_tokens, "token"),
      "Raise micro_batch.max_tokens (or micro_batch.max_tokens_per_rank), or shorten or drop the sample");
}

}  // namespace

SyntheticSource::SyntheticSource(std::int64_t samples, std::uint64_t seed) : samples_(samples) {
  spec_.seed = seed;
  spec_.prompt_length.max = longest_prompt;
  spec_.response_length.max = longest_response;
  spec_.prompts = (samples + spec_.group_size - 1) / spec_.group_size;
  validate(spec_);
}

std::int64_t SyntheticSource::tokens_in(std::int64_t position) const {
  return synthetic_shape(spec_, SampleId{position}).length();
}

std::vector<SourceField> SyntheticSource::fields() const {
  return {{{"advantages", DType::float32, FieldKind::response_token, {}}},
          {{"reward", DType::float32, FieldKind::sample, {}}}};
}

SourceFingerprint SyntheticSource::fingerprint(const Communicator& comm) const {
  return run_together(comm, [&] { return SourceFingerprint{"synthetic", samples_, 0, mix_64(spec_.seed)}; });
}

RaggedBatch SyntheticSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleId> ids;
  for (const std::int64_t position : positions) ids.emplace_back(position);
  return synthetic_samples(spec_, ids);
}

std::unique_ptr<LengthTableSource> LengthTableSource::open(const Communicator& comm,
                                                           const std::filesystem::path& path,
                                                           std::uint64_t seed, std::int64_t max_tokens) {
  auto source = run_together(comm, [&] {
    std::unique_ptr<LengthTableSource> made(new LengthTableSource(path.string(), seed, max_tokens));
    if (comm.rank() == 0) made->rows_ = read_length_table(InputFile(path));
    return made;
  });
  broadcast_rows(comm, source->rows_);
  return source;
}

std::int64_t LengthTableSource::tokens_in(std::int64_t position) const {
  const FileLengths& row = rows_[static_cast<std::size_t>(position)];
  return row.prompt + row.response;
}

// Hashes the rows, which every rank has, instead of the file, which may exist only on rank 0.
SourceFingerprint LengthTableSource::fingerprint(const Communicator& comm) const {
  return run_together(comm, [&] {
    std::uint64_t digest = mix_64(seed_);
    for (const FileLengths& row : rows_) {
      for (const auto number :
           {static_cast<std::uint64_t>(row.prompt), static_cast<std::uint64_t>(row.response), row.group})
        digest = mix_64(digest ^ number) + 1;
    }
    return SourceFingerprint{path_, num_samples(), 0, digest};
  });
}

std::vector<Uid> LengthTableSource::uids(std::span<const std::int64_t> positions) const {
  if (uids_.empty()) uids_ = read_uids_of_table(InputFile(path_));
  if (uids_.size() != rows_.size())
    throw IoError(path_, "has changed while in use", "Do not modify a file that is in use");
  std::vector<Uid> uids;
  uids.reserve(positions.size());
  for (const std::int64_t position : positions) uids.push_back(uids_[static_cast<std::size_t>(position)]);
  return uids;
}

RaggedBatch LengthTableSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  for (const std::int64_t position : positions) {
    const FileLengths& row = rows_[static_cast<std::size_t>(position)];
    if (row.prompt + row.response > max_tokens_) reject_length(path_, position, row, max_tokens_);
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
