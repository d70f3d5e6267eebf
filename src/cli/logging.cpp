#include "cli/logging.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "cli/terminal.hpp"

namespace evenkeel::cli {
namespace {

/// This process's rank as its launcher says; nothing without one.
const char* launchers_rank() {
  for (const char* name : std::array{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return nullptr;
}

// Asked before main: MPI sets these variables itself in a process that was started alone.
const bool was_launched = launchers_rank() != nullptr;
const bool was_launched_first = !was_launched || std::string_view(launchers_rank()) == "0";

}  // namespace

bool launched() {
  return was_launched;
}

bool is_first_rank() {
  return was_launched_first;
}

void set_up_logging(int rank, bool all_ranks, const std::string& level) {
  const bool colour = style_of(Stream::err).colour;
  auto logger =
      spdlog::stderr_color_mt("evenkeel", colour ? spdlog::color_mode::always : spdlog::color_mode::never);
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] [rank {}] [%^%l%$] %v", rank));
  const bool speaks = rank == 0 || all_ranks;
  logger->set_level(speaks ? spdlog::level::from_str(level) : spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace evenkeel::cli
