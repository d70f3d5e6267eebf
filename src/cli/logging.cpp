#include "cli/logging.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace evenkeel::cli {

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return 0;
}

void set_up_logging(int rank, bool all_ranks, const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("evenkeel");
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] [rank {}] [%l] %v", rank));
  const bool speaks = rank == 0 || all_ranks;
  logger->set_level(speaks ? spdlog::level::from_str(level) : spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace evenkeel::cli
