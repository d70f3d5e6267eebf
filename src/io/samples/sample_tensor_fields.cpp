#include <algorithm>
#include <array>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/samples/sample_tensors.hpp"

// Determines which tensors of a file are fields of its samples.
namespace evenkeel {
namespace {

/// Returns the metadata in which the file declares the kinds of its fields; empty if the file does not
/// declare them.
std::string declared_kinds_text(const TensorFile& file) {
  const std::string name(tensor_names::field_kinds);
  if (const auto found = file.metadata().find(name); found != file.metadata().end()) return found->second;
  return {};
}

}  // namespace

/// Returns the kinds of field that fit the shape of a tensor.
std::vector<FieldKind> SampleTensors::possible_kinds(const StoredTensor& tensor) const {
  std::vector<FieldKind> kinds;
  if (tensor.shape.empty()) return kinds;
  const std::int64_t rows = tensor.rows();
  if (!is_padded()) {
    if (rows == at(tokens_).rows()) kinds.push_back(FieldKind::token);
    if (rows == response_rows_) kinds.push_back(FieldKind::response_token);
    if (rows == num_samples_) kinds.push_back(FieldKind::sample);
    return kinds;
  }
  if (rows != num_samples_) return kinds;
  if (tensor.shape.size() == 1) return {FieldKind::sample};
  const std::int64_t columns = tensor.shape[1];
  // A response mask has one value per response token, even if the mask is as wide as the tokens.
  if (columns == width_ && tensor.name == tensor_names::response_mask &&
      !declared_kinds_.contains(tensor.name))
    return {FieldKind::response_token};
  if (columns == width_) kinds.push_back(FieldKind::token);
  // A tensor with one column fewer than the tokens has values for all tokens except the first one.
  if (columns == response_width_ || columns == width_ - 1) kinds.push_back(FieldKind::response_token);
  return kinds;
}

/// Returns whether a padded tensor has positions with several axes, [samples, axes, columns], as verl stores
/// them for images.
bool SampleTensors::has_axes_first(const StoredTensor& tensor) const {
  if (!is_padded() || tensor.name != tensor_names::position_ids || tensor.shape.size() != 3) return false;
  return tensor.rows() == num_samples_ && 0 < tensor.shape[1] && tensor.shape[1] != width_ &&
         tensor.shape[2] == width_;
}

void SampleTensors::add_field(std::size_t tensor) {
  const StoredTensor& stored = at(tensor);
  if (has_axes_first(stored)) {
    FieldSpec spec{stored.name, *stored.dtype, FieldKind::token, {stored.shape[1]}};
    fields_.push_back({tensor, spec.kind, spec.row_bytes(), 0, {}, stored.shape[1]});
    specs_.push_back(std::move(spec));
    return;
  }
  std::vector<FieldKind> kinds = possible_kinds(stored);
  if (const auto declared = declared_kinds_.find(stored.name); declared != declared_kinds_.end()) {
    const FieldRule& rule = rule_of(declared->second);
    const auto has_matching_rows = [&](FieldKind kind) { return rule_of(kind).rows_per == rule.rows_per; };
    // In a padded file, a tensor with one row per sample may happen to have as many columns as the tokens.
    const bool fits =
        std::ranges::any_of(kinds, has_matching_rows) ||
        (is_padded() && rule.is_per_sample() && !stored.shape.empty() && stored.rows() == num_samples_);
    if (!fits)
      fail(tensor,
           "does not have the shape of a field of kind " + std::string(name_of(declared->second)) +
               ", although the file declares it as one; the file has " +
               format_plain_count(num_samples_, "sample") + ", and '" + at(tokens_).name +
               "' has the shape " + shape_text(at(tokens_).shape),
           "Correct the kind in the metadata " + std::string(tensor_names::field_kinds));
    kinds = {declared->second};
  }
  if (kinds.empty() && is_padded() && stored.shape.size() > 1 && stored.rows() == num_samples_) {
    fail(tensor,
         "must have as many columns as '" + at(tokens_).name + "' (" + std::to_string(width_) +
             (response_width_
                  ? "), one fewer, or as many as the responses (" + std::to_string(*response_width_) + ")"
                  : std::string(") or one fewer")),
         "If it is a vector for each sample, declare it in the metadata " +
             std::string(tensor_names::field_kinds) + R"(: {")" + stored.name + R"(": "sample"})");
  }
  if (kinds.empty()) {
    ignored_content_.emplace_back(
        stored.name, is_padded() ? "its rows are not samples" : "its rows are neither tokens nor samples");
    return;
  }
  const bool tokens_or_responses =
      kinds.size() == 2 && kinds[0] == FieldKind::token && kinds[1] == FieldKind::response_token;
  if (kinds.size() > 1 && !tokens_or_responses) {
    fail(tensor,
         "may have one row per sample or one per " + std::string(name_of(kinds[0])) +
             ": there are equally many of both",
         "Set its kind in the metadata " + std::string(tensor_names::field_kinds) + R"(, such as {")" +
             stored.name + R"(": "sample"})");
  }
  if (tokens_or_responses) undecided_fields_.push_back(stored.name);
  const FieldKind kind = kinds.front();
  const std::size_t taken = is_padded() && !rule_of(kind).is_per_sample() ? 2 : 1;
  FieldSpec spec{stored.name,
                 *stored.dtype,
                 kind,
                 {stored.shape.begin() + static_cast<std::ptrdiff_t>(taken), stored.shape.end()}};
  fields_.push_back({tensor, kind, spec.row_bytes(), taken == 2 ? stored.shape[1] : 0});
  specs_.push_back(std::move(spec));
}

