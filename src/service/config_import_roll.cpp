#include "config_import_tables.hpp"

namespace evenkeel::config_import {
namespace {

/// A section of one model's workers, and the profiles of its training and its forward passes.
struct Workers {
  std::string section;
  std::string train;  ///< empty: it is not trained
  std::string forward;
};

const std::vector<Workers>& all_workers() {
  static const std::vector<Workers> workers{{"actor_train", "train", "forward"},
                                            {"reference", "", "reference"},
                                            {"critic", "critic_train", "critic_forward"}};
  return workers;
}

/// What each pass of a model has its own key for.
std::vector<KeyRule> pass_rules(const std::string& section, const std::string& stage, bool trains) {
  const std::string padded = trains ? "_in_train" : "_in_infer";
  const std::string packed = section + ".sequence_packing_args.";
  const std::string pass = trains ? "_train" : "_forward";
  return {
      {section + ".use_dynamic_batching" + padded, {stage + ".padded"}},
      {section + ".max_tokens_per_microbatch" + padded, {stage + ".padded_cap"}},
      {section + ".sequence_length_round" + padded, {stage + ".length_round"}},
      {packed + "max_packed_sequence_length" + pass,
       {stage + ".cap"},
       "counted after alignment, and it always holds"},
      {packed + "min_num_micro_batches" + pass, {stage + ".min_count"}},
      {section + (trains ? ".training_args.per_device_train_batch_size" : ".infer_batch_size"),
       {stage + ".size"}},
  };
}

std::vector<KeyRule> worker_rules(const Workers& workers) {
  std::vector<std::string> packed;
  std::vector<std::string> algorithm;
  std::vector<KeyRule> rules;
  for (const auto& [stage, trains] : {std::pair{workers.train, true}, std::pair{workers.forward, false}}) {
    if (stage.empty()) continue;
    packed.push_back(stage + ".packed");
    algorithm.push_back(stage + ".algorithm");
    append(rules, pass_rules(workers.section, stage, trains));
  }
  rules.push_back({workers.section + ".use_sequence_packing", std::move(packed)});
  rules.push_back({workers.section + ".sequence_packing_args.algorithm", std::move(algorithm)});
  return rules;
}

std::vector<KeyRule> actor_rules() {
  const std::string actor = "actor_train.";
  std::vector<KeyRule> rules{
      {actor + "model_args.ulysses_size", {"ulysses"}},
      {actor + "strategy_args.strategy_name", {"trainer"}},
      {actor + "training_args.per_device_train_batch_size", {"rank_batch"}},
      {actor + "training_args.gradient_accumulation_steps", {"accumulation"}},
      {actor + "device_mapping", {"devices"}},
  };
  for (const auto& [key, fact] : megatron_axes()) {
    rules.push_back({actor + "strategy_args.strategy_config." + key, {fact}});
  }
  return rules;
}

std::vector<KeyRule> job_rules() {
  return {
      {"rollout_batch_size", {"prompts"}, "counts prompts: times num_return_sequences_in_group"},
      {"actor_infer.generating_args.num_return_sequences", {"responses"}},
      {"num_return_sequences_in_group", {"responses"}},
      {"seed", {"seed"}},
      {"loss_agg_mode", {"loss"}, "over the whole step, whatever the split"},
  };
}

std::vector<SameRule> same_rules() {
  std::vector<SameRule> rules;
  for (const std::string section : {"reference", "critic"}) {
    for (const auto& [key, fact] : megatron_axes()) {
      const std::string path = ".strategy_args.strategy_config." + key;
      rules.push_back({section + path, "actor_train" + path, "1"});
    }
  }
  return rules;
}

std::vector<OutsideRule> outside_rules() {
  std::vector<OutsideRule> rules{
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"sequence_length", "real lengths decide, not a padded width"},
      {"prompt_length", "real lengths decide, not a padded width"},
      {"response_length", "real lengths decide, not a padded width"},
      {"ppo_epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {"actor_infer", "generation"},
      {"rewards", "rewards"},
      {"validation", "validation"},
      {"*.apply_loss_scale", "omega and the scale of each micro-batch say it: see loss.micro_batches"},
      {"*.system_envs", "the environment of the trainer's processes"},
      {"*.model_args", "the model and its training"},
      {"*.training_args", "the model and its training"},
      {"*.strategy_args", "the model and its training"},
      {"*.data_args", "where prompts come from: set source to where the rollouts are"},
      {"*.device_mapping", "the launcher says where ranks run"},
      {"num_gpus_per_node", "the launcher says where ranks run"},
      {"defaults", "files joined by Hydra: import the joined one"},
      {"hydra", "Hydra's own"},
  };
  const std::pair<std::string, std::vector<std::string>> names[] = {
      {"the RL algorithm",
       {"adv_estimator", "gamma", "lambd", "pg_clip", "pg_clip_low", "pg_clip_high", "value_clip",
        "dual_clip_loss", "reward_clip", "advantage_clip", "whiten_advantages", "use_kl_loss", "kl_loss_coef",
        "init_kl_coef", "entropy_loss_coef", "add_token_level_kl", "norm_mean_type", "norm_std_type",
        "rl_loss_coef"}},
      {"the run, its logs and its checkpoints",
       {"exp_name", "logging_dir", "output_dir", "track_with", "tracker_kwargs", "checkpoint_config",
        "max_steps", "save_steps", "logging_steps", "eval_steps", "resume_from_checkpoint", "pretrain",
        "reward_pretrain"}},
  };
  for (const auto& [why, keys] : names) {
    for (const std::string& key : keys) rules.push_back({key, why});
  }
  return rules;
}

SystemTable make_table() {
  SystemTable table;
  table.system = ForeignSystem::roll;
  table.title = "ROLL";
  table.signs = {"actor_train",        "actor_infer", "reference",
                 "rollout_batch_size", "rewards",     "num_return_sequences_in_group"};
  for (const Workers& workers : all_workers()) {
    for (const std::string& stage : {workers.train, workers.forward}) {
      if (!stage.empty()) table.stages.push_back(stage);
    }
    append(table.keys, worker_rules(workers));
  }
  append(table.keys, actor_rules());
  append(table.keys, job_rules());
  table.same = same_rules();
  table.outside = outside_rules();
  for (const char* mode :
       {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    table.loss_words.emplace_back(mode, mode);
  }
  table.trainers = {{"megatron_train", "mean"}, {"deepspeed_train", "mean"}, {"fsdp2_train", "mean"}};
  table.cost = "flops-7b";
  table.align_lcm = "16";
  table.packing_algorithm = "none";
  return table;
}

}  // namespace

const SystemTable& roll_table() {
  static const SystemTable table = make_table();
  return table;
}

}  // namespace evenkeel::config_import
