#include "io/samples/ragged_body.hpp"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <tuple>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/safetensors/safetensors.hpp"
#include "io/samples/sample_tensors.hpp"

namespace evenkeel {
namespace {

/// Collects the tensors of a file, and owns those that are not in the batch.
class Tensors {
 public:
  void add(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes) {
    views_.push_back({std::string(name), dtype, std::move(shape), bytes});
  }
  template <typename T>
  void add_list(std::string_view name, std::vector<T> values) {
    // The span remains valid, since moving the vector does not move its elements.
    const auto bytes = std::as_bytes(std::span(values));
    add(name, dtype_of<T>, {std::ssize(values)}, bytes);
    lists<T>().push_back(std::move(values));
  }
  [[nodiscard]] std::string to_safetensors(const std::map<std::string, std::string>& metadata) const {
    return safetensors_bytes(views_, metadata);
  }

 private:
  template <typename T>
  auto& lists() {
    return std::get<std::list<std::vector<T>>>(lists_);
  }

  std::vector<TensorView> views_;
  std::tuple<std::list<std::vector<std::uint8_t>>, std::list<std::vector<std::int32_t>>,
             std::list<std::vector<std::int64_t>>>
      lists_;
};

void require_unreserved_name(const FieldSpec& spec) {
  const auto is_reserved = [](std::string_view name) {
    return std::ranges::find(tensor_names::reserved, name) != tensor_names::reserved.end();
  };
  const std::string offsets = is_counted(spec.kind) ? offsets_name(spec.name) : std::string();
  if (!is_reserved(spec.name) && !is_reserved(offsets)) return;
  throw InputError("field '" + spec.name + "'",
                   is_reserved(spec.name) ? "has a name that is reserved in tensors of samples"
                                          : "needs a tensor '" + offsets + "', whose name is reserved",
                   "Rename the field in the source");
}

void add_lengths(const RaggedBatch& batch, std::span<const SampleShape> samples, std::int64_t first,
                 Tensors& tensors) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> prompts;
  const std::int64_t begin = batch.token_offsets()[static_cast<std::size_t>(first)];
  for (std::size_t i = 0; i < samples.size(); ++i) {
    offsets.push_back(batch.token_offsets()[static_cast<std::size_t>(first) + i + 1] - begin);
    prompts.push_back(samples[i].prompt);
  }
  tensors.add_list(tensor_names::offsets, std::move(offsets));
  tensors.add_list(tensor_names::prompt_lengths, std::move(prompts));
}

void add_uids(std::span<const std::string> uids, Tensors& tensors) {
  std::vector<std::uint8_t> texts;
  std::vector<std::int64_t> offsets{0};
  for (const std::string& uid : uids) {
    texts.insert(texts.end(), uid.begin(), uid.end());
    offsets.push_back(std::ssize(texts));
  }
  tensors.add_list(tensor_names::uid, std::move(texts));
  tensors.add_list(tensor_names::uid_offsets, std::move(offsets));
}

void add_field(const RaggedBatch& batch, const Column& column, std::int64_t first, std::int64_t last,
               Tensors& tensors) {
  const FieldSpec& spec = column.spec();
  const RowRange rows{batch.rows_of(column, first).begin, batch.rows_of(column, last - 1).end};
  const auto bytes = column.bytes().subspan(static_cast<std::size_t>(rows.begin) * column.row_bytes(),
                                            static_cast<std::size_t>(rows.size()) * column.row_bytes());
  std::vector<std::int64_t> shape{rows.size()};
  shape.insert(shape.end(), spec.trailing.begin(), spec.trailing.end());
  tensors.add(spec.name, spec.dtype, std::move(shape), bytes);
  if (!is_counted(spec.kind)) return;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = first; i < last; ++i) offsets.push_back(batch.rows_of(column, i).end - rows.begin);
  tensors.add_list(offsets_name(spec.name), std::move(offsets));
}

void add_tokens(const RaggedBatch& batch, std::int64_t first, std::int64_t last, Tensors& tensors) {
  const std::span<const std::int64_t> all = batch.at(input_ids_field).values<std::int64_t>();
  const std::int64_t begin = batch.token_offsets()[static_cast<std::size_t>(first)];
  const std::int64_t end = batch.token_offsets()[static_cast<std::size_t>(last)];
  const auto tokens = all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  const bool are_small = std::ranges::all_of(
      tokens, [](std::int64_t token) { return token <= std::numeric_limits<std::int32_t>::max(); });
  if (are_small)
    tensors.add_list(input_ids_field, std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  else
    tensors.add(input_ids_field, DType::int64, {std::ssize(tokens)}, std::as_bytes(tokens));
}

}  // namespace

std::string ragged_body(const RaggedBatch& batch, std::int64_t first, std::int64_t last,
                        std::span<const std::string> uids) {
  Tensors tensors;
  FieldKinds kinds;
  add_tokens(batch, first, last, tensors);
  add_lengths(
      batch, batch.samples().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
      first, tensors);
  add_uids(uids, tensors);
  for (const Column& column : batch.fields()) {
    if (column.spec().name == input_ids_field) continue;
    require_unreserved_name(column.spec());
    add_field(batch, column, first, last, tensors);
    kinds.emplace(column.spec().name, column.spec().kind);
  }
  std::map<std::string, std::string> metadata;
  if (!kinds.empty()) metadata.emplace(tensor_names::field_kinds, text_of(kinds));
  return tensors.to_safetensors(metadata);
}

std::int64_t bytes_of_sample(const RaggedBatch& batch, std::int64_t index) {
  std::int64_t bytes = 0;
  for (const Column& column : batch.fields())
    bytes += batch.rows_of(column, index).size() * static_cast<std::int64_t>(column.row_bytes());
  return bytes;
}

}  // namespace evenkeel
