#include "cli/inspect/slow_work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <new>
#include <string>

#include "support/scratch_folder.hpp"

namespace evenkeel::cli {
namespace {

TEST(SlowWork, is_told_while_it_goes_on) {
  std::promise<std::string> said;
  int times = 0;
  std::string text;
  {
    const SlowWork slow(
        "reading",
        [&](const std::string& what) {
          if (times++ == 0) said.set_value(what);
        },
        std::chrono::milliseconds(1));
    text = said.get_future().get();  // the work lasts until it is told
  }
  EXPECT_EQ(text, "reading ...");
}

TEST(SlowWork, that_is_done_at_once_is_not_told) {
  int times = 0;
  {
    const SlowWork quick(
        "reading", [&](const std::string&) { ++times; }, std::chrono::hours(1));
  }
  EXPECT_EQ(times, 0);
}

TEST(SlowWork, goes_on_where_nothing_can_be_said) {
  std::promise<void> failed;
  const SlowWork slow(
      "reading",
      [&](const std::string&) {
        failed.set_value();
        throw std::bad_alloc();
      },
      std::chrono::milliseconds(1));
  failed.get_future().wait();
}

TEST(SlowWork, names_the_file_and_its_size) {
  const testing_support::ScratchFolder scratch;
  testing_support::write_text(scratch / "file", std::string(2048, 'x'));
  EXPECT_EQ(reading((scratch / "file").string()), "reading " + (scratch / "file").string() + " (2.0 KiB)");
  EXPECT_EQ(reading("/no/such/file"), "reading /no/such/file");
}

}  // namespace
}  // namespace evenkeel::cli
