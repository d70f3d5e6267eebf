#include <fmt/format.h>

#include <iostream>
#include <set>

#include "cli/commands.hpp"
#include "cli/inspect_folder.hpp"
#include "cli/length_statistics.hpp"
#include "evenkeel/io/jsonl.hpp"
#include "evenkeel/io/length_table.hpp"
#include "evenkeel/io/safetensors.hpp"

namespace evenkeel::cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void inspect_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    std::cout << fmt::format("  {:<24} {:<9} {:<16} {} bytes\n", name, name_of(tensor.dtype),
                             shape_text(tensor.shape), tensor.bytes.size());
  }
  for (const auto& [key, value] : file.metadata()) std::cout << fmt::format("  {:<24} = {}\n", key, value);
}

// Says what fields rollouts carry; a table of lengths has none.
void inspect_fields(const std::filesystem::path& path) {
  const LineScan scan = scan_lines(path, {0, bytes_of_file(path)});
  const JsonlSchema schema = infer_schema(path, scan.lines);
  std::cout << "fields\n";
  for (const FieldSpec& field : schema.fields) {
    std::cout << fmt::format("  {:<24} {:<9} one row a {} {}\n", field.name, name_of(field.dtype),
                             name_of(field.kind), field.trailing.empty() ? "" : shape_text(field.trailing));
  }
  for (const std::string& name : schema.ignored)
    std::cout << fmt::format("  {:<24} not a number: left out\n", name);
}

bool has_tokens(const std::filesystem::path& path) {
  const LineScan scan = scan_lines(path, {0, 1});
  if (scan.lines.empty()) return false;
  try {
    (void)infer_schema(path, scan.lines);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void inspect_lengths(const std::filesystem::path& path) {
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> responses;
  std::vector<std::int64_t> totals;
  std::set<std::uint64_t> groups;
  for (const LengthRow& row : read_length_table(path)) {
    prompts.push_back(row.prompt);
    responses.push_back(row.response);
    totals.push_back(row.prompt + row.response);
    groups.insert(row.group);
  }
  std::cout << fmt::format("{} samples in {} groups\n", totals.size(), groups.size());
  std::cout << "prompt tokens\n" << length_statistics(std::move(prompts));
  std::cout << "response tokens\n" << length_statistics(std::move(responses));
  std::cout << "all tokens\n" << length_statistics(std::move(totals));
}

int inspect(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    std::cout << path.string() << '\n' << describe_run_folder(path);
    return 0;
  }
  std::cout << path.string() << '\n';
  if (path.extension() == ".safetensors") {
    inspect_safetensors(path);
    return 0;
  }
  inspect_lengths(path);
  if (path.extension() == ".jsonl" && has_tokens(path)) inspect_fields(path);
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "inspect",
      "Show what is in a file: rollouts (.jsonl), a length table (.csv, .jsonl) or a dump (.safetensors);\n"
      "of an output folder of `run`, whether its run is over and its files are all there");
  auto path = std::make_shared<std::filesystem::path>();
  command->add_option("FILE", *path, "The file or output folder to look into")->required();
  command->callback([path, &chosen] { chosen = [path] { return inspect(*path); }; });
}

}  // namespace evenkeel::cli
