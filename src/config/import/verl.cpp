#include "config/import/facts.hpp"

namespace evenkeel::config_import {
namespace {

const std::string actor = "actor_rollout_ref.actor.";
const std::string ref = "actor_rollout_ref.ref.";
const std::string rollout = "actor_rollout_ref.rollout.";

/// Sizes of the mesh in the section of Megatron's engine.
std::vector<KeyRule> mesh_rules(const std::string& engine) {
  std::vector<KeyRule> rules{{engine + "dynamic_context_parallel", {"dynamic_cp"}},
                             {engine + "max_seqlen_per_dp_cp_rank", {"rank_cap"}}};
  for (const auto& [key, fact] : megatron_axes()) rules.push_back({engine + key, {fact}});
  return rules;
}

std::vector<KeyRule> job_rules() {
  std::vector<KeyRule> rules{
      {actor + "ulysses_sequence_parallel_size", {"ulysses"}},
      {actor + "fsdp_config.ulysses_sequence_parallel_size", {"engine_ulysses"}},
      {actor + "strategy", {"trainer"}},
      {"data.train_batch_size", {"prompts"}, "counts prompts: times rollout.n"},
      {rollout + "n", {"responses"}},
      {actor + "ppo_mini_batch_size", {"mini"}, "counts prompts, as train_batch_size does"},
      {actor + "shuffle", {"random_mini"}},
      {"trainer.total_epochs", {"epochs"}},
      {"trainer.nnodes", {"nodes"}},
      {"trainer.n_gpus_per_node", {"gpus"}},
      {"data.shuffle", {"shuffle"}, "shuffles samples, not prompts"},
      {actor + "data_loader_seed", {"seed"}},
      {"data.seed", {"seed"}},
      {"trainer.balance_batch", {"balance"}},
      {"actor_rollout_ref.model.use_remove_padding", {"packing"}},
      {actor + "loss_agg_mode", {"loss"}},
      {actor + "loss_scale_factor", {"norm"}},
      {"data.max_response_length", {"width"}},
      {rollout + "response_length", {"width"}},
      {"critic.loss_agg_mode", {"critic_update.loss"}},
      {"critic.loss_scale_factor", {"critic_update.norm"}},
      // Asked for only to tell which passes there are.
      {actor + "use_kl_loss", {"kl_in_loss"}},
      {"algorithm.use_kl_in_reward", {"kl_in_reward"}},
      {"algorithm.adv_estimator", {"advantages"}},
      {"critic.enable", {"critic"}},
  };
  append(rules, mesh_rules(actor + "megatron."));
  return rules;
}

struct PassKeys {
  std::string dynamic;
  std::string cap;
  std::string size;         ///< of one GPU
  std::string global_size;  ///< over all GPUs
};

/// The keys by which one pass cuts its micro-batches.
std::vector<KeyRule> pass_rules(const std::string& stage, const PassKeys& keys) {
  return {{keys.dynamic, {stage + ".packed"}},
          {keys.cap, {stage + ".gpu_cap"}, "counted after alignment, and it always holds"},
          {keys.global_size, {stage + ".global_size"}},
          {keys.size, {stage + ".size"}}};
}

std::vector<KeyRule> stage_rules() {
  std::vector<KeyRule> rules =
      pass_rules("update", {actor + "use_dynamic_bsz", actor + "ppo_max_token_len_per_gpu",
                            actor + "ppo_micro_batch_size_per_gpu", actor + "ppo_micro_batch_size"});
  for (const auto& [stage, section] : {std::pair{std::string("log_prob"), rollout}, {"ref_log_prob", ref}}) {
    append(rules, pass_rules(stage, {section + "log_prob_use_dynamic_bsz",
                                     section + "log_prob_max_token_len_per_gpu",
                                     section + "log_prob_micro_batch_size_per_gpu",
                                     section + "log_prob_micro_batch_size"}));
  }
  append(rules,
         pass_rules("critic_update", {"critic.use_dynamic_bsz", "critic.ppo_max_token_len_per_gpu",
                                      "critic.ppo_micro_batch_size_per_gpu", "critic.ppo_micro_batch_size"}));
  append(rules, pass_rules("critic_forward",
                           {"critic.use_dynamic_bsz", "critic.forward_max_token_len_per_gpu",
                            "critic.forward_micro_batch_size_per_gpu", "critic.forward_micro_batch_size"}));
  return rules;
}

std::vector<SameRule> same_rules() {
  std::vector<SameRule> rules;
  const std::string ulysses = "ulysses_sequence_parallel_size";
  for (const std::string& section : {ref, std::string("critic.")}) {
    for (const auto& [key, fact] : megatron_axes()) {
      rules.push_back({section + "megatron." + key, actor + "megatron." + key, "1", true});
    }
    for (const std::string key : {"dynamic_context_parallel", "max_seqlen_per_dp_cp_rank"})
      rules.push_back({section + "megatron." + key, actor + "megatron." + key, ""});
    for (const std::string& place :
         {ulysses, "fsdp_config." + ulysses, "fsdp." + ulysses, "model.fsdp_config." + ulysses})
      rules.push_back({section + place, actor + ulysses, "1"});
  }
  for (const std::string key : {"ppo_mini_batch_size", "shuffle", "data_loader_seed", "strategy"}) {
    rules.push_back({"critic." + key, actor + key, ""});
  }
  for (const std::string& section : {actor, ref, std::string("critic.")}) {
    rules.push_back({section + "rollout_n", rollout + "n", "1"});
  }
  rules.push_back({ref + "strategy", actor + "strategy", ""});
  rules.push_back({actor + "use_remove_padding", "actor_rollout_ref.model.use_remove_padding", "false"});
  return rules;
}

std::vector<OutsideRule> run_rules() {
  return {
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"*.pad_to_length", "packed micro-batches are not padded to a few shapes"},
      {"*.pad_to_length_bucket", "packed micro-batches are not padded to a few shapes"},
      {"trainer.nnodes", "the launcher says where ranks run"},
      {"trainer.n_gpus_per_node", "the launcher says where ranks run"},
      {"trainer", "the run, its logs and its checkpoints"},
      {"checkpoint", "the run, its logs and its checkpoints"},
      {"global_profiler", "profiling"},
      {"profiler", "profiling"},
      {"*.profiler", "profiling"},
      {"transfer_queue", "how the trainer moves samples: Evenkeel's exchange takes its place"},
      {"ray_kwargs", "Ray"},
      {"ray_init", "Ray"},
      {"hydra", "Hydra's own"},
      {"model_engine", "the name of the files its defaults list chooses"},
  };
}

std::vector<OutsideRule> outside_rules_of_verl() {
  std::vector<OutsideRule> rules{
      {"*.ppo_epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {actor + "use_prefix_grouper", "shared prompts are prefix.share: set it where your version has it"},
      {actor + "use_kl_loss", "the RL algorithm; it tells whether ref_log_prob runs"},
      {"algorithm.use_kl_in_reward", "the RL algorithm; it tells whether ref_log_prob runs"},
      {"critic.enable", "it tells whether the critic runs"},
      {"data.max_prompt_length", "real lengths decide, not a padded width"},
      {"data", "where prompts come from: set source to where the rollouts are"},
      {"actor_rollout_ref.rollout", "generation"},
      {"actor_rollout_ref", "the model and its training"},
      {"critic", "the critic model and its training"},
      {"reward_model", "rewards"},
      {"reward_manager", "rewards"},
      {"reward", "rewards"},
      {"custom_reward_function", "rewards"},
      {"sandbox_fusion", "rewards"},
      {"algorithm", "the RL algorithm"},
      {"distillation", "distillation, which this job may add"},
      {"skip", "rollouts that are read from a file"},
  };
  append(rules, run_rules());
  return rules;
}

/// verl runs the reference model for a KL term, in the loss or in the rewards.
std::string why_no_reference(Facts& facts) {
  const auto in_loss = facts.flag("kl_in_loss");
  const auto in_reward = facts.flag("kl_in_reward");
  const bool is_known = in_loss && in_reward;
  return is_known && !*in_loss && !*in_reward ? "no KL term is asked for: the reference model does not run"
                                              : "";
}

/// verl runs the critic when it is told to, and else for GAE.
std::string why_no_critic(Facts& facts) {
  const auto enable = facts.flag("critic");
  const auto advantages = facts.word("advantages");
  const bool is_off = enable ? !*enable : advantages && *advantages != "gae";
  return is_off && !facts.is_lost("critic") ? "advantages are not GAE: the critic does not run" : "";
}

std::vector<TrainerRule> trainers() {
  return {{"fsdp", "sum"}, {"fsdp2", "sum"}, {"megatron", "mean", true}};
}

SystemTable rl_table() {
  SystemTable table;
  table.system = ForeignSystem::verl;
  table.title = "verl";
  table.stages = {{"update", true},
                  {"log_prob", true},
                  {"ref_log_prob", false, why_no_reference, ref},
                  {"critic_update", false, why_no_critic, "critic."},
                  {"critic_forward", false, why_no_critic, "critic."}};
  append(table.keys, job_rules());
  append(table.keys, stage_rules());
  table.same = same_rules();
  table.outside = outside_rules_of_verl();
  table.harmless = {"actor_rollout_ref.model",
                    "critic.model",
                    "model",
                    "reward",
                    "reward_manager",
                    "reward_model",
                    "legacy_reward_impl",
                    "transfer_queue",
                    "distillation",
                    "algorithm.rollout_correction",
                    "optim",
                    "profiler"};
  for (const std::string section : {"actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"})
    append(table.harmless, {section + ".optim", section + ".profiler"});
  for (const char* mode :
       {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    table.loss_words.emplace_back(mode, mode);
  }
  table.trainers = trainers();
  table.cost = "flops-7b";
  table.packing_algorithm = "load_balance";
  table.norm_note =
      "the mean over samples is taken here as in newer versions of verl; older ones do not divide by their "
      "number";
  return table;
}

std::vector<KeyRule> tuning_rules() {
  std::vector<KeyRule> rules{
      {"data.train_batch_size", {"prompts"}},
      {"trainer.total_epochs", {"epochs"}},
      {"trainer.nnodes", {"nodes"}},
      {"trainer.n_gpus_per_node", {"gpus"}},
      {"trainer.seed", {"seed"}},
      {"data.seed", {"seed"}},
      {"data.shuffle", {"shuffle"}},
      {"trainer.balance_batch", {"balance"}},
      {"ulysses_sequence_parallel_size", {"ulysses"}},
      {"engine.ulysses_sequence_parallel_size", {"engine_ulysses"}},
      {"use_remove_padding", {"packing"}},
      {"model.use_remove_padding", {"packing"}},
      {"engine._target_", {"trainer"}},
      {"engine.strategy", {"trainer"}},
  };
  append(rules, mesh_rules("engine."));
  append(rules, pass_rules("train", {"data.use_dynamic_bsz", "data.max_token_len_per_gpu",
                                     "data.micro_batch_size_per_gpu", "data.micro_batch_size"}));
  return rules;
}

/// What its SFT and DPO trainers have in common: a step is one update.
SystemTable tuning_table() {
  SystemTable table;
  table.system = ForeignSystem::verl;
  table.title = "verl";
  table.not_marks = {"actor_rollout_ref"};
  table.stages = {{"train", true}};
  table.keys = tuning_rules();
  table.outside = {{"data.max_length", "real lengths decide, not a padded width"},
                   {"data", "where samples come from: set source"},
                   {"model", "the model and its training"},
                   {"engine", "the model and its training"},
                   {"optim", "the model and its training"}};
  append(table.outside, run_rules());
  table.harmless = {"model", "optim", "profiler", "checkpoint"};
  table.implied = {{"shuffle", "true", "verl's trainer always shuffles"},
                   {"drop_last", "true", "verl's trainer leaves out an epoch's last, smaller batch"}};
  table.trainers = trainers();
  table.trainers.push_back({"verl.workers.config.FSDPEngineConfig", "sum"});
  table.trainers.push_back({"verl.workers.config.McoreEngineConfig", "mean", true});
  table.batch = BatchKind::samples;
  table.cost = "flops-7b";
  table.packing_algorithm = "load_balance";
  return table;
}

SystemTable verl_sft_table() {
  SystemTable table = tuning_table();
  table.marks = {"data.max_token_len_per_gpu", "data.micro_batch_size_per_gpu", "data.micro_batch_size",
                 "model.partial_pretrain"};
  table.implied.push_back({"loss", "token-mean", "verl's SFT takes the mean over tokens"});
  // The older trainer, known by its section of the model, averages over micro-batches.
  table.implied.push_back({"trainer", "sft on fsdp", "verl's older SFT trainer", "model.fsdp_config"});
  table.trainers.push_back({"sft on fsdp", "mean"});
  table.loss_words = {{"token-mean", "token-mean"}};
  return table;
}

SystemTable verl_dpo_table() {
  SystemTable table = tuning_table();
  table.marks = {"data.chosen_key", "data.rejected_key", "trainer.loss_type"};
  for (KeyRule& rule : table.keys) {
    if (rule.path == "data.train_batch_size")
      rule.note = "counts pairs: a sample is a pair, chosen and rejected in one sequence, as verl packs it";
  }
  table.implied.push_back({"loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"});
  table.loss_words = {{"pairs", "seq-mean-token-sum"}};
  return table;
}

}  // namespace

std::vector<const SystemTable*> verl_tables() {
  static const SystemTable dpo = verl_dpo_table();
  static const SystemTable sft = verl_sft_table();
  static const SystemTable rl = rl_table();
  return {&dpo, &sft, &rl};
}

}  // namespace evenkeel::config_import
