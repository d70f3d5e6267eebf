#include "source/files/indexed_source.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "mesh/fail_together.hpp"
#include "source/files/file_agreement.hpp"
#include "source/files/input_files.hpp"

namespace evenkeel {
namespace {

// Documents are merged into one run only while the run has fewer tokens than this. In a larger run, the first
// tokens would no longer be in the CPU caches when they are widened to int64.
constexpr std::int64_t tokens_per_batch = 1 << 14;

void require_integer_dtype(const IndexedDataset& dataset) {
  if (dataset.has_integers()) return;
  throw InputError(dataset.files()[0]->path(),
                   "has elements of " + std::string(name_of(dataset.dtype())) + ", which are not tokens",
                   "Name the dataset that holds the token ids");
}

}  // namespace

std::unique_ptr<IndexedSource> IndexedSource::open(const Communicator& comm,
                                                   const std::filesystem::path& prefix) {
  auto source = run_together(comm, [&] {
    std::unique_ptr<IndexedSource> made(new IndexedSource(indexed_dataset_prefix(prefix)));
    require_integer_dtype(made->dataset_);
    return made;
  });
  for (const InputFile* file : source->dataset_.files()) require_same_content(comm, *file);
  return source;
}

SourceFingerprint IndexedSource::fingerprint(const Communicator& comm) const {
  const auto [index, tokens] = dataset_.files();
  const std::uint64_t of_index = content_digest(comm, *index);
  std::optional<std::uint64_t> of_tokens;
  if (tokens->size() <= max_bytes_compared_whole) of_tokens = content_digest(comm, *tokens);
  return run_together(comm, [&] {
    const std::filesystem::path path = std::filesystem::path(index->path()).replace_extension();
    return SourceFingerprint{path.string(), num_samples(), tokens->size() + index->size(),
                             of_index + mix_64(tokens->sampled_digest()), of_tokens};
  });
}

std::vector<RowRange> runs_of_documents(const IndexedDataset& dataset,
                                        std::span<const std::int64_t> positions) {
  std::vector<RowRange> runs;
  runs.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const RowRange document = dataset.document(position);
    if (!runs.empty() && runs.back().end == document.begin &&
        dataset.tokens_in(runs.back()) < tokens_per_batch) {
      runs.back().end = document.end;
    } else {
      runs.push_back(document);
    }
  }
  return runs;
}

/// Throws InputError naming the first negative token. Precondition: one of the batch's tokens is negative.
void IndexedSource::reject_negative(const RaggedBatch& batch) const {
  const std::span<const std::int64_t> tokens = batch.at(input_ids_field).values<std::int64_t>();
  const auto bad = std::ranges::find_if(tokens, [](std::int64_t token) { return token < 0; });
  const std::int64_t at = bad - tokens.begin();
  const std::span<const std::int64_t> offsets = batch.token_offsets();
  const auto after = std::ranges::upper_bound(offsets, at);
  const auto sample = static_cast<std::size_t>(after - offsets.begin()) - 1;
  throw InputError(
      dataset_.files()[1]->path(),
      "has " + std::to_string(*bad) + " as token " + std::to_string(at - offsets[sample]) + " of document " +
          std::to_string(batch.samples()[sample].id.value()) + "; a token must be an integer of at least 0",
      std::string("Name the dataset that holds the token ids") +
          (dataset_.dtype() == IndexedDType::int16 ? "; ids above 32767 do not fit into int16" : ""));
}

RaggedBatch IndexedSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  shapes.reserve(positions.size());
  for (const std::int64_t position : positions) {
    shapes.push_back(
        {SampleId{position}, own_group(position), 0, dataset_.tokens_in(dataset_.document(position))});
  }
  RaggedBatch batch(std::move(shapes));
  Column& tokens = batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  if (dataset_.read_tokens(runs_of_documents(dataset_, positions), tokens.values<std::int64_t>()))
    reject_negative(batch);
  return batch;
}

void IndexedSource::prefetch(std::span<const std::int64_t> positions) const {
  ReadAhead ahead;
  const InputFile& tokens = *dataset_.files()[1];
  for (const std::int64_t position : positions)
    ahead.add(tokens, dataset_.byte_range_of(dataset_.document(position)));
  ahead.start();
}

}  // namespace evenkeel
