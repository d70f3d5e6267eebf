#include "cli/prometheus_metrics.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/text/parse_number.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"
#include "page/arrivals.hpp"

namespace evenkeel::cli {
namespace {

using Labels = prometheus::Labels;

bool is_port(std::string_view text) {
  return parse_as<std::uint16_t>(text).has_value();
}

/// Returns whether the string is an IPv4 address. Does not resolve host names. Does not accept IPv6, because
/// Debian builds the HTTP library that serves the metrics without IPv6 support.
bool is_address(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

}  // namespace

CLI::Validator listening_address() {
  CLI::Validator validator("");
  validator.operation([](std::string& given) -> std::string {
    const std::size_t colon = given.rfind(':');
    const std::string address = colon == std::string::npos ? "127.0.0.1" : given.substr(0, colon);
    const std::string port = colon == std::string::npos ? given : given.substr(colon + 1);
    if (!is_address(address) || !is_port(port)) {
      return fmt::format(
          "'{}' is neither a port from 0 to 65535 nor an IPv4 address with a port (0.0.0.0:9464)",
          printable(given));
    }
    given = address + ":" + port;
    return {};
  });
  return validator;
}

/// The registry, its metrics by name, and the server that answers scrapes.
class PrometheusMetrics::Families {
 public:
  void increment_counter(const char* name, const char* help, Labels labels, double more) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
    family.Add(labels).Increment(more);
  }
  /// Raises a counter to a value that is counted elsewhere. Never decreases it.
  void raise_counter_to(const std::string& name, const char* help, Labels labels, double value) {
    auto& counter = prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
    if (value > counter.Value()) counter.Increment(value - counter.Value());
  }
  void set_gauge(const std::string& name, const char* help, Labels labels, double value) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
    family.Add(labels).Set(value);
  }
  void listen(const std::string& address) {
    try {
      exposer_.emplace(address, 1);
    } catch (const std::exception&) {
      throw IoError(
          "--prometheus " + address,
          "cannot listen there: the port is in use or not permitted, or the address is not this machine's",
          "Give an address of this machine, and another port; 0 takes any free port");
    }
    exposer_->RegisterCollectable(registry_);
  }
  [[nodiscard]] int port() const {
    const std::vector<int> ports = exposer_ ? exposer_->GetListeningPorts() : std::vector<int>{};
    return ports.empty() ? 0 : ports.front();
  }
  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer().Serialize(registry_->Collect());
  }

 private:
  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>(prometheus::Registry::InsertBehavior::Merge);
  std::optional<prometheus::Exposer> exposer_;
};

PrometheusMetrics::PrometheusMetrics(const PrometheusSettings& settings, const std::string& version)
    : settings_(settings), families_(std::make_unique<Families>()) {
  families_->set_gauge("evenkeel_build_info", "The program; always 1.", {{"version", version}}, 1);
  if (!settings_.address.empty()) families_->listen(settings_.address);
  write_file();
}

PrometheusMetrics::~PrometheusMetrics() = default;

int PrometheusMetrics::port() const {
  return families_->port();
}

void PrometheusMetrics::set_planned_steps(std::int64_t steps) {
  families_->set_gauge("evenkeel_planned_steps", "Steps that the run will make.", {},
                       static_cast<double>(steps));
  write_file();
}

