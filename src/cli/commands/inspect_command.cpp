#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "buffer/server.hpp"
#include "cli/commands/commands.hpp"
#include "cli/inspect/inspect.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "io/samples/lengths_file.hpp"
#include "io/samples/sample_tensors.hpp"
#include "source/dump/dump_schema.hpp"
#include "source/files/input_files.hpp"
#include "source/files/schema_agreement.hpp"

namespace evenkeel::cli {
namespace {

void show(const TextTable& table) {
  std::cout << table.to_text();
}

std::string row_kind_text(const JsonlSchema& schema, const FieldSpec& field) {
  const bool is_open = schema.kind_open.contains(field.name);
  return std::string(name_of(field.kind)) + (is_open ? ", since all prompts are empty" : "");
}

void show_fields(const JsonlSchema& schema) {
  const std::vector<FieldSpec>& fields = schema.fields;
  const bool any_shape =
      !std::ranges::all_of(fields, &std::vector<std::int64_t>::empty, &FieldSpec::trailing);
  TextTable table({{"field"}, {"dtype"}, {"one row per"}, {any_shape ? "row shape" : ""}});
  for (const FieldSpec& field : fields) {
    table.add({printable(field.name), std::string(name_of(field.dtype)), row_kind_text(schema, field),
               field.trailing.empty() ? "" : shape_text(field.trailing)});
  }
  show(table);
}

void show_ignored_fields(const JsonlSchema& schema) {
  TextTable table({{"left out"}, {"why"}});
  for (const auto& [name, reasons] : schema.ignored)
    table.add({printable(name), describe_skip_reasons(reasons)});
  show(table);
}

/// Collects the lengths of samples, and shows statistics of prompts, responses and whole samples.
class Lengths {
 public:
  void add(std::int64_t prompt, std::int64_t response, std::uint64_t group) {
    prompts_.push_back(prompt);
    responses_.push_back(response);
    totals_.push_back(prompt + response);
    groups_.insert(group);
  }

  void show() && {
    std::cout << format_count(std::ssize(totals_), "sample") << " in "
              << format_count(std::ssize(groups_), "group") << '\n';
    std::cout << "prompt tokens\n" << length_statistics(std::move(prompts_));
    std::cout << "response tokens\n" << length_statistics(std::move(responses_));
    std::cout << "all tokens\n" << length_statistics(std::move(totals_));
  }

  [[nodiscard]] bool empty() const { return totals_.empty(); }

