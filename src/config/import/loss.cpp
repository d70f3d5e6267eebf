#include <algorithm>

#include "config/import/settings.hpp"

namespace evenkeel::config_import {
namespace {

const std::string norm_mode = "seq-mean-token-sum-norm";
const std::string no_mode = "no mode of loss.aggregation: give the trainer omega of the one that is nearest";

const std::string* find_mode(const SystemTable& table, const std::string& word) {
  const auto found = std::ranges::find(table.loss_words, word, &std::pair<std::string, std::string>::first);
  return found == table.loss_words.end() ? nullptr : &found->second;
}

bool is_mode(const Facts& facts, const std::string& path, const std::string& mode) {
  const Setting* aggregation = facts.find(path);
  return aggregation != nullptr && aggregation->value == mode;
}

void import_aggregation(Facts& facts, const std::string& section, const std::string& fact) {
  const auto word = facts.word(fact);
  if (!word) return;
  if (const std::string* mode = find_mode(facts.table(), *word))
    return facts.set(section + "aggregation", *mode, {fact}, "over the whole step, whatever the split");
  facts.leave(fact, no_mode);
  facts.miss(section + "aggregation", fact, no_mode);
}

/// What a padded response is divided by where no number is stated, and the facts it follows from.
struct Width {
  std::optional<std::int64_t> size;
  std::vector<std::string> facts;
};

/// verl pads responses alone. ROLL's mask is of the whole sequence, less the token that nothing predicts.
Width padded_width(Facts& facts) {
  if (facts.table().system != ForeignSystem::roll) return {facts.integer("width"), {"width"}};
  if (const auto sequence = facts.integer("sequence_width")) return {*sequence - 1, {"sequence_width"}};
  const auto prompt = facts.integer("prompt_width");
  const auto response = facts.integer("width");
  if (!prompt || !response || facts.is_lost("sequence_width")) return {};
  return {*prompt + *response - 1, {"prompt_width", "width"}};
}

void import_norm_length(Facts& facts, const std::string& section, const std::string& norm) {
  const SystemTable& table = facts.table();
  const std::string path = section + "norm_length";
  if (facts.has(norm)) {
    if (const auto length = facts.integer(norm))
      facts.set(path, std::to_string(*length), {norm}, table.norm_note);
    return;
  }
  const bool is_cut = table.system == ForeignSystem::roll && is_mode(facts, "micro_batch.mode", "padded");
  if (is_cut) {
    return facts.miss(
        path, "loss",
        "with dynamic batching ROLL divides by the width of each micro-batch, which is no fixed number");
  }
  const Width width = padded_width(facts);
  if (width.size && *width.size >= 1) {
    return facts.set(path, std::to_string(*width.size), width.facts,
                     "seq-mean-token-sum-norm divides by this width there; " + table.norm_note);
  }
  facts.want(path, {norm, "width", "prompt_width", "sequence_width"},
             "no key says what " + norm_mode + " divides by");
}

void import_trainer(Facts& facts) {
  if (const TrainerRule* trainer = trainer_rule(facts)) {
    facts.set("loss.micro_batches", trainer->micro_batches, {"trainer"},
              "how this trainer reduces its losses");
    facts.set("loss.dp_ranks", "mean", {"trainer"});
  } else if (facts.has("trainer") && !facts.is_lost("trainer")) {
    facts.leave("trainer", "say with loss.micro_batches and loss.dp_ranks how this trainer reduces");
    const std::string why = "a trainer that is not known here: how it reduces its losses, and its mesh";
    for (const char* path : {"loss.micro_batches", "loss.dp_ranks", "mesh.tp", "mesh.cp", "mesh.pp"})
      facts.miss(path, "trainer", why);
  }
  for (const char* path : {"loss.micro_batches", "loss.dp_ranks"})
    facts.want(path, {"trainer"}, "no key says what trains");
}

/// The critic's loss, where it is another than the actor's.
void import_loss_of_stage(Facts& facts, const std::string& stage) {
  const std::string fact = stage + ".loss";
  const auto word = facts.word(fact);
  const std::string* mode = word ? find_mode(facts.table(), *word) : nullptr;
  const std::string section = "profiles." + stage + ".loss.";
  if (mode != nullptr && is_mode(facts, "loss.aggregation", *mode)) {
    facts.settle(fact, "as the actor's");
  } else {
    import_aggregation(facts, section, fact);
  }
  if (mode == nullptr || *mode != norm_mode) return;
  const auto own = facts.integer(stage + ".norm");
  const Setting* of_actor = facts.find("loss.norm_length");
  if (own && of_actor != nullptr && of_actor->value == std::to_string(*own)) {
    facts.settle(stage + ".norm", "as the actor's");
  } else if (own || of_actor == nullptr) {
    import_norm_length(facts, section, stage + ".norm");
  }
}

bool runs(const Facts& facts, const std::string& stage) {
  return std::ranges::any_of(facts.settings(), [&](const Setting& setting) {
    return setting.path.starts_with("profiles." + stage + ".");
  });
}

}  // namespace

void import_loss(Facts& facts) {
  const SystemTable& table = facts.table();
  import_aggregation(facts, "loss.", "loss");
  facts.want("loss.aggregation", {"loss"}, "no key says how losses are summed up");
  if (is_mode(facts, "loss.aggregation", norm_mode)) import_norm_length(facts, "loss.", "norm");
  const Setting* aggregation = facts.find("loss.aggregation");
  const bool is_mean_of_samples = aggregation != nullptr &&
                                  aggregation->value.starts_with("seq-mean-token-") &&
                                  aggregation->value != norm_mode;
  if (is_mean_of_samples && !table.fully_masked.empty()) {
    facts.set_because("loss.fully_masked", table.fully_masked,
                      table.title + " counts samples that have loss tokens");
  }
  import_trainer(facts);
  for (const StageRule& stage : table.stages) {
    if (stage.name != table.stages.front().name && runs(facts, stage.name))
      import_loss_of_stage(facts, stage.name);
  }
  facts.leave("norm", "only seq-mean-token-sum-norm divides by it");
  for (const char* fact : {"width", "prompt_width", "sequence_width"})
    facts.leave(fact, "real lengths decide, not a padded width");
}

}  // namespace evenkeel::config_import
