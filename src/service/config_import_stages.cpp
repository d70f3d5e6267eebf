#include <algorithm>

#include "config_import_settings.hpp"
#include "evenkeel/service/config_schema.hpp"

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
  Stage(Facts& facts, std::string name) : facts_(facts), name_(std::move(name)) {}

  [[nodiscard]] std::vector<StageSetting> settings() {
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
      add_integer("size", "size");
      lift_cap();
    }
    read_shuffle();
    leave_the_rest();
    return std::move(settings_);
  }

 private:
  [[nodiscard]] std::string fact(const char* name) const { return name_ + "." + name; }
  [[nodiscard]] bool is_packed() const { return facts_.flag(fact("packed")).value_or(false); }

  void read_mode() {
    if (is_packed()) {
      mode_ = mode_of(facts_.word(fact("algorithm")).value_or(facts_.table().packing_algorithm));
      settings_.push_back({"mode", mode_, {fact("packed"), fact("algorithm")}});
    } else if (facts_.flag(fact("padded")).value_or(false)) {
      mode_ = "padded";
      settings_.push_back({"mode", mode_, {fact("padded")}});
    } else if (facts_.has(fact("size"))) {
      mode_ = "fixed";
      settings_.push_back({"mode", mode_, {fact("packed"), fact("padded"), fact("size")}});
    }
  }

  [[nodiscard]] std::string mode_of(const std::string& algorithm) const {
    if (algorithm == "load_balance") return "packed";
    if (algorithm == "none") return "fixed";
    facts_.refuse(fact("algorithm"), "expected none or load_balance");
  }

  void read_cap() {
    add_integer("max_tokens", "cap");
    const auto of_gpu = facts_.integer(fact("gpu_cap"));
    if (!of_gpu) return;
    const std::int64_t gpus = facts_.mesh_size("cp");
    const std::string times = std::to_string(gpus);
    if (*of_gpu * gpus > largest_count) facts_.refuse(fact("gpu_cap"), "too large, times " + times + " GPUs");
    settings_.push_back({"max_tokens",
                         std::to_string(*of_gpu * gpus),
                         {fact("gpu_cap")},
                         gpus == 1 ? "" : "of one GPU there, of the CP group here: times " + times});
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
    const std::string why = mode_.empty() ? "how micro-batches are cut is not in this file"
                                          : "has no effect when micro_batch.mode is " + mode_;
    for (const char* name : {"packed", "padded", "algorithm", "cap", "gpu_cap", "padded_cap", "max_samples",
                             "min_count", "size", "length_round", "shuffle"}) {
      facts_.leave(fact(name), why);
    }
  }

  void add_integer(const char* key, const char* name) {
    const auto value = facts_.integer(fact(name));
    if (value) settings_.push_back({key, std::to_string(*value), {fact(name)}});
  }

  Facts& facts_;
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

/// What a profile would take over from the job's own settings although its stage does not say it.
void keep_defaults(Facts& facts, const std::string& section, const std::vector<StageSetting>& settings,
                   const std::vector<StageSetting>& of_job) {
  const std::string& mode = settings.front().value;
  std::vector<std::string> keys{"max_tokens", "max_samples", "min_count", "shuffle"};
  if (mode == "padded") keys.emplace_back("length_round");
  if (mode == "fixed") keys.emplace_back("size");
  for (const std::string& key : keys) {
    if (!sets(of_job, key) || sets(settings, key)) continue;
    const auto known = std::ranges::find(config_keys(), "micro_batch." + key, &ConfigKey::path);
    facts.set_because(section + key, known->default_value, "not set for this stage");
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
  for (const std::string& name : facts.table().stages) {
    const bool trains = name == facts.table().stages.front();
    const std::vector<StageSetting> settings = Stage(facts, name).settings();
    if (settings.empty()) continue;
    const std::string section = "profiles." + name + ".micro_batch.";
    if (trains) {
      of_job = settings;
      set_all(facts, "micro_batch.", settings);
    }
    set_all(facts, section, settings);
    if (!trains) keep_defaults(facts, section, settings, of_job);
  }
  import_packing(facts);
}

}  // namespace evenkeel::config_import
