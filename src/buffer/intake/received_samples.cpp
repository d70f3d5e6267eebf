#include "buffer/intake/received_samples.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "buffer/intake/acceptance.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/jsonl/sample_outlines.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t most_samples = std::size_t{1} << 20;

/// Returns the values of a field that has one integer per sample. Returns nullopt if the batch does not have
/// the field, or if the field has a different kind, type or shape.
std::optional<std::span<const std::int64_t>> find_integers(const RaggedBatch& batch,
                                                           const std::string& name) {
  const Column* const column = batch.find(name);
  if (column == nullptr) return std::nullopt;
  const FieldSpec& spec = column->spec();
  if (!spec.rule().is_per_sample() || spec.dtype != DType::int64 || !spec.trailing.empty())
    return std::nullopt;
  return column->values<std::int64_t>();
}

/// Throws InputError for a required key that is missing or has a value that is not an integer.
[[noreturn]] void reject_missing_key(std::string_view body, std::span<const LineRef> lines,
                                     const LineNames& names, const std::string& key,
                                     const std::string& hint) {
  for (const LineRef& line : lines) {
    const auto begin = static_cast<std::size_t>(line.offset);
    const auto parsed =
        nlohmann::json::parse(body.substr(begin, static_cast<std::size_t>(line.bytes)), nullptr, false);
    if (!parsed.is_object() || !parsed.contains(key)) continue;
    const nlohmann::json& value = parsed[key];
    if (stream::parse_integer(value)) continue;
    throw InputError(names.where(line.number),
                     "field '" + key + "' is " + (value.is_string() ? "the string " : "") +
                         value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40) +
                         "; it must be an integer",
                     hint);
  }
  throw InputError(names.where(lines.front().number), "has no field '" + key + "'", hint);
}

/// Returns the oldest version in each sample's `versions`, or an empty list if samples do not have
/// `versions`.
std::vector<std::int64_t> oldest_versions(const RaggedBatch& batch, std::span<const LineRef> lines,
                                          const LineNames& names) {
  const Column* const column = batch.find("versions");
  if (column == nullptr) return {};
  if (column->spec().dtype != DType::int64)
    throw InputError("body", "field 'versions' has numbers that are not integers",
                     "Send [version, number of tokens] for each run of tokens, such as [[0, 17]]");
  const std::span<const std::int64_t> values = column->values<std::int64_t>();
  std::vector<std::int64_t> oldest;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(*column, i);
    if (rows.begin == rows.end) {
      throw InputError(names.where(lines[static_cast<std::size_t>(i)].number),
                       "field 'versions' has no version for a sample without tokens", "Send version instead");
    }
    oldest.push_back(*std::min_element(values.begin() + rows.begin, values.begin() + rows.end));
  }
  return oldest;
}

/// Hashes a line without surrounding blanks and without the numbers after "version" and "versions", which may
/// differ when a producer sends the sample again.
std::uint32_t hash_line(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  constexpr std::string_view of_numbers = " \t\r:,[]+-.eE0123456789";
  constexpr std::string_view key = "\"version";
  line = line.substr(std::min(line.find_first_not_of(blanks), line.size()));
  line = line.substr(0, line.find_last_not_of(blanks) + 1);
  std::uint64_t hash = 0;
  const auto add = [&](std::string_view part) {
    hash = mix_64(hash ^ hash_of_bytes(std::as_bytes(std::span(part))));
  };
  for (std::size_t found = line.find(key); found != std::string_view::npos; found = line.find(key)) {
    std::size_t end = found + key.size();
    if (line.substr(end).starts_with('s')) ++end;
    const bool is_whole = line.substr(end).starts_with('"');
    add(line.substr(0, end));
    line = line.substr(end);
    if (is_whole) line = line.substr(std::min(line.find_first_not_of(of_numbers, 1), line.size()));
  }
  add(line);
  return static_cast<std::uint32_t>(hash);
}

/// Returns the formats that a user declared: `declared` without stream_formats(). Samples must have all
/// fields in the result.
DeclaredFormats user_formats(DeclaredFormats declared) {
  for (const auto& [name, format] : stream_formats()) declared.erase(name);
  return declared;
}

bool has_declared_fields(const JsonlSchema& schema, const DeclaredFormats& declared) {
  return std::ranges::all_of(declared, [&](const auto& format) { return schema.has_field(format.first); });
}

/// Throws InputError if users declared formats, since a safetensors file specifies its own formats. File
/// readers also reject such declarations.
void reject_declared_formats(const DeclaredFormats& declared) {
  const DeclaredFormats by_users = user_formats(declared);
  if (by_users.empty()) return;
  throw InputError(
      "body",
      "has safetensors, but the buffer has declared formats of JSON Lines: " + describe_formats(by_users),
      "Send JSON Lines, or start the buffer without --read-as and fields.NAME.read_as");
}

}  // namespace

