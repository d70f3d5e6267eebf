#include "source/files/sft_source.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "io/files/input_file.hpp"
#include "mesh/fail_together.hpp"
#include "pack/sample_fields.hpp"
#include "source/files/file_agreement.hpp"
#include "source/files/indexed_source.hpp"
#include "source/files/input_files.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> part_names{
    "_packed_input_ids_document", "_packed_attention_mask_document", "_packed_labels_document"};

fs::path part_path(const fs::path& prefix, std::string_view part) {
  return fs::path(prefix.string() + std::string(part));
}

/// Returns the dataset's prefix: the path without .bin or .idx and without one of the suffixes in part_names.
fs::path strip_part(const fs::path& path) {
  const std::string name = indexed_dataset_prefix(path).string();
  for (const std::string_view part : part_names) {
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size());
  }
  return name;
}

/// Returns whether a path names an SFT dataset: it ends with a suffix in part_names, or it is the prefix of
/// an existing SFT dataset but not the name of an indexed dataset.
bool is_sft_dataset(const fs::path& path) {
  const fs::path name = indexed_dataset_prefix(path);
  if (strip_part(path) != name) return true;
  std::error_code unknown;  // ignored: a file that cannot be examined causes an error when it is opened
  return !fs::exists(name.string() + ".idx", unknown) &&
         fs::exists(part_path(name, part_names[0]).string() + ".idx", unknown);
}

/// Returns the tokens, mask values or labels of these documents, concatenated.
std::vector<std::int64_t> read_elements(const IndexedDataset& part, std::span<const std::int64_t> positions) {
  std::int64_t size = 0;
  for (const std::int64_t position : positions) size += part.tokens_in(part.document(position));
  std::vector<std::int64_t> elements(static_cast<std::size_t>(size));
  static_cast<void>(part.read_tokens(runs_of_documents(part, positions), elements));
  return elements;
}

/// A document's number, and its elements in each of the three indexed datasets.
struct SftDocument {
  std::int64_t number = 0;
  std::span<const std::int64_t> tokens;
  std::span<const std::int64_t> mask;
  std::span<const std::int64_t> labels;
};

[[noreturn]] void reject(const IndexedDataset& part, const SftDocument& document, std::size_t token,
                         const std::string& what, const std::string& hint) {
  throw InputError(part.files()[1]->path(),
                   "has " + what + " at token " + std::to_string(token) + " of document " +
                       std::to_string(document.number),
                   hint);
}

void require_valid_document(std::span<const IndexedDataset> parts, const SftDocument& document) {
  for (std::size_t t = 0; t < document.tokens.size(); ++t) {
    const std::int64_t token = document.tokens[t];
    const std::int64_t label = document.labels[t];
    if (token < 0) {
      reject(parts[0], document, t, "the token " + std::to_string(token),
             std::string("Preprocess again with token ids of at least 0") +
                 (parts[0].dtype() == IndexedDType::int16 ? "; ids above 32767 do not fit into int16" : ""));
    }
    if (document.mask[t] != 1) {
      reject(parts[1], document, t, "the value " + std::to_string(document.mask[t]),
             "Preprocess without padding and packing: each document must be one sample, whose mask is 1");
    }
    if (label != token && label != ignored_label) {
      reject(parts[2], document, t,
             "the label " + std::to_string(label) + " beside the token " + std::to_string(token),
             "Put each label at its own token, with -100 where a token carries no loss");
    }
  }
}

/// Returns the number of tokens before the first token with loss; at least 1, since the first token is not
/// predicted.
std::int64_t prompt_length_of(const SftDocument& document) {
  const auto first = std::ranges::find_if(document.labels, [](std::int64_t l) { return l != ignored_label; });
  if (first == document.labels.end()) return std::ssize(document.labels);
  return std::max<std::int64_t>(first - document.labels.begin(), 1);
}

}  // namespace

std::optional<fs::path> SftSource::prefix_of(const Communicator& comm, const fs::path& path) {
  bool are_parts = false;
  GuardedWork work;
  if (comm.rank() == 0) work([&] { are_parts = is_sft_dataset(path); });
  broadcast_value(comm, are_parts, 0, work);
  work.agree(comm);
  if (!are_parts) return std::nullopt;
  return run_together(comm, [&] { return strip_part(path); });
}

