#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "cli/inspect_folder.hpp"
#include "cli/inspect_report.hpp"
#include "cli/length_statistics.hpp"
#include "cli/slow_work.hpp"
#include "cli/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "io/indexed_dataset.hpp"
#include "io/jsonl.hpp"
#include "io/lengths_file.hpp"
#include "io/safetensors.hpp"
#include "source/schema_agreement.hpp"

namespace evenkeel::cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void show(const TextTable& table) {
  std::cout << table.to_text(style_of(Stream::out).width);
}

void inspect_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  TextTable tensors({{"tensor"}, {"dtype"}, {"shape"}, {"bytes", TextTable::Align::right}});
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    tensors.add({printable(name), std::string(name_of(tensor.dtype)), shape_text(tensor.shape),
                 std::to_string(tensor.bytes.size())});
  }
  show(tensors);
  if (file.metadata().empty()) return;
  TextTable metadata({{"metadata"}, {"value"}});
  for (const auto& [key, value] : file.metadata()) metadata.add({printable(key), printable(value)});
  show(metadata);
}

std::string rows_text(const JsonlSchema& schema, const FieldSpec& field) {
  const bool is_open = schema.kind_open.contains(field.name);
  return std::string(name_of(field.kind)) + (is_open ? ", as all prompts are empty" : "");
}

void show_fields(const JsonlSchema& schema) {
  const std::vector<FieldSpec>& fields = schema.fields;
  const bool any_shape =
      !std::ranges::all_of(fields, &std::vector<std::int64_t>::empty, &FieldSpec::trailing);
  TextTable table({{"field"}, {"dtype"}, {"one row a"}, {any_shape ? "row shape" : ""}});
  for (const FieldSpec& field : fields) {
    table.add({printable(field.name), std::string(name_of(field.dtype)), rows_text(schema, field),
               field.trailing.empty() ? "" : shape_text(field.trailing)});
  }
  show(table);
}

void show_left_out(const JsonlSchema& schema) {
  TextTable table({{"left out"}, {"why"}});
  for (const auto& [name, reasons] : schema.ignored) table.add({printable(name), words_for(reasons)});
  show(table);
}

/// The lengths of samples, one after the other, in the three ways that are shown.
class Lengths {
 public:
  void add(std::int64_t prompt, std::int64_t response, std::uint64_t group) {
    prompts_.push_back(prompt);
    responses_.push_back(response);
    totals_.push_back(prompt + response);
    groups_.insert(group);
  }

  void show() && {
    const std::size_t width = style_of(Stream::out).width;
    std::cout << counted(std::ssize(totals_), "sample") << " in " << counted(std::ssize(groups_), "group")
              << '\n';
    std::cout << "prompt tokens\n" << length_statistics(std::move(prompts_), width);
    std::cout << "response tokens\n" << length_statistics(std::move(responses_), width);
    std::cout << "all tokens\n" << length_statistics(std::move(totals_), width);
  }

  [[nodiscard]] bool empty() const { return totals_.empty(); }

 private:
  std::vector<std::int64_t> prompts_;
  std::vector<std::int64_t> responses_;
  std::vector<std::int64_t> totals_;
  std::set<std::uint64_t> groups_;
};

void require_samples(bool any, const InputFile& file) {
  if (!any) throw InputError(file.path(), "has no samples");
}

/// Reads every sample, a block at a time, as a job does, so that whatever a job refuses is refused here.
void inspect_rollouts(const InputFile& file, std::span<const LineRef> lines) {
  constexpr std::size_t lines_at_once = 256;
  const JsonlSchema schema = infer_schema(file, lines);
  require_valid_fields(schema, file.path());
  Lengths lengths;
  while (!lines.empty()) {
    const std::span<const LineRef> block = lines.first(std::min(lines.size(), lines_at_once));
    const RaggedBatch batch = read_samples(file, block, schema);
    for (const SampleShape& sample : batch.samples())
      lengths.add(sample.prompt, sample.response, sample.group);
    lines = lines.subspan(block.size());
  }
  std::move(lengths).show();
  if (!schema.fields.empty()) show_fields(schema);
  if (!schema.ignored.empty()) show_left_out(schema);
}

void inspect_length_table(const InputFile& file) {
  Lengths lengths;
  for (const FileLengths& row : read_length_table(file)) lengths.add(row.prompt, row.response, row.group);
  require_samples(!lengths.empty(), file);
  std::move(lengths).show();
}

void inspect_dataset(const std::filesystem::path& path) {
  const IndexedDataset dataset(dataset_prefix(path));
  std::cout << counted(dataset.num_documents(), "document") << " of "
            << counted(dataset.num_sequences(), "sequence") << " of " << name_of(dataset.dtype())
            << (dataset.has_modes() ? ", with modes\n" : "\n");
  std::vector<std::int64_t> lengths;
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d)
    lengths.push_back(dataset.tokens_in(dataset.document(d)));
  if (lengths.empty()) return;
  std::cout << "tokens of a document\n" << length_statistics(std::move(lengths), style_of(Stream::out).width);
}

int inspect(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    const std::size_t width = style_of(Stream::out).width;
    std::cout << printable(path.string()) << '\n' << describe_run_folder(path, width);
    std::cout << explain_report_in(path, width);
    return 0;
  }
  std::cout << printable(path.string()) << '\n';
  if (path.extension() == ".json" || names_metrics(path)) {
    std::cout << explain_report(path, style_of(Stream::out).width);
    return 0;
  }
  if (path.extension() == ".safetensors") {
    inspect_safetensors(path);
    return 0;
  }
  const SlowWork slow(reading(path.string()), tell_note);
  if (names_dataset_file(path)) {
    inspect_dataset(path);
    return 0;
  }
  const InputFile file(path);
  if (path.extension() != ".jsonl") {
    inspect_length_table(file);
    return 0;
  }
  const std::vector<LineRef> lines = scan_lines(file).lines;
  require_samples(!lines.empty(), file);
  if (is_rollout(file, lines.front())) {
    inspect_rollouts(file, lines);
  } else {
    inspect_length_table(file);
  }
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "inspect",
      "Show what is in a file: rollouts (.jsonl), a length table (.csv, .jsonl), an indexed dataset "
      "(.idx, .bin), a dump (.safetensors) or a report (report.json, metrics.jsonl); of an output folder of "
      "`run`, whether its run is over, its files are all there, and what its report says");
  auto path = std::make_shared<std::filesystem::path>();
  command->add_option("FILE", *path, "The file or output folder to look into")->required();
  command->footer(
      "Examples:\n"
      "  evenkeel inspect rollouts.jsonl\n"
      "  evenkeel inspect dump/step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors\n"
      "  evenkeel inspect dump\n"
      "  evenkeel inspect report/metrics.jsonl");
  command->callback([path, &chosen] { chosen = [path] { return inspect(*path); }; });
}

}  // namespace evenkeel::cli
