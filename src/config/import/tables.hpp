#pragma once

#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "config/import.hpp"

/// What the keys of each foreign system mean, as tables: one for each kind of job a system has (RL, SFT,
/// DPO). A key states facts in a vocabulary that all tables share; facts.hpp turns facts into Evenkeel's
/// keys.
///
/// Facts of the job: tp, cp, pp, vpp, vpp_layers and layers (from which vpp follows), ulysses and
/// engine_ulysses (a cp without zigzag), cp_algo, dynamic_cp and rank_cap (a cp for each micro-batch, and its
/// cap on a rank), prompts and responses (of a step, of a prompt), mini
/// (prompts of a mini-batch), rank_batch, accumulation and devices (from which ROLL's batches follow), nodes
/// and gpus, epochs, shuffle, no_shuffle, drop_last, seed, random_mini, balance, packing, loss, norm (what it
/// divides by), width, prompt_width and sequence_width (of the padded tensor it divides by otherwise),
/// trainer. Facts of a stage are "STAGE.fact": packed, padded, algorithm, cap, gpu_cap (of one GPU),
/// padded_cap, max_samples, min_count, size, global_size (over all GPUs), length_round, shuffle, loss, norm.
namespace evenkeel::config_import {

class Facts;

struct KeyRule {
  std::string path;                ///< "{a.b}" in it stands for the value of that key
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
  std::string fallback;  ///< the value of either when it is absent
  /// Its section, if it is there, means the fallback when it leaves the key out.
  bool counts_when_absent = false;
};

/// Keys that are none of Evenkeel's business: those at or below `path`, or, for "*.name", every one called
/// so.
struct OutsideRule {
  std::string path;
  std::string why;
};

/// A fact that holds when no key states it, in files that have something below `section` (empty: in all).
struct ImpliedFact {
  std::string fact;
  std::string value;
  std::string why;
  std::string section = {};
};

/// A pass over a step that becomes a profile.
struct StageRule {
  std::string name;
  bool is_required = false;  ///< the job runs it whether or not the file says how
  /// Why this job does not run it; empty when it does. Unset: it always does.
  std::function<std::string(Facts&)> idle = {};
  std::string section = {};  ///< what only an idle stage's keys stand below: "critic."
};

/// A trainer's word, how it reduces its losses over micro-batches, and which sizes it reads.
struct TrainerRule {
  std::string word;
  std::string micro_batches;
  bool is_megatron = false;  ///< tp, cp, pp; else Ulysses alone
};

/// How the samples of a step are counted.
enum class BatchKind : std::uint8_t {
  prompts,       ///< prompts times responses; mini-batches are stated
  samples,       ///< a number of samples, one update a step
  rank_batches,  ///< what one DP rank takes for an update, times DP ranks
};

struct SystemTable {
  ForeignSystem system;
  std::string title;                   ///< "MindSpeed-RL"
  std::vector<std::string> marks;      ///< paths that only this kind of job has; none: the system's RL
  std::vector<std::string> not_marks;  ///< and that it never has
  std::vector<StageRule> stages;       ///< the first is the training stage
  std::vector<KeyRule> keys;
  std::vector<AlwaysRule> always;
  std::vector<SameRule> same;
  std::vector<OutsideRule> outside;
  std::vector<ImpliedFact> implied;
  std::vector<std::string> harmless;  ///< packages and files of defaults lists that decide nothing here
  std::vector<std::pair<std::string, std::string>> loss_words;  ///< of the fact loss -> loss.aggregation
  std::vector<TrainerRule> trainers;
  BatchKind batch = BatchKind::prompts;
  std::string cost;                 ///< what it balances by; empty for tokens
  bool balanced_by_default = true;  ///< over DP ranks
  std::string align_lcm;            ///< of its packing; empty for none
  std::string packing_algorithm;    ///< when none is stated
  std::string fully_masked;         ///< loss.fully_masked in its means over samples; empty for the default
  std::string norm_note;            ///< what seq-mean-token-sum-norm is there
};

/// Paths that tell a system's files from those of the others: first parts, or whole paths.
[[nodiscard]] const std::vector<std::string>& signs_of(ForeignSystem system);
/// A system's tables, the one without marks last.
[[nodiscard]] std::vector<const SystemTable*> tables_of(ForeignSystem system);

[[nodiscard]] std::vector<const SystemTable*> mindspeed_rl_tables();
[[nodiscard]] std::vector<const SystemTable*> roll_tables();
[[nodiscard]] std::vector<const SystemTable*> verl_tables();

/// The sizes of a Megatron process grid: a key's name and the fact it states.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& megatron_axes();

/// Joins tables.
template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace evenkeel::config_import
