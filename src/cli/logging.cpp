#include "cli/logging.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace evenkeel::cli {

bool launched() {
  return std::ranges::any_of(std::array{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

void set_up_logging(int rank, bool all_ranks, const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("evenkeel");
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] [rank {}] [%l] %v", rank));
  const bool speaks = rank == 0 || all_ranks;
  logger->set_level(speaks ? spdlog::level::from_str(level) : spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace evenkeel::cli
