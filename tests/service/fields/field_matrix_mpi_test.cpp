#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cstring>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "support/made_up_batch.hpp"
#include "support/packed_rows.hpp"

// Tests every combination of a field's name, kind, dtype and trailing shape, in whole steps with every
// layout: its values arrive in the correct rows and are collected again, or every rank reports the reason for
// refusing it. The expected values are computed here from the samples alone.

namespace evenkeel::field_matrix_test {
namespace {

using testing::HasSubstr;
using testing_support::mix;
using testing_support::position_of;
using Row = std::vector<std::byte>;

constexpr std::int64_t label_pad = -7;
constexpr std::int64_t pad_token = 3;

/// Samples whose prompts are shared, missing or one token long; two responses start with the same tokens, two
/// are equal, and some are empty; one sample has no tokens.
const std::vector<SampleShape> samples{
    {SampleId{0}, 10, 4, 3}, {SampleId{1}, 10, 4, 5}, {SampleId{2}, 10, 4, 0}, {SampleId{3}, 11, 0, 4},
    {SampleId{4}, 11, 0, 0}, {SampleId{5}, 12, 6, 2}, {SampleId{6}, 12, 6, 2}, {SampleId{7}, 13, 1, 6}};

/// Returns a number that identifies a token: rows with the same number have equal values.
std::uint64_t owner_of(const SampleShape& sample, std::int64_t t) {
  if (t < sample.prompt) return sample.group;
  if (sample.group == 12 || (sample.group == 10 && t < sample.prompt + 2)) return sample.group + 100;
  return static_cast<std::uint64_t>(sample.id.value());
}

std::int64_t token_of(const SampleShape& sample, std::int64_t t) {
  return 10 + static_cast<std::int64_t>(mix(owner_of(sample, t), static_cast<std::uint64_t>(t)) % 1000);
}

template <typename T>
Row row_of(T value) {
  Row row(sizeof(T));
  std::memcpy(row.data(), &value, sizeof(T));
  return row;
}

Row made_up_row(const FieldSpec& spec, std::uint64_t owner, std::int64_t row) {
  Row bytes(spec.row_bytes());
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    const auto value = static_cast<std::byte>(mix(owner, static_cast<std::uint64_t>(row), b));
    bytes[b] = spec.dtype == DType::boolean ? value & std::byte{1} : value;
  }
  return bytes;
}

/// One way to configure the layout of steps.
struct Job {
  int cp = 1;
  PrefixSharing sharing = PrefixSharing::none;
  MicroBatchMode mode = MicroBatchMode::packed;

  [[nodiscard]] bool shared() const { return sharing != PrefixSharing::none; }
};

Config config_of(const Job& job) {
  Config config;
  config.mesh.cp = job.cp;
  config.prefix = job.sharing;
  config.micro_batch.mode = job.mode;
  config.micro_batch.size = 2;
  config.micro_batch.length_round = 4;
  config.micro_batch.max_tokens = 64;
  config.micro_batch.min_count = 9;  // more than there are samples: some are fillers
  config.pack.align_lcm = 4;
  config.pack.label_pad = label_pad;
  config.pack.pad_token = pad_token;
  return config;
}

/// The field that a rank supplies in addition to tokens, or instead of them.
struct Field {
  FieldSpec spec;
  Job job;

  [[nodiscard]] bool is(std::string_view name) const { return spec.name == name; }
  [[nodiscard]] bool of_tokens() const { return spec.kind == FieldKind::token; }

  /// Returns whether the mask is set for a label; there is no label at the end of a sample.
  [[nodiscard]] bool mask_of_label(const SampleShape& sample, std::int64_t position) const {
    if (position == sample.length()) return false;
    if (of_tokens() && job.shared() && position < sample.prompt) return false;
    return (position + sample.id.value()) % 3 != 0;
  }

