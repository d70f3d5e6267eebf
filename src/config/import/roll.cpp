#include "config/import/facts.hpp"

namespace evenkeel::config_import {
namespace {

/// A section of one model's workers, and the profiles of its training and its forward passes.
struct Workers {
  std::string section;
  std::string train;  ///< empty: it is not trained
  std::string forward;
};

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

void add_workers(SystemTable& table, const Workers& workers, bool is_required) {
  std::vector<std::string> packed;
  std::vector<std::string> algorithm;
  for (const auto& [stage, trains] : {std::pair{workers.train, true}, std::pair{workers.forward, false}}) {
    if (stage.empty()) continue;
    packed.push_back(stage + ".packed");
    algorithm.push_back(stage + ".algorithm");
    append(table.keys, pass_rules(workers.section, stage, trains));
    table.stages.push_back({.name = stage, .is_required = is_required});
    table.implied.push_back({stage + ".length_round", "4", "ROLL's default", workers.section + "."});
    if (!trains) table.implied.push_back({stage + ".size", "16", "ROLL's default", workers.section + "."});
  }
  table.keys.push_back({workers.section + ".use_sequence_packing", std::move(packed)});
  table.keys.push_back({workers.section + ".sequence_packing_args.algorithm", std::move(algorithm)});
}

/// The model that is trained decides the mesh and the batches.
std::vector<KeyRule> actor_rules(const std::string& section) {
  const std::string actor = section + ".";
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

std::vector<SameRule> same_rules(const std::string& actor, const std::vector<std::string>& others) {
  std::vector<SameRule> rules;
  for (const std::string& section : others) {
    for (const auto& [key, fact] : megatron_axes()) {
      const std::string path = ".strategy_args.strategy_config." + key;
      rules.push_back({section + path, actor + path, "1", true});
    }
    rules.push_back({section + ".model_args.ulysses_size", actor + ".model_args.ulysses_size", "1"});
  }
  return rules;
}

std::vector<OutsideRule> algorithm_rules() {
  const std::pair<std::string, std::vector<std::string>> names[] = {
      {"the RL algorithm",
       {"adv_estimator",
        "gamma",
        "lambd",
        "pg_clip",
        "pg_clip_low",
        "pg_clip_high",
        "value_clip",
        "dual_clip_loss",
        "reward_clip",
        "advantage_clip",
        "whiten_advantages",
        "use_kl_loss",
        "kl_loss_coef",
        "init_kl_coef",
        "entropy_loss_coef",
        "add_token_level_kl",
        "norm_mean_type",
        "norm_std_type",
        "rl_loss_coef",
        "ipo",
        "beta",
        "label_smoothing"}},
      {"the run, its logs and its checkpoints",
       {"exp_name", "logging_dir", "output_dir", "track_with", "tracker_kwargs", "checkpoint_config",
        "max_steps", "save_steps", "logging_steps", "eval_steps", "resume_from_checkpoint", "pretrain",
        "reward_pretrain", "rpc_timeout"}},
      {"the environments: rollout_batch_size counts their trajectories",
       {"train_env_manager", "val_env_manager", "custom_envs", "reward_normalization", "env_manager_cls"}}};
  std::vector<OutsideRule> rules;
  for (const auto& [why, keys] : names) {
    for (const std::string& key : keys) rules.push_back({key, why});
  }
  return rules;
}

std::vector<OutsideRule> outside_rules_of_roll() {
  std::vector<OutsideRule> rules{
      {"*.expert_model_parallel_size", "experts are spread over dp: no axis of its own"},
      {"ppo_epochs", "passes over a step are the trainer's: iterate its micro-batches again"},
      {"train_batch_size",
       "ROLL makes its batches of per_device_train_batch_size, accumulation and DP ranks"},
      {"actor_infer", "generation"},
      {"student_infer", "generation"},
      {"rewards", "rewards"},
      {"validation", "validation"},
      {"val_batch_size", "validation"},
      {"*.apply_loss_scale", "omega and the scale of each micro-batch say it: see loss.micro_batches"},
      {"*.system_envs", "the environment of the trainer's processes"},
      {"*.model_args", "the model and its training"},
      {"*.training_args", "the model and its training"},
      {"*.strategy_args", "the model and its training"},
      {"*.data_args", "where prompts come from: set source to where the rollouts are"},
      {"*.device_mapping", "the launcher says where ranks run"},
      {"num_gpus_per_node", "the launcher says where ranks run"},
      {"num_nodes", "the launcher says where ranks run"},
      {"hydra", "Hydra's own"},
      {"deepspeed_zero", "DeepSpeed's settings: the model and its training"},
      {"deepspeed_zero2", "DeepSpeed's settings: the model and its training"},
      {"deepspeed_zero3", "DeepSpeed's settings: the model and its training"},
      {"deepspeed_zero3_cpuoffload", "DeepSpeed's settings: the model and its training"},
  };
  append(rules, algorithm_rules());
  return rules;
}

/// What all of ROLL's pipelines have in common.
SystemTable common_table(const std::string& actor) {
  SystemTable table;
  table.system = ForeignSystem::roll;
  table.title = "ROLL";
  append(table.keys, actor_rules(actor));
  append(table.keys, std::vector<KeyRule>{{"seed", {"seed"}}});
  table.outside = outside_rules_of_roll();
  table.harmless = {"deepspeed_zero", "deepspeed_zero2", "deepspeed_zero3", "deepspeed_zero3_cpuoffload",
                    "envs",           "traj_envs",       "step_envs"};
  table.trainers = {{"megatron_train", "mean", true}, {"deepspeed_train", "mean"}, {"fsdp2_train", "mean"}};
  table.cost = "flops-7b";
  table.align_lcm = "16";
  table.packing_algorithm = "none";
  return table;
}

/// RLVR and agentic jobs; distillation on its own rollouts calls the same sections by other names.
SystemTable rl_table(const std::string& actor, const std::string& infer, const std::string& reference) {
  SystemTable table = common_table(actor);
  add_workers(table, {actor, "train", "forward"}, true);
  add_workers(table, {reference, "", "reference"}, false);
  add_workers(table, {"critic", "critic_train", "critic_forward"}, false);
  append(table.keys,
         std::vector<KeyRule>{
             {"rollout_batch_size", {"prompts"}, "counts prompts: times num_return_sequences_in_group"},
             {infer + ".generating_args.num_return_sequences", {"responses"}},
             {"num_return_sequences_in_group", {"responses"}},
             {"loss_agg_mode", {"loss"}},
             {"response_length", {"width"}},
             {"prompt_length", {"prompt_width"}},
             {"sequence_length", {"sequence_width"}},
         });
  table.same = same_rules(actor, {reference, "critic"});
  table.implied.push_back({"loss", "seq-mean-token-mean", "ROLL's default"});
  for (const char* mode :
       {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    table.loss_words.emplace_back(mode, mode);
  }
  table.fully_masked = "skip";
  table.norm_note =
      "ROLL does not divide by the number of samples: its loss is this one times the samples of a mini-batch";
  return table;
}

/// Trajectories are counted, not prompts.
SystemTable agentic_table() {
  SystemTable table = rl_table("actor_train", "actor_infer", "reference");
  table.marks = {"train_env_manager", "custom_envs"};
  std::erase_if(table.keys,
                [](const KeyRule& rule) { return rule.facts == std::vector<std::string>{"responses"}; });
  for (KeyRule& rule : table.keys) {
    if (rule.path == "rollout_batch_size") rule.note = "counts trajectories";
  }
  return table;
}

SystemTable distill_rl_table() {
  SystemTable table = rl_table("student_train", "student_infer", "teacher");
  table.marks = {"student_train"};
  return table;
}

/// SFT, DPO and distillation of a fixed data set: a step is one update.
SystemTable tuning_table(const std::string& section) {
  SystemTable table = common_table(section);
  add_workers(table, {section, "train", ""}, true);
  append(table.keys, std::vector<KeyRule>{{section + ".training_args.num_train_epochs", {"epochs"}}});
  append(table.outside,
         std::vector<OutsideRule>{{"sequence_length", "real lengths decide, not a padded width"},
                                  {"prompt_length", "real lengths decide, not a padded width"},
                                  {"*.infer_batch_size", "validation"}});
  table.implied.push_back({"drop_last", "true", "ROLL's pipeline leaves out an epoch's last, smaller batch"});
  table.batch = BatchKind::rank_batches;
  return table;
}

SystemTable roll_sft_table() {
  SystemTable table = tuning_table("sft_train");
  table.marks = {"sft_train"};
  table.implied.push_back({"shuffle", "false", "ROLL's SFT keeps the order of its file"});
  table.implied.push_back({"loss", "token-mean", "ROLL's SFT takes the mean over tokens"});
  table.loss_words = {{"token-mean", "token-mean"}};
  return table;
}

SystemTable roll_dpo_table() {
  SystemTable table = tuning_table("actor_train");
  add_workers(table, {"reference", "", "reference"}, false);
  table.marks = {"chosen_key", "rejected_key", "ipo"};
  table.same = same_rules("actor_train", {"reference"});
  const std::string pairs = "counts pairs: a sample is a pair, chosen and rejected in one sequence";
  for (KeyRule& rule : table.keys) {
    if (rule.path.ends_with("per_device_train_batch_size") || rule.path.ends_with("infer_batch_size"))
      rule.note = pairs;
  }
  table.implied.push_back({"shuffle", "true", "ROLL's DPO always shuffles"});
  table.implied.push_back({"loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"});
  table.loss_words = {{"pairs", "seq-mean-token-sum"}};
  return table;
}

/// Its loss is a mixture of two means over each micro-batch, which is none of Evenkeel's.
SystemTable distill_table() {
  SystemTable table = tuning_table("student");
  add_workers(table, {"teacher", "", "teacher"}, false);
  // The teacher's micro-batches are as large as those it "trains" with.
  std::erase_if(table.keys, [](const KeyRule& rule) { return rule.path == "teacher.infer_batch_size"; });
  std::erase_if(table.implied, [](const ImpliedFact& it) { return it.fact == "teacher.size"; });
  append(table.keys,
         std::vector<KeyRule>{{"teacher.training_args.per_device_train_batch_size", {"teacher.size"}},
                              {"distill_loss_weight", {"loss"}}});
  table.marks = {"student", "teacher"};
  table.not_marks = {"student_train"};
  table.same = same_rules("student", {"teacher"});
  table.implied.push_back({"shuffle", "true", "ROLL's distillation always shuffles"});
  return table;
}

}  // namespace

std::vector<const SystemTable*> roll_tables() {
  static const SystemTable sft = roll_sft_table();
  static const SystemTable dpo = roll_dpo_table();
  static const SystemTable distill = distill_table();
  static const SystemTable distill_rl = distill_rl_table();
  static const SystemTable agentic = agentic_table();
  static const SystemTable rl = rl_table("actor_train", "actor_infer", "reference");
  return {&sft, &dpo, &distill, &distill_rl, &agentic, &rl};
}

}  // namespace evenkeel::config_import
