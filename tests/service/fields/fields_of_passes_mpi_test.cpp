#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/carried_samples.hpp"

// Tests fields that only passes with some profiles need: other passes do not receive them, no matter what
// else they do with a step. Also tests their purpose: an encoder whose work is distributed differently from
// the model's.

namespace evenkeel::fields_of_passes_test {
namespace {

using testing::HasSubstr;
using testing_support::Carried;
using testing_support::carried_batch;
using testing_support::carried_fields_added_later;
using testing_support::carried_fields_of_every_way;
using testing_support::carried_shape;
using testing_support::expect_carried;
using testing_support::settings_of;
using testing_support::Stage;

constexpr std::int64_t num_passed_over = 26;

/// Some ranks have no samples.
std::vector<SampleShape> own_shapes(const boost::mpi::communicator& world) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_passed_over; ++id)
    if (id * id % world.size() == world.rank()) shapes.push_back(carried_shape(id));
  return shapes;
}

/// Passes with the same assignment and split, one with larger micro-batches, and one with a different split.
const std::vector<std::string> names_of_profiles{"same", "wide", "apart"};

Config job_of(int tp, int cp, int pp, PrefixSharing sharing) {
  Config config;
  config.mesh.tp = tp;
  config.mesh.cp = cp;
  config.mesh.pp = pp;
  config.prefix = sharing;
  config.micro_batch.max_tokens = 96;
  for (const std::string& name : names_of_profiles) config.profiles[name] = config.profile({});
  config.profiles["wide"].micro_batch.max_tokens = 256;
  config.profiles["apart"].pack.cp_layout = CpLayout::contiguous;
  config.profiles["apart"].pack.pad_token = 9;
  return config;
}

/// Returns a job with groups of all sizes. Communication is so expensive that groups are as small as
/// possible.
Config flexible_job_of(int ranks) {
  Config config = job_of(1, 1, 1, PrefixSharing::none);
  config.mesh.flexible_cp = true;
  config.balance.strategy = Strategy::hierarchical;
  config.balance.cost = CostModel{100, 1};
  config.balance.communication = {300, 300, 8, 0};
  config.micro_batch.max_tokens_per_rank = ranks == 1 ? 36 : 18;
  for (const std::string& name : names_of_profiles) config.profiles[name] = config.profile({});
  *config.profiles["wide"].micro_batch.max_tokens_per_rank *= 4;
  config.profiles["apart"].pack.cp_layout = CpLayout::contiguous;
  return config;
}

std::vector<Config> jobs(int ranks) {
  std::vector<Config> jobs;
  for (const auto& [tp, cp, pp] : {std::tuple{1, 1, 1}, {2, 1, 2}, {1, 2, 2}, {1, 3, 1}, {1, 7, 1}}) {
    if (ranks % (tp * cp * pp) != 0) continue;
    jobs.push_back(job_of(tp, cp, pp, PrefixSharing::none));
    jobs.push_back(job_of(tp, cp, pp, PrefixSharing::prompts));
  }
  jobs.push_back(flexible_job_of(ranks));
  return jobs;
}

/// Returns the same fields, each needed by randomly chosen profiles or by all passes.
std::vector<Carried> for_some_profiles(std::vector<Carried> fields, std::mt19937& dice) {
  for (Carried& field : fields) {
    if (field.name() == position_ids_field) continue;
    for (const std::string& name : names_of_profiles)
      if (dice() % 2 == 0) field.settings.profiles.push_back(name);
  }
  return fields;
}

bool is_for(const Carried& field, const std::string& profile) {
  const std::vector<std::string>& profiles = field.settings.profiles;
  return profiles.empty() || std::ranges::find(profiles, profile) != profiles.end();
}

/// Requires that a pass has the fields that it is sent, and no others.
void expect_sent(const Step& step, const std::vector<Carried>& fields, const Stage& here) {
  std::vector<Carried> sent;
  for (const Carried& field : fields)
    if (is_for(field, step.profile)) sent.push_back(field);
  for (const MicroBatch& m : step.micro_batches) {
    expect_carried(m.tensors, sent, here);
    for (const Carried& field : fields) {
      if (!is_for(field, step.profile)) {
        EXPECT_EQ(m.tensors.find(field.name()), nullptr) << field.name() << " under " << step.profile;
      }
    }
  }
  for (const FieldVolume& volume : step.record->volumes) {
    const auto field = std::ranges::find(fields, volume.name, &Carried::name);
    EXPECT_TRUE(field == fields.end() || is_for(*field, step.profile)) << volume.name;
  }
}

