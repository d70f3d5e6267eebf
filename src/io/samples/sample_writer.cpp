#include "io/samples/sample_writer.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"
#include "io/jsonl/writer.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {
namespace {

constexpr const char* prompt_word = "prompt_lengths";
constexpr const char* group_word = "uid";

bool is_dropped(const DroppedFields& dropped, const std::string& name) {
  return dropped.contains("all") || dropped.contains(name);
}

[[noreturn]] void reject(const std::filesystem::path& path, const std::string& what,
                         const std::string& name) {
  throw InputError(path.string(), what, "Write it in another format, or leave it out: --drop " + name);
}

/// Returns the batch with only the fields for which `is_asked_for` returns true.
RaggedBatch select_columns(const RaggedBatch& batch, const auto& is_asked_for) {
  RaggedBatch some({batch.samples().begin(), batch.samples().end()});
  for (const Column& column : batch.fields()) {
    if (is_asked_for(column.spec())) some.add_field(column);
  }
  return some;
}

/// Throws InputError if JSON Lines cannot store the field, or if it would change when it is written and read
/// back. JsonlWriter rejects infinities and NaN.
void require_lossless_json(const Column& column, const std::filesystem::path& path) {
  const FieldSpec& spec = column.spec();
  const std::string field = "field '" + spec.name + "'";
  if (spec.rule().is_per_sample() && !spec.trailing.empty())
    reject(path, "cannot hold " + field + ": a list has one row per token or response token", spec.name);
  if (!spec.trailing.empty() && spec.row_elements() == 0)
    reject(path, "cannot hold " + field + ": its rows have no elements, so their shape would be lost",
           spec.name);
  if (spec.dtype == DType::float16 || spec.dtype == DType::bfloat16)
    reject(path, "cannot hold " + field + " of " + std::string(name_of(spec.dtype)), spec.name);
  if (spec.dtype != DType::float64) return;
  for (const double value : column.values<double>()) {
    if (!std::isfinite(value) || static_cast<double>(static_cast<float>(value)) == value) continue;
    reject(path,
           "cannot hold " + field + " of float64: its value " + nlohmann::json(value).dump() +
               " would be rounded to float32 when it is read",
           spec.name);
  }
}

class RolloutWriter : public SampleWriter {
 public:
  RolloutWriter(const std::filesystem::path& path, DroppedFields dropped)
      : path_(path), dropped_(std::move(dropped)), lines_(path) {
    if (dropped_.contains(prompt_word)) {
      throw InputError(path_.string(), "always stores where prompts end", "Leave out --drop prompt_lengths");
    }
  }

  using SampleWriter::write;
  void write(const RaggedBatch& batch, std::span<const Uid> uids) override {
    const bool any_room = dropped_.contains("all");
    RaggedBatch kept = select_columns(batch, [&](const FieldSpec& spec) {
      if (dropped_.contains(spec.name)) return false;
      const bool has_form = !(spec.rule().is_per_sample() && !spec.trailing.empty()) &&
                            (spec.trailing.empty() || spec.row_elements() > 0) &&
                            spec.dtype != DType::float16 && spec.dtype != DType::bfloat16;
      return has_form || !any_room;
    });
    for (const Column& column : std::as_const(kept).fields()) require_lossless_json(column, path_);
    const std::vector<Uid> none(dropped_.contains(group_word) ? uids.size() : 0);
    lines_.write(kept, none.empty() ? uids : none);
  }
  void close() override { lines_.close(); }

 private:
  std::filesystem::path path_;
  DroppedFields dropped_;
  JsonlWriter lines_;
};

class DocumentWriter : public SampleWriter {
 public:
  DocumentWriter(const std::filesystem::path& path, DroppedFields dropped, IndexedDType tokens)
      : path_(path),
        dropped_(std::move(dropped)),
        tokens_(tokens),
        dataset_(indexed_dataset_prefix(path), tokens) {}

  using SampleWriter::write;
  void write(const RaggedBatch& batch, std::span<const Uid> uids) override {
    for (const Column& column : batch.fields()) {
      const std::string& name = column.spec().name;
      if (name == input_ids_field || is_dropped(dropped_, name)) continue;
      reject(path_, "can hold only tokens, but samples have a field '" + name + "'", name);
    }
    const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const SampleShape& shape = batch.samples()[static_cast<std::size_t>(i)];
      const std::string sample = "sample " + std::to_string(shape.id.value());
      if (shape.prompt > 0 && !is_dropped(dropped_, prompt_word))
        reject(path_, "cannot store where prompts end, but " + sample + " has a prompt", prompt_word);
      // Documents do not store groups, so uids that form groups would be lost.
      const bool is_own = std::holds_alternative<std::monostate>(uids[static_cast<std::size_t>(i)]);
      if (!is_own && !is_dropped(dropped_, group_word))
        reject(path_, "cannot store which samples form a group, but " + sample + " has a uid", group_word);
      const RowRange rows = batch.rows_of(FieldKind::token, i);
      const auto mine =
          tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
      require_tokens_fit_dtype(mine, sample);
      dataset_.add_sequence(mine);
      dataset_.end_document();
    }
  }
  void close() override { dataset_.commit(); }