  /// Returns the row that a sample supplies for a token, a response token, or the whole sample.
  [[nodiscard]] Row row(const SampleShape& sample, std::int64_t r) const {
    if (refusal()) return Row(spec.row_bytes());
    if (is("input_ids")) return row_of(token_of(sample, r));
    if (is("labels")) return row_of(100'000 + 100 * sample.id.value() + r);
    if (is("loss_mask")) {
      Row mask(spec.row_bytes());
      if (!mask.empty() && mask_of_label(sample, of_tokens() ? r + 1 : sample.prompt + r))
        mask.back() = std::byte{1};
      return mask;
    }
    return made_up_row(spec,
                       of_tokens() ? owner_of(sample, r) : static_cast<std::uint64_t>(sample.id.value()), r);
  }

  /// Returns the value that goes with the label of token `position` of a sample; empty if no sample supplies
  /// one.
  [[nodiscard]] Row beside_label(const SampleShape& sample, std::int64_t position) const {
    if (of_tokens()) {
      return row(sample, position - 1);
    }
    const bool is_response = position >= sample.prompt && position < sample.length();
    return is_response ? row(sample, position - sample.prompt) : empty_row();
  }

  /// Returns the row that is used if no sample supplies one.
  [[nodiscard]] Row empty_row() const {
    if (is("input_ids")) return row_of(pad_token);
    return is("labels") ? row_of(label_pad) : Row(spec.row_bytes());
  }

  /// Returns the reason, as a part of the error text, why every rank must refuse the field; nullopt if it is
  /// valid.
  [[nodiscard]] std::optional<std::string> refusal() const {
    const bool plain = spec.trailing.empty();
    if (spec.trailing == huge) return "2^63 bytes";
    for (const char* derived : derived_fields)
      if (is(derived)) return "has a name that is reserved for";
    if (is("input_ids") && (!of_tokens() || !plain || spec.dtype != DType::int64))
      return "one int64 per token";
    const bool is_position = spec.dtype == DType::int32 || spec.dtype == DType::int64;
    if (is("position_ids") && (!of_tokens() || !is_position || spec.row_bytes() == 0))
      return "one int32 or int64 per token, or several";
    if (is("labels") && (spec.kind == FieldKind::sample || !plain || spec.dtype != DType::int64))
      return "one int64 per token or response token";
    if (is("loss_mask") && (spec.kind == FieldKind::sample || !plain))
      return "one value per token or response token";
    return std::nullopt;
  }

  static inline const std::vector<std::int64_t> huge{std::int64_t{1} << 62, 2};
  static constexpr const char* derived_fields[] = {
      "loss_weights",   "prediction_rows", "prediction_offsets", "cu_seqlens",   "cu_seqlens_padded",
      "segment_sample", "segment_group",   "segment_parent",     "sample_index", "__metadata__"};
};

const FieldSpec tokens_spec{"input_ids", DType::int64, FieldKind::token, {}};

void add(RaggedBatch& batch, const Field& field) {
  Column& column = batch.add_field(field.spec);
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(field.spec.kind, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      std::ranges::copy(field.row(batch.samples()[static_cast<std::size_t>(i)], row - rows.begin),
                        column.row(row));
  }
}

RaggedBatch share_of(const boost::mpi::communicator& comm, const std::optional<Field>& field) {
  std::vector<SampleShape> shapes;
  for (const SampleShape& sample : samples)
    if (sample.id.value() % comm.size() == comm.rank()) shapes.push_back(sample);
  RaggedBatch batch(std::move(shapes));
  if (!field || !field->is("input_ids")) add(batch, {tokens_spec, {}});
  if (field) add(batch, *field);
  return batch;
}

Row row_at(const Column& column, std::int64_t row) {
  return {column.row(row), column.row(row + 1)};
}

/// A column and the expected value of each of its rows.
class CheckedColumn {
 public:
  CheckedColumn(const PackedMicroBatch& m, const Job& job) : m_(m), job_(job) {}

  void expect(const Field& field) const {
    const Column* column = m_.find(field.spec.name);
    ASSERT_NE(column, nullptr);
    EXPECT_EQ(column->spec().dtype, field.spec.dtype);
    EXPECT_EQ(column->spec().trailing, field.spec.trailing);
    if (field.spec.kind == FieldKind::sample) return expect_samples(field, *column);
    const bool beside_labels = !field.of_tokens() || field.is("labels") || field.is("loss_mask");
    if (job_.shared() && beside_labels) return expect_predictions(field, *column);
    ASSERT_EQ(column->rows(), m_.layout.local_rows());
    for_each_row([&](const SampleShape& sample, std::int64_t row, std::int64_t t) {
      const bool is_true = t < sample.length() && sample.id != filler_sample;
      const Row expected = !is_true        ? field.empty_row()
                           : beside_labels ? field.beside_label(sample, t + 1)
                                           : field.row(sample, t);
      EXPECT_EQ(row_at(*column, row), expected) << "row " << row;
    });
  }

  /// Requires labels and mask derived from the tokens, and weights derived from the mask.
  void expect_derived(const std::optional<Field>& field, double weight) const {
    const Column& mask = *m_.find("loss_mask");
    const auto weights = m_.find("loss_weights")->values<float>();
    for (std::int64_t row = 0; row < mask.rows(); ++row) {
      const bool is_set = row_at(mask, row) != Row(mask.row_bytes());
      EXPECT_EQ(weights[static_cast<std::size_t>(row)], is_set ? static_cast<float>(weight) : 0.0F);
    }
    if (job_.shared() || field) return;
    const auto labels = m_.find("labels")->values<std::int64_t>();
    const auto set = mask.values<float>();
    for_each_row([&](const SampleShape& sample, std::int64_t row, std::int64_t t) {
      const bool has_label = sample.id != filler_sample && t + 1 < sample.length();
      EXPECT_EQ(labels[static_cast<std::size_t>(row)], has_label ? token_of(sample, t + 1) : label_pad);
      EXPECT_EQ(set[static_cast<std::size_t>(row)], has_label && t + 1 >= sample.prompt ? 1.0F : 0.0F);
    });
  }