 private:
  std::vector<std::int64_t> prompts_;
  std::vector<std::int64_t> responses_;
  std::vector<std::int64_t> totals_;
  std::set<std::uint64_t> groups_;
};

void require_samples(bool any, const InputFile& file) {
  if (!any) throw InputError(file.path(), "has no samples", "Name a file with at least one sample");
}

/// Reads every sample in blocks, as a job does, so it rejects everything that a job would reject.
void inspect_rollouts(const LineFiles& file, std::span<const LineRef> lines, const DeclaredFormats& declared,
                      const std::string& name) {
  constexpr std::size_t lines_at_once = 256;
  const JsonlSchema schema = infer_schema(file, lines, {}, declared);
  require_declared_fields(schema, declared, name);
  require_valid_fields(schema, file.names());
  Lengths lengths;
  while (!lines.empty()) {
    const std::span<const LineRef> block = lines.first(std::min(lines.size(), lines_at_once));
    const RaggedBatch batch = read_samples(file, block, schema, declared);
    for (const SampleShape& sample : batch.samples())
      lengths.add(sample.prompt, sample.response, sample.group);
    lines = lines.subspan(block.size());
  }
  std::move(lengths).show();
  if (!schema.fields.empty()) show_fields(schema);
  if (!schema.ignored.empty()) show_ignored_fields(schema);
}

void inspect_length_table(const InputFile& file) {
  Lengths lengths;
  for (const FileLengths& row : read_length_table(file)) lengths.add(row.prompt, row.response, row.group);
  require_samples(!lengths.empty(), file);
  std::move(lengths).show();
}

void inspect_dataset(const std::filesystem::path& path) {
  const IndexedDataset dataset(indexed_dataset_prefix(path));
  std::cout << format_count(dataset.num_documents(), "document") << " of "
            << format_count(dataset.num_sequences(), "sequence") << " of " << name_of(dataset.dtype())
            << (dataset.has_modes() ? ", with modes\n" : "\n");
  std::vector<std::int64_t> lengths;
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d)
    lengths.push_back(dataset.tokens_in(dataset.document(d)));
  if (lengths.empty()) return;
  std::cout << "tokens of a document\n" << length_statistics(std::move(lengths));
}

/// Shows the fields of samples in tensors, and which tensors are ignored.
void show_fields(const SampleTensors& samples) {
  TextTable fields({{"field"}, {"dtype"}, {"one row per"}, {"row shape"}});
  for (const FieldSpec& field : samples.fields()) {
    const bool is_open = std::ranges::count(samples.undecided_fields(), field.name) > 0;
    fields.add({printable(field.name), std::string(name_of(field.dtype)),
                std::string(name_of(field.kind)) + (is_open ? ", since all prompts are empty" : ""),
                field.trailing.empty() ? "" : shape_text(field.trailing)});
  }
  if (!samples.fields().empty()) show(fields);
  TextTable left_out({{"left out"}, {"why"}});
  for (const auto& [name, why] : samples.ignored_content()) left_out.add({printable(name), printable(why)});
  if (!samples.ignored_content().empty()) show(left_out);
}

/// Shows the lengths and fields of samples. Reads every sample, so it rejects everything that a job would
/// reject.
void inspect_samples(const SampleTensors& samples) {
  std::cout << (samples.is_padded() ? "padded samples, with a mask\n"
                                    : "ragged samples: values and offsets\n");
  Lengths lengths;
  TensorPlace place;
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < samples.num_samples(); ++i) {
    const TensorSample sample = samples.lengths({i, i + 1}).front();
    const std::int64_t tokens = sample.prompt + sample.response;
    lengths.add(sample.prompt, sample.response, group_of(samples.uid_of(i), i));
    std::vector<std::size_t> ends{static_cast<std::size_t>(tokens) * sizeof(std::int64_t)};
    for (std::size_t f = 0; f < samples.fields().size(); ++f) {
      const FieldSpec& field = samples.fields()[f];
      const std::int64_t rows = is_counted(field.kind) ? samples.num_counted_rows(f, i)
                                                       : field.rule().rows_of(sample.prompt, sample.response);
      ends.push_back(ends.back() + static_cast<std::size_t>(rows) * field.row_bytes());
    }
    bytes.resize(ends.back());
    std::vector<std::span<std::byte>> out;
    for (std::size_t f = 0; f < ends.size(); ++f) {
      const std::size_t begin = f == 0 ? 0 : ends[f - 1];
      out.push_back(std::span(bytes).subspan(begin, ends[f] - begin));
    }
    samples.read(i, sample, place, out);
    place.token += tokens;
    place.response += sample.response;
  }
  if (!lengths.empty()) std::move(lengths).show();
  show_fields(samples);
}

/// Returns the text to show for a value of the metadata. The schema of a dump is long and meant for programs,
/// so only its step and the number of the micro-batch are shown.
std::string metadata_text(const TensorFile& file, const std::string& key, const std::string& value) {
  if (key != DumpSchema::metadata_name) return printable(value);
  const DumpSchema schema = parse_dump_schema(file);
  return fmt::format("micro-batch {} of {} of step {}", schema.micro_batch, schema.micro_batches,
                     schema.step);
}

void show_tensors(const TensorFile& file) {
  TextTable tensors({{"tensor"}, {"dtype"}, {"shape"}, {"bytes", TextTable::Align::right}});
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string bytes = tensor.dtype ? std::to_string(tensor.rows() * row_elements(tensor) *
                                                            static_cast<std::int64_t>(size_of(*tensor.dtype)))
                                           : "";
    // Shows the name that Evenkeel uses for a safetensors dtype such as I64. A stored dtype without a DType
    // is shown unchanged.
    const bool is_word = std::ranges::none_of(tensor.stored, [](char c) { return 'a' <= c && c <= 'z'; });
    tensors.add({printable(tensor.name),
                 is_word && tensor.dtype ? std::string(name_of(*tensor.dtype)) : tensor.stored,
                 shape_text(tensor.shape), bytes});
  }
  show(tensors);
  if (file.metadata().empty()) return;
  TextTable metadata({{"metadata"}, {"value"}});
  for (const auto& [key, value] : file.metadata())
    metadata.add({printable(key), metadata_text(file, key, value)});
  show(metadata);
}