void PrometheusMetrics::publish_pass(const StepFigures& f) {
  const Labels profile{{"profile", f.profile}};
  const auto labels_with = [&](const char* label, const char* value) {
    return Labels{{"profile", f.profile}, {label, value}};
  };
  const auto count = [&](const char* name, const char* help, auto more) {
    families_->increment_counter(name, help, profile, static_cast<double>(more));
  };
  count("evenkeel_passes_total", "Passes over a step.", 1);
  count("evenkeel_samples_total", "Samples delivered.", f.samples);
  count("evenkeel_tokens_total", "True tokens of these samples.", f.tokens);
  count("evenkeel_loss_tokens_total", "Tokens that carry loss.", f.loss_tokens);
  count("evenkeel_samples_without_loss_total", "Samples in which no token carries loss.", f.without_loss);
  count("evenkeel_samples_dropped_without_loss_total", "Samples that batch.without_loss dropped.",
        f.left_out);
  count("evenkeel_rows_total", "Rows delivered, including alignment.", f.rows);
  if (f.shapes)
    count("evenkeel_shape_padding_rows_total", "Rows added to pad micro-batches to one of the shapes.",
          f.shapes->padding);
  count("evenkeel_padded_rows_total", "Rows that a padded batch would take.", f.padded_rows);
  count("evenkeel_micro_batches_total", "Micro-batches of each DP rank.", f.micro_batches);
  count("evenkeel_micro_batches_lower_bound_total", "Lower bound on the micro-batches of each DP rank.",
        f.lower_bound);
  count("evenkeel_empty_micro_batches_total", "Empty micro-batches over all DP ranks.", f.empty);
  count("evenkeel_micro_batches_above_cap_total", "Micro-batches above the cap over all DP ranks.",
        f.above_cap);
  count("evenkeel_waited_seconds_total", "Seconds that the trainer waited for steps, mean over ranks.",
        f.waited);
  count("evenkeel_longest_waited_seconds_total",
        "Seconds that the trainer waited for steps, in each pass on the rank that waited longest.",
        f.longest_waited);
  for (std::size_t p = 0; p < phase_names.size(); ++p) {
    const Labels phase = labels_with("phase", phase_names[p]);
    families_->increment_counter("evenkeel_phase_seconds_total", "Seconds of making steps, mean over ranks.",
                                 phase, f.seconds[p]);
    families_->increment_counter(
        "evenkeel_slowest_phase_seconds_total",
        "Seconds of making steps, in each pass and phase on the rank that took longest.", phase,
        f.slowest[p]);
    families_->set_gauge("evenkeel_slowest_rank", "The rank that took longest in a phase of the latest pass.",
                         phase, f.slowest_ranks[p]);
  }
  for (const auto& [kind, bytes] : {std::pair{"between_ranks", f.sent_bytes},
                                    {"kept", f.kept_bytes},
                                    {"copied", f.copied_bytes},
                                    {"forwarded", f.forwarded_bytes}})
    families_->increment_counter("evenkeel_moved_bytes_total", "Bytes of fields, over all ranks.",
                                 labels_with("kind", kind), static_cast<double>(bytes));
  count("evenkeel_sent_between_nodes_bytes_total", "Bytes between ranks that left a node.", f.node_bytes);
  count("evenkeel_messages_between_nodes_total", "Messages that left a node.", f.node_messages);
  for (const auto& [scope, ratio] : {std::pair{"dp_ranks_in_source_order", f.max_over_mean_before},
                                     {"dp_ranks", f.balance.dp_max_over_mean},
                                     {"micro_batches", f.balance.micro_batch_max_over_mean},
                                     {"ranks_meeting_at_each_micro_batch", f.balance.step_max_over_mean}})
    families_->set_gauge("evenkeel_work_max_over_mean_ratio",
                         "Work of the latest pass, max over mean; 1 is even.", labels_with("scope", scope),
                         ratio);
  families_->set_gauge("evenkeel_step", "Number of the latest step.", profile, static_cast<double>(f.step));
  families_->set_gauge("evenkeel_widest_micro_batch_rows", "Most rows of a micro-batch of the latest pass.",
                       profile, static_cast<double>(f.widest));
  families_->set_gauge("evenkeel_micro_batch_cap_rows", "Rows that a micro-batch may have.", profile,
                       static_cast<double>(f.cap));
  families_->set_gauge("evenkeel_tensor_memory_peak_bytes",
                       "Peak memory of tensors so far, on the rank with most.", {},
                       static_cast<double>(f.peak_bytes));
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  families_->set_gauge("evenkeel_latest_pass_timestamp_seconds",
                       "When the latest pass ended, in seconds since 1970.", {}, now.count());
  if (f.arrivals) set_arrival_figures(*f.arrivals);
  write_file();
}

void PrometheusMetrics::publish_arrivals(const ArrivalFigures& arrivals) {
  set_arrival_figures(arrivals);
  write_file();
}

void PrometheusMetrics::set_arrival_figures(const ArrivalFigures& arrivals) {
  for_each_arrival_figure([&](const auto& figure) {
    const std::string name = std::string("evenkeel_stream_") + figure.metric;
    for_each_number_of(std::invoke(figure.of, arrivals), [&](const std::string& key, auto number) {
      const Labels labels = figure.label == nullptr ? Labels{} : Labels{{figure.label, key}};
      if (figure.grows) {
        families_->raise_counter_to(name, figure.help, labels, static_cast<double>(number));
      } else {
        families_->set_gauge(name, figure.help, labels, static_cast<double>(number));
      }
    });
  });
}

void PrometheusMetrics::write_file() const {
  if (settings_.file.empty()) return;
  write_text_file(settings_.file, families_->text());
}

}  // namespace evenkeel::cli
