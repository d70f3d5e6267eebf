#include "config_import_tables.hpp"

namespace evenkeel::config_import {
namespace {

std::vector<KeyRule> mesh_rules() {
  std::vector<KeyRule> rules;
  for (const std::string section : {"megatron_training.", "actor_config."}) {
    for (const auto& [key, fact] : megatron_axes()) rules.push_back({section + key, {fact}});
    rules.push_back({section + "context_parallel_algo", {"cp_algo"}});
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
      {"rl_config.token_level_loss",
       {"loss"},
       "over the whole step, whatever the split; their own rule is loss.aggregation: mindspeed-rl"},
  };
}

std::vector<KeyRule> stage_rules() {
  const std::string optional = "always holds; there it only raised the number of micro-batches";
  const std::string cap = "counted after alignment, and it always holds";
  std::vector<KeyRule> rules{
      {"rl_config.use_remove_padding", {"packing"}},
      {"rl_config.use_dynamic_bsz", {"update.packed", "actor.packed", "ref.packed"}},
      {"rl_config.max_packing_token_size", {"update.cap", "actor.cap", "ref.cap"}, cap},
      {"rl_config.dynamic_max_batch_size",
       {"update.max_samples", "actor.max_samples", "ref.max_samples"},
       optional},
      {"megatron_training.micro_batch_size", {"update.size", "actor.size", "ref.size"}},
      {"actor_config.micro_batch_size", {"update.size", "actor.size"}},
      {"ref_config.micro_batch_size", {"ref.size"}},
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

std::vector<OutsideRule> outside_rules() {
  std::vector<OutsideRule> rules{
      {"*.num_layers_per_virtual_pipeline_stage",
       "mesh.vpp counts virtual stages: the layers of a pipeline stage divided by this"},
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"*.sequence_parallel", "the alignment always allows for it"},
      {"*.seq_length", "real lengths decide, not a padded width"},
      {"rl_config.epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {"generate_config", "generation"},
      {"defaults", "files joined by Hydra: import the joined one"},
      {"megatron_training", "the model and its training"},
      {"actor_config", "the model and its training"},
      {"ref_config", "the model and its training"},
      {"reward_config", "the reward model"},
      {"critic_config", "the critic model: import it as a job of its own"},
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

SystemTable make_table() {
  SystemTable table;
  table.system = ForeignSystem::mindspeed_rl;
  table.title = "MindSpeed-RL";
  table.signs = {"rl_config", "megatron_training", "actor_config", "generate_config", "ref_config"};
  table.stages = {"update", "actor", "ref"};
  append(table.keys, mesh_rules());
  append(table.keys, batch_rules());
  append(table.keys, stage_rules());
  table.always = {
      {"megatron_training.variable_seq_lengths", "true", "lengths always vary"},
      {"megatron_training.no_pad_to_seq_lengths", "true", "nothing is padded to a fixed length"},
      {"megatron_training.reset_position_ids", "true", "positions start at 0 in every sequence"},
      {"megatron_training.reset_attention_mask", "true", "cu_seqlens keep sequences apart"},
  };
  table.same = same_rules();
  table.outside = outside_rules();
  table.implied = {{"cp_algo", "ulysses_cp_algo", "MindSpeed-RL's default"},
                   {"trainer", "megatron", "MindSpeed-RL trains with Megatron"}};
  table.loss_words = {{"true", "token-mean"}, {"false", "seq-mean-token-mean"}};
  table.trainers = {{"megatron", "mean"}};
  table.balanced_by_default = false;
  table.packing_algorithm = "load_balance";
  return table;
}

}  // namespace

const SystemTable& mindspeed_rl_table() {
  static const SystemTable table = make_table();
  return table;
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