const DeclaredFormats& stream_formats() {
  static const DeclaredFormats formats{{"versions", LineFormat::runs}};
  return formats;
}

DeclaredFormats add_stream_formats(const DeclaredFormats& declared, const std::string& where) {
  DeclaredFormats formats = declared;
  for (const auto& [name, format] : stream_formats()) {
    if (const auto [known, is_new] = formats.emplace(name, format); !is_new && known->second != format) {
      throw ConfigError(where,
                        "declares '" + name + "' as " + std::string(name_of(known->second)) +
                            ", but in a stream it is read as " + std::string(name_of(format)),
                        "Leave it out (--read-as, or fields." + name + ".read_as)");
    }
  }
  return formats;
}

std::string ReceivedSamples::error_location(const ReceivedSample& sample) const {
  if (form_ == SampleForm::tensors) return "body, sample " + std::to_string(sample.number);
  return "body:" + std::to_string(sample.number + 1);
}

ReceivedSamples::ReceivedSamples(RequestBody body, SampleForm form, const DeclaredFormats& declared)
    : ReceivedSamples(NotYetRead{}, std::move(body), form) {
  if (form_ == SampleForm::tensors) {
    reject_declared_formats(declared);
    read_tensors();
  } else {
    if (!try_outline_lines(declared)) parse_lines(declared);
    hash_and_check_lines();
  }
}

void ReceivedSamples::hash_and_check_lines() {
  for (ReceivedSample& sample : samples_) sample.content = hash_line(sample.body);
  require_usable_fields(schema_, "body", form_ == SampleForm::lines);
}

ReceivedSamples ReceivedSamples::parse_without_outlines(RequestBody body, const DeclaredFormats& declared) {
  ReceivedSamples received(NotYetRead{}, std::move(body), SampleForm::lines);
  received.parse_lines(declared);
  received.hash_and_check_lines();
  return received;
}

/// Converts an outline to a sample. Returns nullopt if the outline is incomplete or invalid.
std::optional<ReceivedSample> ReceivedSamples::make_received_sample(SampleOutline& outline,
                                                                    const JsonlSchema& schema) const {
  const bool has_versions = schema.has_field("versions");
  const std::optional<std::int64_t> version = outline.watched_values[has_versions ? 2 : 1];
  const bool are_same = !schema.has_field("version") || outline.watched_values[1] == version;
  const bool is_named = !std::holds_alternative<std::monostate>(outline.uid);
  if (!outline.watched_values[0] || !version || !are_same || !is_named) return std::nullopt;
  return ReceivedSample{
      {{std::move(outline.uid), *outline.watched_values[0]}, outline.prompt, outline.response, *version, 0},
      body_.bytes().substr(static_cast<std::size_t>(outline.line.offset),
                           static_cast<std::size_t>(outline.line.bytes)),
      outline.line.number};
}

/// Tries to read the lines with outline_samples(), which is faster than parsing them. Returns false if this
/// is not possible. parse_lines() must then read the lines, and reports their errors.
bool ReceivedSamples::try_outline_lines(const DeclaredFormats& declared) {
  static_cast<void>(body_.file());
  constexpr std::array<std::string_view, 3> watched{"index", "version", "versions"};
  std::optional<SampleOutlines> outlines = outline_samples(body_.bytes(), declared, watched);
  if (!outlines || outlines->samples.size() > most_samples) return false;
  const bool are_integers = std::ranges::all_of(outlines->schema.fields, [&](const FieldSpec& field) {
    if (std::ranges::count(watched, field.name) == 0) return true;
    return field.dtype == DType::int64 && (field.name == "versions" || field.rule().is_per_sample());
  });
  if (!are_integers || !has_declared_fields(outlines->schema, user_formats(declared))) return false;
  std::vector<ReceivedSample> samples;
  samples.reserve(outlines->samples.size());
  for (SampleOutline& outline : outlines->samples) {
    std::optional<ReceivedSample> sample = make_received_sample(outline, outlines->schema);
    if (!sample) return false;
    samples.push_back(*std::move(sample));
  }
  samples_ = std::move(samples);
  schema_ = std::move(outlines->schema);
  return true;
}

