#include <algorithm>

#include "config_import_settings.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

const std::string* find_word(const std::vector<std::pair<std::string, std::string>>& words,
                             const std::string& word) {
  const auto found = std::ranges::find(words, word, &std::pair<std::string, std::string>::first);
  return found == words.end() ? nullptr : &found->second;
}

/// The fact that says how many ranks share a sequence: several keys may, and all but one are 1.
std::string cp_fact(const Facts& facts) {
  std::string most = "cp";
  for (const std::string fact : {"ulysses", "engine_ulysses"}) {
    if (!facts.has(most) || facts.integer(fact).value_or(0) > facts.integer(most).value_or(0)) most = fact;
  }
  return most;
}

/// Zigzag or contiguous, where CP cuts at all.
void import_cp_layout(Facts& facts, const std::string& cp) {
  if (cp != "cp") return facts.set("pack.cp_layout", "contiguous", {cp}, "Ulysses: chunks in order");
  const auto algorithm = facts.word("cp_algo");
  if (!algorithm) return;
  if (algorithm == "megatron_cp_algo") return facts.set("pack.cp_layout", "zigzag", {"cp_algo"});
  if (algorithm == "ulysses_cp_algo") return facts.set("pack.cp_layout", "contiguous", {"cp_algo"});
  facts.leave("cp_algo", "no layout of Evenkeel's: set pack.cp_layout to zigzag or contiguous");
}

void import_mesh(Facts& facts) {
  for (const std::string axis : {"tp", "pp", "vpp"}) {
    if (const auto size = facts.integer(axis)) facts.set("mesh." + axis, std::to_string(*size), {axis});
  }
  const std::string cp = cp_fact(facts);
  const std::int64_t size = facts.integer(cp).value_or(1);
  for (const std::string other : {"cp", "ulysses", "engine_ulysses"}) {
    const std::int64_t there = facts.integer(other).value_or(1);
    if (there > 1 && there != size) facts.refuse(other, "context parallelism has two sizes");
    facts.settle(other, "");
  }
  if (facts.has(cp)) facts.set("mesh.cp", std::to_string(size), {cp});
  if (size > 1) {
    import_cp_layout(facts, cp);
  } else {
    facts.settle("cp_algo", "nothing is cut while cp is 1");
  }
}

/// ROLL's mini-batch, over all DP ranks, in samples; nothing when the file does not say enough.
std::optional<std::int64_t> samples_of_mini_batch(const Facts& facts) {
  const auto rank_batch = facts.integer("rank_batch");
  const auto devices = facts.count("devices");
  if (!rank_batch || !devices) return std::nullopt;
  std::int64_t ranks_of_model = 1;
  for (const char* axis : {"tp", "cp", "pp"}) {
    ranks_of_model = std::min(ranks_of_model * facts.mesh_size(axis), largest_count);
  }
  const std::int64_t of_rank = *rank_batch * facts.integer("accumulation").value_or(1);
  return std::min(of_rank, largest_count) * std::max<std::int64_t>(1, *devices / ranks_of_model);
}

void import_mini_batches(Facts& facts, std::optional<std::int64_t> prompts,
                         std::optional<std::int64_t> samples) {
  std::vector<std::string> from;
  std::int64_t whole = 0;
  std::int64_t part = 0;
  if (const auto mini = facts.integer("mini"); mini && prompts) {
    from = {"prompts", "mini"};
    whole = *prompts;
    part = *mini;
  } else if (const auto of_roll = samples_of_mini_batch(facts); of_roll && samples) {
    from = {"rank_batch", "accumulation", "devices", "prompts", "responses"};
    whole = *samples;
    part = *of_roll;
  } else {
    for (const char* fact : {"mini", "rank_batch", "accumulation", "devices"}) {
      facts.leave(fact, "batch.mini_batches needs the step's size too, which this file does not say");
    }
    return;
  }
  facts.set(
      "batch.mini_batches", std::to_string(ceil_div(whole, part)), from,
      whole % part == 0 ? "" : "it does not divide the step: mini-batches differ by one sample at most");
}

