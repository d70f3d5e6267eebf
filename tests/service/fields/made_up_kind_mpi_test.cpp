// Moves fields of a kind that only this test defines from a file to micro-batches and back as results. The
// program knows nothing about this kind except its entry in the table of rules.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/mpi/communicator.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/samples/sample_writer.hpp"
#include "service/steps_in_all_modes.hpp"
#include "source/shared_folder.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::made_up_kind_test {
namespace {

using test::SharedFolder;
using testing_support::made_up_batch;
using testing_support::made_up_shape;

constexpr std::string_view field_name = "novelty";
constexpr FieldKind made_up_kind{field_rules.size()};

/// Adds one kind to the active rules for the lifetime of the object.
class TableWithMadeUpKind {
 public:
  TableWithMadeUpKind(RowsPer rows_per, ValueForm form) {
    std::ranges::copy(field_rules, rules_.begin());
    rules_.back() = {made_up_kind, "made_up", std::ssize(field_rules) + 1, rows_per, form};
    detail::rules_in_use = rules_;
  }
  TableWithMadeUpKind(const TableWithMadeUpKind&) = delete;
  TableWithMadeUpKind& operator=(const TableWithMadeUpKind&) = delete;
  ~TableWithMadeUpKind() { detail::rules_in_use = field_rules; }

 private:
  std::array<FieldRule, field_rules.size() + 1> rules_{};
};

RaggedBatch samples_with(const FieldSpec& field) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 29; ++id) {
    shapes.push_back(made_up_shape(id));
    shapes.back().prompt += 1;  // so that a micro-batch has a row for every response token
  }
  return made_up_batch(std::move(shapes), std::array{field});
}

/// Returns configurations that combine all modes, and one with padded micro-batches.
std::vector<Config> configs_on(int ranks) {
  std::vector<Config> configs = test::configs_for(ranks);
  Config& padded = configs.emplace_back();
  padded.mesh.cp = ranks % 2 == 0 ? 2 : 1;
  padded.micro_batch.max_tokens = 400;
  padded.micro_batch.mode = MicroBatchMode::padded;
  padded.micro_batch.length_round = 8;
  return configs;
}

/// Returns the made-up field of every micro-batch as a result, as if the trainer had computed it.
StepResults echo(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column* const field = step.micro_batches[m].tensors.find(field_name);
    if (field == nullptr) continue;  // only the last pipeline stage has it
    FieldSpec spec = field->spec();
    spec.kind = made_up_kind;  // values of response tokens have one row for each of them there
    if (!is_counted(spec.kind)) {
      results.put(m, std::move(spec), field->bytes());
      continue;
    }
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; i < field->samples().size(); ++i) counts.push_back(field->samples()[i].size());
    results.put(m, std::move(spec), counts, field->bytes());
  }
  return results;
}

void expect_round_trip(const FieldSpec& field) {
  const boost::mpi::communicator world;
  const RaggedBatch all = samples_with(field);
  const SharedFolder folder([&](const std::filesystem::path& path) {
    const auto writer = make_sample_writer(SampleFormat::safetensors, path / "a.safetensors", {});
    writer->write(all);
    writer->close();
  });
  const auto source = open_source(world, folder.source(SourceKind::safetensors, "a.safetensors"));
  std::vector<std::int64_t> positions;
  for (std::int64_t p = world.rank(); p < source->num_samples(); p += world.size()) positions.push_back(p);
  RaggedBatch mine = source->read(positions);
  ASSERT_EQ(mine.at(field_name).spec(), field);
  for (const Config& config : configs_on(world.size())) {
    DataService service(world, config);
    const Step step = service.step(mine);
    const RaggedBatch back = service.collect(step, echo(step));
    EXPECT_EQ(back.at(field_name), mine.at(field_name));
  }
}

TEST(MadeUpKind, moves_from_a_file_to_micro_batches_and_back_by_its_rule_alone) {
  for (const RowsPer rows_per :
       {RowsPer::token, RowsPer::response_token, RowsPer::sample, RowsPer::own_count}) {
    SCOPED_TRACE(static_cast<int>(rows_per));
    const TableWithMadeUpKind table(rows_per, ValueForm::numbers);
    expect_round_trip({std::string(field_name), DType::int32, made_up_kind, {2}});
  }
  const TableWithMadeUpKind table(RowsPer::own_count, ValueForm::bytes);
  expect_round_trip({std::string(field_name), DType::uint8, made_up_kind, {}});
}

}  // namespace
}  // namespace evenkeel::made_up_kind_test
