#include "pack/sample_fields.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/text_layout.hpp"
#include "batch/mask.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

std::string quoted_name(const FieldSpec& spec) {
  return "field '" + spec.name + "'";
}

/// Returns whether the field has one value per token or per response token.
bool has_scalar_token_rows(const FieldSpec& spec) {
  return spec.rule().is_cut() && spec.trailing.empty();
}

/// Returns a description of the required form if the field does not have this form, otherwise nullopt.
std::optional<std::string_view> unmet_form_requirement(const FieldSpec& spec) {
  const auto unless = [](bool fits, std::string_view form) {
    return fits ? std::nullopt : std::optional(form);
  };
  if (spec.name == input_ids_field)
    return unless(spec == FieldSpec{spec.name, DType::int64, FieldKind::token, {}}, "one int64 per token");
  if (spec.name == labels_field) {
    return unless(spec.dtype == DType::int64 && has_scalar_token_rows(spec),
                  "one int64 per token or response token");
  }
  if (spec.name == loss_mask_field) {
    return unless(has_scalar_token_rows(spec), "one value per token or response token");
  }
  if (spec.name == position_ids_field) {
    const bool is_position = spec.dtype == DType::int32 || spec.dtype == DType::int64;
    return unless(spec.rule().is_per_token() && is_position && spec.row_elements() > 0,
                  "one int32 or int64 per token, or several");
  }
  return std::nullopt;
}

}  // namespace

std::string description_of(const FieldSpec& spec) {
  const std::string_view dtype = name_of(spec.dtype);
  std::string text = (dtype.starts_with('i') ? "an " : "a ") + std::string(dtype) + " " +
                     std::string(name_of(spec.kind)) + " field";
  if (!spec.trailing.empty()) text += " with rows of shape " + shape_text(spec.trailing);
  return text;
}

void require_usable_name(const FieldSpec& spec) {
  if (std::ranges::find(derived_names, spec.name) == derived_names.end()) return;
  throw InputError(quoted_name(spec),
                   spec.name == "__metadata__"
                       ? "has a name that is reserved for the metadata of safetensors files"
                       : "has a name that is reserved for Evenkeel's own tensors",
                   "Choose a name other than " + join(derived_names));
}

void require_usable_form(const FieldSpec& spec) {
  const std::optional<std::string_view> missing = unmet_form_requirement(spec);
  if (!missing) return;
  FieldSpec widened = spec;
  widened.dtype = DType::int64;
  const bool is_narrow = spec.dtype == DType::int32 && !unmet_form_requirement(widened);
  throw InputError(
      quoted_name(spec), "is " + description_of(spec) + "; it must have " + std::string(*missing),
      is_narrow ? "Convert it to int64, for example with astype('int64') in NumPy or long() in PyTorch"
                : "Provide it in that form, or under another name");
}

void require_different_names(std::span<const FieldSpec> fields) {
  std::set<std::string_view> names;
  for (const FieldSpec& field : fields)
    if (!names.insert(field.name).second)
      throw InputError(quoted_name(field), "appears twice", "Give each field its own name");
  for (const FieldSpec& field : fields) {
    if (!is_counted(field.kind)) continue;
    const std::string offsets = offsets_name(field.name);
    if (!names.contains(offsets)) continue;
    throw InputError("field '" + offsets + "'",
                     "has the name of the offsets that come with " + quoted_name(field),
                     "Choose another name");
  }
}

void require_loss_only_on_responses(const RaggedBatch& batch, const Column& mask) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const std::int64_t first = batch.rows_of(FieldKind::token, i).begin;
    const std::int64_t end = first + std::max<std::int64_t>(sample.prompt - 1, 0);
    if (count_set(mask, {first, end}) == 0) continue;
    std::int64_t row = first;
    while (count_set(mask, {row, row + 1}) == 0) ++row;
    throw InputError(sample.id,
                     "its loss_mask is set at row " + std::to_string(row - first) +
                         ", whose label is one of its " + std::to_string(sample.prompt) +
                         " prompt tokens; with shared prefixes, only response tokens can carry loss",
                     "Clear the mask there, or set prefix.share: false");
  }
}

}  // namespace evenkeel
