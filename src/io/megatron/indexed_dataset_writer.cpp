#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t longest_sequence = std::numeric_limits<std::int32_t>::max();

/// Returns the position of the first value that T cannot represent, or the number of values if there is none.
template <typename T>
std::size_t find_first_out_of_range(std::span<const std::int64_t> values) {
  const auto found =
      std::ranges::find_if(values, [](std::int64_t value) { return !std::in_range<T>(value); });
  return static_cast<std::size_t>(found - values.begin());
}

template <typename T>
std::string value_range_text() {
  return std::to_string(std::numeric_limits<T>::min()) + " to " +
         std::to_string(std::numeric_limits<T>::max());
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::filesystem::path& prefix, IndexedDType dtype)
    : data_path_(indexed_dataset::with_file_ending(prefix, ".bin").string()),
      index_path_(indexed_dataset::with_file_ending(prefix, ".idx").string()),
      data_(data_path_),
      index_(index_path_),
      dtype_(dtype) {}

std::string IndexedDatasetWriter::name_of_next_sequence() const {
  return "sequence " + std::to_string(lengths_.size());
}

void IndexedDatasetWriter::add_sequence(std::span<const std::int64_t> tokens) {
  if (!is_integer(to_dtype(dtype_))) {
    throw InputError(data_path_,
                     "has elements of " + std::string(name_of(dtype_)) + "; tokens must be integers",
                     "Choose a dtype of integers");
  }
  with_integer_type(to_dtype(dtype_), [&](auto zero) {
    using T = decltype(zero);
    if (const std::size_t bad = find_first_out_of_range<T>(tokens); bad < tokens.size()) {
      throw InputError(
          data_path_,
          name_of_next_sequence() + " has " + std::to_string(tokens[bad]) + " at position " +
              std::to_string(bad) + "; " + std::string(name_of(dtype_)) + " holds " + value_range_text<T>(),
          tokens[bad] < 0 ? "Replace it, because tokens are not negative" : "Choose a wider dtype");
    }
    std::vector<T> narrow(tokens.size());
    std::ranges::transform(tokens, narrow.begin(), [](std::int64_t token) { return static_cast<T>(token); });
    add_bytes(std::as_bytes(std::span(std::as_const(narrow))));
  });
}

void IndexedDatasetWriter::add_bytes(std::span<const std::byte> elements) {
  const std::size_t length = elements.size() / size_of(dtype_);
  if (elements.size() % size_of(dtype_) != 0) {
    throw InputError(data_path_, name_of_next_sequence() + " has " +
                                     format_plain_count(std::ssize(elements), "byte") +
                                     ", which is not a multiple of " + std::to_string(size_of(dtype_)) +
                                     ", the size of " + std::string(name_of(dtype_)));
  }
  if (length > longest_sequence) {
    throw InputError(data_path_,
                     name_of_next_sequence() + " has " + std::to_string(length) +
                         " elements; the format allows at most " + std::to_string(longest_sequence),
                     "Cut it into several sequences");
  }
  append(elements);
  lengths_.push_back(static_cast<std::int32_t>(length));
}

void IndexedDatasetWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > buffer_bytes - buffer_.size()) {
    data_.write(buffer_);
    buffer_.clear();
  }
  if (bytes.size() > buffer_bytes) {
    data_.write(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void IndexedDatasetWriter::end_document() {
  document_starts_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

void IndexedDatasetWriter::commit() {
  const auto sequences = static_cast<std::int64_t>(lengths_.size());
  if (document_starts_.back() != sequences) {
    throw InputError(index_path_,
                     "the last document, which has " +
                         format_count(sequences - document_starts_.back(), "sequence") + ", was not ended",
                     "End the document before committing the file");
  }
  data_.write(buffer_);
  write_index();
  data_.commit();
  index_.commit();
}

void IndexedDatasetWriter::write_index() {
  const auto dtype = static_cast<std::uint8_t>(dtype_);
  const std::array<std::uint64_t, 2> counts{lengths_.size(), document_starts_.size()};
  index_.write(std::as_bytes(std::span(indexed_dataset::magic)));
  index_.write(std::as_bytes(std::span(&indexed_dataset::version, 1)));
  index_.write(std::as_bytes(std::span(&dtype, 1)));
  index_.write(std::as_bytes(std::span(counts)));
  index_.write(std::as_bytes(std::span(std::as_const(lengths_))));
  std::vector<std::int64_t> offsets;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    if (offsets.size() == buffer_bytes / sizeof offset) {
      index_.write(std::as_bytes(std::span(std::as_const(offsets))));
      offsets.clear();
    }
    offsets.push_back(offset);
    offset += lengths_[i] * static_cast<std::int64_t>(size_of(dtype_));
  }
  index_.write(std::as_bytes(std::span(std::as_const(offsets))));
  index_.write(std::as_bytes(std::span(std::as_const(document_starts_))));
}

}  // namespace evenkeel
