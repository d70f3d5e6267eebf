#include "cli/dump_reader.hpp"

#include <gtest/gtest.h>
#include <algorithm>

#include <cstring>
#include <map>

#include "io/jsonl/jsonl.hpp"
#include "job/output/dump.hpp"
#include "support/safetensors_file.hpp"

namespace evenkeel::testing_support {
namespace {

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.at(name);
  EXPECT_EQ(view.dtype, dtype_of<T>) << name;
  const bool rectangle = file.metadata().at("layout") == "padded" && view.shape.size() == 2;
  EXPECT_TRUE(view.shape.size() == 1 || rectangle) << name;
  std::vector<T> values(view.bytes.size() / sizeof(T));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

/// A source sample to compare with.
struct Rollout {
  std::vector<std::int64_t> tokens;
  std::int64_t prompt = 0;
};

std::vector<Rollout> read_rollouts(const std::filesystem::path& path) {
  const InputFile file(path);
  const LineScan scan = scan_lines(file);
  const RaggedBatch batch = read_samples(file, scan.lines, infer_schema(file, scan.lines));
  const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
  std::vector<Rollout> rollouts;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    rollouts.push_back({{tokens.begin() + rows.begin, tokens.begin() + rows.end},
                        batch.samples()[static_cast<std::size_t>(i)].prompt});
  }
  return rollouts;
}

// Restores the order of the rows of one sequence that the CP ranks have, following the definition of the
// split.
template <typename T>
std::vector<T> merged(const std::vector<DumpedPart>& parts, std::vector<T> DumpedPart::*field,
                      std::size_t sequence, bool zigzag) {
  const auto cp = static_cast<std::int64_t>(parts.size());
  const std::int64_t begin = parts[0].cu_seqlens_padded[sequence] / cp;
  const std::int64_t end = parts[0].cu_seqlens_padded[sequence + 1] / cp;
  if (cp == 1 || !zigzag) {
    std::vector<T> rows;
    for (const DumpedPart& part : parts) {
      rows.insert(rows.end(), (part.*field).begin() + begin, (part.*field).begin() + end);
    }
    return rows;
  }
  const std::int64_t chunk = (end - begin) / 2;
  std::vector<T> rows(static_cast<std::size_t>((end - begin) * cp));
  for (std::int64_t r = 0; r < cp; ++r) {
    const auto local = (parts[static_cast<std::size_t>(r)].*field).begin() + begin;
    std::copy_n(local, chunk, rows.begin() + r * chunk);
    std::copy_n(local + chunk, chunk, rows.begin() + (2 * cp - 1 - r) * chunk);
  }
  return rows;
}

/// Checks the micro-batches of a dump one by one and counts what they contain.
class DumpCheck {
 public:
  DumpCheck(const std::vector<Rollout>& rollouts, const DumpExpectation& expected)
      : rollouts_(rollouts), expected_(expected) {}

  void check(const std::vector<DumpedPart>& parts) {
    const DumpedPart& first = parts[0];
    ASSERT_EQ(first.cu_seqlens.size(), first.sample_index.size() + 1);
    ASSERT_EQ(first.cu_seqlens_padded.size(), first.sample_index.size() + 1);
    EXPECT_LE(first.cu_seqlens_padded.back(), expected_.cap);
    EXPECT_GT(first.cu_seqlens_padded.back(), 0);
    for (const DumpedPart& part : parts) {
      EXPECT_EQ(part.cu_seqlens, first.cu_seqlens);
      EXPECT_EQ(part.sample_index, first.sample_index);
      ASSERT_EQ(static_cast<std::int64_t>(part.input_ids.size() * parts.size()),
                first.cu_seqlens_padded.back());
    }
    std::int64_t tokens = 0;
    for (std::size_t s = 0; s < first.sample_index.size(); ++s) tokens += check_sequence(parts, s);
    EXPECT_EQ(first.num_tokens, std::to_string(tokens));
    weights_ += first.loss_weight;
  }

  void expect_complete(int dp) {
    EXPECT_EQ(seen_.size(), rollouts_.size());
    for (const auto& [sample, times] : seen_) EXPECT_EQ(times, 1) << "sample " << sample;
    EXPECT_NEAR(weights_, static_cast<double>(dp * expected_.steps),
                1e-9 * static_cast<double>(rollouts_.size()));
  }

