#include <algorithm>

#include "config/import/settings.hpp"
#include "config/schema.hpp"

namespace evenkeel::config_import {
namespace {

/// One key of a stage's micro_batch section.
struct StageSetting {
  std::string key;
  std::string value;
  std::vector<std::string> facts;
  std::string note = {};
  std::string why = {};  ///< of one that no fact states
};

/// Reads what a file says of one stage.
class Stage {
 public:
  Stage(Facts& facts, const StageRule& rule) : facts_(facts), rule_(rule), name_(rule.name) {}

  [[nodiscard]] std::vector<StageSetting> settings() {
    if (facts_.has_flexible_cp()) return flexible_settings();
    read_mode();
    if (mode_ == "packed" || (mode_ == "fixed" && is_packed())) read_cap();
    if (mode_ == "packed") {
      add_integer("max_samples", "max_samples");
      add_integer("min_count", "min_count");
    }
    if (mode_ == "padded") {
      add_integer("max_tokens", "padded_cap");
      add_integer("length_round", "length_round");
    }
    if (mode_ == "fixed") {
      add_size();
      lift_cap();
    }
    read_shuffle();
    leave_the_rest();
    return std::move(settings_);
  }

  /// After the settings are set: what is missing for them.
  void want_the_rest() {
    if (facts_.has_flexible_cp()) return;
    if (mode_.empty()) {
      if (rule_.is_required || facts_.mentions_stage(name_)) {
        want("mode", {"packed", "padded", "size", "global_size"},
             "the keys do not say how this pass cuts its micro-batches");
      }
    } else if (mode_ == "fixed") {
      want("size", {"size", "global_size"}, "its micro-batches have a fixed size, and no key says it");
    } else {
      want("max_tokens", {mode_ == "padded" ? "padded_cap" : "cap", "gpu_cap"},
           "its micro-batches have a cap, and no key says it");
    }
  }

 private:
  [[nodiscard]] std::string fact(const std::string& name) const { return name_ + "." + name; }
  [[nodiscard]] bool is_packed() { return facts_.flag(fact("packed")).value_or(false); }
  [[nodiscard]] bool is_training() const { return name_ == facts_.table().stages.front().name; }

  [[nodiscard]] std::string path_of(const std::string& key) const {
    const std::string profile = is_training() ? "" : "profiles." + name_ + ".";
    return profile + "micro_batch." + key;
  }

  void want(const std::string& key, const std::vector<std::string>& names, const std::string& why) {
    std::vector<std::string> facts;
    for (const std::string& name : names) facts.push_back(fact(name));
    facts_.want(path_of(key), facts, why);
  }

  /// All passes pack under one cap, whatever they would do with a cp that is one number.
  [[nodiscard]] std::vector<StageSetting> flexible_settings() {
    if (rule_.is_required || facts_.mentions_stage(name_)) {
      settings_.push_back({"mode", "packed", {"dynamic_cp"}});
      settings_.push_back(
          {"max_tokens_per_rank", std::to_string(facts_.integer("rank_cap").value_or(1)), {"rank_cap"}});
    }
    facts_.settle(fact("packed"), "");
    leave_all("with mesh.cp: flexible its micro-batches are packed under max_tokens_per_rank");
    return std::move(settings_);
  }

  void read_mode() {
    if (is_packed()) {
      const auto algorithm = facts_.word(fact("algorithm"));
      if (facts_.is_lost(fact("algorithm"))) return;
      mode_ = mode_of(algorithm.value_or(facts_.table().packing_algorithm));
      settings_.push_back({"mode", mode_, {fact("packed"), fact("algorithm")}});
    } else if (facts_.is_lost(fact("packed"))) {
      return;
    } else if (facts_.flag(fact("padded")).value_or(false)) {
      mode_ = "padded";
      settings_.push_back({"mode", mode_, {fact("padded")}});
    } else if (!facts_.is_lost(fact("padded")) && has_size()) {
      mode_ = "fixed";
      settings_.push_back(
          {"mode", mode_, {fact("packed"), fact("padded"), fact("size"), fact("global_size")}});
    }
  }

  [[nodiscard]] bool has_size() const { return facts_.has(fact("size")) || facts_.has(fact("global_size")); }

  [[nodiscard]] std::string mode_of(const std::string& algorithm) const {
    if (algorithm == "load_balance") return "packed";
    if (algorithm == "none") return "fixed";
    facts_.refuse(fact("algorithm"), "expected none or load_balance");
  }

  void read_cap() {
    add_integer("max_tokens", "cap");
    const auto of_gpu = facts_.integer(fact("gpu_cap"));
    if (!of_gpu) return;
    for (const char* axis : {"cp", "ulysses", "engine_ulysses"}) {
      if (facts_.is_lost(axis))
        return facts_.miss(path_of("max_tokens"), fact("gpu_cap"),
                           "is of one GPU, and how many share a sequence is not found");
    }
    const std::int64_t gpus = facts_.mesh_size("cp");
    const std::string times = std::to_string(gpus);
    if (*of_gpu * gpus > largest_count) facts_.refuse(fact("gpu_cap"), "too large, times " + times + " GPUs");
    settings_.push_back({"max_tokens",
                         std::to_string(*of_gpu * gpus),
                         {fact("gpu_cap")},
                         gpus == 1 ? "" : "of one GPU there, of the CP group here: times " + times});
  }