void import_batch(Facts& facts) {
  const auto prompts = facts.integer("prompts");
  std::optional<std::int64_t> samples;
  if (prompts) {
    samples = *prompts * facts.integer("responses").value_or(1);
    if (*samples > largest_count) {
      facts.refuse("prompts", "more samples a step than " + std::to_string(largest_count));
    }
    facts.set("batch.global_batch", std::to_string(*samples), {"prompts", "responses"});
  }
  facts.leave("responses", "the step's number of prompts is not in this file: set batch.global_batch");
  import_mini_batches(facts, prompts, samples);
  if (const auto epochs = facts.integer("epochs"))
    facts.set("batch.epochs", std::to_string(*epochs), {"epochs"});
  if (const auto shuffle = facts.flag("shuffle")) {
    facts.set("batch.shuffle", *shuffle ? "true" : "false", {"shuffle"});
  } else if (const auto keep_order = facts.flag("no_shuffle")) {
    facts.set("batch.shuffle", *keep_order ? "false" : "true", {"no_shuffle"});
  }
  if (const auto seed = facts.integer("seed", 0)) facts.set("batch.seed", std::to_string(*seed), {"seed"});
  if (const auto random = facts.flag("random_mini")) {
    facts.set("batch.keep_mini_batch", *random ? "false" : "true", {"random_mini"},
              *random ? "each rank's share is cut at random" : "mini-batches in source order, each balanced");
  }
}

void import_balance(Facts& facts) {
  const auto balance = facts.flag("balance");
  if (balance) facts.set("balance.algorithm", *balance ? "auto" : "none", {"balance"});
  const SystemTable& table = facts.table();
  if (!table.cost.empty() && balance.value_or(true)) {
    facts.set_because("balance.cost", table.cost, table.title + " balances work, not tokens");
  }
}

void import_loss(Facts& facts) {
  const SystemTable& table = facts.table();
  if (const auto word = facts.word("loss")) {
    const std::string* mode = find_word(table.loss_words, *word);
    if (mode != nullptr) {
      facts.set("loss.aggregation", *mode, {"loss"});
    } else {
      facts.leave("loss", "no mode of loss.aggregation: give the trainer omega of the one that is nearest");
    }
  }
  const Setting* aggregation = facts.find("loss.aggregation");
  if (aggregation != nullptr && aggregation->value == "seq-mean-token-sum-norm" && facts.has("norm")) {
    facts.set("loss.norm_length", std::to_string(facts.integer("norm").value_or(1)), {"norm"});
  }
  facts.leave("norm", "only seq-mean-token-sum-norm divides by it");
  if (const auto trainer = facts.word("trainer")) {
    const std::string* reduction = find_word(table.trainers, *trainer);
    if (reduction == nullptr) {
      facts.leave("trainer", "say with loss.micro_batches and loss.dp_ranks how this trainer reduces");
      return;
    }
    facts.set("loss.micro_batches", *reduction, {"trainer"}, "how this trainer reduces its losses");
    facts.set("loss.dp_ranks", "mean", {"trainer"});
  }
}

}  // namespace

void import_job(Facts& facts) {
  import_mesh(facts);
  import_batch(facts);
  import_balance(facts);
  import_loss(facts);
}

void import_preset(Facts& facts) {
  const SystemTable& table = facts.table();
  facts.set_because("balance.preset", std::string(to_string(table.system)), "--preset: its own partitions");
  if (!table.balanced_by_default && facts.find("balance.algorithm") == nullptr) {
    facts.set_because("balance.algorithm", "none", "--preset: it does not balance unless asked to");
  }
  const auto& settings = facts.settings();
  const bool packs = std::ranges::any_of(settings, [](const Setting& setting) {
    return setting.path.ends_with("micro_batch.mode") && setting.value == "packed";
  });
  if (packs && !table.align_lcm.empty()) {
    facts.set_because("pack.align_lcm", table.align_lcm, "--preset: its packing aligns to it too");
  }
}

}  // namespace evenkeel::config_import
