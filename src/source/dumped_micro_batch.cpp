#include "source/dumped_micro_batch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "io/json_text.hpp"
#include "io/sample_tensors.hpp"
#include "service/derived_names.hpp"

namespace evenkeel {
namespace {

constexpr const char* of_a_dump = "Is it a file of evenkeel run --dump, as the run wrote it?";

std::int64_t last_of(const std::vector<std::int64_t>& offsets) {
  return offsets.empty() ? 0 : offsets.back();
}

bool rises_from_0(std::span<const std::int64_t> offsets) {
  return !offsets.empty() && offsets.front() == 0 && std::ranges::is_sorted(offsets);
}

/// Whether the rows of a tensor have `number` elements along their first dimension.
bool has_layers(const DumpedMicroBatch::Tensor& tensor, std::size_t number) {
  const auto first_is = [&](const std::vector<std::int64_t>& trailing) {
    return !trailing.empty() && std::cmp_equal(trailing.front(), number);
  };
  return ((tensor.kinds & token_bit) != 0 && first_is(tensor.as_token)) ||
         ((tensor.kinds & ~token_bit) != 0 && first_is(tensor.as_sample));
}

}  // namespace

DumpedMicroBatch::DumpedMicroBatch(const std::filesystem::path& folder, const DumpFolder& dump,
                                   std::int64_t micro_batch)
    : number_(micro_batch) {
  for (std::int64_t cp = 0; cp < dump.cp; ++cp) {
    const auto& which = dump.micro_batches[static_cast<std::size_t>(micro_batch)];
    parts_.push_back(open_safetensors(dumped_file(folder, which, cp, dump.stage)));
  }
  const auto& metadata = parts_.front()->metadata();
  const auto layout = metadata.find("layout");
  if (layout == metadata.end()) fail("is no micro-batch of a dump: its metadata has no layout", of_a_dump);
  if (layout->second == "shared") {
    fail("is a micro-batch of shared prefixes, whose rows belong to several samples at once",
         "Dump the job with prefix.share: false to read it back");
  }
  is_padded_ = layout->second == "padded";
  const std::vector<std::int64_t> padded = integers(cu_seqlens_padded_name);
  const std::vector<std::int64_t> lengths = integers(cu_seqlens_name);
  sequences_ = std::ssize(padded) - 1;
  rows_ = last_of(padded) / dump.cp;
  const bool fits = rises_from_0(padded) && rises_from_0(lengths) && lengths.size() == padded.size() &&
                    std::ssize(integers(sample_index_name)) == sequences_;
  if (!fits)
    fail("has cu_seqlens, cu_seqlens_padded and sample_index that do not belong together", of_a_dump);
  for (std::size_t i = 1; i < padded.size(); ++i) {
    const std::int64_t aligned = padded[i] - padded[i - 1];
    if (aligned % dump.cp != 0 || lengths[i] - lengths[i - 1] > aligned)
      fail("has sequence " + std::to_string(i - 1) + " of " + std::to_string(lengths[i] - lengths[i - 1]) +
               " tokens in " + std::to_string(aligned) + " rows on " + std::to_string(dump.cp) + " ranks",
           of_a_dump);
  }
  if (const auto kinds = metadata.find(std::string(tensor_names::field_kinds)); kinds != metadata.end())
    told_ = parsed_kinds(kinds->second);
  std::erase_if(told_, [](const auto& field) { return !is_counted(field.second); });
  for (const auto& [name, kind] : told_) (void)counted_rows(name);
  if (!tensors().contains(std::string(input_ids_field))) fail("has no input_ids", of_a_dump);
  learn_layers();
}

void DumpedMicroBatch::learn_layers() {
  layers_ = layers_told_by(*parts_.front());
  for (const auto& part : parts_) {
    if (layers_told_by(*part) != layers_)
      fail("has other metadata " + std::string(layers_name) + " than " + part->path(), of_a_dump);
  }
  if (layers_.empty()) return;
  const auto fields = tensors();
  for (const auto& [name, layers] : layers_) {
    const auto field = fields.find(name);
    if (field == fields.end() || !has_layers(field->second, layers.size()))
      fail("has metadata " + std::string(layers_name) + " of " + std::to_string(layers.size()) +
               " layers of '" + name + "', and no such tensor",
           of_a_dump);
  }
}

std::map<std::string, DumpedMicroBatch::Tensor> DumpedMicroBatch::tensors() const {
  std::map<std::string, Tensor> found;
  for (const StoredTensor& stored : parts_.front()->tensors()) {
    if (std::ranges::count(derived_names, std::string_view(stored.name)) > 0 || !stored.dtype) continue;
    const bool are_offsets = std::ranges::any_of(
        told_, [&](const auto& field) { return offsets_name(field.first) == stored.name; });
    if (are_offsets) continue;
    Tensor tensor{*stored.dtype, 0, {}, {}};
    const std::vector<std::int64_t>& shape = stored.shape;
    if (const auto told = told_.find(stored.name); told != told_.end()) {
      tensor.kinds = kind_bit(told->second);
      tensor.as_sample.assign(shape.begin() + 1, shape.end());
      found.emplace(stored.name, std::move(tensor));
      continue;
    }
    const std::size_t ahead = is_padded_ ? 2 : 1;
    const bool by_token = is_padded_
                              ? shape.size() >= 2 && shape[0] == sequences_ && shape[0] * shape[1] == rows_
                              : !shape.empty() && shape[0] == rows_;
    const bool in_all = std::ranges::all_of(parts_, [&](const auto& part) {
      const auto same = part->find(stored.name);
      return same && part->tensors()[*same].shape == shape && part->tensors()[*same].dtype == stored.dtype;
    });
    if (by_token && in_all) {
      tensor.kinds |= token_bit;
      tensor.as_token.assign(shape.begin() + static_cast<std::ptrdiff_t>(ahead), shape.end());
    }
    if (!shape.empty() && shape[0] == sequences_) {
      tensor.kinds |= sample_bit;
      tensor.as_sample.assign(shape.begin() + 1, shape.end());
    }
    found.emplace(stored.name, std::move(tensor));
  }
  return found;
}

std::vector<DumpedSample> DumpedMicroBatch::samples() const {
  const std::vector<std::int64_t> padded = integers(cu_seqlens_padded_name);
  const std::vector<std::int64_t> lengths = integers(cu_seqlens_name);
  const std::vector<std::int64_t> indices = integers(sample_index_name);
  std::vector<DumpedSample> samples;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;  // an empty micro-batch's filler
    samples.push_back({number_, static_cast<std::int64_t>(i), indices[i], padded[i],
                       padded[i + 1] - padded[i], lengths[i + 1] - lengths[i], 0});
  }
  return samples;
}

