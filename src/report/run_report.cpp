#include "report/run_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "page/arrivals.hpp"
#include "page/html_page.hpp"

namespace evenkeel {
namespace {

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Builds text with one label and its value per line.
class Table {
 public:
  explicit Table(bool is_colored) : is_colored_(is_colored) {}

  void line(std::string_view text) { text_ += fmt::format("{}\n", text); }
  void row(std::string_view label, std::string_view value) {
    text_ += fmt::format("  {:<35} {}\n", label, value);
  }
  void item(std::string_view text) { text_ += fmt::format("     - {}\n", text); }
  [[nodiscard]] std::string highlight(const std::string& text) const {
    return format_bold_red(text, is_colored_);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  bool is_colored_;
  std::string text_;
};

/// Formats a ratio of PassFigures: its value over all passes and, if there are several, its maximum.
template <typename Of>
std::string ratio_text(const PassTotals& passes, Of ratio) {
  const PassFigures total = passes.total();
  const std::string mean = fmt::format("{:.4f}", std::invoke(ratio, total));
  if (passes.passes() == 1) return mean;
  return mean + fmt::format("   worst step {:.4f}", std::invoke(ratio, passes.maximum()));
}

/// Formats a source as "chat: data/chat.jsonl", or as its name or path alone.
std::string text_of(const ReportedSource& source) {
  const bool has_name = !source.path.empty() && source.name != source.path;
  return printable(has_name ? source.name + ": " + source.path : source.name);
}

/// Adds the job, its sources and its start time.
void add_origin_rows(const RunReport& report, Table& table) {
  if (!report.job.empty()) table.row("job", printable(report.job));
  for (const ReportedSource& source : report.sources) table.row("source", text_of(source));
  if (!report.started.empty()) table.row("started", report.started);
}

/// Returns the planned time divided by the time planned in source order, or 1 if the latter is 0.
double relative_time(double planned, double in_order) {
  return in_order == 0 ? 1 : planned / in_order;
}

void add_delay_rows(const DelayFigures& delay, Table& table) {
  table.row("outliers delayed",
            fmt::format("{} by {:.1f} steps on average, {} at most; {:.4f} steps an average token",
                        format_count(delay.samples, "sample"), delay.steps_per_sample(), delay.longest,
                        delay.steps_per_token()));
  table.row("planned time with the delay",
            fmt::format("{:.4f} of that without, if ranks meet at each micro-batch; {:.4f} if once a step",
                        relative_time(delay.planned.every_micro_batch, delay.in_order.every_micro_batch),
                        relative_time(delay.planned.once, delay.in_order.once)));
}

nlohmann::json delay_json(const std::optional<DelayFigures>& delay) {
  if (!delay) return nullptr;
  return {{"samples", delay->samples},
          {"sample_steps", delay->sample_steps},
          {"steps_per_token", delay->steps_per_token()},
          {"longest", delay->longest},
          {"planned_over_in_order",
           {{"every_micro_batch",
             relative_time(delay->planned.every_micro_batch, delay->in_order.every_micro_batch)},
            {"once", relative_time(delay->planned.once, delay->in_order.once)}}}};
}

/// Formats a message such as "; 3 samples have none; 2 samples without any were dropped"; empty if all
/// samples have tokens with loss.
std::string samples_without_loss_text(const PassFigures& total) {
  std::string text;
  if (total.without_loss > 0)
    text += "; " + format_count(total.without_loss, "sample has", "samples have") + " none";
  if (total.left_out > 0) text += "; " + format_count(total.left_out, "sample") + " without any were dropped";
  return text;
}

void add_token_rows(const RunTotals& t, Table& table) {
  const PassFigures total = t.passes.total();
  // With shared prefixes, compare with the rows before sharing, since sharing removes rows that are not
  // padding.
  const std::int64_t removed = total.padded_rows - (t.sharing ? total.unshared_rows : total.rows);
  table.row("samples", format_with_commas(total.samples) + " in " + format_count(t.passes.passes(), "step"));
  table.row("tokens", format_with_commas(total.tokens));
  table.row("tokens with loss", format_with_commas(total.loss_tokens) + samples_without_loss_text(total));
  table.row("rows in a padded batch", format_with_commas(total.padded_rows));
  table.row("rows delivered",
            fmt::format("{} ({:.1f} % {})", format_with_commas(total.rows),
                        percent_of(total.rows - total.filled, total.rows),
                        t.latest.pads_micro_batches ? "padding and alignment" : "alignment"));
  table.row("padding removed", fmt::format("{}, {:.1f} % of the padded batch", format_count(removed, "row"),
                                           percent_of(removed, total.padded_rows)));
}

void add_balance_rows(const RunTotals& t, Table& table) {
  const auto row = [&](std::string_view label, auto ratio) { table.row(label, ratio_text(t.passes, ratio)); };
  table.line("  work, max over mean (1 is even)");
  row("  DP ranks, source order", &PassFigures::max_over_mean_before);
  row("  DP ranks, balanced", of_balance<&StepBalance::dp_max_over_mean>);
  if (t.latest.shares_encoder) {
    row("  encoder, source order", &PassFigures::encoder_before);
    row("  encoder, balanced", &PassFigures::encoder);
  }
  row("  single micro-batches", of_balance<&StepBalance::micro_batch_max_over_mean>);
  row("  ranks meeting at each micro-batch", of_balance<&StepBalance::step_max_over_mean>);
}

/// Adds the measured cost used to balance the last step, if the configuration requests measured costs.
void add_cost_rows(const StepFigures& last, Table& table) {
  if (!last.cost_is_measured) return;
  const CostInUse& cost = last.cost;
  const std::string from = format_count(cost.observations, "time");
  const std::string kept = cost.kept
                               ? fmt::format(", kept, since a fit to {} did not give a usable cost", from)
                               : ", from " + from;
  if (!cost.times)
    return table.row("cost", "as configured" + (cost.kept ? kept : std::string(", no times reported")));
  table.row("cost, measured",
            fmt::format("{:.3g} s + {:.3g} s per token + {:.3g} s per length^2{}", cost.times->overhead,
                        cost.times->linear, cost.times->quadratic, kept));
  if (!cost.communication) return;
  const auto text_of = [](const HopInUse& hop, std::string_view where) {
    return fmt::format("{:.3g} s {}{}", hop.seconds, where, hop.kept ? " (kept)" : "");
  };
  table.row("communication, per token and hop",
            text_of(cost.communication->inside_node, "inside a node") + ", " +
                text_of(cost.communication->between_nodes, "between nodes"));
}

void add_micro_batch_rows(const RunTotals& t, Table& table) {
  const PassFigures total = t.passes.total();
  const std::string above =
      total.above_cap == 0
          ? ""
          : "; " + table.highlight(format_count(total.above_cap, "MICRO-BATCH", "MICRO-BATCHES") +
                                   " ABOVE THE CAP");
  table.row("micro-batches per DP rank",
            fmt::format("{}{} (lower bound {}), {} empty", format_with_commas(total.micro_batches),
                        t.passes.passes() == 1 ? "" : " over all steps",
                        format_with_commas(total.lower_bound), format_with_commas(total.empty)));
  table.row("widest micro-batch",
            fmt::format("{} of {}, aligned to {}{}", format_with_commas(total.widest),
                        format_count(t.latest.cap, "token"), t.latest.alignment, above));
}

void add_shape_rows(const RunTotals& t, Table& table) {
  if (!t.shapes) return;
  table.row("padding to few shapes",
            fmt::format("{}, {:.1f} % of the rows delivered", format_count(t.shapes->padding, "row"),
                        percent_of(t.shapes->padding, t.passes.total().rows)));
  table.row("shapes", fmt::format("{} of {} used, {} chosen", std::ssize(t.shapes->used), t.shapes->most,
                                  t.shapes->chosen));
}

/// Formats how much later `end` is than the end of the chosen plan.
std::string format_percent_later(double end, double chosen) {
  return fmt::format("{:.1f} % later", chosen > 0 ? 100 * (end / chosen - 1) : 0.0);
}

void add_strategy_rows(const RunTotals& t, Table& table) {
  if (!t.strategy) return;
  const StrategyFigures& f = *t.strategy;
  const std::string_view meet = f.meet == SyncPoint::step ? "once a step" : "at every micro-batch";
  table.row("strategy",
            fmt::format("grid in {} of {}: ranks meet {}; hierarchical alone would end {}, grid alone {}",
                        format_with_commas(f.grids), format_count(f.steps, "step"), meet,
                        format_percent_later(f.hierarchical_end, f.chosen_end),
                        format_percent_later(f.grid_end, f.chosen_end)));
}

nlohmann::json strategy_json(const std::optional<StrategyFigures>& f) {
  if (!f) return nullptr;
  return {{"meet", f->meet == SyncPoint::step ? "step" : "micro-batch"},
          {"chosen", f->grids == 0 ? "hierarchical" : "grid"},
          {"hierarchical_end", f->hierarchical_end},
          {"grid_end", f->grid_end}};
}

nlohmann::json shapes_json(const std::optional<ShapeFigures>& shapes) {
  if (!shapes) return nullptr;
  nlohmann::json used = nlohmann::json::array();
  for (const PackedShape& shape : shapes->used) {
    used.push_back({{"rows", shape.rows},
                    {"sequences", shape.sequences},
                    {"max_seqlen", shape.max_seqlen},
                    {"cp", shape.cp}});
  }
  return {{"max", shapes->most},
          {"chosen", shapes->chosen},
          {"padding", shapes->padding},
          {"used", std::move(used)}};
}

void add_sharing_rows(const RunTotals& t, Table& table) {
  if (!t.sharing) return;
  const SharingSavings& s = *t.sharing;
  const PassFigures total = t.passes.total();
  const std::int64_t saved = total.unshared_rows - total.rows;
  table.row("rows saved by sharing",
            fmt::format("{} of {} ({:.1f} %)", format_with_commas(saved),
                        format_with_commas(total.unshared_rows), percent_of(saved, total.unshared_rows)));
  table.row("tokens with shared prefixes once",
            fmt::format("{} of {} ({:.1f} % saved)", format_with_commas(s.tokens),
                        format_with_commas(s.repeated_tokens),
                        percent_of(s.repeated_tokens - s.tokens, s.repeated_tokens)));
  table.row("attention scores",
            fmt::format("{} of {} ({:.1f} % saved)", format_with_commas(s.score_entries),
                        format_with_commas(s.repeated_score_entries),
                        percent_of(s.repeated_score_entries - s.score_entries, s.repeated_score_entries)));
  table.row("tokens repeated by splits", describe_repeated_tokens(total.repeated));
}

void add_traffic_rows(const RunTotals& t, Table& table) {
  const PassFigures total = t.passes.total();
  table.row("bytes between ranks", bytes_text(total.sent_bytes));
  // Skip these figures on a single node, since they are zero.
  if (total.node_messages > 0) {
    table.row("bytes between nodes", fmt::format("{} in {}", bytes_text(total.node_bytes),
                                                 format_count(total.node_messages, "message")));
    table.row("bytes forwarded by leaders", bytes_text(total.forwarded_bytes));
  }
  table.row("bytes a rank kept", bytes_text(total.kept_bytes));
  table.row("bytes of model-parallel copies", bytes_text(total.copied_bytes));
  for (const FieldFigures& field : t.fields) {
    if (!field.changed) continue;
    table.row(
        "bytes of " + printable(field.name),
        fmt::format("{} received, {} copied; at most {} by a rank in a step", bytes_text(field.received),
                    bytes_text(field.copied), bytes_text(field.max_received)));
  }
  table.row("most memory of tensors on a rank", bytes_text(total.peak_bytes));
}

void add_time_rows(const PassFigures& total, Table& table) {
  std::vector<std::string> phases;
  for (std::size_t p = 0; p < phase_names.size(); ++p)
    phases.push_back(fmt::format("{} {:.3f}", phase_names[p], total.seconds[p]));
  table.row("seconds", fmt::format("{:.3f} ({})", sum_of(total.seconds), fmt::join(phases, ", ")));
  table.row("seconds the trainer waited", fmt::format("{:.3f}", total.waited));
}

/// Adds advice for the profile, if its figures by rank were gathered.
void add_advice(const RunReport& report, const std::string& profile, Table& table) {
  for (const RunPicture& run : report.pictures) {
    if (run.profile() != profile) continue;
    const std::vector<Advice> all = advice_on(run, report.circumstances());
    if (all.empty()) return table.row("what to change", "nothing, by these figures");
    table.line("  what to change");
    for (const Advice& advice : all) table.item(advice.what + " " + advice.why + " " + advice.action);
  }
}

nlohmann::json advice_json(const RunReport& report) {
  nlohmann::json all = nlohmann::json::array();
  for (const RunPicture& run : report.pictures) {
    for (const Advice& a : advice_on(run, report.circumstances()))
      all.push_back({{"profile", run.profile()},
                     {"share", a.share},
                     {"what", a.what},
                     {"why", a.why},
                     {"action", a.action}});
  }
  return all;
}

nlohmann::json json_of(const HopInUse& hop) {
  return {{"seconds", hop.seconds}, {"kept", hop.kept}};
}

nlohmann::json json_of(const CostInUse& cost, bool is_measured) {
  nlohmann::json json = {{"linear", cost.model.linear},
                         {"quadratic", cost.model.quadratic},
                         {"window", cost.model.window},
                         {"measured", nullptr}};
  if (!is_measured) return json;
  json["measured"] = {{"observations", cost.observations},
                      {"kept_previous_model", cost.kept},
                      {"seconds", nullptr},
                      {"seconds_per_token_and_hop", nullptr}};
  if (cost.times) {
    json["measured"]["seconds"] = {{"per_micro_batch", cost.times->overhead},
                                   {"per_token", cost.times->linear},
                                   {"per_squared_length", cost.times->quadratic}};
  }
  if (cost.communication) {
    json["measured"]["seconds_per_token_and_hop"] = {
        {"inside_node", json_of(cost.communication->inside_node)},
        {"between_nodes", json_of(cost.communication->between_nodes)}};
  }
  return json;
}

/// Converts a figure of PassFigures to JSON.
template <typename Value>
nlohmann::json json_of(const Value& value) {
  return value;
}
nlohmann::json json_of(const PhaseTimes& seconds) {
  nlohmann::json json;
  for (std::size_t p = 0; p < phase_names.size(); ++p) json[phase_names[p]] = seconds[p];
  return json;
}

nlohmann::json encoder_json(const StepFigures& f) {
  if (!f.shares_encoder) return nullptr;
  return {{"dp_max_over_mean_before", f.encoder_before}, {"dp_max_over_mean", f.encoder}};
}

nlohmann::json sharing_json(const StepFigures& f) {
  if (!f.sharing) return nullptr;
  nlohmann::json json = sharing_json(*f.sharing, f.repeated);
  json["aligned_tokens_without"] = f.unshared_rows;
  return json;
}

}  // namespace

void RunReport::add(StepFigures figures) {
  // Move the picture out of the figures, so that kept steps do not contain pictures.
  if (const auto picture = std::exchange(figures.picture, nullptr)) {
    const auto of_profile = [&](const RunPicture& run) { return run.profile() == picture->profile; };
    auto run = std::ranges::find_if(pictures, of_profile);
    if (run == pictures.end()) run = pictures.insert(pictures.end(), RunPicture{});
    run->add(*picture);
  }
  const auto same = [&](const RunTotals& totals) { return totals.latest.profile == figures.profile; };
  auto totals = std::ranges::find_if(profiles, same);
  if (totals == profiles.end()) totals = profiles.insert(profiles.end(), RunTotals{});
  totals->add(figures);
  if (keeps == Steps::each) steps.push_back(std::move(figures));
}

std::string to_text(const RunReport& report, bool is_colored) {
  Table table(is_colored);
  table.line(fmt::format("Evenkeel on {}: {:.3f} seconds", to_text(report.mesh), report.seconds));
  add_origin_rows(report, table);
  for (const ReportedSource& source : report.sources) {
    const std::string filtered = describe_filter(source.counts);
    if (!filtered.empty()) table.row("left out or cut of a source", printable(source.name) + ": " + filtered);
  }
  if (report.delay) add_delay_rows(*report.delay, table);
  if (report.arrivals)
    for (const auto& [name, value] : arrival_rows(*report.arrivals)) table.row(name, value);
  for (const RunTotals& t : report.profiles) {
    if (!t.latest.profile.empty()) table.line("profile " + t.latest.profile);
    add_token_rows(t, table);
    add_sharing_rows(t, table);
    add_balance_rows(t, table);
    add_cost_rows(t.latest, table);
    add_micro_batch_rows(t, table);
    add_shape_rows(t, table);
    add_strategy_rows(t, table);
    add_traffic_rows(t, table);
    add_time_rows(t.passes.total(), table);
    add_advice(report, t.latest.profile, table);
  }
  return std::move(table).text();
}

std::string to_html(const RunReport& report) {
  PageSubject subject;
  subject.version = report.version;
  subject.mesh = report.mesh;
  subject.name = report.job;
  for (const ReportedSource& source : report.sources) subject.sources.push_back(text_of(source));
  subject.date = report.started;
  subject.circumstances = report.circumstances();
  subject.text = to_text(report);
  subject.arrivals = report.arrivals;
  return html_page(subject, report.pictures);
}

nlohmann::json to_json(const StepFigures& f) {
  nlohmann::json fields = nlohmann::json::array();
  for (const FieldFigures& field : f.fields) {
    fields.push_back({{"name", field.name},
                      {"received", field.received},
                      {"copied", field.copied},
                      {"max_received", field.max_received}});
  }
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [name, value] : f.metrics) metrics[name] = value;
  nlohmann::json json{{"step", f.step},
                      {"profile", f.profile},
                      {"max_tokens", f.cap},
                      {"alignment", f.alignment},
                      {"encoder", encoder_json(f)},
                      {"cost", json_of(f.cost, f.cost_is_measured)},
                      {"fields", std::move(fields)},
                      {"sharing", sharing_json(f)},
                      {"shapes", shapes_json(f.shapes)},
                      {"strategy", strategy_json(f.strategy)},
                      {"arrivals", arrivals_json(f.arrivals)},
                      {"metrics", std::move(metrics)}};
  for_each_figure([&](const auto& figure) {
    if (figure.report == nullptr) return;
    json[nlohmann::json::json_pointer(figure.report)] = json_of(std::invoke(figure.of, f));
  });
  json["seconds"]["total"] = sum_of(f.seconds);
  for (std::size_t p = 0; p < phase_names.size(); ++p)
    json["slowest_ranks"][phase_names[p]] = f.slowest_ranks[p];
  return json;
}

nlohmann::json to_json(const RunReport& report) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepFigures& figures : report.steps) steps.push_back(to_json(figures));
  nlohmann::json sources = nlohmann::json::array();
  for (const ReportedSource& source : report.sources) sources.push_back(to_json(source));
  return {{"job", report.job},
          {"started", report.started},
          {"mesh", to_json(report.mesh)},
          {"seconds", report.seconds},
          {"first_step", report.first_step},
          {"sources", std::move(sources)},
          {"delay", delay_json(report.delay)},
          {"arrivals", arrivals_json(report.arrivals)},
          {"advice", advice_json(report)},
          {"steps", std::move(steps)}};
}

void RunTotals::add(const StepFigures& f) {
  latest = f;
  passes.add(f);
  for (const FieldFigures& more : f.fields) {
    const auto found = std::ranges::find(fields, more.name, &FieldFigures::name);
    FieldFigures& field = found != fields.end() ? *found : fields.emplace_back(FieldFigures{more.name});
    field.changed = field.changed || more.changed;
    field.received += more.received;
    field.copied += more.copied;
    field.max_received = std::max(field.max_received, more.max_received);
  }
  if (f.sharing) sharing = sharing.value_or(SharingSavings{}) += *f.sharing;
  if (f.shapes) shapes = shapes.value_or(ShapeFigures{}) += *f.shapes;
  if (f.strategy) strategy = strategy.value_or(StrategyFigures{f.strategy->meet}) += *f.strategy;
}

}  // namespace evenkeel
