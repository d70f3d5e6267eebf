#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "evenkeel/base/grid.hpp"
#include "report/step_figures.hpp"

namespace evenkeel::cli {

/// Where metrics are told. Equal on all ranks; rank 0 tells.
struct PrometheusSettings {
  std::string address;         ///< ADDRESS:PORT to answer scrapes on; empty: nowhere
  std::filesystem::path file;  ///< for node_exporter's textfile collector; empty: none

  [[nodiscard]] bool any() const noexcept { return !address.empty() || !file.empty(); }
};

/// An option's [ADDRESS:]PORT; ADDRESS:PORT comes out, with 127.0.0.1 unless another is given.
[[nodiscard]] CLI::Validator listening_address();

/// A run's figures under Prometheus' rules of naming; docs/watching.md lists them. Local.
class PrometheusMetrics {
 public:
  /// Listens from now on. Throws IoError when the address is taken or not this machine's.
  PrometheusMetrics(const PrometheusSettings& settings, const std::string& version);
  ~PrometheusMetrics();
  PrometheusMetrics(const PrometheusMetrics&) = delete;
  PrometheusMetrics& operator=(const PrometheusMetrics&) = delete;

  /// The port that it listens on; 0 where it does not.
  [[nodiscard]] int port() const;
  void begins(std::int64_t steps);
  /// Counts a pass over a step, and puts the file in place of the one before. Throws IoError.
  void passed(const StepFigures& figures);
  /// Tells what became of samples that arrived, once more after the last pass. Throws IoError.
  void arrived(const ArrivalFigures& arrivals);

 private:
  class Families;
  void tell(const ArrivalFigures& arrivals);
  void write_file() const;

  PrometheusSettings settings_;
  std::unique_ptr<Families> families_;
};

}  // namespace evenkeel::cli