  void add_size() {
    if (facts_.has(fact("size"))) return add_integer("size", "size");
    const auto over_all = facts_.integer(fact("global_size"));
    const auto nodes = facts_.integer("nodes");
    const auto gpus = facts_.integer("gpus");
    if (over_all && (!nodes || !gpus)) {
      facts_.miss(path_of("size"), fact("global_size"), "is over all GPUs, and their number is not found");
    }
    if (!over_all || !nodes || !gpus) return;
    const std::int64_t of_model = facts_.mesh_size("tp") * facts_.mesh_size("cp") * facts_.mesh_size("pp");
    const std::int64_t ranks = *nodes * *gpus / std::max<std::int64_t>(1, of_model);
    if (ranks < 1 || *over_all < ranks) facts_.refuse(fact("global_size"), "fewer than the DP ranks");
    settings_.push_back({"size",
                         std::to_string(*over_all / ranks),
                         {fact("global_size")},
                         "over all GPUs there, of one DP rank here"});
  }

  /// The plain split counts samples only; Evenkeel's own cap would cut its micro-batches smaller.
  void lift_cap() {
    const bool capped = std::ranges::find(settings_, "max_tokens", &StageSetting::key) != settings_.end();
    if (!capped) settings_.push_back({"max_tokens", std::to_string(largest_count), {}, "", "no cap there"});
  }

  /// Only the plain split shuffles; that nothing is shuffled holds for all.
  void read_shuffle() {
    const auto shuffle = facts_.flag(fact("shuffle"));
    if (!shuffle || (*shuffle && mode_ != "fixed" && !mode_.empty())) return;
    settings_.push_back({"shuffle", *shuffle ? "true" : "false", {fact("shuffle")}});
  }

  void leave_the_rest() {
    leave_all(mode_.empty() ? "how micro-batches are cut is not in this file"
                            : "has no effect when micro_batch.mode is " + mode_);
  }

  void leave_all(const std::string& why) {
    for (const char* name : {"packed", "padded", "algorithm", "cap", "gpu_cap", "padded_cap", "max_samples",
                             "min_count", "size", "global_size", "length_round", "shuffle"}) {
      facts_.leave(fact(name), why);
    }
  }

  void add_integer(const char* key, const char* name) {
    const auto value = facts_.integer(fact(name));
    if (value) settings_.push_back({key, std::to_string(*value), {fact(name)}});
  }

  Facts& facts_;
  const StageRule& rule_;
  std::string name_;
  std::string mode_;  ///< empty while the file does not say
  std::vector<StageSetting> settings_;
};

void set_all(Facts& facts, const std::string& section, const std::vector<StageSetting>& settings) {
  for (const StageSetting& it : settings) {
    if (it.why.empty()) {
      facts.set(section + it.key, it.value, it.facts, it.note);
    } else {
      facts.set_because(section + it.key, it.value, it.why);
    }
  }
}

bool sets(const std::vector<StageSetting>& settings, const std::string& key) {
  return std::ranges::find(settings, key, &StageSetting::key) != settings.end();
}

/// What a profile would take over from the job's own settings although its stage does not say it. A cap and a
/// size that a stage needs and does not say are missing, and told so.
void keep_defaults(Facts& facts, const std::string& section, const std::vector<StageSetting>& settings,
                   const std::vector<StageSetting>& of_job) {
  if (!sets(settings, "mode")) return;
  const std::string mode = std::ranges::find(settings, "mode", &StageSetting::key)->value;
  std::vector<std::string> keys{"max_tokens", "max_samples", "min_count", "shuffle"};
  if (mode == "padded") keys.emplace_back("length_round");
  if (mode == "fixed") keys.emplace_back("size");
  for (const std::string& key : keys) {
    if (!sets(of_job, key) || sets(settings, key)) continue;
    const bool is_needed = key == "max_tokens" || key == "size";
    facts.set_because(section + key, default_of_setting("micro_batch." + key),
                      is_needed ? "not found: Evenkeel's default" : "only training sets it");
  }
}

/// Packing without padding is what Evenkeel does anyway: the key says so only where nothing else does.
void import_packing(Facts& facts) {
  const auto packing = facts.flag("packing");
  if (!packing) return;
  if (!*packing) return facts.leave("packing", "Evenkeel packs: padding is never computed on");
  if (facts.find("micro_batch.mode") == nullptr) return facts.set("micro_batch.mode", "packed", {"packing"});
  facts.settle("packing", "always so: micro-batches are packed without padding");
}

}  // namespace

void import_stages(Facts& facts) {
  std::vector<StageSetting> of_job;
  for (const StageRule& rule : facts.table().stages) {
    if (const std::string why = rule.idle ? rule.idle(facts) : ""; !why.empty()) {
      facts.leave_section(rule.section, why);
      continue;
    }
    const bool trains = rule.name == facts.table().stages.front().name;
    Stage stage(facts, rule);
    const std::vector<StageSetting> settings = stage.settings();
    const std::string section = "profiles." + rule.name + ".micro_batch.";
    if (trains) {
      of_job = settings;
      set_all(facts, "micro_batch.", settings);
    }
    set_all(facts, section, settings);
    stage.want_the_rest();
    if (!trains) keep_defaults(facts, section, settings, of_job);
  }
  import_packing(facts);
}

}  // namespace evenkeel::config_import