TEST(FieldsOfPasses, are_sent_only_under_their_profiles_in_any_order_of_passes) {
  const boost::mpi::communicator world;
  std::mt19937 dice(11);  // equal on all ranks
  for (Config config : jobs(world.size())) {
    for (int round = 0; round < 4; ++round) {
      std::vector<Carried> fields = for_some_profiles(carried_fields_of_every_way(), dice);
      const std::vector<Carried> late = for_some_profiles(carried_fields_added_later(), dice);
      config.fields = settings_of(fields);
      config.fields.merge(settings_of(late));
      DataService service(world, config);
      const Stage here{service.mesh().here().pp, config.mesh.pp, config.mesh.vpp};
      Step step = service.step(carried_batch(own_shapes(world), fields), names_of_profiles[dice() % 3]);
      expect_sent(step, fields, here);
      for (int pass = 0; pass < 5; ++pass) {
        RaggedBatch added;
        if (pass == 1) {
          added = carried_batch(own_shapes(world), late, /*with_tokens=*/false);
          fields.insert(fields.end(), late.begin(), late.end());
        }
        const std::string profile = dice() % 4 == 0 ? "" : names_of_profiles[dice() % 3];
        step = service.step(std::move(step), profile, added);
        expect_sent(step, fields, here);
      }
      if (boost::mpi::all_reduce(world, testing::Test::HasFailure() ? 1 : 0, boost::mpi::maximum<int>()) > 0)
        return;  // one failed job is informative enough, and all ranks stop at it
    }
  }
}

TEST(FieldsOfPasses, unused_in_the_next_pass_are_removed_without_moving_bytes) {
  const boost::mpi::communicator world;
  Config config = job_of(1, 1, 1, PrefixSharing::none);
  std::vector<Carried> fields = carried_fields_of_every_way();
  for (Carried& field : fields)
    if (field.name() == "experts" || field.name() == "patches") field.settings.profiles = {"same"};
  config.fields = settings_of(fields);
  DataService service(world, config);
  Step step = service.step(carried_batch(own_shapes(world), fields), "same");
  for (const char* profile : {"", "wide"}) {
    step = service.step(std::move(step), profile);
    EXPECT_EQ(step.volume, ExchangeVolume{}) << profile;
    expect_sent(step, fields, {});
  }
  // Samples are sent again, because this pass needs fields that the previous one did not have.
  step = service.step(std::move(step), "same");
  const auto moved = boost::mpi::all_reduce(world, step.volume.sent + step.volume.kept, std::plus<>());
  EXPECT_GT(moved, 0);
  expect_sent(step, fields, {});
}

TEST(FieldsOfPasses, unknown_profiles_and_separated_cutting_fields_are_refused) {
  const boost::mpi::communicator world;
  Config config = job_of(1, 1, 1, PrefixSharing::none);
  config.fields["patches"].profiles = {"same", "encoder"};
  try {
    DataService service(world, config);
    ADD_FAILURE() << "there is no such profile";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "fields.patches.profiles");
    EXPECT_THAT(error.what(), HasSubstr("there is no profile 'encoder'"));
  }
  config.fields["patches"].profiles = {"same"};
  config.fields["patches"].cut_by = "spans";
  DataService service(world, config);
  RaggedBatch mine = carried_batch(own_shapes(world), {});
  std::vector<std::int64_t> none(static_cast<std::size_t>(mine.size()));
  for (const char* name : {"patches", "spans"})
    mine.add_field(Column({name, DType::int64, FieldKind::rows, {2}}, SampleRows::from_counts(none)));
  try {
    (void)service.step(std::move(mine), "same");
    ADD_FAILURE() << "one of the two would be sent alone";
  } catch (const InputError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("field 'spans': is named by fields.patches.cut_by, but the two fields have different"));
  }
}

/// Returns the number of patches of a sample: a few samples have most of them.
std::int64_t pixels_of(SampleId id) {
  return 4 * (id.value() % 5 == 0 ? 6 + id.value() % 3 : id.value() % 2);
}
float pixel_at(SampleId id, std::int64_t patch) {
  return static_cast<float>(100 * id.value() + patch);
}
/// Returns the value of an embedding, which is computed from four patches.
float embedding_of(SampleId id, std::int64_t row) {
  return pixel_at(id, 4 * row) + pixel_at(id, 4 * row + 3);
}

Config with_encoder(int cp, int pp) {
  Config config;
  config.mesh.cp = cp;
  config.mesh.pp = pp;
  config.micro_batch.max_tokens = 64;
  config.profiles["encoder"] = config.profile({});
  config.profiles["model"] = config.profile({});
  // The pass of an encoder comes first; compared with its work, the model's is small.
  config.profiles["encoder"].balance.encoder = EncoderCost{"patches", 1000, 0};
  config.fields["patches"].profiles = {"encoder"};
  config.fields["embeddings"].profiles = {"model"};
  config.fields["embeddings"].stage = FieldStages::first;
  config.fields["gradients"].profiles = {"encoder"};
  return config;
}

