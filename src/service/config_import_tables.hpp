#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/service/config_import.hpp"

/// What the keys of each foreign system mean, as tables. A key states facts in a vocabulary that all systems
/// share; config_import_facts turns facts into Evenkeel's keys.
///
/// Facts of the job: tp, cp, pp, vpp, ulysses and engine_ulysses (a cp without zigzag), cp_algo, prompts and
/// responses (of a step, of a prompt), mini (prompts of a mini-batch), rank_batch, accumulation and devices
/// (from which ROLL's mini-batches follow), epochs, shuffle, no_shuffle, seed, random_mini, balance, packing,
/// loss, norm, trainer. Facts of a stage are "STAGE.fact": packed, padded, algorithm, cap, gpu_cap (of one
/// GPU), padded_cap, max_samples, min_count, size, length_round, shuffle.
namespace evenkeel::config_import {

struct KeyRule {
  std::string path;
  std::vector<std::string> facts;  ///< of two keys that state the same fact, the later rule's wins
  std::string note = {};
};

/// A key that adds nothing as long as its value is this one.
struct AlwaysRule {
  std::string path;
  std::string value;
  std::string note;
};

/// A key of another model's section: fine when it says the same as the actor's.
struct SameRule {
  std::string path;
  std::string as;        ///< the key it is compared with
  std::string fallback;  ///< its value when that key is absent
};

/// Keys that are none of Evenkeel's business: those at or below `path`, or, for "*.name", every one called
/// so.
struct OutsideRule {
  std::string path;
  std::string why;
};

/// A fact that holds when no key states it.
struct ImpliedFact {
  std::string fact;
  std::string value;
  std::string why;
};

struct SystemTable {
  ForeignSystem system;
  std::string title;                ///< "MindSpeed-RL"
  std::vector<std::string> signs;   ///< first parts of paths, or whole paths, that only this system has
  std::vector<std::string> stages;  ///< profile names; the first is the training stage
  std::vector<KeyRule> keys;
  std::vector<AlwaysRule> always;
  std::vector<SameRule> same;
  std::vector<OutsideRule> outside;
  std::vector<ImpliedFact> implied;
  std::vector<std::pair<std::string, std::string>> loss_words;  ///< of the fact loss -> loss.aggregation
  std::vector<std::pair<std::string, std::string>> trainers;    ///< of the fact trainer -> loss.micro_batches
  std::string cost;                                             ///< what it balances by; empty for tokens
  bool balanced_by_default = true;                              ///< over DP ranks
  std::string align_lcm;                                        ///< of its packing; empty for none
  std::string packing_algorithm;                                ///< when none is stated
};

[[nodiscard]] const SystemTable& mindspeed_rl_table();
[[nodiscard]] const SystemTable& roll_table();
[[nodiscard]] const SystemTable& verl_table();

/// The sizes of a Megatron process grid: a key's name and the fact it states.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& megatron_axes();

/// Joins tables.
template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace evenkeel::config_import
