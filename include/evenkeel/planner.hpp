#pragma once

// The planner without MPI: takes lengths and returns the plan of every DP rank. Link Evenkeel::plan.
//
//   Config         its plan_settings() are the settings for planning a step
//   LengthTable    the samples of a step; LengthTable::from_lengths(lengths)
//   plan_step      the micro-batches of all DP ranks, the same as in a job
//   step_balance   the balance of a plan
//   PrefixTree     the prefixes that samples share, and the layouts that hold shared tokens once
//   Error          the base class of errors

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/pack/prefix/predictions.hpp"
#include "evenkeel/pack/prefix/tree.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