void ReceivedSamples::parse_lines(const DeclaredFormats& declared) {
  const InputFile& file = body_.file();
  const std::vector<LineRef> lines = scan_lines(file).lines;
  if (lines.empty()) return;
  if (lines.size() > most_samples) {
    throw LimitError("body",
                     "has " + std::to_string(lines.size()) + " samples; at most " +
                         std::to_string(most_samples) + " are allowed in one request",
                     "Send fewer samples in a request");
  }
  const LineFiles files(file);
  schema_ = infer_schema(files, lines, {}, declared);
  require_declared_fields(schema_, user_formats(declared), "body");
  const RaggedBatch batch = read_samples(files, lines, schema_, declared);
  std::vector<Uid> uids = read_uids(files, lines);
  const auto indexes = find_integers(batch, "index");
  const auto versions = find_integers(batch, "version");
  const std::vector<std::int64_t> oldest = oldest_versions(batch, lines, files.names());
  if (!indexes) {
    reject_missing_key(body_.bytes(), lines, files.names(), "index",
                       "Number the responses of a group, starting at 0, such as \"index\": 0");
  }
  if (!versions && (oldest.empty() || batch.find("version") != nullptr)) {
    reject_missing_key(
        body_.bytes(), lines, files.names(), "version",
        "Send the version of the policy that generated it, such as \"version\": 0, or versions: [[0, 17]]");
  }
  samples_.reserve(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::int64_t version = oldest.empty() ? (*versions)[i] : oldest[i];
    if (versions && (*versions)[i] != version) {
      throw InputError(files.names().where(lines[i].number),
                       "field 'version' is " + std::to_string((*versions)[i]) +
                           ", but the oldest version in 'versions' is " + std::to_string(version),
                       "Send the oldest version, or leave version out");
    }
    if (std::holds_alternative<std::monostate>(uids[i])) {
      throw InputError(files.names().where(lines[i].number), "has no uid",
                       "Give all responses to one prompt the same uid");
    }
    const SampleShape& shape = batch.samples()[i];
    samples_.push_back({{{std::move(uids[i]), (*indexes)[i]}, shape.prompt, shape.response, version, 0},
                        body_.bytes().substr(static_cast<std::size_t>(lines[i].offset),
                                             static_cast<std::size_t>(lines[i].bytes)),
                        lines[i].number});
  }
}

namespace {

/// Throws InputError for the field `sent` of a request, which would change the field `formed` of steps that
/// were already formed.
[[noreturn]] void reject_late_change(const FieldSpec& formed, const FieldSpec& sent) {
  const std::string field = "field '" + sent.name + "' is ";
  const std::string formed_dtype(name_of(formed.dtype));
  if (formed.kind != sent.kind) {
    throw InputError("body",
                     field + "of kind " + std::string(name_of(sent.kind)) + ", but it is of kind " +
                         std::string(name_of(formed.kind)) +
                         " in steps that were already formed, so its kind can no longer change",
                     "Send it as in earlier samples, or start a new buffer");
  }
  if (formed.trailing != sent.trailing) {
    throw InputError("body",
                     "field '" + sent.name + "' has rows of shape " + shape_text(sent.trailing) +
                         ", but it has rows of shape " + shape_text(formed.trailing) +
                         " in steps that were already formed, so its shape can no longer change",
                     "Send it as in earlier samples, or start a new buffer");
  }
  throw InputError("body",
                   field + std::string(name_of(sent.dtype)) + ", but it is " + formed_dtype +
                       " in steps that were already formed, so its type can no longer change",
                   formed.dtype == DType::int64 && sent.dtype == DType::float32
                       ? "Send integers; or start a new buffer and write every value with a decimal point, "
                         "such as 1.0"
                       : "Send values of the same type and shape, or start a new buffer");
}

}  // namespace

JsonlSchema join_schemas(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen) {
  if (so_far.empty || more.empty) return so_far.empty ? more : so_far;
  const bool are_equal = so_far.fields == more.fields && so_far.kind_open == more.kind_open &&
                         so_far.element_open == more.element_open &&
                         so_far.wide_integers.size() == more.wide_integers.size();
  if (are_equal) return so_far;
  // Number all earlier samples as line 0 and the lines of the request from 1. merge() reports a conflict at
  // the later line, so its errors point to a line of the request.
  const LineNames names = LineNames::after_earlier_samples("body");
  const auto moved = [](JsonlSchema schema, std::int64_t scale, std::int64_t first) {
    schema.first_line = schema.first_line * scale + first;
    for (FieldOrigin& origin : schema.origins) {
      for (std::int64_t* line : {&origin.kind, &origin.trailing, &origin.dtype})
        *line = *line * scale + first;
    }
    for (auto& [name, line] : schema.wide_integers) line = line * scale + first;
    return schema;
  };
  JsonlSchema joined = moved(merge(moved(so_far, 0, 0), moved(more, 1, 1), names), 0, 0);
  if (may_widen) return joined;
  for (std::size_t i = 0; i < joined.fields.size(); ++i) {
    if (joined.fields[i] == so_far.fields[i]) continue;
    reject_late_change(so_far.fields[i], joined.fields[i]);
  }
  return joined;
}

}  // namespace evenkeel