 private:
  void expect_samples(const Field& field, const Column& column) const {
    ASSERT_EQ(column.rows(), std::ssize(m_.samples));
    for (std::int64_t i = 0; i < column.rows(); ++i) {
      const SampleShape& sample = m_.samples[static_cast<std::size_t>(i)];
      EXPECT_EQ(row_at(column, i), sample.id == filler_sample ? field.empty_row() : field.row(sample, 0));
    }
  }

  void expect_predictions(const Field& field, const Column& column) const {
    const std::vector<std::int64_t> positions = positions_of_rows();
    const auto rows = m_.find("prediction_rows")->values<std::int64_t>();
    const std::vector<std::int64_t>& offsets = m_.shared->prediction_offsets;
    ASSERT_EQ(column.rows(), offsets.back());
    for (std::size_t i = 0; i < m_.samples.size(); ++i) {
      for (std::int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
        const std::int64_t position =
            positions[static_cast<std::size_t>(rows[static_cast<std::size_t>(p)])] + 1;
        EXPECT_EQ(row_at(column, p), field.beside_label(m_.samples[i], position)) << "prediction " << p;
      }
    }
  }

  [[nodiscard]] std::vector<std::int64_t> positions_of_rows() const {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(m_.layout.local_rows()));
    for_each_row([&](const SampleShape&, std::int64_t row, std::int64_t t) {
      positions[static_cast<std::size_t>(row)] = t;
    });
    return positions;
  }

  /// Calls visit(sample, row, position in the sample), with a sample that has the row. Pad rows have
  /// positions beyond the end of the sequence, and therefore beyond the end of their sample.
  template <typename Visit>
  void for_each_row(Visit visit) const {
    for (std::int64_t s = 0; s < m_.layout.size(); ++s) {
      const RowRange rows = m_.layout.local_range(s);
      SampleShape sample = m_.samples[static_cast<std::size_t>(first_sample_of(s))];
      const std::int64_t depth = job_.shared() ? m_.shared->tree.tree().segment(s).depth : 0;
      const std::int64_t true_rows = m_.layout.length(s);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const std::int64_t at =
            position_of(row - rows.begin, m_.layout.aligned_length(s), m_.layout.cp(), m_.cp_rank);
        visit(sample, row, at < true_rows ? depth + at : std::max(depth + at, sample.length()));
      }
    }
  }

  [[nodiscard]] std::int64_t first_sample_of(std::int64_t sequence) const {
    return job_.shared() ? m_.shared->tree.tree().segment(sequence).first_sample : sequence;
  }

  const PackedMicroBatch& m_;
  const Job& job_;
};

/// Returns the number of tokens with loss, over all samples.
std::int64_t loss_tokens(const std::optional<Field>& field) {
  std::int64_t tokens = 0;
  for (const SampleShape& sample : samples) {
    for (std::int64_t position = 1; position < sample.length(); ++position) {
      if (field && field->is("loss_mask")) {
        const bool has_value = field->of_tokens() || position >= sample.prompt;
        tokens += has_value && field->mask_of_label(sample, position) ? 1 : 0;
      } else {
        tokens += position >= sample.prompt ? 1 : 0;
      }
    }
  }
  return tokens;
}

/// Returns the field as if the trainer had computed it, and checks the collected results.
void expect_collected(const boost::mpi::communicator& world, DataService& service, const Step& step,
                      const Field& field) {
  StepResults results(step.micro_batches.size());
  FieldSpec spec = field.spec;
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column& column = *step.micro_batches[m].tensors.find(spec.name);
    if (field.job.shared()) spec.kind = column.spec().kind;
    results.put(m, spec, column.bytes());
  }
  const RaggedBatch home = service.collect(step, results);
  const RaggedBatch mine = share_of(world, field);
  const Column& column = home.at(spec.name);
  ASSERT_EQ(column.spec(), spec);
  for (std::int64_t i = 0; i < mine.size(); ++i) {
    const SampleShape& sample = mine.samples()[static_cast<std::size_t>(i)];
    const RowRange rows = mine.rows_of(spec.kind, i);
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      const bool of_response = spec.kind == FieldKind::response_token;
      Row expected = of_response             ? field.beside_label(sample, sample.prompt + r)
                     : field.is("loss_mask") ? field.beside_label(sample, r + 1)
                                             : field.row(sample, r);
      if (of_response && sample.prompt + r == 0) expected = Row(spec.row_bytes());  // no row predicts it
      EXPECT_EQ(row_at(column, rows.begin + r), expected) << "sample " << i << " row " << r;
    }
  }
}

