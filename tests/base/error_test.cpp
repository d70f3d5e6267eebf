#include "evenkeel/base/error.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(Error, has_place_problem_rank_and_remedy) {
  const ErrorReport report{ErrorKind::input, "rollouts.jsonl:17", "token -4 is negative", "Tokens start at 0",
                           3};
  EXPECT_EQ(to_string(report), "rollouts.jsonl:17: token -4 is negative (rank 3). Tokens start at 0");
}

TEST(Error, adds_no_second_period_before_the_remedy) {
  EXPECT_EQ(to_string({ErrorKind::input, "a", "lacks commas, etc.", "Add them", -1}),
            "a: lacks commas, etc. Add them");
}

TEST(Error, omits_empty_parts) {
  EXPECT_EQ(to_string({ErrorKind::mpi, "", "connection lost", "", -1}), "connection lost");
}

TEST(Error, a_report_is_thrown_as_the_type_of_its_kind) {
  EXPECT_THROW(throw_error({ErrorKind::config, "", "m", "", -1}), ConfigError);
  EXPECT_THROW(throw_error({ErrorKind::input, "", "m", "", -1}), InputError);
  EXPECT_THROW(throw_error({ErrorKind::limit, "", "m", "", -1}), LimitError);
  EXPECT_THROW(throw_error({ErrorKind::mesh, "", "m", "", -1}), MeshError);
  EXPECT_THROW(throw_error({ErrorKind::io, "", "m", "", -1}), IoError);
  EXPECT_THROW(throw_error({ErrorKind::mpi, "", "m", "", -1}), MpiError);
  EXPECT_THROW(throw_error({ErrorKind::end, "", "m", "", -1}), EndOfSamples);
  EXPECT_THROW(throw_error({}), std::logic_error);
}

TEST(Error, keeps_its_report_so_that_another_rank_can_throw_the_same) {
  try {
    throw InputError("here", "wrong", "mend it");
  } catch (const Error& error) {
    EXPECT_EQ(error.report(), (ErrorReport{ErrorKind::input, "here", "wrong", "mend it", -1}));
  }
}

}  // namespace
}  // namespace evenkeel