std::uint32_t DumpedMicroBatch::evidence(std::span<const DumpedSample> samples) const {
  using E = DumpEvidence;
  const auto fields = tensors();
  const auto one_integer_a_token = [&](std::string_view name) {
    const auto found = fields.find(std::string(name));
    return found != fields.end() && (found->second.kinds & token_bit) != 0 &&
           found->second.as_token.empty() &&
           (found->second.dtype == DType::int32 || found->second.dtype == DType::int64);
  };
  std::uint32_t sure = 0;
  for (const CpLayout layout : {CpLayout::zigzag, CpLayout::contiguous}) {
    bool positions = one_integer_a_token(position_ids_field);
    bool labels = one_integer_a_token(labels_field);
    for (const DumpedSample& sample : samples) {
      if (layout == CpLayout::zigzag && parts_.size() > 1 && sample.padded % (2 * std::ssize(parts_)) != 0) {
        positions = labels = false;
        break;
      }
      if (positions) {
        const auto rows = rows_of(position_ids_field, sample, layout);
        for (std::size_t t = 0; t < rows.size() && positions; ++t) positions = std::cmp_equal(rows[t], t);
      }
      if (labels) {
        const auto rows = rows_of(labels_field, sample, layout);
        const auto ids = rows_of(input_ids_field, sample, layout);
        for (std::size_t t = 0; t + 1 < rows.size() && labels; ++t) labels = rows[t] == ids[t + 1];
      }
      if (!positions && !labels) break;
    }
    // Own positions and labels tell nothing of the cut.
    if (positions || labels) sure |= layout == CpLayout::zigzag ? E::zigzag : E::contiguous;
    if (positions) sure |= E::positions;
    if (labels) sure |= E::labels;
    if (parts_.size() == 1) return sure | E::zigzag | E::contiguous;
  }
  return sure;
}

std::int64_t DumpedMicroBatch::prompt_of(const DumpedSample& sample, CpLayout layout) const {
  const auto tensor = parts_.front()->find(loss_mask_field);
  const auto fields = tensors();
  const auto field = fields.find(std::string(loss_mask_field));
  if (!tensor || field == fields.end() || (field->second.kinds & token_bit) == 0) return 0;
  const FieldSpec spec{std::string(loss_mask_field), field->second.dtype, FieldKind::token,
                       field->second.as_token};
  const std::size_t row_bytes = spec.row_bytes();
  if (row_bytes == 0) return 0;
  std::vector<std::byte> mask(static_cast<std::size_t>(sample.tokens) * row_bytes);
  read_tokens(loss_mask_field, sample, layout, row_bytes, mask);
  // 0 has no bit in any dtype.
  const auto counts = std::ranges::find_if(mask, [](std::byte value) { return value != std::byte{0}; });
  if (counts == mask.end()) return sample.tokens;
  return (counts - mask.begin()) / static_cast<std::ptrdiff_t>(row_bytes) + 1;
}