/// Returns whether the tensor defines the samples themselves.
bool SampleTensors::defines_samples(std::size_t tensor) const {
  const std::array used{std::optional(tokens_), offsets_, mask_,       prompt_lengths_,
                        prompt_offsets_,        uid_,     uid_offsets_};
  return std::ranges::count(used, std::optional(tensor)) > 0;
}

/// Returns the offsets tensor of a counted field, or nullopt if `tensor` is not such a field. The offsets
/// tensor is named after the field, with a suffix, and has one more integer than there are samples.
std::optional<std::size_t> SampleTensors::offsets_of_field(std::size_t tensor) const {
  const std::string& name = at(tensor).name;
  const auto kind = declared_kinds_.find(name);
  const bool is_told = kind != declared_kinds_.end() && is_counted(kind->second);
  const auto offsets = file_->find(offsets_name(name));
  const bool has_offsets = offsets && !defines_samples(*offsets) && file_->has_integers(*offsets) &&
                           at(*offsets).shape == std::vector{num_samples_ + 1};
  if (is_told && !has_offsets) {
    fail(tensor,
         "has no tensor '" + offsets_name(name) + "' of " + std::to_string(num_samples_ + 1) +
             " integers that say where the rows of each sample begin",
         "Add '" + offsets_name(name) + "', with one more integer than there are samples");
  }
  if (!has_offsets || at(tensor).shape.empty()) return std::nullopt;
  if (is_told) return offsets;
  const bool is_told_otherwise =
      kind != declared_kinds_.end() || declared_kinds_.contains(offsets_name(name));
  return is_told_otherwise ? std::nullopt : offsets;
}

bool SampleTensors::is_offsets_of_field(std::size_t tensor) const {
  constexpr std::string_view suffix = "_offsets";
  const std::string_view name = at(tensor).name;
  if (!name.ends_with(suffix)) return false;
  const auto field = file_->find(name.substr(0, name.size() - suffix.size()));
  return field && !defines_samples(*field) && at(*field).dtype && offsets_of_field(*field) == tensor;
}

/// Returns the rows of each sample in a tensor, according to its offsets. Throws InputError for invalid
/// offsets.
SampleRows SampleTensors::sample_rows_from_offsets(std::size_t offsets, std::size_t tensor) const {
  std::vector<std::int64_t> bounds = file_->read_integers(offsets, {0, num_samples_ + 1});
  if (bounds.front() != 0)
    fail(offsets, "begins at " + std::to_string(bounds.front()) + "; it must begin at 0");
  const auto fall = std::ranges::adjacent_find(bounds, std::ranges::greater());
  if (fall != bounds.end()) {
    fail(offsets, "decreases from " + std::to_string(fall[0]) + " to " + std::to_string(fall[1]) +
                      " at element " + std::to_string(fall - bounds.begin() + 1));
  }
  SampleRows rows = SampleRows::from_offsets(std::move(bounds));
  if (rows.rows() != at(tensor).rows()) {
    fail(offsets,
         "ends at " + std::to_string(rows.rows()) + "; '" + at(tensor).name + "' has " +
             format_plain_count(at(tensor).rows(), "row"),
         "Make the last element equal to that number of rows");
  }
  return rows;
}

void SampleTensors::add_counted_field(std::size_t tensor, std::size_t offsets) {
  const StoredTensor& stored = at(tensor);
  const auto declared = declared_kinds_.find(stored.name);
  Field field{tensor, declared == declared_kinds_.end() ? FieldKind::rows : declared->second, 0, 0,
              sample_rows_from_offsets(offsets, tensor)};
  FieldSpec spec{stored.name, *stored.dtype, field.kind, {stored.shape.begin() + 1, stored.shape.end()}};
  field.row_bytes = spec.row_bytes();
  fields_.push_back(std::move(field));
  specs_.push_back(std::move(spec));
}

void SampleTensors::find_fields() {
  namespace names = tensor_names;
  declared_kinds_ = parse_kinds(declared_kinds_text(*file_), file_->path());
  std::vector<std::size_t> order(file_->tensors().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) -> const std::string& { return at(i).name; });
  for (const std::size_t tensor : order) {
    const std::string& name = at(tensor).name;
    if (defines_samples(tensor)) continue;
    const bool is_repeated = is_padded() && (name == names::responses || name == names::prompts);
    if (is_repeated) {
      ignored_content_.emplace_back(name, "repeats " + at(tokens_).name);
    } else if (name == input_ids_field || name == names::tokens) {
      ignored_content_.emplace_back(name, "its name is reserved for tokens");
    } else if (!at(tensor).dtype) {
      ignored_content_.emplace_back(name, "its elements are " + at(tensor).stored);
    } else if (const auto offsets = offsets_of_field(tensor)) {
      add_counted_field(tensor, *offsets);
    } else if (!is_offsets_of_field(tensor)) {
      add_field(tensor);
    }
  }
}

}  // namespace evenkeel
