#include "io/sample_writer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/jsonl_writer.hpp"

namespace evenkeel {
namespace {

constexpr const char* prompt_word = "prompt_lengths";
constexpr const char* group_word = "uid";

bool is_dropped(const Dropped& dropped, const std::string& name) {
  return dropped.contains("all") || dropped.contains(name);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what,
                         const std::string& name) {
  throw InputError(path.string(), what, "Write it in another format, or leave it out: --drop " + name);
}

/// The fields of a batch that are asked for.
RaggedBatch with_fields(const RaggedBatch& batch, const auto& is_asked_for) {
  RaggedBatch some({batch.samples().begin(), batch.samples().end()});
  for (const Column& column : batch.fields()) {
    if (is_asked_for(column.spec())) some.add_field(column);
  }
  return some;
}

/// Throws where JSON lines would give back something else than the field. Precondition: the writer takes it.
void require_the_same_from_json(const Column& column, const std::filesystem::path& path) {
  const FieldSpec& spec = column.spec();
  const std::string field = "field '" + spec.name + "'";
  if (spec.kind == FieldKind::sample && !spec.trailing.empty())
    refuse(path, "cannot hold " + field + ": a list has one row a token or a response token", spec.name);
  if (spec.dtype == DType::float16 || spec.dtype == DType::bfloat16)
    refuse(path, "cannot hold " + field + " of " + std::string(name_of(spec.dtype)), spec.name);
  if (spec.dtype != DType::float64) return;
  for (const double value : column.values<double>()) {
    if (!std::isfinite(value) || static_cast<double>(static_cast<float>(value)) == value) continue;
    refuse(path,
           "cannot hold " + field + ": " + std::to_string(value) + " of float64 is read back as float32",
           spec.name);
  }
}

class RolloutWriter : public SampleWriter {
 public:
  RolloutWriter(const std::filesystem::path& path, Dropped dropped)
      : path_(path), dropped_(std::move(dropped)), lines_(path) {
    for (const char* word : {prompt_word, group_word}) {
      if (dropped_.contains(word))
        throw InputError(path_.string(), std::string("always tells ") + word,
                         std::string("Leave out --drop ") + word);
    }
  }

  void write(const RaggedBatch& batch) override {
    const bool any_room = dropped_.contains("all");
    RaggedBatch kept = with_fields(batch, [&](const FieldSpec& spec) {
      if (dropped_.contains(spec.name)) return false;
      const bool has_form = !(spec.kind == FieldKind::sample && !spec.trailing.empty()) &&
                            spec.dtype != DType::float16 && spec.dtype != DType::bfloat16;
      return has_form || !any_room;
    });
    for (const Column& column : std::as_const(kept).fields()) require_the_same_from_json(column, path_);
    lines_.write(kept);
  }
  void close() override { lines_.close(); }

 private:
  std::filesystem::path path_;
  Dropped dropped_;
  JsonlWriter lines_;
};

class DocumentWriter : public SampleWriter {
 public:
  DocumentWriter(const std::filesystem::path& path, Dropped dropped, IndexedDType tokens)
      : path_(path), dropped_(std::move(dropped)), dataset_(dataset_prefix(path), tokens) {}

  void write(const RaggedBatch& batch) override {
    for (const Column& column : batch.fields()) {
      const std::string& name = column.spec().name;
      if (name == input_ids_field || is_dropped(dropped_, name)) continue;
      refuse(path_, "holds tokens alone, and samples have a field '" + name + "'", name);
    }
    const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const SampleShape& shape = batch.samples()[static_cast<std::size_t>(i)];
      const std::string sample = "sample " + std::to_string(shape.id.value());
      if (shape.prompt > 0 && !is_dropped(dropped_, prompt_word))
        refuse(path_, "cannot tell where prompts end, and " + sample + " has one", prompt_word);
      // Documents, and samples without a uid, are groups of their own.
      const bool is_own = shape.group == mix_64(static_cast<std::uint64_t>(shape.id.value()));
      if (!is_own && !is_dropped(dropped_, group_word))
        refuse(path_, "cannot tell which samples are a group, and " + sample + " is of one", group_word);
      const RowRange rows = batch.rows_of(FieldKind::token, i);
      dataset_.add_sequence(
          tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
      dataset_.end_document();
    }
  }
  void close() override { dataset_.commit(); }

 private:
  std::filesystem::path path_;
  Dropped dropped_;
  IndexedDatasetWriter dataset_;
};

class TableWriter : public SampleWriter {
 public:
  TableWriter(const std::filesystem::path& path, Dropped dropped)
      : path_(path), dropped_(std::move(dropped)), file_(path) {
    add("prompt_length,response_length,uid\n");
  }

  void write(const RaggedBatch& batch) override {
    for (const Column& column : batch.fields()) {
      const std::string& name = column.spec().name;
      if (!is_dropped(dropped_, name))
        refuse(path_, "holds lengths alone, and samples have '" + name + "'", name);
    }
    std::string text;
    for (const SampleShape& shape : batch.samples())
      text += std::to_string(shape.prompt) + "," + std::to_string(shape.response) + "," +
              std::to_string(shape.group) + "\n";
    add(text);
  }
  void close() override { file_.commit(); }

 private:
  void add(const std::string& text) { file_.write(std::as_bytes(std::span(text))); }

  std::filesystem::path path_;
  Dropped dropped_;
  AtomicFile file_;
};

}  // namespace

std::optional<SampleFormat> format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".jsonl") return SampleFormat::jsonl;
  if (ending == ".safetensors") return SampleFormat::safetensors;
  if (ending == ".npz") return SampleFormat::npz;
  if (ending == ".csv") return SampleFormat::lengths;
  if (names_dataset_file(path)) return SampleFormat::megatron;
  return std::nullopt;
}

std::unique_ptr<SampleWriter> make_sample_writer(SampleFormat format, const std::filesystem::path& path,
                                                 const Dropped& dropped, IndexedDType tokens) {
  switch (format) {
    case SampleFormat::jsonl:
      return std::make_unique<RolloutWriter>(path, dropped);
    case SampleFormat::safetensors:
      return make_ragged_writer(path, dropped);
    case SampleFormat::npz:
      return make_padded_writer(path, dropped);
    case SampleFormat::megatron:
      return std::make_unique<DocumentWriter>(path, dropped, tokens);
    case SampleFormat::lengths:
      break;
  }
  return std::make_unique<TableWriter>(path, dropped);
}

std::vector<std::filesystem::path> files_of(SampleFormat format, const std::filesystem::path& path) {
  if (format != SampleFormat::megatron) return {path};
  const std::string prefix = dataset_prefix(path).string();
  return {prefix + ".bin", prefix + ".idx"};
}

}  // namespace evenkeel
