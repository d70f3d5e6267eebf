#include "config/import/facts.hpp"

namespace evenkeel::config_import {
namespace {

/// A section takes over what the model's own file says: "model: NAME" means model.NAME.
std::vector<KeyRule> model_rules(const std::string& section) {
  return {{"model.{" + section + ".model}.num_layers", {"layers"}}};
}

std::vector<KeyRule> mesh_rules() {
  std::vector<KeyRule> rules = model_rules("megatron_training");
  append(rules, model_rules("actor_config"));
  for (const std::string section : {"megatron_training.", "actor_config."}) {
    for (const auto& [key, fact] : megatron_axes()) rules.push_back({section + key, {fact}});
    rules.push_back({section + "context_parallel_algo", {"cp_algo"}});
    rules.push_back({section + "num_layers_per_virtual_pipeline_stage", {"vpp_layers"}});
    rules.push_back({section + "num_layers", {"layers"}});
  }
  return rules;
}

std::vector<KeyRule> batch_rules() {
  const std::string prompts = "counts prompts: times n_samples_per_prompt";
  return {
      {"megatron_training.global_batch_size", {"prompts"}, prompts},
      {"actor_config.global_batch_size", {"prompts"}, prompts},
      {"rl_config.n_samples_per_prompt", {"responses"}},
      {"rl_config.mini_batch_size", {"mini"}, "counts prompts, as global_batch_size does"},
      {"megatron_training.seed", {"seed"}},
      {"megatron_training.no_shuffle", {"no_shuffle"}, "shuffles samples, not prompts"},
      {"rl_config.use_dp_batch_balance", {"balance"}},
      {"rl_config.token_level_loss", {"loss"}, "their own rule is loss.aggregation: mindspeed-rl"},
      {"megatron_training.stage", {"stage"}},
  };
}

std::vector<KeyRule> stage_rules() {
  const std::string optional = "always holds; there it only raised the number of micro-batches";
  const std::string cap = "counted after alignment, and it always holds";
  std::vector<KeyRule> rules{
      {"rl_config.use_remove_padding", {"packing"}},
      {"rl_config.use_dynamic_bsz", {"update.packed", "actor.packed", "ref.packed", "critic.packed"}},
      {"rl_config.max_packing_token_size", {"update.cap", "actor.cap", "ref.cap"}, cap},
      {"rl_config.dynamic_max_batch_size",
       {"update.max_samples", "actor.max_samples", "ref.max_samples"},
       optional},
      {"megatron_training.micro_batch_size", {"update.size", "actor.size", "ref.size"}},
      {"actor_config.micro_batch_size", {"update.size", "actor.size"}},
      {"ref_config.micro_batch_size", {"ref.size"}},
      {"critic_config.micro_batch_size", {"critic.size"}},
      {"rl_config.update_micro_batch_size", {"update.size"}},
      {"rl_config.shuffle_mini_batch", {"update.shuffle"}},
  };
  for (const std::string stage : {"ref", "actor", "update"}) {
    rules.push_back({"rl_config." + stage + "_max_packing_token_size", {stage + ".cap"}, cap});
    rules.push_back({"rl_config." + stage + "_dynamic_max_batch_size", {stage + ".max_samples"}, optional});
    if (stage == "update") continue;
    rules.push_back({"rl_config." + stage + "_forward_micro_batch_size", {stage + ".size"}});
  }
  return rules;
}

std::vector<SameRule> same_rules() {
  std::vector<SameRule> rules;
  for (const std::string section : {"ref_config.", "reward_config.", "critic_config."}) {
    for (const auto& [key, fact] : megatron_axes())
      rules.push_back({section + key, "actor_config." + key, "1"});
  }
  return rules;
}

std::vector<OutsideRule> outside_rules_of_mindspeed() {
  std::vector<OutsideRule> rules{
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"*.sequence_parallel", "the alignment always allows for it"},
      {"*.seq_length", "real lengths decide, not a padded width"},
      {"megatron_training.stage", "it tells which passes there are"},
      {"rl_config.epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {"generate_config", "generation"},
      {"megatron_training", "the model and its training"},
      {"actor_config", "the model and its training"},
      {"ref_config", "the model and its training"},
      {"reward_config", "the reward model"},
      {"critic_config", "the critic model and its training"},
      {"model", "the model and its training"},
      {"rl_config.integrated_mode_config", "where the workers run"},
  };
  const std::pair<std::string, std::vector<std::string>> names[] = {
      {"the RL algorithm",
       {"gamma",
        "lam",
        "adv_estimator",
        "kl_penalty",
        "kl_ctrl_type",
        "init_kl_coef",
        "kl_horizon",
        "kl_target",
        "clip_ratio",
        "clip_ratio_low",
        "clip_ratio_high",
        "clip_higher_enable",
        "cliprange_value",
        "entropy_coeff",
        "advantage_whiten",
        "beta",
        "use_kl_in_reward",
        "max_prompt_length",
        "filter_groups_enable",
        "overlong_buffer_enable",
        "overlong_buffer"}},
      {"rewards",
       {"rule_reward", "verifier_function", "verifier_weight", "verifier_parallel", "verifier_timeout"}},
      {"where the workers run and how they talk",
       {"actor_resource", "reference_resource", "reward_resource", "critic_resource", "vit_resource",
        "use_integrated_worker", "blocking", "async_engine", "guarantee_order", "zmq_communication",
        "runtime_env_path", "num_cpus_for_local_task", "num_cpus_for_placement_group"}},
      {"samples a worker fetches at once: Evenkeel exchanges whole steps",
       {"actor_rollout_dispatch_size", "actor_logprob_dispatch_size", "ref_dispatch_size",
        "reward_dispatch_size", "adv_dispatch_size", "actor_update_dispatch_size", "kl_dispatch_size"}},
      {"logging",
       {"use_tensorboard", "use_wandb", "wandb_project", "wandb_exp_name", "wandb_save_dir",
        "log_max_throughput"}},
  };
  for (const auto& [why, keys] : names) {
    for (const std::string& key : keys) rules.push_back({"rl_config." + key, why});
  }
  return rules;
}

std::vector<AlwaysRule> always_rules() {
  return {
      {"megatron_training.variable_seq_lengths", "true", "lengths always vary"},
      {"megatron_training.no_pad_to_seq_lengths", "true", "nothing is padded to a fixed length"},
      {"megatron_training.reset_position_ids", "true", "positions start at 0 in every sequence"},
      {"megatron_training.reset_attention_mask", "true", "cu_seqlens keep sequences apart"},
  };
}

/// DAPO has no KL term.
std::string why_no_reference(Facts& facts) {
  return facts.word("stage") == "ray_dapo" ? "DAPO has no KL term: the reference model does not run" : "";
}

std::string why_no_critic(Facts& facts) {
  const auto stage = facts.word("stage");
  const bool is_off = stage ? *stage != "ray_ppo" : !facts.has("critic.size");
  return is_off ? "only PPO has a critic" : "";
}

SystemTable common_table() {
  SystemTable table;
  table.system = ForeignSystem::mindspeed_rl;
  table.title = "MindSpeed-RL";
  table.always = always_rules();
  table.outside = outside_rules_of_mindspeed();
  table.implied = {{"cp_algo", "ulysses_cp_algo", "MindSpeed-RL's default"},
                   {"trainer", "megatron", "MindSpeed-RL trains with Megatron"}};
  table.trainers = {{"megatron", "mean", true}};
  table.harmless = {"model"};
  table.balanced_by_default = false;
  table.packing_algorithm = "load_balance";
  return table;
}

SystemTable rl_table() {
  SystemTable table = common_table();
  table.stages = {{"update", true},
                  {"actor", true},
                  {"ref", true, why_no_reference, "ref_config."},
                  {"critic", false, why_no_critic, "critic_config."}};
  append(table.keys, mesh_rules());
  append(table.keys, batch_rules());
  append(table.keys, stage_rules());
  table.same = same_rules();
  table.loss_words = {{"true", "token-mean"}, {"false", "seq-mean-token-mean"}};
  return table;
}

/// GRPO and PPO take the mean over the tokens of each micro-batch; DAPO is told.
SystemTable token_mean_table(const std::string& stage) {
  SystemTable table = rl_table();
  table.marks = {"megatron_training.stage=" + stage};
  for (KeyRule& rule : table.keys) {
    if (rule.path == "rl_config.token_level_loss") rule.facts = {"loss_of_dapo"};
  }
  append(table.outside, std::vector<OutsideRule>{{"rl_config.token_level_loss", "only DAPO reads it"}});
  table.implied.push_back({"loss", "true", "GRPO and PPO take means over tokens"});
  return table;
}

/// SFT and DPO stand in one section, as Megatron's own arguments.
SystemTable tuning_table(const std::string& section) {
  SystemTable table = common_table();
  const std::string in = section + ".";
  append(table.keys, model_rules(section));
  for (const auto& [key, fact] : megatron_axes()) table.keys.push_back({in + key, {fact}});
  append(table.keys, std::vector<KeyRule>{{in + "context_parallel_algo", {"cp_algo"}},
                                          {in + "num_layers_per_virtual_pipeline_stage", {"vpp_layers"}},
                                          {in + "num_layers", {"layers"}},
                                          {in + "global_batch_size", {"prompts"}},
                                          {in + "micro_batch_size", {"train.size"}},
                                          {in + "seed", {"seed"}},
                                          {in + "no_shuffle", {"no_shuffle"}}});
  append(table.outside, std::vector<OutsideRule>{{section, "the model and its training"}});
  for (AlwaysRule& rule : table.always) rule.path = in + rule.path.substr(rule.path.find('.') + 1);
  table.stages = {{"train", true}};
  table.batch = BatchKind::samples;
  return table;
}

SystemTable mindspeed_sft_table() {
  SystemTable table = tuning_table("sft");
  table.marks = {"sft"};
  table.not_marks = {"rl_config"};
  table.implied.push_back({"loss", "tokens", "SFT takes means over tokens"});
  table.loss_words = {{"tokens", "token-mean"}};
  return table;
}

SystemTable mindspeed_dpo_table() {
  SystemTable table = tuning_table("megatron_training");
  table.marks = {"megatron_training.is_pairwise_dataset", "megatron_training.dpo_loss_type"};
  table.not_marks = {"rl_config"};
  for (KeyRule& rule : table.keys) {
    if (rule.path.ends_with("batch_size"))
      rule.note = "counts pairs: a sample is a pair, chosen and rejected in one sequence";
  }
  table.implied.push_back({"loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"});
  table.loss_words = {{"pairs", "seq-mean-token-sum"}};
  return table;
}

}  // namespace

std::vector<const SystemTable*> mindspeed_rl_tables() {
  static const SystemTable sft = mindspeed_sft_table();
  static const SystemTable dpo = mindspeed_dpo_table();
  static const SystemTable grpo = token_mean_table("ray_grpo");
  static const SystemTable ppo = token_mean_table("ray_ppo");
  static const SystemTable rl = rl_table();
  return {&sft, &dpo, &grpo, &ppo, &rl};
}

const std::vector<std::pair<std::string, std::string>>& megatron_axes() {
  static const std::vector<std::pair<std::string, std::string>> axes{
      {"tensor_model_parallel_size", "tp"},
      {"context_parallel_size", "cp"},
      {"pipeline_model_parallel_size", "pp"},
      {"virtual_pipeline_model_parallel_size", "vpp"}};
  return axes;
}

}  // namespace evenkeel::config_import
