#include "cli/inspect/inspect_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "cli/terminal/labelled_lines.hpp"
#include "evenkeel/base/error.hpp"
#include "page/mesh_picture.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array phases{"read", "gather", "plan", "agree", "exchange", "pack"};
constexpr std::size_t most_steps_shown = 3;
constexpr double least_share_shown = 0.001;

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

double share_of(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

/// The part of a step that an average rank waits, of max over mean.
double waiting(double max_over_mean) {
  return max_over_mean > 0 ? 1 - 1 / max_over_mean : 0;
}

/// The passes of one profile.
struct Passes {
  std::int64_t steps = 0;
  double samples = 0, tokens = 0, rows = 0, padded_rows = 0, filled = 0, saved_rows = 0;
  double micro_batches = 0, lower_bound = 0, empty = 0, above_cap = 0;
  double before = 0, dp = 0, each = 0;  // sums of max over mean
  double made = 0, waited = 0, sent = 0, between_nodes = 0, kept = 0, memory = 0;
  std::array<double, phases.size()> seconds{};
  std::vector<std::pair<double, std::int64_t>> waits;  // of each step, meeting at every micro-batch

  void add(const json& step) {
    ++steps;
    samples += step.at("samples").get<double>();
    tokens += step.at("tokens").get<double>();
    const double handed_out = step.at("aligned_tokens").get<double>();
    rows += handed_out;
    padded_rows += step.at("padded_tokens").get<double>();
    const json& sharing = step.at("sharing");
    filled += (sharing.is_null() ? step : sharing).at("tokens").get<double>();
    if (!sharing.is_null()) saved_rows += sharing.at("aligned_tokens_without").get<double>() - handed_out;
    micro_batches += step.at("num_micro_batches").get<double>();
    lower_bound += step.at("micro_batches_lower_bound").get<double>();
    empty += step.at("empty_micro_batches").get<double>();
    above_cap += step.at("micro_batches_above_cap").get<double>();
    before += step.at("dp_max_over_mean_before").get<double>();
    dp += step.at("balance").at("dp_max_over_mean").get<double>();
    const double meeting = step.at("balance").at("step_max_over_mean").get<double>();
    each += meeting;
    waits.emplace_back(waiting(meeting), step.at("step").get<std::int64_t>());
    for (std::size_t p = 0; p < phases.size(); ++p)
      seconds[p] += step.at("seconds").at(phases[p]).get<double>();
    made += step.at("seconds").at("total").get<double>();
    waited += step.at("waited_seconds").get<double>();
    sent += step.at("bytes").at("sent").get<double>();
    between_nodes += step.at("bytes").at("between_nodes").get<double>();
    kept += step.at("bytes").at("kept").get<double>();
    memory = std::max(memory, step.at("column_bytes").get<double>());
  }
  [[nodiscard]] double mean(double sum) const { return sum / static_cast<double>(steps); }
};

/// By profile, in the order in which they came.
using Profiles = std::vector<std::pair<std::string, Passes>>;

void add(const json& step, Profiles& profiles) {
  const auto name = step.at("profile").get<std::string>();
  auto found = std::ranges::find(profiles, name, &Profiles::value_type::first);
  if (found == profiles.end()) found = profiles.insert(profiles.end(), {name, Passes{}});
  found->second.add(step);
}

std::string whole(double number) {
  return grouped(static_cast<std::int64_t>(number));
}

std::string bytes(double number) {
  return bytes_text(static_cast<std::int64_t>(number));
}

std::string padding_text(const Passes& p) {
  std::string text =
      fmt::format("{} of a padded batch's {} rows were removed; {} of the {} handed out hold no token",
                  percent(share_of(p.padded_rows - p.rows - p.saved_rows, p.padded_rows)),
                  whole(p.padded_rows), percent(share_of(p.rows - p.filled, p.rows)), whole(p.rows));
  if (p.saved_rows > 0) text += fmt::format("; sharing saved {}", whole(p.saved_rows));
  return text;
}

std::string micro_batch_text(const Passes& p) {
  const double more = p.micro_batches - p.lower_bound;
  std::string text =
      fmt::format("{} a DP rank, {}", whole(p.micro_batches),
                  more > 0 ? whole(more) + " above the lower bound" : "as few as the cap allows");
  if (p.empty > 0) text += fmt::format("; {} empty over all DP ranks", whole(p.empty));
  if (p.above_cap > 0) text += fmt::format("; {} ABOVE THE CAP", whole(p.above_cap));
  return text;
}

std::string time_text(const Passes& p) {
  const auto longest = static_cast<std::size_t>(std::ranges::max_element(p.seconds) - p.seconds.begin());
  return fmt::format("making steps took {:.3f} s, {} of it in {}; the trainer waited {:.3f} s of it", p.made,
                     percent(share_of(p.seconds.at(longest), p.made)), phases.at(longest), p.waited);
}

std::string traffic_text(const Passes& p) {
  std::string text = fmt::format("{} went between ranks", bytes(p.sent));
  if (p.between_nodes > 0) text += fmt::format(", {} of it between nodes", bytes(p.between_nodes));
  return text + fmt::format("; {} was on the right rank already", bytes(p.kept));
}

std::string worst_text(Passes passes) {
  std::ranges::stable_sort(passes.waits, std::greater(), &std::pair<double, std::int64_t>::first);
  std::vector<std::string> shown;
  for (const auto& [share, step] : passes.waits) {
    if (shown.size() == most_steps_shown || share < least_share_shown) break;
    shown.push_back(fmt::format("step {} ({})", step, percent(share)));
  }
  return fmt::to_string(fmt::join(shown, ", "));
}

void explain(const Passes& p, LabelledLines& lines) {
  lines.line("steps", fmt::format("{}, {} and {}", counted(p.steps, "step"),
                                  counted(static_cast<std::int64_t>(p.samples), "sample"),
                                  counted(static_cast<std::int64_t>(p.tokens), "token")));
  lines.line("padding", padding_text(p));
  lines.line("balance",
             fmt::format("the DP rank with most work has {} above the mean; in source order it would have {}",
                         percent(p.mean(p.dp) - 1), percent(p.mean(p.before) - 1)));
  lines.line("waiting",
             fmt::format("an average DP rank waits {} of a step's planned work, and {} where ranks meet at "
                         "each micro-batch",
                         percent(waiting(p.mean(p.dp))), percent(waiting(p.mean(p.each)))));
  if (const std::string worst = worst_text(p); !worst.empty()) lines.line("waits most", worst);
  lines.line("micro-batches", micro_batch_text(p));
  lines.line("time", time_text(p));
  lines.line("bytes", traffic_text(p));
  lines.line("memory", bytes(p.memory) + " of tensors at most on a rank");
}

void explain_advice(const json& report, LabelledLines& lines) {
  if (!report.contains("advice")) return;  // of an earlier version
  const json& all = report.at("advice");
  if (all.empty()) lines.line("what to change", "nothing, by these figures");
  for (const json& advice : all) {
    const auto profile = advice.at("profile").get<std::string>();
    lines.line("what to change",
               (profile.empty() ? "" : "profile " + profile + ": ") + advice.at("what").get<std::string>() +
                   " " + advice.at("why").get<std::string>() + " " + advice.at("then").get<std::string>());
  }
}

json report_in(const std::string& text) {
  return json::parse(text);
}

/// The lines of metrics as a report that is not finished. A last line without an end is torn.
json metrics_in(const std::string& text) {
  json steps = json::array();
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    steps.push_back(json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return {{"steps", std::move(steps)}};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw IoError(path.string(), "cannot be read");
  return text;
}

std::string explain(const json& report, std::size_t width) {
  Profiles profiles;
  for (const json& step : report.at("steps")) add(step, profiles);
  LabelledLines lines(width);
  if (report.contains("mesh")) {
    lines.line("ran on", fmt::format("{}, {:.3f} seconds", to_text(mesh_picture_from(report.at("mesh"))),
                                     report.at("seconds").get<double>()));
  }
  if (profiles.empty()) lines.line("steps", "none so far");
  for (const auto& [name, passes] : profiles) {
    if (!name.empty()) lines.heading("profile " + name);
    explain(passes, lines);
  }
  explain_advice(report, lines);
  return std::move(lines).text();
}

}  // namespace

bool names_metrics(const fs::path& path) {
  std::error_code unknown;  // what cannot be looked at is told when it is opened
  if (path.extension() != ".jsonl" || !fs::is_regular_file(path, unknown)) return false;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return path.filename() == "metrics.jsonl";
  const json first = json::parse(line, nullptr, false);
  return first.is_object() && first.contains("dp_max_over_mean_before");
}

std::string explain_report(const fs::path& path, std::size_t width) {
  const std::string text = text_of(path);
  try {
    return explain(path.extension() == ".jsonl" ? metrics_in(text) : report_in(text), width);
  } catch (const json::exception& error) {
    throw InputError(path.string(), std::string("is no report of a run: ") + error.what(),
                     "Give report.json or metrics.jsonl of evenkeel run --report");
  }
}

std::string explain_report_in(const fs::path& folder, std::size_t width) {
  for (const char* name : {"report.json", "metrics.jsonl"}) {
    std::error_code unknown;
    if (fs::is_regular_file(folder / name, unknown)) return explain_report(folder / name, width);
  }
  return {};
}

}  // namespace evenkeel::cli
