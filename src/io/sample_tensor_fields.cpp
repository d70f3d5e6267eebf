#include <simdjson.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/sample_tensors.hpp"

// Which tensors of a file are fields of its samples.
namespace evenkeel {
namespace {

constexpr std::size_t longest_kinds = std::size_t{1} << 20;

/// What the file itself says its fields are; empty where it says nothing.
std::string told_kinds(const TensorFile& file) {
  const std::string name(tensor_names::field_kinds);
  if (const auto found = file.metadata().find(name); found != file.metadata().end()) return found->second;
  const auto tensor = file.find(name);
  if (!tensor || !file.has_integers(*tensor) || file.tensors()[*tensor].shape.size() != 1) return {};
  const std::int64_t bytes = file.tensors()[*tensor].rows();
  if (std::cmp_greater(bytes, longest_kinds)) return {};
  std::string text;
  for (const std::int64_t byte : file.read_integers(*tensor, {0, bytes})) text += static_cast<char>(byte);
  return text;
}

/// The kinds that the text tells, where it is what it should be. (Not with the library that writes JSON here,
/// which ends the process where memory runs out.)
std::map<std::string, FieldKind> parsed_kinds(const std::string& text) {
  std::map<std::string, FieldKind> kinds;
  if (text.empty()) return kinds;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  // Of a std::string it would claim characters that it found no memory for.
  const simdjson::padded_string padded(std::string_view{text});
  if (padded.size() < text.size()) throw std::bad_alloc();
  const auto error = parser.parse(padded).get(object);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error) return kinds;
  for (const auto [name, value] : object) {
    std::string_view word;
    if (value.get(word)) continue;
    for (const FieldKind kind : {FieldKind::token, FieldKind::response_token, FieldKind::sample}) {
      if (word == name_of(kind)) kinds.emplace(name, kind);
    }
  }
  return kinds;
}

}  // namespace

/// The kinds that a tensor may be of, by its shape.
std::vector<FieldKind> SampleTensors::kinds_that_fit(const StoredTensor& tensor) const {
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
  const bool has_columns = tensor.shape.size() >= 2;
  if (has_columns && tensor.shape[1] == width_) kinds.push_back(FieldKind::token);
  if (has_columns && response_width_ && tensor.shape[1] == *response_width_)
    kinds.push_back(FieldKind::response_token);
  // What is as wide as samples is taken for their columns.
  if (kinds.empty()) kinds.push_back(FieldKind::sample);
  return kinds;
}

void SampleTensors::add_field(std::size_t tensor) {
  const StoredTensor& stored = at(tensor);
  std::vector<FieldKind> kinds = kinds_that_fit(stored);
  if (const auto told = told_.find(stored.name); told != told_.end()) {
    // In a padded file a field of samples may happen to be as wide as they are.
    const bool fits = std::ranges::count(kinds, told->second) > 0 ||
                      (is_padded() && told->second == FieldKind::sample && !stored.shape.empty() &&
                       stored.rows() == num_samples_);
    if (!fits)
      fail(tensor,
           "has not the shape of a " + std::string(name_of(told->second)) + " field, as the file calls it");
    kinds = {told->second};
  }
  if (kinds.empty()) {
    left_out_.emplace_back(
        stored.name, is_padded() ? "its rows are no samples" : "its rows are neither tokens nor samples");
    return;
  }
  const bool tokens_or_responses =
      kinds.size() == 2 && kinds[0] == FieldKind::token && kinds[1] == FieldKind::response_token;
  if (kinds.size() > 1 && !tokens_or_responses) {
    fail(tensor,
         "may have one row a sample or one a " + std::string(name_of(kinds[0])) +
             ": there are as many of both",
         "Say what it is in the metadata " + std::string(tensor_names::field_kinds) + R"(, such as {")" +
             stored.name + R"(": "sample"})");
  }
  if (tokens_or_responses) undecided_.push_back(stored.name);
  const FieldKind kind = kinds.front();
  const std::size_t taken = is_padded() && kind != FieldKind::sample ? 2 : 1;
  FieldSpec spec{stored.name,
                 *stored.dtype,
                 kind,
                 {stored.shape.begin() + static_cast<std::ptrdiff_t>(taken), stored.shape.end()}};
  fields_.push_back({tensor, kind, spec.row_bytes()});
  specs_.push_back(std::move(spec));
}

void SampleTensors::find_fields() {
  namespace names = tensor_names;
  told_ = parsed_kinds(told_kinds(*file_));
  std::vector<std::size_t> order(file_->tensors().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) -> const std::string& { return at(i).name; });
  for (const std::size_t tensor : order) {
    const std::string& name = at(tensor).name;
    const std::array used{std::optional(tokens_), offsets_, mask_, prompt_lengths_, prompt_offsets_, uid_};
    if (std::ranges::count(used, std::optional(tensor)) > 0 || name == names::field_kinds) continue;
    const bool is_repeated = is_padded() && (name == names::responses || name == names::prompts);
    if (is_repeated) {
      left_out_.emplace_back(name, "repeats " + at(tokens_).name);
    } else if (name == input_ids_field || name == names::tokens) {
      left_out_.emplace_back(name, "has the name of tokens");
    } else if (!at(tensor).dtype) {
      left_out_.emplace_back(name, "elements of " + at(tensor).stored);
    } else {
      add_field(tensor);
    }
  }
}

}  // namespace evenkeel
