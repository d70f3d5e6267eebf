#include "cli/plan/plan_input.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "io/samples/lengths_file.hpp"
#include "plan/schedule/sample_summary.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel::cli {
namespace {

/// Builds a table in which rank 0 owns all samples.
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

LengthTable read_length_entries(const InputFile& file) {
  TableBuilder builder;
  for (const FileLengths& row : read_length_table(file))
    builder.add({SampleId{0}, row.group, row.prompt, row.response});
  return std::move(builder).table();
}

bool has_tokens(const InputFile& file) {
  if (std::filesystem::path(file.path()).extension() != ".jsonl") return false;
  const LineScan scan = scan_lines(file);  // the first lines may be blank
  return !scan.lines.empty() && is_rollout(file, scan.lines.front());
}

std::vector<std::span<const std::int64_t>> split_by_sample(const RaggedBatch& samples,
                                                           std::span<const std::int64_t> of_tokens) {
  std::vector<std::span<const std::int64_t>> sequences;
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const RowRange rows = samples.rows_of(FieldKind::token, i);
    sequences.push_back(
        of_tokens.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
  }
  return sequences;
}

/// Throws InputError if samples of a group have different tokens in segments with the same number. The
/// `entries` of the group are the numbers of the samples in the file.
void require_equal_tokens(const std::string& file, const RaggedBatch& samples, const SharedGroup& group,
                          std::span<const std::span<const std::int64_t>> tokens) {
  const auto number_of_sample = [&](std::int64_t sample) {
    return group.entries[static_cast<std::size_t>(sample)].index();
  };
  const auto line_of = [&](std::int64_t sample) {
    return std::to_string(samples.samples()[number_of_sample(sample)].id.value() + 1);
  };
  for (std::int64_t sample = 0; sample < group.tree.num_samples(); ++sample) {
    for (const std::int64_t s : group.tree.path_to(group.tree.sample_end(sample))) {
      const TreeSegment& segment = group.tree.segment(s);
      const auto of_segment = [&](std::int64_t other) {
        const auto begin = static_cast<std::size_t>(segment.source().begin);
        return tokens[number_of_sample(other)].subspan(begin, static_cast<std::size_t>(segment.rows.size()));
      };
      if (std::ranges::equal(of_segment(segment.first_sample), of_segment(sample))) continue;
      throw InputError(file + ":" + line_of(sample),
                       "its tokens " + std::to_string(segment.source().begin) + " to " +
                           std::to_string(segment.source().end - 1) + " differ from those of line " +
                           line_of(segment.first_sample) +
                           ", although both have the same segment numbers there in '" +
                           std::string(segment_ids_field) + "'",
                       "Give segments with different tokens different numbers, or leave that field out");
    }
  }
}

/// Returns the schema of the file, reduced to the field that contains the samples' segment numbers.
JsonlSchema schema_of_segments(const InputFile& file, std::span<const LineRef> lines,
                               const DeclaredFormats& declared) {
  JsonlSchema schema = infer_schema(file, lines, {}, declared);
  std::erase_if(schema.fields, [](const FieldSpec& field) { return field.name != segment_ids_field; });
  schema.origins.clear();
  return schema;
}

DeclaredFormats declared_formats_of(const NamedFields& fields) {
  DeclaredFormats declared;
  for (const auto& [name, settings] : fields)
    if (settings.read_as) declared.emplace(name, *settings.read_as);
  return declared;
}

PlanInput read_token_input(const InputFile& file, PrefixSharing sharing, const NamedFields& fields,
                           std::int64_t ahead) {
  const std::vector<LineRef> lines = scan_lines(file).lines;
  const bool declares_segments =
      sharing == PrefixSharing::trees && any_has_key(file, lines, segment_ids_field);
  const DeclaredFormats formats = declares_segments ? declared_formats_of(fields) : DeclaredFormats{};
  const RaggedBatch samples = read_samples(
      file, lines, declares_segments ? schema_of_segments(file, lines, formats) : JsonlSchema{}, formats);
  TableBuilder builder;
  for (const SampleSummary& sample : summaries_for_sharing(samples))
    builder.add(sample.shape, sample.prompt_hash);
  PlanInput input{std::move(builder).table(), {}};
  if (sharing != PrefixSharing::trees) return input;
  const auto tokens = split_by_sample(samples, samples.at(input_ids_field).values<std::int64_t>());
  if (!declares_segments) {
    input.trees = prefix_trees(input.table, tokens, ahead);
    return input;
  }
  const std::vector<std::int64_t> keys = token_keys(samples, ahead);
  input.trees = prefix_trees(input.table, split_by_sample(samples, keys), 0);
  for (const SharedGroup& group : input.trees) require_equal_tokens(file.path(), samples, group, tokens);
  return input;
}

PlanInput read_document_input(const std::filesystem::path& path, PrefixSharing sharing) {
  const IndexedDataset dataset(indexed_dataset_prefix(path));
  if (sharing != PrefixSharing::none) {
    throw InputError(path.string(), "has documents without prompts, so there is nothing to share",
                     "Set prefix.share: false");
  }
  TableBuilder builder;
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d) {
    const auto group = static_cast<std::uint64_t>(d);
    builder.add({SampleId{0}, group, 0, dataset.tokens_in(dataset.document(d))});
  }
  return {std::move(builder).table(), {}};
}