SftSource::SftSource(const fs::path& prefix)
    : name_(prefix.string()),
      parts_{IndexedDataset(part_path(prefix, part_names[0])),
             IndexedDataset(part_path(prefix, part_names[1])),
             IndexedDataset(part_path(prefix, part_names[2]))} {
  for (const IndexedDataset& part : parts_) {
    if (part.has_integers()) continue;
    throw InputError(part.files()[0]->path(),
                     "has elements of " + std::string(name_of(part.dtype())) + ", but they must be integers",
                     "Preprocess the data again, with integers in every part");
  }
  require_equal_documents();
}

void SftSource::require_equal_documents() const {
  for (std::size_t p = 1; p < parts_.size(); ++p) {
    const std::string path = parts_[p].files()[0]->path();
    if (parts_[p].num_documents() != tokens().num_documents()) {
      throw InputError(path,
                       "has " + format_plain_count(parts_[p].num_documents(), "document") +
                           ", but the token dataset has " + std::to_string(tokens().num_documents()),
                       "Preprocess all parts of the dataset together");
    }
    for (std::int64_t d = 0; d < tokens().num_documents(); ++d) {
      const std::int64_t size = parts_[p].tokens_in(parts_[p].document(d));
      if (size == tokens_in(d)) continue;
      throw InputError(path,
                       "has " + format_plain_count(size, "element") + " in document " + std::to_string(d) +
                           ", but the token dataset has " + format_plain_count(tokens_in(d), "token") +
                           " there",
                       "Preprocess all parts of the dataset together");
    }
  }
}

std::unique_ptr<SftSource> SftSource::open(const Communicator& comm, const fs::path& prefix) {
  auto source = run_together(comm, [&] { return std::unique_ptr<SftSource>(new SftSource(prefix)); });
  for (const IndexedDataset& part : source->parts_) {
    for (const InputFile* file : part.files()) require_same_content(comm, *file);
  }
  return source;
}

std::int64_t SftSource::file_bytes() const {
  return std::accumulate(
      parts_.begin(), parts_.end(), std::int64_t{0},
      [](std::int64_t sum, const IndexedDataset& part) { return sum + part.files()[1]->size(); });
}

SourceFingerprint SftSource::fingerprint(const Communicator& comm) const {
  const auto files = run_together(comm, [&] {
    std::vector<const InputFile*> all;
    for (const IndexedDataset& part : parts_) all.insert(all.end(), {part.files()[0], part.files()[1]});
    return all;
  });
  return fingerprint_of(comm, files, name_, num_samples(), false);
}

RaggedBatch SftSource::read(std::span<const std::int64_t> positions) const {
  const std::vector<std::int64_t> tokens_of_all = read_elements(parts_[0], positions);
  const std::vector<std::int64_t> mask_of_all = read_elements(parts_[1], positions);
  const std::vector<std::int64_t> labels_of_all = read_elements(parts_[2], positions);
  std::vector<SampleShape> shapes;
  std::vector<SftDocument> documents;
  std::size_t begin = 0;
  for (const std::int64_t position : positions) {
    const auto size = static_cast<std::size_t>(tokens_in(position));
    const auto elements_of_document = [&](const std::vector<std::int64_t>& elements) {
      return std::span(elements).subspan(begin, size);
    };
    const SftDocument& document = documents.emplace_back(
        SftDocument{position, elements_of_document(tokens_of_all), elements_of_document(mask_of_all),
                    elements_of_document(labels_of_all)});
    require_valid_document(parts_, document);
    const std::int64_t prompt = prompt_length_of(document);
    shapes.push_back({SampleId{position}, own_group(position), prompt, tokens_in(position) - prompt});
    begin += size;
  }
  RaggedBatch batch(std::move(shapes));
  Column& tokens_column = batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  std::ranges::copy(tokens_of_all, tokens_column.values<std::int64_t>().begin());
  Column& loss = batch.add_field({std::string(loss_mask_field), DType::uint8, FieldKind::response_token, {}});
  auto next = loss.values<std::uint8_t>().begin();
  for (const SftDocument& document : documents) {
    const std::span<const std::int64_t> labels =
        document.labels.subspan(static_cast<std::size_t>(prompt_length_of(document)));
    next = std::ranges::transform(labels, next, [](std::int64_t label) {
             return static_cast<std::uint8_t>(label != ignored_label);
           }).out;
  }
  return batch;
}

void SftSource::prefetch(std::span<const std::int64_t> positions) const {
  ReadAhead ahead;
  for (const IndexedDataset& part : parts_) {
    for (const std::int64_t position : positions)
      ahead.add(*part.files()[1], part.byte_range_of(part.document(position)));
  }
  ahead.start();
}

}  // namespace evenkeel
