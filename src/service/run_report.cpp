#include "evenkeel/service/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace evenkeel {
namespace {

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} KiB", value / (1 << 10));
}

std::string row(const char* name, const std::string& value) {
  return fmt::format("  {:<36}{}\n", name, value);
}

std::string ratio_text(const RunTotals::Ratio& ratio) {
  return fmt::format("{:.4f}   worst step {:.4f}", ratio.mean(), ratio.worst());
}

std::string token_rows(const RunTotals& t) {
  const std::int64_t removed = t.padded_tokens - t.aligned_tokens;
  return row("samples", grouped(t.samples) + " in " + grouped(t.steps) + " steps") +
         row("tokens", grouped(t.tokens)) + row("rows in a padded batch", grouped(t.padded_tokens)) +
         row("rows handed out", fmt::format("{} ({:.1f} % alignment)", grouped(t.aligned_tokens),
                                            percent_of(t.aligned_tokens - t.tokens, t.aligned_tokens))) +
         row("padding removed", fmt::format("{} rows, {:.1f} % of the padded batch", grouped(removed),
                                            percent_of(removed, t.padded_tokens)));
}

std::string balance_rows(const RunTotals& t) {
  return "  work, max over mean (1 is even)\n" + row("  DP ranks, source order", ratio_text(t.dp_before)) +
         row("  DP ranks, balanced", ratio_text(t.dp)) +
         row("  single micro-batches", ratio_text(t.micro_batch)) +
         row("  ranks meeting at each micro-batch", ratio_text(t.step));
}

/// What the last step was balanced by, where that is measured.
std::string cost_rows(const StepFigures& last) {
  if (!last.cost_is_measured) return "";
  const CostInUse& cost = last.cost;
  const std::string from = fmt::format("{} times", grouped(cost.observations));
  const std::string kept =
      cost.kept ? fmt::format(", kept since {} cannot tell tokens from squares", from) : ", from " + from;
  if (!cost.times)
    return row("cost", "as configured" + (cost.kept ? kept : std::string(", no times reported")));
  return row("cost, measured",
             fmt::format("{:.3g} s + {:.3g} s a token + {:.3g} s a squared length{}", cost.times->overhead,
                         cost.times->linear, cost.times->quadratic, kept));
}

std::string micro_batch_rows(const RunTotals& t) {
  const std::string above =
      t.above_cap == 0 ? "" : fmt::format("; {} MICRO-BATCHES ABOVE THE CAP", grouped(t.above_cap));
  return row("micro-batches a DP rank",
             fmt::format("{} over all steps (lower bound {}), {} empty", grouped(t.micro_batches),
                         grouped(t.lower_bound), grouped(t.empty))) +
         row("widest micro-batch", fmt::format("{} of {} tokens, aligned to {}{}", grouped(t.widest),
                                               grouped(t.latest.cap), t.latest.alignment, above));
}

std::string sharing_rows(const RunTotals& t) {
  if (!t.sharing) return "";
  const SharingSavings& s = *t.sharing;
  return row("tokens with shared prefixes once",
             fmt::format("{} of {} ({:.1f} % saved)", grouped(s.tokens), grouped(s.repeated_tokens),
                         percent_of(s.repeated_tokens - s.tokens, s.repeated_tokens))) +
         row("attention scores",
             fmt::format("{} of {} ({:.1f} % saved)", grouped(s.score_entries),
                         grouped(s.repeated_score_entries),
                         percent_of(s.repeated_score_entries - s.score_entries, s.repeated_score_entries))) +
         row("tokens repeated to keep the cap", grouped(t.tokens_repeated_by_cap));
}

/// Nothing to tell where all ranks are on one node.
std::string node_rows(const RunTotals& t) {
  if (t.volume.messages == 0) return "";
  return row("bytes between nodes", fmt::format("{} in {} messages", bytes_text(t.volume.between_nodes),
                                                grouped(t.volume.messages))) +
         row("bytes passed on by leaders", bytes_text(t.volume.passed_on));
}

std::string traffic_rows(const RunTotals& t) {
  return row("bytes between ranks", bytes_text(t.volume.sent)) + node_rows(t) +
         row("bytes a rank kept", bytes_text(t.volume.kept)) +
         row("bytes of model-parallel copies", bytes_text(t.volume.copied)) +
         row("most memory of tensors on a rank", bytes_text(t.column_bytes)) +
         row("seconds", fmt::format("{:.3f} (read {:.3f}, gather {:.3f}, plan {:.3f}, agree {:.3f}, exchange "
                                    "{:.3f}, pack {:.3f})",
                                    t.seconds.total(), t.seconds.read, t.seconds.gather, t.seconds.plan,
                                    t.seconds.agree, t.seconds.exchange, t.seconds.pack)) +
         row("seconds the trainer waited", fmt::format("{:.3f}", t.waited));
}

