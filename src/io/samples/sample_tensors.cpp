#include "io/samples/sample_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/json_lines.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t rows_per_block = std::int64_t{1} << 16;

}  // namespace

std::string text_of(const FieldKinds& kinds) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, kind] : kinds) object[name] = std::string(name_of(kind));
  return object.dump();
}

FieldKinds parse_kinds(const std::string& text, const std::string& path) {
  FieldKinds kinds;
  if (text.empty()) return kinds;
  const std::string metadata = "metadata " + std::string(tensor_names::field_kinds);
  const JsonText json(text);
  if (!json.object()) {
    throw InputError(path, metadata + " is '" + text + "'; it must be a JSON object",
                     R"(Write the kinds of fields by name, such as {"reward": "sample"})");
  }
  for (const auto [name, value] : *json.object()) {
    std::string_view word;
    const FieldRule* const rule = value.get(word) ? nullptr : find_rule(word);
    if (rule == nullptr) {
      std::string words;
      for (const FieldRule& known : all_field_rules())
        words += (words.empty() ? "" : ", ") + std::string(known.name);
      throw InputError(path,
                       metadata + " gives field '" + std::string(name) + "' the kind " +
                           simdjson::to_string(value) + "; it must be one of " + words,
                       "Correct the kind");
    }
    kinds.emplace(name, rule->kind);
  }
  return kinds;
}

std::vector<TensorSample> SampleTensors::lengths(RowRange samples) const {
  return is_padded() ? padded_lengths(samples) : ragged_lengths(samples);
}

/// Returns the prompt lengths of these samples, or an empty list if no tensor specifies them.
std::vector<std::int64_t> SampleTensors::prompt_lengths_of(RowRange samples) const {
  if (prompt_lengths_) return file_->read_integers(*prompt_lengths_, samples);
  if (!prompt_offsets_) return {};
  std::vector<std::int64_t> offsets =
      file_->read_integers(*prompt_offsets_, {samples.begin, samples.end + 1});
  if (samples.begin == 0 && offsets.front() != 0)
    fail(*prompt_offsets_, "begins at " + std::to_string(offsets.front()) + "; it must begin at 0");
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    // Invalid prompt lengths become -1, which ragged_lengths() or padded_lengths() reports with the sample.
    const bool falls = offsets[i] < 0 || offsets[i + 1] < offsets[i];
    offsets[i] = falls ? -1 : offsets[i + 1] - offsets[i];
  }
  offsets.pop_back();
  return offsets;
}

std::vector<TensorSample> SampleTensors::ragged_lengths(RowRange samples) const {
  std::vector<TensorSample> lengths;
  for (RowRange part{samples.begin, samples.begin}; part.begin < samples.end; part.begin = part.end) {
    part.end = std::min(samples.end, part.begin + rows_per_block);
    const std::vector<std::int64_t> offsets = file_->read_integers(*offsets_, {part.begin, part.end + 1});
    const std::vector<std::int64_t> prompts = prompt_lengths_of(part);
    for (std::int64_t i = 0; i < part.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t first = offsets[at];
      const std::int64_t end = offsets[at + 1];
      if (part.begin + i == 0 && first != 0)
        fail(*offsets_, "begins at " + std::to_string(first) + "; it must begin at 0");
      if (end < first || first < 0) {
        fail(*offsets_, "decreases from " + std::to_string(first) + " to " + std::to_string(end) +
                            " at element " + std::to_string(part.begin + i + 1));
      }
      const std::int64_t prompt = prompts.empty() ? 0 : prompts[at];
      if (prompt < 0 && prompt_offsets_)
        fail(*prompt_offsets_, "decreases at element " + std::to_string(part.begin + i + 1));
      if (prompt < 0 || prompt > end - first) {
        fail(prompt_lengths_ ? *prompt_lengths_ : *prompt_offsets_,
             "says that the prompt of sample " + std::to_string(part.begin + i) + " has " +
                 format_plain_count(prompt, "token") + "; it must have from 0 to " +
                 std::to_string(end - first));
      }
      lengths.push_back({prompt, end - first - prompt});
    }
    const std::int64_t last = offsets.back();
    const std::int64_t tokens = at(tokens_).rows();
    if (last > tokens || (part.end == num_samples_ && last != tokens)) {
      fail(*offsets_,
           (part.end == num_samples_ ? "ends at " : "reaches ") + std::to_string(last) + " in element " +
               std::to_string(part.end) + "; '" + at(tokens_).name + "' has " +
               format_plain_count(tokens, "row"),
           "Make the last element equal to that number of rows");
    }
  }
  return lengths;
}

