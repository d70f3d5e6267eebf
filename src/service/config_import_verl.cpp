#include "config_import_tables.hpp"

namespace evenkeel::config_import {
namespace {

const std::string actor = "actor_rollout_ref.actor.";
const std::string ref = "actor_rollout_ref.ref.";
const std::string rollout = "actor_rollout_ref.rollout.";

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
      {"data.shuffle", {"shuffle"}, "shuffles samples, not prompts"},
      {actor + "data_loader_seed", {"seed"}},
      {"data.seed", {"seed"}},
      {"trainer.balance_batch", {"balance"}},
      {"actor_rollout_ref.model.use_remove_padding", {"packing"}},
      {actor + "loss_agg_mode", {"loss"}, "over the whole step, whatever the split"},
      {actor + "loss_scale_factor", {"norm"}},
  };
  for (const auto& [key, fact] : megatron_axes()) rules.push_back({actor + "megatron." + key, {fact}});
  return rules;
}

/// The keys by which one pass cuts its micro-batches.
std::vector<KeyRule> pass_rules(const std::string& stage, const std::string& dynamic, const std::string& cap,
                                const std::string& size) {
  return {{dynamic, {stage + ".packed"}},
          {cap, {stage + ".gpu_cap"}, "counted after alignment, and it always holds"},
          {size, {stage + ".size"}}};
}

std::vector<KeyRule> stage_rules() {
  std::vector<KeyRule> rules =
      pass_rules("update", actor + "use_dynamic_bsz", actor + "ppo_max_token_len_per_gpu",
                 actor + "ppo_micro_batch_size_per_gpu");
  for (const auto& [stage, section] : {std::pair{std::string("log_prob"), rollout}, {"ref_log_prob", ref}}) {
    append(rules,
           pass_rules(stage, section + "log_prob_use_dynamic_bsz", section + "log_prob_max_token_len_per_gpu",
                      section + "log_prob_micro_batch_size_per_gpu"));
  }
  append(rules, pass_rules("critic_update", "critic.use_dynamic_bsz", "critic.ppo_max_token_len_per_gpu",
                           "critic.ppo_micro_batch_size_per_gpu"));
  append(rules, pass_rules("critic_forward", "critic.use_dynamic_bsz", "critic.forward_max_token_len_per_gpu",
                           "critic.forward_micro_batch_size_per_gpu"));
  return rules;
}

std::vector<SameRule> same_rules() {
  std::vector<SameRule> rules;
  for (const std::string& section : {ref, std::string("critic.")}) {
    for (const auto& [key, fact] : megatron_axes()) {
      rules.push_back({section + "megatron." + key, actor + "megatron." + key, "1"});
    }
    const std::string ulysses = "ulysses_sequence_parallel_size";
    for (const std::string& place : {ulysses, "fsdp_config." + ulysses}) {
      rules.push_back({section + place, actor + ulysses, "1"});
    }
  }
  for (const std::string key :
       {"ppo_mini_batch_size", "loss_agg_mode", "shuffle", "data_loader_seed", "strategy"}) {
    rules.push_back({"critic." + key, actor + key, ""});
  }
  for (const std::string& section : {actor, ref, std::string("critic.")}) {
    rules.push_back({section + "rollout_n", rollout + "n", "1"});
  }
  rules.push_back({ref + "strategy", actor + "strategy", ""});
  rules.push_back({actor + "use_remove_padding", "actor_rollout_ref.model.use_remove_padding", "false"});
  return rules;
}

std::vector<OutsideRule> outside_rules() {
  return {
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"*.ppo_micro_batch_size", "over all GPUs: set micro_batch.size to one rank's share"},
      {"*.log_prob_micro_batch_size", "over all GPUs: set micro_batch.size to one rank's share"},
      {"*.ppo_epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {actor + "use_prefix_grouper", "shared prompts are prefix.share: set it where your version has it"},
      {"data.max_prompt_length", "real lengths decide, not a padded width"},
      {"data.max_response_length", "real lengths decide, not a padded width"},
      {"data", "where prompts come from: set source to where the rollouts are"},
      {"actor_rollout_ref.rollout", "generation"},
      {"actor_rollout_ref", "the model and its training"},
      {"critic", "the critic model and its training"},
      {"reward_model", "rewards"},
      {"reward", "rewards"},
      {"custom_reward_function", "rewards"},
      {"algorithm", "the RL algorithm"},
      {"trainer.nnodes", "the launcher says where ranks run"},
      {"trainer.n_gpus_per_node", "the launcher says where ranks run"},
      {"trainer", "the run, its logs and its checkpoints"},
      {"global_profiler", "profiling"},
      {"transfer_queue", "how the trainer moves samples: Evenkeel's exchange takes its place"},
      {"ray_kwargs", "Ray"},
      {"ray_init", "Ray"},
      {"defaults", "files joined by Hydra: import the joined one"},
      {"hydra", "Hydra's own"},
  };
}

SystemTable make_table() {
  SystemTable table;
  table.system = ForeignSystem::verl;
  table.title = "verl";
  table.signs = {"actor_rollout_ref", "trainer.balance_batch", "data.train_batch_size",
                 "critic.use_dynamic_bsz", "critic.ppo_mini_batch_size"};
  table.stages = {"update", "log_prob", "ref_log_prob", "critic_update", "critic_forward"};
  append(table.keys, job_rules());
  append(table.keys, stage_rules());
  table.same = same_rules();
  table.outside = outside_rules();
  for (const char* mode :
       {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    table.loss_words.emplace_back(mode, mode);
  }
  table.trainers = {{"fsdp", "sum"}, {"fsdp2", "sum"}, {"megatron", "mean"}};
  table.cost = "flops-7b";
  table.packing_algorithm = "load_balance";
  return table;
}

}  // namespace

const SystemTable& verl_table() {
  static const SystemTable table = make_table();
  return table;
}

}  // namespace evenkeel::config_import
