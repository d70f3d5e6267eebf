#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balance/partition/item_order.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "golden/families.hpp"
#include "pack/mindspeed_cp.hpp"
#include "plan/micro_batches/padded_batching.hpp"
#include "plan/reference/micro_batches.hpp"
#include "support/reference_micro_batches.hpp"

namespace evenkeel::golden {
namespace {

using testing_support::reference_micro_batches_of_ranks;
using Integers = std::vector<std::int64_t>;

std::optional<std::int64_t> optional_integer(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<std::int64_t>();
}

json as_json(const NamedMetrics& metrics) {
  json object = json::object();
  for (const auto& [name, value] : metrics) object[name] = value;
  return object;
}

/// What the simulated DP ranks of a case compute: this rank first, then `other_ranks`.
struct RankResults {
  Integers local_counts;
  std::int64_t count = 0;  ///< of this rank
  std::vector<Partition> partitions;

  [[nodiscard]] const Partition& own() const { return partitions.front(); }
  [[nodiscard]] json of_others() const {
    json others = json::array();
    for (std::size_t r = 1; r < partitions.size(); ++r) others.push_back(partitions[r].to_vectors());
    return others;
  }
};

std::vector<Integers> lengths_of_ranks(const json& input, const char* own_lengths) {
  std::vector<Integers> ranks{input.at(own_lengths).get<Integers>()};
  for (const json& other : input.at("other_ranks")) ranks.push_back(other.get<Integers>());
  return ranks;
}

template <typename Batching>
RankResults plan_together(const std::vector<Integers>& ranks, const Batching& batching) {
  RankResults results;
  for (const Integers& lengths : ranks) results.local_counts.push_back(reference_count(lengths, batching));
  results.partitions = reference_micro_batches_of_ranks(std::span<const Integers>(ranks), batching);
  results.count = results.own().size();
  return results;
}

template <typename Batching>
RankResults plan_apart(const std::vector<Integers>& ranks, const Batching& batching) {
  RankResults results;
  for (const Integers& lengths : ranks) {
    results.partitions.push_back(
        reference_micro_batches_of_ranks(std::span<const Integers>(&lengths, 1), batching).front());
  }
  results.count = results.own().size();
  return results;
}

json rearrange_micro_batches(const json& input) {
  const MindSpeedBatching batching{input.at("max_token_len"),
                                   optional_integer(input.at("dynamic_max_batch_size"))};
  const RankResults ranks = plan_together(lengths_of_ranks(input, "seqlen_list"), batching);
  return {{"num_micro_batches", ranks.count},
          {"partitions", ranks.own().to_vectors()},
          {"reverse_idx", inverse_order(ranks.own().items())},
          {"local_num_micro_batches", ranks.local_counts},
          {"other_ranks_partitions", ranks.of_others()}};
}

json verl_rearrange_micro_batches(const json& input) {
  const VerlBatching batching{
      input.at("max_token_len"), optional_integer(input.at("min_num_micro_batch")).value_or(1),
      optional_integer(input.at("num_batches_divided_by")).value_or(1), input.at("use_dynamic_bsz_balance")};
  const std::vector<Integers> lengths = lengths_of_ranks(input, "seqlens");
  const RankResults ranks =
      input.at("same_micro_num_in_dp") ? plan_together(lengths, batching) : plan_apart(lengths, batching);
  return {{"micro_bsz_idx", ranks.own().to_vectors()},
          {"reverse_idx", inverse_order(ranks.own().items())},
          {"local_num_micro_batches", ranks.local_counts},
          {"other_ranks_micro_bsz_idx", ranks.of_others()}};
}

json roll_dynamic_batching(const json& input) {
  const Integers lengths = input.at("seq_lens");
  PaddedBatchingSettings settings;
  settings.dp = input.at("dp_size");
  settings.max_tokens = input.at("max_tokens_per_microbatch");
  settings.length_round = input.at("sequence_length_round");
  settings.widen_empty_samples = false;
  const bool virtual_stages = optional_integer(input.at("vpp")).value_or(0) > 0;
  if (virtual_stages) settings.count_multiple = input.at("pp");
  const PaddedBatches batches = plan_padded_batches(lengths, settings);

  json positions = json::array();
  Integers padded_lengths;
  for (const PaddedMicroBatch& micro_batch : batches.micro_batches) {
    positions.push_back({micro_batch.positions.begin, micro_batch.positions.end});
    padded_lengths.push_back(micro_batch.padded_length);
  }
  const json& stage = input.at("log_prefix");
  const NamedMetrics metrics =
      dynamic_batching_metrics(lengths, batches.padded_tokens(), input.at("max_len"),
                               stage.is_null() ? std::string{} : stage.get<std::string>());
  return {{"order", batches.shards.items()},
          {"shards", batches.shards.to_vectors()},
          {"global_micro_batch_indices", positions},
          {"global_micro_batch_lengths", padded_lengths},
          {"num_micro_batchs", batches.micro_batches.size()},
          {"metrics", as_json(metrics)}};
}

/// Returns the reason why the reference fails where Evenkeel continues: a padded tensor wider than the cap,
/// or more micro-batches than samples.
std::optional<std::string> roll_refusal(const json& input, const RankResults& ranks) {
  if (input.at("max_packed_sequence_length") < input.at("mask_width"))
    return "ROLL compares the cap with the padded width, which is larger";
  if (ranks.own().num_items() < ranks.count) return "ROLL needs a sample for every micro-batch";
  return std::nullopt;
}

json roll_sequence_packing(const json& input) {
  const CpGroup cp{input.at("cp"), CpLayout::zigzag};
  const RollPacking packing{input.at("max_packed_sequence_length"), input.at("min_num_micro_batches"),
                            std::max<std::int64_t>(1, input.at("vp").get<std::int64_t>()),
                            sequence_alignment(input.at("tp"), cp, 16)};
  const RankResults ranks = plan_together(lengths_of_ranks(input, "lengths"), packing);
  json result{{"partition_indices_list", ranks.own().to_vectors()},
              {"num_micro_batchs", ranks.count},
              {"pad_factor", packing.alignment},
              {"local_num_micro_batches", ranks.local_counts},
              {"other_ranks_partition_indices_list", ranks.of_others()}};
  if (const auto refusal = roll_refusal(input, ranks)) result["error"] = *refusal;
  return result;
}

json roll_batch_balance_family(const json& input) {
  const Integers lengths = input.at("lengths");
  std::optional<std::int64_t> mini_batch;
  if (input.at("keep_minibatch")) mini_batch = input.at("minibatch_size");
  const Partition ranks = roll_batch_balance(lengths, input.at("dp_size"), mini_batch);
  return {{"order", ranks.items()}, {"metrics", as_json(seqlen_balance_metrics(lengths, ranks))}};
}

json roll_restore_results_order(const json& input) {
  const Partition partition(input.at("partition_indices_list").get<std::vector<std::vector<Item>>>());
  json restored = json::array();
  for (const std::int64_t at : inverse_order(partition.items())) {
    restored.push_back(input.at("results").at(static_cast<std::size_t>(at)));
  }
  return {{"restored", std::move(restored)}};
}

MindSpeedCp mindspeed_cp_of(const json& config) {
  static const std::map<std::string, MindSpeedCpAlgorithm> algorithms{
      {"megatron_cp_algo", MindSpeedCpAlgorithm::ring},
      {"ulysses_cp_algo", MindSpeedCpAlgorithm::ulysses},
      {"hybrid_cp_algo", MindSpeedCpAlgorithm::hybrid}};
  MindSpeedCp cp;
  cp.size = config.at("context_parallel_size");
  cp.algorithm = algorithms.at(config.value("context_parallel_algo", "megatron_cp_algo"));
  cp.ulysses_degree = config.value("ulysses_degree_in_cp", 1);
  cp.cut_each_sequence = config.value("reset_attention_mask", false) &&
                         config.value("attention_mask_type", "general") == "causal";
  return cp;
}

json select_columns(const json& rows, const Integers& columns) {
  json selected = json::array();
  for (const json& row : rows) {
    json held = json::array();
    for (const std::int64_t column : columns) held.push_back(row.at(static_cast<std::size_t>(column)));
    selected.push_back(std::move(held));
  }
  return selected;
}

/// Returns the index that the reference returns with a rank's batch.
json reference_index(const MindSpeedCp& cp, const Integers& columns, CpRank rank) {
  if (cp.size == 1 || cp.algorithm != MindSpeedCpAlgorithm::ring) return nullptr;
  if (cp.cut_each_sequence) return columns;
  return Integers{rank.value(), 2 * std::int64_t{cp.size} - 1 - rank.value()};
}

/// Gathers every rank's slices, rank after rank, and restores their order.
json restore_columns(const json& slices_per_rank, const Integers& gathered_columns) {
  json restored = json::array();
  for (std::size_t row = 0; row < slices_per_rank.at(0).size(); ++row) {
    json values = json::array();
    for (const json& slices : slices_per_rank) {
      values.insert(values.end(), slices.at(row).begin(), slices.at(row).end());
    }
    json whole = json::array();
    for (const std::int64_t at : inverse_order(gathered_columns)) {
      whole.push_back(values.at(static_cast<std::size_t>(at)));
    }
    restored.push_back(std::move(whole));
  }
  return restored;
}

json mindspeed_slices(const json& input, const MindSpeedCp& cp) {
  const json& tokens = input.at("input_ids");
  const auto columns = static_cast<std::int64_t>(tokens.at(0).size());
  const Integers ends = input.at("actual_seq_len");
  json result{{"returns_tuple", cp.size > 1}};
  Integers gathered_columns;
  for (int r = 0; r < cp.size; ++r) {
    const Integers held = mindspeed_columns(cp, columns, ends, CpRank{r});
    gathered_columns.insert(gathered_columns.end(), held.begin(), held.end());
    result["input_ids_per_cp_rank"].push_back(select_columns(tokens, held));
    result["position_ids_per_cp_rank"].push_back(select_columns(input.at("position_ids"), held));
    result["index_per_cp_rank"].push_back(reference_index(cp, held, CpRank{r}));
  }
  result["restored_input_ids"] = restore_columns(result["input_ids_per_cp_rank"], gathered_columns);
  return result;
}

/// The reference's ring degree is known even where its split fails.
json mindspeed_cp_batch(const json& input) {
  const MindSpeedCp cp = mindspeed_cp_of(input.at("config"));
  json result;
  try {
    result = mindspeed_slices(input, cp);
  } catch (const InputError& error) {
    result["error"] = error.what();
  }
  result["ring_degree"] = ring_degree(cp);
  return result;
}

}  // namespace

std::map<std::string, Family> plan_families() {
  return {{"rearrange_micro_batches", rearrange_micro_batches},
          {"verl_rearrange_micro_batches", verl_rearrange_micro_batches},
          {"roll_dynamic_batching", roll_dynamic_batching},
          {"roll_sequence_packing", roll_sequence_packing},
          {"roll_batch_balance", roll_batch_balance_family},
          {"roll_restore_results_order", roll_restore_results_order},
          {"mindspeed_cp_batch", mindspeed_cp_batch}};
}

}  // namespace evenkeel::golden