/// Lists the tensors. If they contain samples, also shows the samples.
void inspect_tensors(std::unique_ptr<const TensorFile> file) {
  show_tensors(*file);
  const bool is_of_a_dump = file->find("cu_seqlens_padded").has_value();
  const bool has_tokens = file->find(input_ids_field) || file->find(tensor_names::tokens);
  if (is_of_a_dump || !has_tokens) return;
  if (file->tensors().size() == 1) {
    std::cout << "no samples: the file does not specify where they begin and end\n";
    return;
  }
  inspect_samples(SampleTensors(std::move(file)));
}

/// Inspects a file with a known extension. Returns false for any other file.
bool inspect_by_extension(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors") {
    inspect_tensors(std::make_unique<TensorFile>(path));
  } else if (is_indexed_dataset_path(path)) {
    inspect_dataset(path);
  } else {
    return false;
  }
  return true;
}

struct InspectOptions {
  std::filesystem::path path;
  DeclaredFormats declared;
  std::filesystem::path token_file;
};

/// Returns whether a name belongs to a JSON Lines file, compressed or not.
bool has_lines_extension(std::filesystem::path name) {
  if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
  return name.extension() == ".jsonl";
}

[[noreturn]] void reject_read_as(const std::filesystem::path& path) {
  throw ConfigError(
      "--read-as",
      "declares formats of rollouts in JSON lines, but " + printable(path.string()) + " has none",
      "Leave it out");
}

void inspect_folder(const std::filesystem::path& path) {
  std::cout << printable(path.string()) << '\n';
  if (has_state(path)) {
    std::cout << explain_state_in(path);
  } else {
    std::cout << describe_run_folder(path) << report_text_in(path);
  }
}

void inspect_lines(const InputFile& file, const DeclaredFormats& declared) {
  const std::vector<LineRef> lines = scan_lines(file).lines;
  require_samples(!lines.empty(), file);
  if (is_rollout(file, lines.front())) {
    inspect_rollouts(file, lines, declared, file.path());
    return;
  }
  if (!declared.empty()) reject_read_as(file.path());
  inspect_length_table(file);
}

/// Inspects rollouts in several files. A job would read these files as one source.
void inspect_files_of_lines(const std::vector<std::filesystem::path>& paths, const DeclaredFormats& declared,
                            const std::string& pattern) {
  std::vector<std::unique_ptr<const InputFile>> files;
  std::vector<std::int64_t> first_lines;
  std::vector<LineRef> lines;
  std::int64_t before = 0;
  for (const std::filesystem::path& path : paths) {
    files.push_back(unpack_file(std::make_unique<const InputFile>(path)));
    first_lines.push_back(before);
    const LineScan found = scan_lines(*files.back());
    for (LineRef line : found.lines) {
      line.number += before;
      lines.push_back(line);
    }
    before += found.num_lines;
  }
  if (lines.empty()) throw InputError(pattern, "has no samples", "Name files with at least one sample");
  inspect_rollouts(LineFiles(file_pointers(files), std::move(first_lines)), lines, declared, pattern);
}

void require_csv_extension(std::filesystem::path path) {
  const std::string name = path.string();
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  if (path.extension() == ".csv") return;
  throw InputError(
      name, "has a name that does not imply what kind of file it is",
      "Name a file of rollouts or lengths (.jsonl, .csv; also .gz and .zst), samples or tensors "
      "(.safetensors), a Megatron dataset (.bin, .idx), or a state (.json), or the folder of a run");
}

/// Returns whether a JSON file begins with a complete rollout on its first line, so that it contains JSON
/// Lines and not a state.
bool has_rollouts(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::vector<LineRef> lines = scan_lines(file).lines;
  try {
    return !lines.empty() && is_rollout(file, lines.front());
  } catch (const InputError&) {
    return false;
  }
}