RaggedBatch with_patches(std::vector<SampleShape> shapes) {
  RaggedBatch batch = carried_batch(std::move(shapes), {});
  std::vector<std::int64_t> counts;
  for (const SampleShape& sample : batch.samples()) counts.push_back(pixels_of(sample.id));
  Column patches({"patches", DType::float32, FieldKind::rows, {}}, SampleRows::from_counts(counts));
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = patches.samples()[i];
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      patches.values<float>()[static_cast<std::size_t>(row)] =
          pixel_at(batch.samples()[static_cast<std::size_t>(i)].id, row - rows.begin);
  }
  batch.add_field(std::move(patches));
  return batch;
}

/// Requires that each sample of a pass has the rows of this field given by `value`, one per `per_row`
/// patches.
void expect_rows(const Step& step, const char* name, std::int64_t per_row,
                 float (*value)(SampleId, std::int64_t)) {
  for (const MicroBatch& m : step.micro_batches) {
    const Column* const column = m.tensors.find(name);
    ASSERT_NE(column, nullptr) << name;
    for (std::size_t i = 0; i < m.tensors.samples.size(); ++i) {
      const SampleId id = m.tensors.samples[i].id;
      const RowRange rows = column->samples()[static_cast<std::int64_t>(i)];
      ASSERT_EQ(rows.size(), id < SampleId{0} ? 0 : pixels_of(id) / per_row) << name;
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        ASSERT_EQ(column->values<float>()[static_cast<std::size_t>(row)], value(id, row - rows.begin));
      }
    }
  }
}

/// Returns one row per `per_row` rows of `from`, as a result with that name, if this rank reports any.
StepResults results_of(const DataService& service, const Step& step, const char* name, const char* from,
                       std::int64_t per_row) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size() && reports_results(service.mesh()); ++m) {
    const Column& rows = *std::as_const(step.micro_batches[m].tensors).find(from);
    std::vector<std::int64_t> counts;
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows.samples().size(); ++i) {
      const RowRange own = rows.samples()[i];
      counts.push_back(own.size() / per_row);
      for (std::int64_t row = own.begin; row < own.end; row += per_row)
        values.push_back(rows.values<float>()[static_cast<std::size_t>(row)] +
                         rows.values<float>()[static_cast<std::size_t>(row + per_row - 1)]);
    }
    results.put(m, {name, DType::float32, FieldKind::rows, {}}, counts, std::as_bytes(std::span(values)));
  }
  return results;
}

/// Returns the samples of each micro-batch of a pass.
std::vector<std::vector<SampleShape>> samples_by_micro_batch(const Step& step) {
  std::vector<std::vector<SampleShape>> samples;
  for (const MicroBatch& m : step.micro_batches) samples.push_back(m.tensors.samples);
  return samples;
}

/// Returns the numbers of patches of the data rank with the most and of the one with the fewest.
std::pair<std::int64_t, std::int64_t> most_and_least(const boost::mpi::communicator& world,
                                                     const Step& step) {
  std::int64_t own = 0;
  for (const std::vector<SampleShape>& samples : samples_by_micro_batch(step))
    for (const SampleShape& sample : samples) own += sample.id < SampleId{0} ? 0 : pixels_of(sample.id);
  return {boost::mpi::all_reduce(world, own, boost::mpi::maximum<std::int64_t>()),
          boost::mpi::all_reduce(world, own, boost::mpi::minimum<std::int64_t>())};
}

TEST(EncoderPass, has_its_own_assignment_and_exchanges_embeddings_and_gradients) {
  const boost::mpi::communicator world;
  for (const auto& [cp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    if (world.size() % (cp * pp) != 0) continue;
    DataService service(world, with_encoder(cp, pp));
    Step step = service.step(with_patches(own_shapes(world)), "encoder");
    const auto encoders = samples_by_micro_batch(step);
    const auto [most, least] = most_and_least(world, step);
    EXPECT_LE(most - least, 4 * 8);  // the patches of one sample
    if (service.mesh().here().pp == pp - 1) expect_rows(step, "patches", 1, pixel_at);

    const RaggedBatch embeddings =
        service.collect(step, results_of(service, step, "embeddings", "patches", 4));
    step = service.step(std::move(step), "model", embeddings);
    EXPECT_GE(most_and_least(world, step).first, most);
    EXPECT_EQ(step.micro_batches.front().tensors.find("patches"), nullptr);
    if (service.mesh().here().pp == 0) expect_rows(step, "embeddings", 4, embedding_of);
    if (pp > 1) continue;  // results come from the last stage, but embeddings go to the first

    const RaggedBatch gradients =
        service.collect(step, results_of(service, step, "gradients", "embeddings", 1));
    step = service.step(std::move(step), "encoder", gradients);
    EXPECT_EQ(samples_by_micro_batch(step), encoders);
    EXPECT_EQ(step.micro_batches.front().tensors.find("embeddings"), nullptr);
    expect_rows(step, "patches", 1, pixel_at);
    expect_rows(step, "gradients", 4,
                [](SampleId id, std::int64_t row) { return 2 * embedding_of(id, row); });
  }
}

}  // namespace
}  // namespace evenkeel::fields_of_passes_test
