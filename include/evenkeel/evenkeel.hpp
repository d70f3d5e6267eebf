#pragma once

// All that a trainer needs which embeds Evenkeel and has MPI. Link Evenkeel::service.
//
//   Config        what a job wants: its mesh, caps, costs (load_config and parse_config read YAML)
//   RaggedBatch   the samples that a rank brings
//   DataService   makes steps of them, collective over the job's ranks
//   Prefetcher    makes them ahead of the trainer
//   Step          what a rank is handed: MicroBatch by MicroBatch, tensors with what they weigh in the loss
//   StepResults   what it computed, on the way home
//   Error         what goes wrong, the same on every rank
//   Watchdog      ends a job whose ranks would wait for each other without end
//
// Where there is no MPI, evenkeel/planner.hpp plans from lengths alone.

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "evenkeel/watchdog/watchdog.hpp"