 private:
  /// Throws InputError if the dataset's dtype is too narrow for a token. The hint names the option that sets
  /// the dtype.
  void require_tokens_fit_dtype(std::span<const std::int64_t> tokens, const std::string& sample) const {
    const std::int64_t most = range_of(to_dtype(tokens_)).most;
    const auto bad = std::ranges::find_if(tokens, [&](std::int64_t token) { return token > most; });
    if (bad == tokens.end()) return;
    const bool is_narrow = tokens_ == IndexedDType::uint16;
    throw InputError(
        path_.string(),
        "token " + std::to_string(bad - tokens.begin()) + " of " + sample + " is " + std::to_string(*bad) +
            ", but tokens are stored as " + std::string(name_of(tokens_)) + " (at most " +
            std::to_string(most) + ")" + (is_narrow ? " because --vocab-size is below 65500" : ""),
        is_narrow ? "Pass the tokenizer's real vocabulary size, or omit --vocab-size to store int32"
                  : "Write it in another format");
  }

  std::filesystem::path path_;
  DroppedFields dropped_;
  IndexedDType tokens_;
  IndexedDatasetWriter dataset_;
};

/// Returns a string as a quoted CSV value. Quotation marks inside the string are doubled.
std::string escape_csv(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

class TableWriter : public SampleWriter {
 public:
  TableWriter(const std::filesystem::path& path, DroppedFields dropped)
      : path_(path),
        dropped_(std::move(dropped)),
        has_prompts_(!dropped_.contains(prompt_word)),
        has_uids_(!dropped_.contains(group_word)),
        file_(path) {
    add(std::string(has_prompts_ ? "prompt_length,response_length" : "length") +
        (has_uids_ ? ",uid\n" : "\n"));
  }

  using SampleWriter::write;
  void write(const RaggedBatch& batch, std::span<const Uid> uids) override {
    for (const Column& column : batch.fields()) {
      const std::string& name = column.spec().name;
      if (!is_dropped(dropped_, name))
        reject(path_, "can hold only lengths, but samples have '" + name + "'", name);
    }
    std::string text;
    for (std::size_t i = 0; i < uids.size(); ++i) {
      const SampleShape& shape = batch.samples()[i];
      text += has_prompts_ ? std::to_string(shape.prompt) + "," + std::to_string(shape.response)
                           : std::to_string(shape.length());
      if (has_uids_) text += "," + format_uid(uids[i], shape);
      text += '\n';
    }
    add(text);
  }
  void close() override { file_.commit(); }

 private:
  void add(const std::string& text) { file_.write(std::as_bytes(std::span(text))); }

  /// Returns a uid as a value of the table. Since a table does not store types, its uids must be all integers
  /// or all strings, and an empty value means that there is no uid.
  std::string format_uid(const Uid& uid, const SampleShape& sample) {
    if (std::holds_alternative<std::monostate>(uid)) return {};
    const auto* const text = std::get_if<std::string>(&uid);
    const bool is_text = text != nullptr;
    const std::string of_sample = " of sample " + std::to_string(sample.id.value());
    std::string why;
    if (has_texts_.value_or(is_text) != is_text) {
      why = "cannot hold the uid" + of_sample + ", which is " + (is_text ? "a string" : "an integer") +
            ": other uids are " + (is_text ? "integers" : "strings");
    } else if (is_text && (text->empty() || text->find_first_of("\r\n") != std::string::npos ||
                           std::string_view(" \t").find(text->front()) != std::string_view::npos ||
                           std::string_view(" \t").find(text->back()) != std::string_view::npos)) {
      why = "cannot hold the uid" + of_sample +
            ": it is empty, has several lines, or begins or ends with white space";
    }
    if (!why.empty() && !dropped_.contains("all")) reject(path_, why, group_word);
    if (!why.empty()) return {};
    has_texts_ = is_text;
    if (is_text) return escape_csv(*text);
    const auto* const number = std::get_if<std::int64_t>(&uid);
    return number != nullptr ? std::to_string(*number) : std::to_string(std::get<std::uint64_t>(uid));
  }

  std::filesystem::path path_;
  DroppedFields dropped_;
  bool has_prompts_;
  bool has_uids_;
  // Whether uids are strings rather than integers; nullopt until a sample has a uid.
  std::optional<bool> has_texts_;
  AtomicFile file_;
};

}  // namespace

void SampleWriter::write(const RaggedBatch& batch) {
  write(batch, uids_of_groups(batch));
}

std::optional<SampleFormat> format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".jsonl") return SampleFormat::jsonl;
  if (ending == ".safetensors") return SampleFormat::safetensors;
  if (ending == ".csv") return SampleFormat::lengths;
  if (is_indexed_dataset_path(path)) return SampleFormat::megatron;
  return std::nullopt;
}

std::unique_ptr<SampleWriter> make_sample_writer(SampleFormat format, const std::filesystem::path& path,
                                                 const DroppedFields& dropped, IndexedDType tokens) {
  switch (format) {
    case SampleFormat::jsonl:
      return std::make_unique<RolloutWriter>(path, dropped);
    case SampleFormat::safetensors:
      return make_ragged_writer(path, dropped);
    case SampleFormat::megatron:
      return std::make_unique<DocumentWriter>(path, dropped, tokens);
    case SampleFormat::lengths:
      break;
  }
  return std::make_unique<TableWriter>(path, dropped);
}

std::vector<std::filesystem::path> files_of(SampleFormat format, const std::filesystem::path& path) {
  if (format != SampleFormat::megatron) return {path};
  const std::string prefix = indexed_dataset_prefix(path).string();
  return {prefix + ".bin", prefix + ".idx"};
}

}  // namespace evenkeel
