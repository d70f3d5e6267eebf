#include <algorithm>
#include <array>

#include "config/import/settings.hpp"

namespace evenkeel::config_import {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

std::string word_of(bool flag) {
  return flag ? "true" : "false";
}

/// The fact that says how many ranks share a sequence: several keys may, and all but one are 1.
std::string cp_fact(Facts& facts, const std::vector<std::string>& stated) {
  std::string most = stated.front();
  for (const std::string& fact : stated) {
    if (facts.is_lost(fact)) static_cast<void>(facts.integer(fact));  // remembered as missing
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
  const std::string why = "no layout of Evenkeel's: set pack.cp_layout to zigzag or contiguous";
  facts.leave("cp_algo", why);
  facts.miss("pack.cp_layout", "cp_algo", why);
}

void import_cp(Facts& facts, const std::vector<std::string>& stated) {
  const std::string cp = cp_fact(facts, stated);
  const std::int64_t size = facts.integer(cp).value_or(1);
  for (const std::string& other : stated) {
    const std::int64_t there = facts.integer(other).value_or(1);
    if (there > 1 && there != size) facts.refuse(other, "context parallelism has two sizes");
    facts.settle(other, "");
  }
  if (facts.integer(cp)) facts.set("mesh.cp", std::to_string(size), {cp});
  if (size > 1) {
    import_cp_layout(facts, cp);
  } else {
    facts.settle("cp_algo", "nothing is cut while cp is 1");
  }
}

/// Context parallelism that Megatron chooses for each micro-batch.
void import_flexible_cp(Facts& facts) {
  facts.set("mesh.cp", "flexible", {"dynamic_cp"}, "each micro-batch has a group of its own");
  facts.settle("cp", "groups have the sizes that their micro-batches need");
  if (facts.mesh_size("pp") > 1)
    facts.set_because("balance.strategy", "grid", "with mesh.cp: flexible the stages of a pipeline need it");
}

/// Megatron on Ascend counts the layers of a virtual stage.
void import_vpp_of_layers(Facts& facts) {
  const auto of_stage = facts.integer("vpp_layers");
  if (!of_stage || facts.find("mesh.vpp") != nullptr) return;
  const std::string why =
      "mesh.vpp is the layers of a pipeline stage over this: the model's layers are not found";
  const auto layers = facts.integer("layers");
  facts.leave("vpp_layers", why);
  if (!layers) return facts.miss("mesh.vpp", "vpp_layers", why);
  const std::int64_t stages = facts.mesh_size("pp") * *of_stage;
  if (*layers % stages != 0) {
    facts.refuse("vpp_layers", std::to_string(*layers) + " layers do not divide by pp times this");
  }
  facts.set("mesh.vpp", std::to_string(*layers / stages), {"vpp_layers", "layers"}, "layers / pp / this");
}

/// DP ranks of a number of GPUs; nothing while a size of the mesh is lost.
std::optional<std::int64_t> dp_ranks(Facts& facts, std::int64_t gpus, const std::string& blame) {
  for (const char* fact : {"tp", "cp", "pp", "ulysses", "engine_ulysses"}) {
    if (facts.is_lost(fact)) return std::nullopt;
  }
  std::int64_t of_model = 1;
  for (const char* axis : {"tp", "cp", "pp"})
    of_model = std::min(of_model * facts.mesh_size(axis), largest_count);
  if (gpus % of_model != 0) {
    facts.refuse(blame, std::to_string(gpus) + " devices do not divide by the " + std::to_string(of_model) +
                            " of tp, cp and pp");
  }
  return gpus / of_model;
}

/// ROLL's samples of one update over all DP ranks; nothing when the file does not say enough.
std::optional<std::int64_t> samples_of_update(Facts& facts) {
  const auto rank_batch = facts.integer("rank_batch");
  const auto devices = facts.count("devices");
  const auto accumulation = facts.has("accumulation") ? facts.integer("accumulation") : 1;
  if (!rank_batch || !devices || !accumulation) return std::nullopt;
  const auto ranks = dp_ranks(facts, *devices, "devices");
  if (!ranks) return std::nullopt;
  return std::min(*rank_batch * *accumulation, largest_count) * *ranks;
}

const std::vector<std::string> update_facts{"rank_batch", "accumulation", "devices"};

void set_mini_batches(Facts& facts, std::int64_t whole, std::int64_t part,
                      const std::vector<std::string>& from) {
  facts.set(
      "batch.mini_batches", std::to_string(ceil_div(whole, part)), from,
      whole % part == 0 ? "" : "it does not divide the step: mini-batches differ by one sample at most");
}

void import_mini_batches(Facts& facts, std::optional<std::int64_t> prompts,
                         std::optional<std::int64_t> samples) {
  if (const auto mini = facts.integer("mini"); mini && prompts) {
    set_mini_batches(facts, *prompts, *mini, {"prompts", "mini"});
  } else if (const auto of_update = samples_of_update(facts); of_update && samples) {
    set_mini_batches(facts, *samples, *of_update,
                     {"rank_batch", "accumulation", "devices", "prompts", "responses"});
  }
  for (const char* fact : {"mini", "rank_batch", "accumulation", "devices"}) {
    facts.leave(fact, prompts ? "batch.mini_batches needs more than this file says"
                              : "batch.mini_batches needs the step's size too, which this file does not say");
  }
}

void import_prompts(Facts& facts) {
  const auto prompts = facts.integer("prompts");
  std::optional<std::int64_t> samples;
  const auto responses = facts.has("responses") ? facts.integer("responses") : 1;
  if (prompts && responses) {
    samples = *prompts * *responses;
    if (*samples > largest_count) {
      facts.refuse("prompts", "more samples a step than " + std::to_string(largest_count));
    }
    facts.set("batch.global_batch", std::to_string(*samples), {"prompts", "responses"});
  }
  facts.leave("responses", "the step's number of prompts is not in this file: set batch.global_batch");
  import_mini_batches(facts, prompts, samples);
  facts.want("batch.global_batch", {"prompts"}, "no key says how many prompts a step has");
  facts.want("batch.mini_batches", {"mini", "rank_batch", "devices"},
             "the keys do not say how large an update is");
}

/// SFT and DPO: a step is one update.
void import_samples(Facts& facts) {
  if (facts.table().batch == BatchKind::samples) {
    if (const auto samples = facts.integer("prompts"))
      facts.set("batch.global_batch", std::to_string(*samples), {"prompts"});
    return facts.want("batch.global_batch", {"prompts"}, "no key says how many samples a step has");
  }
  if (const auto samples = samples_of_update(facts)) {
    if (*samples > largest_count)
      facts.refuse("rank_batch", "more samples a step than " + std::to_string(largest_count));
    facts.set("batch.global_batch", std::to_string(*samples), update_facts, "times the DP ranks");
  }
  for (const std::string& fact : update_facts)
    facts.leave(fact, "batch.global_batch needs more than this file says");
  facts.want("batch.global_batch", update_facts, "the keys do not say how large an update is");
}

void import_order(Facts& facts) {
  if (const auto epochs = facts.integer("epochs"))
    facts.set("batch.epochs", std::to_string(*epochs), {"epochs"});
  if (const auto shuffle = facts.flag("shuffle")) {
    facts.set("batch.shuffle", word_of(*shuffle), {"shuffle"});
  } else if (const auto keep_order = facts.flag("no_shuffle")) {
    facts.set("batch.shuffle", word_of(!*keep_order), {"no_shuffle"});
  }
  if (const auto drop = facts.flag("drop_last")) facts.set("batch.drop_last", word_of(*drop), {"drop_last"});
  if (const auto seed = facts.integer("seed", 0)) facts.set("batch.seed", std::to_string(*seed), {"seed"});
  if (const auto random = facts.flag("random_mini")) {
    facts.set("batch.keep_mini_batch", word_of(!*random), {"random_mini"},
              *random ? "each rank's share is cut at random" : "mini-batches in source order, each balanced");
  }
}

}  // namespace

const TrainerRule* trainer_rule(Facts& facts) {
  const auto word = facts.word("trainer");
  const auto& trainers = facts.table().trainers;
  const auto known = word ? std::ranges::find(trainers, *word, &TrainerRule::word) : trainers.end();
  return known == trainers.end() ? nullptr : &*known;
}

void import_mesh(Facts& facts) {
  const TrainerRule* trainer = trainer_rule(facts);
  std::vector<std::string> cp{"cp", "ulysses", "engine_ulysses"};
  if (trainer == nullptr || trainer->is_megatron) {
    for (const std::string axis : {"tp", "pp", "vpp"}) {
      if (const auto size = facts.integer(axis)) facts.set("mesh." + axis, std::to_string(*size), {axis});
    }
    import_vpp_of_layers(facts);
  } else {
    for (const char* fact : {"tp", "pp", "vpp", "cp", "dynamic_cp", "rank_cap"})
      facts.leave(fact, "only Megatron reads it, and this job trains with " + trainer->word);
    cp.erase(cp.begin());
  }
  if (trainer != nullptr && trainer->is_megatron) {
    for (const char* fact : {"ulysses", "engine_ulysses"}) facts.leave(fact, "Megatron does not read it");
    cp = {"cp"};
  }
  const bool on_megatron = trainer == nullptr || trainer->is_megatron;
  const bool dynamic = on_megatron && facts.flag("dynamic_cp").value_or(false);
  if (dynamic && facts.integer("rank_cap")) return import_flexible_cp(facts);
  import_cp(facts, cp);
  const std::string why = dynamic ? "each micro-batch has a cp of its own, and the cap of a rank is not found"
                                  : "cp is the same for all micro-batches";
  if (on_megatron)
    for (const char* fact : {"dynamic_cp", "rank_cap"}) facts.leave(fact, why);
  if (dynamic) facts.miss("mesh.cp", "dynamic_cp", why);
}

void import_batch(Facts& facts) {
  if (facts.table().batch == BatchKind::prompts) {
    import_prompts(facts);
  } else {
    import_samples(facts);
  }
  import_order(facts);
}

void import_balance(Facts& facts) {
  const auto balance = facts.flag("balance");
  if (facts.has_flexible_cp()) {
    facts.settle("balance", "with mesh.cp: flexible it is always balanced");
  } else if (balance) {
    facts.set("balance.algorithm", *balance ? "auto" : "none", {"balance"});
  }
  const SystemTable& table = facts.table();
  if (!table.cost.empty() && (balance.value_or(true) || facts.has_flexible_cp())) {
    facts.set_because("balance.cost", table.cost, table.title + " balances work, not tokens");
  }
}

void import_preset(Facts& facts) {
  const SystemTable& table = facts.table();
  if (facts.has_flexible_cp())
    facts.refuse("dynamic_cp", "--preset needs a cp that is one number: import without it");
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
