#include "cli/plan/plan_input.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/inspect/reading_note.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "io/samples/lengths_file.hpp"
#include "plan/schedule/sample_summary.hpp"

namespace evenkeel::cli {
namespace {

/// Every sample in a table, owned by rank 0.
class TableBuilder {
 public:
  void add(SampleShape shape, std::uint64_t prompt_hash = 0) {
    const std::int64_t number = std::ssize(entries_);
    shape.id = SampleId{number};
    LengthEntry& entry = entries_.emplace_back();
    entry.shape = shape;
    entry.owner_index = static_cast<std::int32_t>(number);
    entry.prompt_hash = prompt_hash;
  }
  [[nodiscard]] LengthTable table() && { return LengthTable(std::move(entries_)); }

 private:
  std::vector<LengthEntry> entries_;
};

LengthTable table_of_lengths(const InputFile& file) {
  TableBuilder builder;
  for (const FileLengths& row : read_length_table(file))
    builder.add({SampleId{0}, row.group, row.prompt, row.response});
  return std::move(builder).table();
}

bool has_tokens(const InputFile& file) {
  if (std::filesystem::path(file.path()).extension() != ".jsonl") return false;
  const LineScan scan = scan_lines(file, {0, 1});
  return !scan.lines.empty() && is_rollout(file, scan.lines.front());
}

std::vector<SharedGroup> trees_of(const LengthTable& table, const RaggedBatch& samples) {
  const auto tokens = samples.at(input_ids_field).values<std::int64_t>();
  std::vector<std::span<const std::int64_t>> sequences;
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const RowRange rows = samples.rows_of(FieldKind::token, i);
    sequences.push_back(
        tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
  }
  return prefix_trees(table, sequences);
}

PlanInput input_with_tokens(const InputFile& file, PrefixSharing sharing) {
  const RaggedBatch samples = read_samples(file, scan_lines(file).lines, {});
  TableBuilder builder;
  for (const SampleSummary& sample : summaries_for_sharing(samples))
    builder.add(sample.shape, sample.prompt_hash);
  PlanInput input{std::move(builder).table(), {}};
  if (sharing == PrefixSharing::trees) input.trees = trees_of(input.table, samples);
  return input;
}

PlanInput input_of_documents(const std::filesystem::path& path, PrefixSharing sharing) {
  const IndexedDataset dataset(dataset_prefix(path));
  if (sharing != PrefixSharing::none) {
    throw InputError(path.string(), "has documents without prompts, so they share none",
                     "Set prefix.share: false");
  }
  TableBuilder builder;
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d) {
    const auto group = static_cast<std::uint64_t>(d);
    builder.add({SampleId{0}, group, 0, dataset.tokens_in(dataset.document(d))});
  }
  return {std::move(builder).table(), {}};
}

/// Lengths tell a shared prompt by its uid and its length.
void require_shared_prompts(const std::string& path, const LengthTable& table) {
  for (const SharedGroup& group : prompt_groups(table)) {
    if (group.entries.size() > 1 && table[group.entries.front()].shape.prompt > 0) return;
  }
  throw InputError(
      path,
      "has no prompt that samples share, which prefix.share: true needs: no two have the same uid and "
      "prompt_length",
      "Give the table the columns uid, prompt_length and response_length, or rollouts with their "
      "tokens (.jsonl), or set prefix.share: false");
}

PlanInput input_of_samples(const std::filesystem::path& path, PrefixSharing sharing) {
  const InputFile file(path);
  if (sharing != PrefixSharing::none && has_tokens(file)) return input_with_tokens(file, sharing);
  if (sharing == PrefixSharing::trees) {
    throw InputError(file.path(), "has lengths and no tokens, and prefix.share: tree needs tokens",
                     "Give rollouts with prompt_ids and response_ids (.jsonl), or set prefix.share: true, "
                     "which uses uid and prompt_length");
  }
  PlanInput input{table_of_lengths(file), {}};
  if (sharing == PrefixSharing::prompts && input.table.size() > 0)
    require_shared_prompts(file.path(), input.table);
  return input;
}

}  // namespace

PlanInput read_plan_input(const std::filesystem::path& path, PrefixSharing sharing) {
  note_reading(path.string(), std::span(&path, 1));
  PlanInput input =
      names_dataset_file(path) ? input_of_documents(path, sharing) : input_of_samples(path, sharing);
  if (input.table.size() == 0) throw InputError(path.string(), "has no samples", "A plan needs at least one");
  return input;
}

PrefixSharing all_sharing_told(const std::filesystem::path& path, PrefixSharing wanted) {
  if (names_dataset_file(path)) return wanted;
  return has_tokens(InputFile(path)) ? PrefixSharing::trees : wanted;
}

void read_fields_of_plan(const std::filesystem::path& path, const PlanSettings& settings,
                         LengthTable& table) {
  const auto numbers = [&](const std::string& field, const std::string& key) {
    std::vector<std::int64_t> found;
    if (!names_dataset_file(path)) found = read_integers_of_table(InputFile(path), field);
    if (std::ssize(found) == table.size()) return found;
    throw InputError(path.string(), "has no numbers of '" + field + "', which " + key + " names",
                     "Add a column or key of that name with a number for each sample, or plan without it");
  };
  std::vector<RowCounts> rows;
  for (const auto& [field, most] : settings.micro_batch.max_rows)
    rows.push_back({field, numbers(field, "micro_batch.max_rows")});
  table.set_row_counts(std::move(rows));
  const std::optional<std::string>& cost = settings.balance.cost_field;
  if (cost) table.set_field_sums({{*cost, numbers(*cost, "balance.cost")}});
}

}  // namespace evenkeel::cli