bool SampleTensors::has_numbers(std::size_t tensor) const {
  const std::optional<DType> dtype = at(tensor).dtype;
  return file_->has_integers(tensor) || dtype == DType::float32 || dtype == DType::float64;
}

/// Returns the attention mask of these samples, which is 1 in columns that contain tokens. Throws InputError
/// if the mask has values other than 0 and 1.
std::vector<std::int64_t> SampleTensors::attention_mask_of(RowRange samples) const {
  std::vector<std::int64_t> mask = file_->read_integers(*mask_, samples);
  const auto wrong = std::ranges::find_if(mask, [](std::int64_t value) { return value != 0 && value != 1; });
  if (wrong == mask.end()) return mask;
  fail(*mask_,
       "has " + std::to_string(*wrong) + " in row " +
           std::to_string(samples.begin + (wrong - mask.begin()) / width_) + "; a mask can have only 0 and 1",
       "Write 1 at each token and 0 at padding, and give each sequence its own row");
}

std::vector<TensorSample> SampleTensors::padded_lengths(RowRange samples) const {
  std::vector<TensorSample> lengths;
  const std::int64_t at_once = std::max<std::int64_t>(1, rows_per_block / std::max<std::int64_t>(1, width_));
  for (RowRange part{samples.begin, samples.begin}; part.begin < samples.end; part.begin = part.end) {
    part.end = std::min(samples.end, part.begin + at_once);
    const std::vector<std::int64_t> mask = attention_mask_of(part);
    const std::vector<std::int64_t> begins =
        response_begins_ ? file_->read_integers(*response_begins_, part) : std::vector<std::int64_t>();
    const std::vector<std::int64_t> prompts = prompt_lengths_of(part);
    for (std::int64_t i = 0; i < part.size(); ++i) {
      const auto row = mask.begin() + i * width_;
      const auto is_token = [](std::int64_t value) { return value != 0; };
      const std::int64_t tokens = std::count_if(row, row + width_, is_token);
      std::int64_t response =
          response_width_ ? std::count_if(row + width_ - *response_width_, row + width_, is_token) : tokens;
      if (!begins.empty()) {
        // The first token is never predicted, so it always belongs to the prompt.
        const auto own = begins.begin() + i * width_;
        const std::int64_t before =
            std::count_if(row, row + (std::find_if(own, own + width_, is_token) - own), is_token);
        response = tokens - std::min(std::max<std::int64_t>(before, 1), tokens);
      }
      if (!prompts.empty()) {
        const std::int64_t prompt = prompts[static_cast<std::size_t>(i)];
        if (prompt < 0 && prompt_offsets_)
          fail(*prompt_offsets_, "decreases at element " + std::to_string(part.begin + i + 1));
        if (prompt < 0 || prompt > tokens || (response_width_ && prompt != tokens - response)) {
          fail(prompt_lengths_ ? *prompt_lengths_ : *prompt_offsets_,
               "says that the prompt of sample " + std::to_string(part.begin + i) + " has " +
                   format_plain_count(prompt, "token") + "; it must have " +
                   (response_width_ ? std::to_string(tokens - response) + ", as the mask says"
                                    : "from 0 to " + std::to_string(tokens)));
        }
        response = tokens - prompt;
      }
      lengths.push_back({tokens - response, response});
    }
  }
  return lengths;
}

bool SampleTensors::has_rows(std::size_t field) const noexcept {
  const std::vector<std::int64_t>& shape = at(fields_[field].tensor).shape;
  const FieldKind kind = fields_[field].kind;
  const bool has_columns = is_padded() && rule_of(kind).is_cut();
  return shape[0] > 0 && (!has_columns || shape[1] > 0);
}

Uid SampleTensors::uid_of(std::int64_t sample) const {
  if (!uid_) return std::monostate{};
  if (!uid_offsets_) return file_->read_integers(*uid_, {sample, sample + 1}).front();
  const RowRange bytes = uid_bytes_[sample];
  std::string text(static_cast<std::size_t>(bytes.size()), '\0');
  file_->read_rows(*uid_, bytes, std::as_writable_bytes(std::span(text)));
  if (const std::size_t valid = utf8_prefix_length(text); valid < text.size())
    fail(*uid_, "has a uid of sample " + std::to_string(sample) + " that is not valid UTF-8 at byte " +
                    std::to_string(valid));
  return text;
}