 private:
  // Returns the sequence's true tokens.
  std::int64_t check_sequence(const std::vector<DumpedPart>& parts, std::size_t s) {
    const DumpedPart& first = parts[0];
    const std::int64_t aligned = first.cu_seqlens_padded[s + 1] - first.cu_seqlens_padded[s];
    EXPECT_EQ(aligned % expected_.alignment, 0);
    if (first.sample_index[s] < 0) {
      for (const float mask : merged(parts, &DumpedPart::loss_mask, s, expected_.zigzag))
        EXPECT_EQ(mask, 0.0F);
      return 0;
    }
    ++seen_[first.sample_index[s]];
    const Rollout& rollout = rollouts_.at(static_cast<std::size_t>(first.sample_index[s]));
    const auto length = static_cast<std::int64_t>(rollout.tokens.size());
    EXPECT_EQ(first.cu_seqlens[s + 1] - first.cu_seqlens[s], length);
    const auto tokens = merged(parts, &DumpedPart::input_ids, s, expected_.zigzag);
    const auto labels = merged(parts, &DumpedPart::labels, s, expected_.zigzag);
    const auto positions = merged(parts, &DumpedPart::position_ids, s, expected_.zigzag);
    const auto mask = merged(parts, &DumpedPart::loss_mask, s, expected_.zigzag);
    int wrong = 0;
    for (std::int64_t t = 0; t < aligned; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const bool has_next = t + 1 < length;
      wrong += t < length && tokens[at] != rollout.tokens[at] ? 1 : 0;
      wrong += labels[at] != (has_next ? rollout.tokens[at + 1] : -100) ? 1 : 0;
      wrong += positions[at] != t ? 1 : 0;
      wrong += mask[at] != (has_next && t + 1 >= rollout.prompt ? 1.0F : 0.0F) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0) << "rows of sample " << first.sample_index[s];
    return length;
  }

  const std::vector<Rollout>& rollouts_;
  const DumpExpectation& expected_;
  std::map<std::int64_t, int> seen_;
  double weights_ = 0;
};

std::string file_name(std::int64_t micro_batch) {
  std::string digits = std::to_string(micro_batch);
  return "mb-" + std::string(5 - digits.size(), '0') + digits + ".safetensors";
}

// Returns the part that all tensor- and pipeline-parallel ranks of one position have, after a check that they
// have the same.
DumpedPart agreed_part(const std::filesystem::path& dump, std::int64_t step, GridPoint place,
                       const GridPoint& mesh, const std::string& file) {
  place.tp = place.pp = 0;
  const DumpedPart part = read_part(dump_folder(dump, step, place) / file);
  for (place.tp = 0; place.tp < mesh.tp; ++place.tp) {
    for (place.pp = 0; place.pp < mesh.pp; ++place.pp) {
      EXPECT_TRUE(read_part(dump_folder(dump, step, place) / file) == part) << "copies differ in " << file;
    }
  }
  return part;
}

}  // namespace

DumpedPart read_part(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  return {values_of<std::int64_t>(file, "input_ids"),
          values_of<std::int64_t>(file, "labels"),
          values_of<std::int64_t>(file, "position_ids"),
          values_of<float>(file, "loss_mask"),
          values_of<std::int32_t>(file, "cu_seqlens"),
          values_of<std::int32_t>(file, "cu_seqlens_padded"),
          values_of<std::int64_t>(file, "sample_index"),
          file.metadata().at("num_tokens"),
          file.metadata().at("layout"),
          std::stod(file.metadata().at("loss_weight"))};
}

std::int64_t count_steps(const std::filesystem::path& dump) {
  return std::count_if(std::filesystem::directory_iterator(dump), {}, [](const auto& entry) {
    return entry.path().filename().string().starts_with(
        "step-");  // a run also puts its marker into the folder
  });
}

std::int64_t count_micro_batches(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

void expect_dump_matches(const std::filesystem::path& dump, const std::filesystem::path& rollouts_path,
                         const DumpExpectation& expected) {
  const std::vector<Rollout> rollouts = read_rollouts(rollouts_path);
  DumpCheck check(rollouts, expected);
  ASSERT_EQ(count_steps(dump), expected.steps);
  for (std::int64_t step = 0; step < expected.steps; ++step) {
    const std::int64_t micro_batches = count_micro_batches(dump_folder(dump, step, {}));
    for (int dp = 0; dp < expected.mesh.dp; ++dp) {
      ASSERT_EQ(count_micro_batches(dump_folder(dump, step, {0, 0, dp, 0})), micro_batches);
      for (std::int64_t m = 0; m < micro_batches; ++m) {
        std::vector<DumpedPart> parts;
        for (int cp = 0; cp < expected.mesh.cp; ++cp) {
          parts.push_back(agreed_part(dump, step, {0, cp, dp, 0}, expected.mesh, file_name(m)));
        }
        check.check(parts);
      }
    }
  }
  check.expect_complete(expected.mesh.dp);
}

}  // namespace evenkeel::testing_support