/// Throws InputError if no samples share a prompt. Without tokens, prompts count as equal if their uids and
/// lengths are equal.
void require_shared_prompts(const std::string& path, const LengthTable& table) {
  for (const SharedGroup& group : prompt_groups(table)) {
    if (group.entries.size() > 1 && table[group.entries.front()].shape.prompt > 0) return;
  }
  throw InputError(
      path,
      "has no prompt that samples share, which prefix.share: true needs: no two have the same uid and "
      "the same prompt_length above 0",
      "Give the table the columns uid, prompt_length and response_length, or rollouts with their "
      "tokens (.jsonl), or set prefix.share: false");
}

PlanInput read_sample_input(const std::filesystem::path& path, PrefixSharing sharing,
                            const NamedFields& fields, std::int64_t ahead) {
  const InputFile file(path);
  if (sharing != PrefixSharing::none && has_tokens(file))
    return read_token_input(file, sharing, fields, ahead);
  if (sharing == PrefixSharing::trees) {
    throw InputError(file.path(), "has lengths but no tokens, which prefix.share: tree needs",
                     "Give rollouts with prompt_ids and response_ids (.jsonl), or set prefix.share: true, "
                     "which uses uid and prompt_length");
  }
  PlanInput input{read_length_entries(file), {}};
  if (sharing == PrefixSharing::prompts && input.table.size() > 0)
    require_shared_prompts(file.path(), input.table);
  return input;
}

}  // namespace

PlanInput read_plan_input(const std::filesystem::path& path, PrefixSharing sharing, const NamedFields& fields,
                          std::int64_t ahead) {
  print_reading_note(path.string(), std::span(&path, 1));
  PlanInput input = is_indexed_dataset_path(path) ? read_document_input(path, sharing)
                                                  : read_sample_input(path, sharing, fields, ahead);
  if (input.table.size() == 0) throw InputError(path.string(), "has no samples", "Give at least one sample");
  return input;
}

PrefixSharing most_detailed_sharing(const std::filesystem::path& path, PrefixSharing wanted) {
  if (is_indexed_dataset_path(path)) return wanted;
  return has_tokens(InputFile(path)) ? PrefixSharing::trees : wanted;
}

void read_fields_of_plan(const std::filesystem::path& path, const PlanSettings& settings,
                         LengthTable& table) {
  const auto numbers = [&](const std::string& field, const std::string& key) {
    std::vector<std::int64_t> found;
    if (!is_indexed_dataset_path(path)) found = read_integers_of_table(InputFile(path), field);
    if (std::ssize(found) == table.size()) return found;
    throw InputError(path.string(), "has no column or key '" + field + "', which " + key + " requires",
                     "Add it, with an integer of at least 0 for each sample, or change " + key);
  };
  std::vector<RowCounts> rows;
  for (const auto& [field, most] : settings.micro_batch.max_rows)
    rows.push_back({field, numbers(field, "micro_batch.max_rows")});
  const std::optional<EncoderCost>& encoder = settings.balance.encoder;
  if (encoder && !settings.micro_batch.max_rows.contains(encoder->field))
    rows.push_back({encoder->field, numbers(encoder->field, "balance.cost")});
  table.set_row_counts(std::move(rows));
  const std::optional<std::string>& cost = settings.balance.cost_field;
  if (cost) table.set_field_sums({{*cost, numbers(*cost, "balance.cost")}});
}

}  // namespace evenkeel::cli