void inspect_file(const std::filesystem::path& path, const DeclaredFormats& declared) {
  std::error_code unknown;  // errors are reported when the file is opened
  if (std::filesystem::is_directory(path, unknown)) {
    inspect_folder(path);
    return;
  }
  if (path.filename() == "report.json" || path.filename() == "metrics.jsonl") {
    throw InputError(path.string(), "belongs to a run and is meant for programs",
                     "Give its folder, where report.txt has a readable version once the run is over");
  }
  std::cout << printable(path.string()) << '\n';
  if (path.extension() == ".json" && !has_rollouts(path)) {
    std::cout << explain_state(path);
    return;
  }
  print_reading_note(path.string(), std::span(&path, 1));
  if (inspect_by_extension(path)) return;
  const auto file = unpack_file(std::make_unique<const InputFile>(path));
  if (has_lines_extension(path) || path.extension() == ".json") {
    inspect_lines(*file, declared);
  } else {
    require_csv_extension(path);
    inspect_length_table(*file);
  }
}

/// Inspects the files that match a pattern, as a job reads them: JSON Lines as one source, other files one by
/// one.
void inspect_files(const std::vector<std::filesystem::path>& paths, const InspectOptions& options) {
  const std::string pattern = options.path.string();
  print_reading_note(pattern, paths);
  if (std::ranges::all_of(paths, has_lines_extension)) {
    std::cout << printable(pattern) << '\n' << format_count(std::ssize(paths), "file") << '\n';
    inspect_files_of_lines(paths, options.declared, pattern);
    return;
  }
  for (const std::filesystem::path& path : paths) {
    if (path != paths.front()) std::cout << '\n';
    inspect_file(path, options.declared);
  }
}

int inspect(const InspectOptions& options) {
  if (!options.declared.empty() && !has_lines_extension(options.path)) {
    throw ConfigError("--read-as",
                      "declares formats of rollouts in JSON lines, but " + printable(options.path.string()) +
                          " does not end in .jsonl, .jsonl.gz or .jsonl.zst",
                      "Leave it out, or rename the file");
  }
  const std::string place = options.path.string();
  if (!options.token_file.empty() && !is_url(place))
    throw ConfigError("--token-file", "can only be used with the address of a buffer", "Leave it out");
  if (is_buffer(place)) {
    const std::string token = options.token_file.empty() ? "" : read_token(options.token_file);
    const std::string text = explain_buffer(place, token);
    std::cout << printable(place) << '\n' << text;
    return 0;
  }
  const std::vector<std::filesystem::path> paths = files_matching(options.path);
  if (paths.size() != 1 || paths.front() != options.path) {
    inspect_files(paths, options);
  } else {
    inspect_file(options.path, options.declared);
  }
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "inspect",
      "Show what is in a file: rollouts (.jsonl, also .gz and .zst), a length table (.csv, .jsonl), an "
      "indexed dataset (.idx, .bin), tensors (.safetensors) and their samples, or a "
      "job's state; for a buffer, by its address or its folder, what became of its samples; for an output "
      "folder of `run`: whether the run has ended, whether all its files exist, "
      "and "
      "its report or state");
  auto options = std::make_shared<InspectOptions>();
  command->add_option("FILE", options->path, "The file, folder or address to show, or a quoted pattern")
      ->required();
  add_read_as_option(*command, options->declared);
  command
      ->add_option("--token-file", options->token_file,
                   "A file with the token that the buffer's server requires")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  evenkeel inspect rollouts.jsonl\n"
      "  evenkeel inspect 'rollouts/*.jsonl.gz'\n"
      "  evenkeel inspect rollouts.jsonl --read-as position_ids=axes,data_source=text\n"
      "  evenkeel inspect dump/step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors\n"
      "  evenkeel inspect dump\n"
      "  evenkeel inspect report\n"
      "  evenkeel inspect http://127.0.0.1:8710");
  command->callback([options, &chosen] { chosen = [options] { return inspect(*options); }; });
}

}  // namespace evenkeel::cli