/// Returns the rows that a sample has in the tensor of a field of this kind.
RowRange SampleTensors::rows_of(FieldKind kind, std::int64_t sample, const TensorSample& lengths,
                                const TensorPlace& place) const {
  if (is_padded() || rule_of(kind).is_per_sample()) return {sample, sample + 1};
  if (rule_of(kind).is_per_response_token()) return {place.response, place.response + lengths.response};
  return {place.token, place.token + lengths.prompt + lengths.response};
}

void SampleTensors::read_rows_of_sample(std::size_t tensor, FieldKind kind, std::int64_t sample,
                                        const TensorSample& lengths, const TensorPlace& place,
                                        std::span<std::byte> out) const {
  file_->read_rows(tensor, rows_of(kind, sample, lengths, place), out);
}

void SampleTensors::add_to_read_ahead(std::int64_t sample, const TensorSample& lengths,
                                      const TensorPlace& place, ReadAhead& ahead) const {
  if (mask_) file_->add_rows_to_read_ahead(*mask_, {sample, sample + 1}, ahead);
  file_->add_rows_to_read_ahead(tokens_, rows_of(FieldKind::token, sample, lengths, place), ahead);
  for (const Field& field : fields_) {
    const RowRange rows =
        is_counted(field.kind) ? field.samples[sample] : rows_of(field.kind, sample, lengths, place);
    file_->add_rows_to_read_ahead(field.tensor, rows, ahead);
  }
}

/// Returns the columns in which a padded sample has tokens.
std::vector<std::int64_t> SampleTensors::token_columns_of(std::int64_t sample) const {
  const std::vector<std::int64_t> mask = attention_mask_of({sample, sample + 1});
  std::vector<std::int64_t> columns;
  for (std::int64_t c = 0; c < width_; ++c) {
    if (mask[static_cast<std::size_t>(c)] != 0) columns.push_back(c);
  }
  return columns;
}

/// Reads one padded sample of a tensor [samples, axes, columns] and transposes it to [tokens, axes].
void SampleTensors::read_axes(const Field& field, std::int64_t sample, std::span<const std::int64_t> columns,
                              std::span<std::byte> out) const {
  const std::size_t element = field.row_bytes / static_cast<std::size_t>(field.axes);
  std::vector<std::byte> stored(static_cast<std::size_t>(width_) * field.row_bytes);
  file_->read_rows(field.tensor, {sample, sample + 1}, stored);
  std::byte* next = out.data();
  for (const std::int64_t column : columns) {
    for (std::int64_t axis = 0; axis < field.axes; ++axis) {
      std::memcpy(next, stored.data() + static_cast<std::size_t>(axis * width_ + column) * element, element);
      next += element;
    }
  }
}

void SampleTensors::read(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
                         std::span<const std::span<std::byte>> out) const {
  std::vector<std::int64_t> columns;
  if (is_padded()) {
    columns = token_columns_of(sample);
    if (std::ssize(columns) != lengths.prompt + lengths.response)
      fail(*mask_, "has changed since it was opened, in row " + std::to_string(sample),
           "Do not modify a file that is in use");
  }
  std::vector<std::byte> row;
  const auto read_field = [&](std::size_t tensor, FieldKind kind, std::size_t row_bytes, std::int64_t wide,
                              std::span<std::byte> to) {
    if (!is_padded() || rule_of(kind).is_per_sample())
      return read_rows_of_sample(tensor, kind, sample, lengths, place, to);
    const bool of_response = rule_of(kind).is_per_response_token();
    row.resize(static_cast<std::size_t>(wide) * row_bytes);
    file_->read_rows(tensor, {sample, sample + 1}, row);
    std::byte* next = to.data();
    for (const std::int64_t column : std::span(columns).last(
             static_cast<std::size_t>(lengths.response + (of_response ? 0 : lengths.prompt)))) {
      const std::int64_t from = column - (width_ - wide);
      // A tensor with one column fewer does not have a value for a token in the first column, which is never
      // predicted. The value of this token is set to 0.
      if (row_bytes > 0 && from < 0) std::memset(next, 0, row_bytes);
      if (row_bytes > 0 && from >= 0)
        std::memcpy(next, row.data() + static_cast<std::size_t>(from) * row_bytes, row_bytes);
      next += row_bytes;
    }
  };
  if (at(tokens_).dtype == DType::int64) {
    read_field(tokens_, FieldKind::token, sizeof(std::int64_t), width_, out[0]);
  } else {
    const std::int64_t first = is_padded() ? sample : place.token;
    const std::int64_t rows = is_padded() ? 1 : lengths.prompt + lengths.response;
    const std::vector<std::int64_t> tokens = file_->read_integers(tokens_, {first, first + rows});
    std::int64_t next = 0;
    for (std::size_t i = 0; i * sizeof(std::int64_t) < out[0].size(); ++i, ++next) {
      const std::int64_t token = tokens[static_cast<std::size_t>(is_padded() ? columns[i] : next)];
      std::memcpy(out[0].data() + i * sizeof token, &token, sizeof token);
    }
  }
  require_valid_tokens(out[0], sample);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    if (is_counted(field.kind)) {
      file_->read_rows(field.tensor, field.samples[sample], out[f + 1]);
    } else if (field.axes > 0) {
      read_axes(field, sample, columns, out[f + 1]);
    } else {
      read_field(field.tensor, field.kind, field.row_bytes, field.columns, out[f + 1]);
    }
  }
}