void DumpedMicroBatch::read_tokens(std::string_view field, const DumpedSample& sample, CpLayout layout,
                                   std::size_t row_bytes, std::span<std::byte> out) const {
  const auto size = static_cast<int>(parts_.size());
  const std::int64_t local = sample.padded / size;
  std::vector<std::byte> rows(static_cast<std::size_t>(local) * row_bytes);
  for (int rank = 0; rank < size; ++rank) {
    const TensorFile& part = *parts_[static_cast<std::size_t>(rank)];
    const std::size_t tensor = *part.find(field);
    if (is_padded_) {
      part.read_rows(tensor, {sample.place, sample.place + 1}, rows);
    } else {
      part.read_rows(tensor, {sample.begin / size, sample.begin / size + local}, rows);
    }
    const std::byte* next = rows.data();
    for (const RowRange run : cp_runs(sample.padded, {size, layout}, CpRank{rank})) {
      const std::int64_t end = std::min(run.end, sample.tokens);
      if (run.begin < end)
        std::memcpy(out.data() + static_cast<std::size_t>(run.begin) * row_bytes, next,
                    static_cast<std::size_t>(end - run.begin) * row_bytes);
      next += static_cast<std::size_t>(run.size()) * row_bytes;
    }
  }
}

void DumpedMicroBatch::read_sample(std::string_view field, const DumpedSample& sample,
                                   std::span<std::byte> out) const {
  parts_.front()->read_rows(*parts_.front()->find(field), {sample.place, sample.place + 1}, out);
}

SampleRows DumpedMicroBatch::counted_rows(std::string_view field) const {
  const auto tensor = parts_.front()->find(field);
  if (!tensor || parts_.front()->tensors()[*tensor].shape.empty())
    fail("has no rows of '" + std::string(field) + "', which its metadata tell of", of_a_dump);
  std::vector<std::int64_t> offsets = integers(offsets_name(field));
  const bool fits = rises_from_0(offsets) && std::ssize(offsets) == sequences_ + 1 &&
                    offsets.back() == parts_.front()->tensors()[*tensor].rows();
  if (!fits) fail("has '" + offsets_name(field) + "' that do not fit its samples and rows", of_a_dump);
  return SampleRows::of_offsets(std::move(offsets));
}

void DumpedMicroBatch::read_counted(std::string_view field, RowRange rows, std::span<std::byte> out) const {
  parts_.front()->read_rows(*parts_.front()->find(field), rows, out);
}

std::vector<std::string> DumpedMicroBatch::cut_fields() const {
  std::vector<std::string> names;
  const auto told = parts_.front()->metadata().find(std::string(cut_by_name));
  if (parts_.size() == 1 || told == parts_.front()->metadata().end()) return names;
  const JsonText json(told->second);
  if (!json.object())
    fail("has metadata " + std::string(cut_by_name) + " that are no JSON object", of_a_dump);
  for (const auto field : *json.object()) names.emplace_back(field.key);
  return names;
}

std::vector<std::int64_t> DumpedMicroBatch::rows_of(std::string_view name, const DumpedSample& sample,
                                                    CpLayout layout) const {
  const std::size_t bytes = size_of(*parts_.front()->tensors()[*parts_.front()->find(name)].dtype);
  std::vector<std::byte> rows(static_cast<std::size_t>(sample.tokens) * bytes);
  read_tokens(name, sample, layout, bytes, rows);
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at < rows.size(); at += bytes) {
    std::int64_t value = 0;
    if (bytes == sizeof(std::int32_t)) {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, rows.data() + at, bytes);
      value = narrow;
    } else {
      std::memcpy(&value, rows.data() + at, bytes);
    }
    values.push_back(value);
  }
  return values;
}

std::vector<std::int64_t> DumpedMicroBatch::integers(std::string_view name) const {
  const TensorFile& part = *parts_.front();
  const auto tensor = part.find(name);
  if (!tensor || !part.has_integers(*tensor) || part.tensors()[*tensor].shape.size() != 1)
    fail("has no list of integers '" + std::string(name) + "'", of_a_dump);
  return part.read_integers(*tensor, {0, part.tensors()[*tensor].rows()});
}

void DumpedMicroBatch::fail(const std::string& message, const std::string& hint) const {
  throw InputError(path(), message, hint);
}

}  // namespace evenkeel
