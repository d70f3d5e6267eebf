#pragma once

// Everything needed by a trainer that embeds Evenkeel and uses MPI. Link Evenkeel::service.
//
//   Config        a job's settings: its mesh, caps, costs (load_config and parse_config read YAML)
//   RaggedBatch   the samples that a rank brings
//   DataService   makes steps from these samples, collective over the job's ranks
//   Steps         the steps that a service makes ahead of the trainer
//   Step          a rank's micro-batches, each with its tensors and their weights in the loss
//   StepResults   a rank's results, to be returned to the ranks that supplied the samples
//   Error         the base class of errors, which are the same on every rank
//   Watchdog      ends a job whose ranks would wait for each other forever
//
// Without MPI, evenkeel/planner.hpp plans from lengths alone.

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "evenkeel/service/steps.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "evenkeel/watchdog/watchdog.hpp"
