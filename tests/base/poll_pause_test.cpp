#include "base/poll_pause.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(PollPause, is_a_sixteenth_of_the_wait_within_bounds) {
  EXPECT_EQ(pause_after(0us), 50us);
  EXPECT_EQ(pause_after(800us), 50us);
  EXPECT_EQ(pause_after(1600us), 100us);
  EXPECT_EQ(pause_after(16ms), 1ms);
  EXPECT_EQ(pause_after(1h), 1ms);
}

}  // namespace
}  // namespace evenkeel