void expect_whole_step(const boost::mpi::communicator& world, DataService& service, const Job& job,
                       const std::optional<Field>& field) {
  const Step step = service.step(share_of(world, field));
  const std::int64_t tokens = loss_tokens(field);
  double weights = 0;
  bool has_filler = false;
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
    const CheckedColumn handed(m, job);
    handed.expect({tokens_spec, job});
    if (field) handed.expect(*field);
    handed.expect_derived(field, 1.0 / static_cast<double>(tokens));
    for (const float weight : m.find("loss_weights")->values<float>()) weights += weight;
    has_filler = has_filler || m.empty();
  }
  EXPECT_TRUE(has_filler || job.mode == MicroBatchMode::fixed);
  EXPECT_NEAR(boost::mpi::all_reduce(world, weights, std::plus<>()), 1.0, 1e-6);
  if (field) expect_collected(world, service, step, *field);
}

void expect_refused(const boost::mpi::communicator& world, DataService& service, const Field& field) {
  std::string message = "nothing was thrown";
  try {
    (void)service.step([&] { return share_of(world, field); });
  } catch (const InputError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("field '" + field.spec.name + "'"));
  EXPECT_THAT(message, HasSubstr(*field.refusal()));
  std::string of_first = message;
  boost::mpi::broadcast(world, of_first, 0);
  EXPECT_EQ(message, of_first);
}

std::string text_of(const FieldSpec& spec, const Job& job) {
  std::string text =
      spec.name + " " + std::string(name_of(spec.dtype)) + " " + std::string(name_of(spec.kind)) + " [";
  for (const std::int64_t d : spec.trailing) text += std::to_string(d) + " ";
  return text + "] cp " + std::to_string(job.cp);
}

using Shapes = std::vector<std::vector<std::int64_t>>;

const Shapes all_shapes{{}, {1}, {3}, {2, 3}, {0}, Field::huge};

class FieldMatrix : public testing::TestWithParam<Job> {
 protected:
  void run(std::string_view name, const std::vector<DType>& dtypes = {all_dtypes.begin(), all_dtypes.end()},
           const Shapes& shapes = all_shapes) const {
    const boost::mpi::communicator world;
    Job job = GetParam();
    for (job.cp = 1; job.cp <= (world.size() % 2 == 0 ? 2 : 1); ++job.cp) {
      for (const FieldKind kind : {FieldKind::token, FieldKind::response_token, FieldKind::sample}) {
        Config config = config_of(job);
        if (kind == FieldKind::token) {
          for (const char* of_labels : {"labels", "loss_mask"})
            config.fields[of_labels].at = RowConvention::next;
        }
        DataService service(world, config);
        for (const DType dtype : dtypes) {
          for (const std::vector<std::int64_t>& trailing : shapes) {
            const Field field{{std::string(name), dtype, kind, trailing}, job};
            const testing::ScopedTrace trace(__FILE__, __LINE__, text_of(field.spec, job));
            if (field.refusal()) expect_refused(world, service, field);
            expect_whole_step(world, service, job, field.refusal() ? std::nullopt : std::optional(field));
          }
          // A few failed combinations are enough information, and all ranks stop together.
          if (boost::mpi::all_reduce(world, HasFailure() ? 1 : 0, boost::mpi::maximum<int>()) > 0) return;
        }
      }
    }
  }
};

TEST_P(FieldMatrix, an_ordinary_field_is_delivered_unchanged) {
  run("advantages");
}

TEST_P(FieldMatrix, input_ids_have_one_int64_per_token) {
  run("input_ids");
}

TEST_P(FieldMatrix, supplied_labels_replace_derived_ones) {
  run("labels");
}

TEST_P(FieldMatrix, supplied_position_ids_are_unchanged) {
  run("position_ids");
}

TEST_P(FieldMatrix, a_loss_mask_selects_tokens) {
  run("loss_mask");
}

TEST_P(FieldMatrix, loss_weights_are_derived) {
  run("loss_weights");
}

TEST_P(FieldMatrix, prediction_rows_are_derived) {
  run("prediction_rows");
}

TEST_P(FieldMatrix, other_names_of_derived_fields_are_refused) {
  for (const char* const name : Field::derived_fields) run(name, {DType::int64, DType::float32}, {{}, {3}});
}

INSTANTIATE_TEST_SUITE_P(Layouts, FieldMatrix,
                         testing::Values(Job{}, Job{1, PrefixSharing::none, MicroBatchMode::padded},
                                         Job{1, PrefixSharing::none, MicroBatchMode::fixed},
                                         Job{1, PrefixSharing::prompts}, Job{1, PrefixSharing::trees}));

}  // namespace
}  // namespace evenkeel::field_matrix_test