nlohmann::json json_of(const StepBalance& balance) {
  return {{"dp_max_over_mean", balance.dp_max_over_mean},
          {"micro_batch_max_over_mean", balance.micro_batch_max_over_mean},
          {"step_max_over_mean", balance.step_max_over_mean}};
}

nlohmann::json json_of(const CostInUse& cost, bool is_measured) {
  nlohmann::json json = {{"linear", cost.model.linear},
                         {"quadratic", cost.model.quadratic},
                         {"window", cost.model.window},
                         {"measured", nullptr}};
  if (!is_measured) return json;
  json["measured"] = {
      {"observations", cost.observations}, {"kept_the_model_before", cost.kept}, {"seconds", nullptr}};
  if (cost.times) {
    json["measured"]["seconds"] = {{"a_micro_batch", cost.times->overhead},
                                   {"a_token", cost.times->linear},
                                   {"a_squared_length", cost.times->quadratic}};
  }
  return json;
}

nlohmann::json json_of(const PhaseSeconds& s) {
  return {{"read", s.read},         {"gather", s.gather}, {"plan", s.plan},    {"agree", s.agree},
          {"exchange", s.exchange}, {"pack", s.pack},     {"total", s.total()}};
}

nlohmann::json json_of(const std::optional<SharingSavings>& sharing, std::int64_t repeated_by_cap) {
  if (!sharing) return nullptr;
  return {{"tokens", sharing->tokens},
          {"tokens_without", sharing->repeated_tokens},
          {"score_entries", sharing->score_entries},
          {"score_entries_without", sharing->repeated_score_entries},
          {"tokens_repeated_by_cap", repeated_by_cap}};
}

nlohmann::json json_of(const StepFigures& f) {
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [name, value] : f.metrics) metrics[name] = value;
  return {{"step", f.step},
          {"profile", f.profile},
          {"max_tokens", f.cap},
          {"alignment", f.alignment},
          {"samples", f.samples},
          {"tokens", f.tokens},
          {"aligned_tokens", f.aligned_tokens},
          {"padded_tokens", f.padded_tokens},
          {"num_micro_batches", f.micro_batches},
          {"micro_batches_lower_bound", f.micro_batches_lower_bound},
          {"empty_micro_batches", f.empty_micro_batches},
          {"widest_micro_batch", f.widest_micro_batch},
          {"micro_batches_above_cap", f.micro_batches_above_cap},
          {"dp_max_over_mean_before", f.dp_max_over_mean_before},
          {"balance", json_of(f.balance)},
          {"cost", json_of(f.cost, f.cost_is_measured)},
          {"bytes",
           {{"sent", f.volume.sent},
            {"between_nodes", f.volume.between_nodes},
            {"kept", f.volume.kept},
            {"copied", f.volume.copied},
            {"passed_on", f.volume.passed_on}}},
          {"messages_between_nodes", f.volume.messages},
          {"column_bytes", f.column_bytes},
          {"seconds", json_of(f.seconds)},
          {"waited_seconds", f.waited},
          {"sharing", json_of(f.sharing, f.tokens_repeated_by_cap)},
          {"metrics", std::move(metrics)}};
}

}  // namespace

void RunReport::add(const StepFigures& figures) {
  const auto same = [&](const RunTotals& totals) { return totals.latest.profile == figures.profile; };
  auto totals = std::ranges::find_if(profiles, same);
  if (totals == profiles.end()) totals = profiles.insert(profiles.end(), RunTotals{});
  totals->add(figures);
  if (keeps == Steps::each) steps.push_back(figures);
}

std::string to_text(const RunReport& report) {
  std::string text =
      fmt::format("Evenkeel on tp {} x cp {} x dp {} x pp {}: {:.3f} seconds\n", report.mesh.tp,
                  report.mesh.cp, report.mesh.dp, report.mesh.pp, report.seconds);
  for (const RunTotals& t : report.profiles) {
    if (!t.latest.profile.empty()) text += "profile " + t.latest.profile + "\n";
    text += token_rows(t) + sharing_rows(t) + balance_rows(t) + cost_rows(t.latest) + micro_batch_rows(t) +
            traffic_rows(t);
  }
  return text;
}

nlohmann::json to_json(const RunReport& report) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepFigures& figures : report.steps) steps.push_back(json_of(figures));
  return {{"mesh",
           {{"tp", report.mesh.tp}, {"cp", report.mesh.cp}, {"dp", report.mesh.dp}, {"pp", report.mesh.pp}}},
          {"seconds", report.seconds},
          {"steps", std::move(steps)}};
}

}  // namespace evenkeel