void SampleTensors::require_valid_tokens(std::span<const std::byte> tokens, std::int64_t sample) const {
  for (std::size_t i = 0; i < tokens.size() / sizeof(std::int64_t); ++i) {
    std::int64_t token = 0;
    std::memcpy(&token, tokens.data() + i * sizeof token, sizeof token);
    if (token >= 0) continue;
    fail(tokens_, "has " + std::to_string(token) + " as token " + std::to_string(i) + " of sample " +
                      std::to_string(sample) + "; a token must be an integer of at least 0");
  }
}

void SampleTensors::fail(const std::string& message, const std::string& hint) const {
  throw InputError(file_->path(), message, hint);
}

void SampleTensors::fail(std::size_t tensor, const std::string& message, const std::string& hint) const {
  fail("tensor '" + at(tensor).name + "' " + shape_text(at(tensor).shape) + " " + message, hint);
}

SampleTensors::SampleTensors(std::unique_ptr<const TensorFile> file) : file_(std::move(file)) {
  if (file_->find("cu_seqlens_padded"))
    fail("is a micro-batch of a dump",
         "Read the whole dump: give its folder, in a configuration with source.kind: dump");
  const std::optional<std::size_t> tokens = find_either(input_ids_field, tensor_names::tokens);
  if (!tokens)
    fail("has neither input_ids nor tokens", "Store the tokens as integers under one of these names");
  tokens_ = *tokens;
  if (!file_->has_integers(tokens_) || at(tokens_).dtype == DType::boolean)
    fail(tokens_, "holds " + at(tokens_).stored + "; tokens must be integers");
  if (at(tokens_).shape.size() == 1) {
    find_ragged_samples();
  } else if (at(tokens_).shape.size() == 2) {
    find_padded_samples();
  } else {
    fail(tokens_, "is neither [tokens] with offsets nor [samples, columns] with a mask");
  }
  find_uids();
  find_prompts();
  if (is_padded()) find_response_width();
  find_fields();
}

std::optional<std::size_t> SampleTensors::find_either(std::string_view first, std::string_view second) const {
  const auto a = file_->find(first);
  const auto b = file_->find(second);
  if (a && b) {
    fail("has both '" + std::string(first) + "' and '" + std::string(second) +
             "', which serve the same purpose",
         "Leave one of them out, or give it another name");
  }
  return a ? a : b;
}

void SampleTensors::require_integer_tensor(std::size_t tensor, std::size_t dimensions) const {
  if (!file_->has_integers(tensor)) fail(tensor, "holds " + at(tensor).stored + "; it must hold integers");
  if (at(tensor).shape.size() != dimensions)
    fail(tensor,
         "does not have " + std::to_string(dimensions) + (dimensions == 1 ? " dimension" : " dimensions"));
}

void SampleTensors::find_ragged_samples() {
  const auto offsets = find_either(tensor_names::offsets, tensor_names::cu_seqlens);
  if (!offsets) {
    fail(tokens_, "has one dimension, and the file does not specify where samples begin",
         "Add offsets [samples + 1], from 0 to the number of tokens; or save [samples, columns] with "
         "attention_mask");
  }
  require_integer_tensor(*offsets, 1);
  if (at(*offsets).rows() < 1) fail(*offsets, "is empty; it needs one more element than there are samples");
  offsets_ = offsets;
  num_samples_ = at(*offsets).rows() - 1;
}

