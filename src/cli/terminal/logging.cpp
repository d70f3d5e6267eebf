#include "cli/terminal/logging.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {

void set_up_logging(int rank, bool all_ranks, const std::string& level) {
  auto logger = spdlog::stderr_color_mt(
      "evenkeel", is_colored(Stream::err) ? spdlog::color_mode::always : spdlog::color_mode::never);
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] [rank {}] [%^%l%$] %v", rank));
  const bool speaks = rank == 0 || all_ranks;
  logger->set_level(speaks ? spdlog::level::from_str(level) : spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace evenkeel::cli
