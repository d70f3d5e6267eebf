#include "cli/inspect/slow_work.hpp"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/printable.hpp"
#include "base/text_layout.hpp"

namespace evenkeel::cli {

SlowWork::SlowWork(std::string what, Say say, std::chrono::milliseconds patience) noexcept {
  const auto watch = [patience](const std::string& text, const Say& tell, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any woken;
    for (auto wait = patience; !woken.wait_for(lock, stop, wait, [&] { return stop.stop_requested(); });
         wait *= 9) {
      if (stop.stop_requested()) return;
      tell(text + " ...");
    }
  };
  try {
    thread_ =
        std::jthread([watch, what = std::move(what), say = std::move(say)](const std::stop_token& stop) {
          try {
            watch(what, say, stop);
          } catch (const std::exception&) {
            return;
          }
        });
  } catch (const std::exception&) {
    return;
  }
}

std::string reading(const std::string& path) {
  std::error_code unknown;
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
  std::string text = "reading " + printable(path);
  if (!unknown) text += " (" + bytes_text(static_cast<std::int64_t>(bytes)) + ")";
  return text;
}

}  // namespace evenkeel::cli