void SampleTensors::find_padded_samples() {
  const auto mask = file_->find(tensor_names::attention_mask);
  if (!mask) {
    fail(tokens_, "has two dimensions but no mask: lengths are not guessed from pad tokens",
         "Add attention_mask of the same shape, with 0 at padding");
  }
  if (!has_numbers(*mask))
    fail(*mask, "holds " + at(*mask).stored + "; a mask must hold booleans, integers, float32 or float64");
  if (at(*mask).shape != at(tokens_).shape)
    fail(*mask, "does not have the shape of the tokens, " + shape_text(at(tokens_).shape));
  mask_ = mask;
  num_samples_ = at(tokens_).rows();
  width_ = at(tokens_).shape[1];
}

/// Finds the uids: one integer per sample, or the bytes of strings with an offsets tensor.
void SampleTensors::find_uids() {
  uid_ = file_->find(tensor_names::uid);
  if (!uid_) return;
  require_integer_tensor(*uid_, 1);
  const auto offsets = file_->find(tensor_names::uid_offsets);
  const bool are_texts = offsets && at(*uid_).dtype == DType::uint8 && file_->has_integers(*offsets) &&
                         at(*offsets).shape == std::vector{num_samples_ + 1};
  if (are_texts) {
    uid_offsets_ = offsets;
    uid_bytes_ = sample_rows_from_offsets(*offsets, *uid_);
  } else if (at(*uid_).rows() != num_samples_) {
    fail(*uid_,
         "must have one element per sample; the file has " + format_plain_count(num_samples_, "sample"),
         "Write one integer per sample, or store strings as uint8 together with a tensor uid_offsets of " +
             std::to_string(num_samples_ + 1) + " integers (samples + 1)");
  }
}

void SampleTensors::find_prompts() {
  const auto found = find_either(tensor_names::prompt_lengths, tensor_names::prompt_offsets);
  if (!found) {
    response_rows_ = is_padded() ? 0 : at(tokens_).rows();
    return;
  }
  require_integer_tensor(*found, 1);
  const bool are_lengths = at(*found).name == tensor_names::prompt_lengths;
  (are_lengths ? prompt_lengths_ : prompt_offsets_) = found;
  const std::int64_t rows = num_samples_ + (are_lengths ? 0 : 1);
  if (at(*found).rows() != rows)
    fail(*found, "must have " + format_plain_count(rows, "element") + " for " +
                     format_plain_count(num_samples_, "sample"));
  if (is_padded()) return;
  // Sum of the prompt lengths. It may be wrong if lengths are invalid, which lengths() reports later.
  std::uint64_t sum = 0;
  for (RowRange part{0, 0}; part.begin < num_samples_; part.begin = part.end) {
    part.end = std::min(num_samples_, part.begin + rows_per_block);
    for (const std::int64_t prompt : prompt_lengths_of(part)) sum += static_cast<std::uint64_t>(prompt);
  }
  response_rows_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(at(tokens_).rows()) - sum);
}

/// Determines the number of columns of the responses, which are the last columns, from tensors that contain
/// only responses or only prompts. If there are no such tensors, uses the response mask: its width if the
/// mask is narrower than the tokens. Otherwise, unless a tensor specifies where prompts end, the response of
/// each sample begins at the mask's first set value.
void SampleTensors::find_response_width() {
  const auto width_of = [&](std::string_view name) -> std::optional<std::int64_t> {
    const auto found = file_->find(name);
    if (!found) return std::nullopt;
    const std::vector<std::int64_t>& shape = at(*found).shape;
    if (shape.size() != 2 || shape[0] != num_samples_ || shape[1] > width_)
      fail(*found, "must have the shape [" + std::to_string(num_samples_) + ", at most " +
                       std::to_string(width_) + "]");
    return shape[1];
  };
  response_width_ = width_of(tensor_names::responses);
  if (const auto prompts = width_of(tensor_names::prompts)) {
    const std::int64_t rest = width_ - *prompts;
    if (response_width_ && *response_width_ != rest) {
      fail("has prompts of " + format_plain_count(*prompts, "column") + " and responses of " +
           std::to_string(*response_width_) + ", which do not add up to the " +
           format_plain_count(width_, "column") + " of '" + at(tokens_).name + "'");
    }
    response_width_ = rest;
  }
  const auto of_mask = width_of(tensor_names::response_mask);
  if (!of_mask || response_width_) return;
  if (*of_mask < width_) {
    response_width_ = of_mask;
  } else if (!prompt_lengths_ && !prompt_offsets_) {
    response_begins_ = file_->find(tensor_names::response_mask);
    if (!has_numbers(*response_begins_))
      fail(*response_begins_, "holds " + at(*response_begins_).stored +
                                  "; a mask must hold booleans, integers, float32 or float64");
  }
}

}  // namespace evenkeel
