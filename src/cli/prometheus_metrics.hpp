#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "evenkeel/base/grid.hpp"
#include "report/step_figures.hpp"

namespace evenkeel::cli {

/// Destinations of metrics. Equal on all ranks; only rank 0 publishes metrics.
struct PrometheusSettings {
  std::string address;         ///< ADDRESS:PORT on which to answer scrapes; empty to disable
  std::filesystem::path file;  ///< file for node_exporter's textfile collector; empty to disable

  [[nodiscard]] bool any() const noexcept { return !address.empty() || !file.empty(); }
};

/// Converts an option's [ADDRESS:]PORT to ADDRESS:PORT; the default address is 127.0.0.1.
[[nodiscard]] CLI::Validator listening_address();

/// The figures of a run, named according to the conventions of Prometheus; docs/report.md lists them. Local.
class PrometheusMetrics {
 public:
  /// Starts the server and writes the file, if they are set. Throws IoError if the address is in use or does
  /// not belong to this machine, or if the file cannot be written.
  PrometheusMetrics(const PrometheusSettings& settings, const std::string& version);
  ~PrometheusMetrics();
  PrometheusMetrics(const PrometheusMetrics&) = delete;
  PrometheusMetrics& operator=(const PrometheusMetrics&) = delete;

  /// Returns the port on which the server listens, or 0 if there is no server.
  [[nodiscard]] int port() const;
  void set_planned_steps(std::int64_t steps);
  /// Counts a pass over a step, and replaces the file. Throws IoError if the file cannot be written.
  void count_pass(const StepFigures& figures);
  /// After the last pass, publishes the final outcomes of the samples that arrived. count_pass() publishes
  /// the outcomes so far. Throws IoError if the file cannot be written.
  void publish_arrivals(const ArrivalFigures& arrivals);

 private:
  class Families;
  void set_arrival_figures(const ArrivalFigures& arrivals);
  void write_file() const;

  PrometheusSettings settings_;
  std::unique_ptr<Families> families_;
};

}  // namespace evenkeel::cli
