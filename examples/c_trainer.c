/* A trainer in C that embeds Evenkeel: it owns MPI and its communicator, makes fresh samples every step,
 * computes log-probs with large micro-batches, collects them, and updates with small ones. The "model" is a
 * stand-in that scores a token by its label; everything else is as in a real trainer.
 *
 *   cc c_trainer.c $(pkg-config --cflags --libs evenkeel-c-mpi) -lm -o c_trainer    (-lm for exp)
 *   mpirun -n 8 c_trainer */

#include <evenkeel/c/evenkeel_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { steps = 3, samples_per_rank = 40 };

static const char* const configuration =
    "micro_batch: {max_tokens: 16384}\n"
    "profiles: {log_prob: {}, update: {micro_batch: {max_tokens: 4096}}}\n";

/* Errors of collective calls are the same on every rank; after an error on one rank, the others must not wait.
 */
static void check(evenkeel_status status) {
  if (status == EVENKEEL_OK) return;
  fprintf(stderr, "%s\n", evenkeel_last_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Samples as from a rollout worker on this rank: prompts with 8 responses of very different lengths. */
static evenkeel_samples* generate(int rank, int64_t step) {
  int64_t ids[samples_per_rank], prompts[samples_per_rank], responses[samples_per_rank], num_tokens = 0;
  uint64_t groups[samples_per_rank];
  for (int i = 0; i < samples_per_rank; ++i) {
    ids[i] = (step * 64 + rank) * samples_per_rank + i;
    groups[i] = (uint64_t)(ids[i] / 8);
    prompts[i] = 16 + ids[i] / 8 * 7 % 50;
    responses[i] = ids[i] % 10 == 0 ? 1500 : 20 + ids[i] * 31 % 300;
    num_tokens += prompts[i] + responses[i];
  }
  int64_t* const tokens = malloc((size_t)num_tokens * sizeof *tokens);
  for (int64_t t = 0; tokens != NULL && t < num_tokens; ++t) tokens[t] = t % 32000;
  const evenkeel_field field = {
      .name = "input_ids", .dtype = EVENKEEL_INT64, .kind = EVENKEEL_TOKEN, .rows = num_tokens, .data = tokens};
  evenkeel_samples* samples = NULL;
  check(evenkeel_samples_create(samples_per_rank, ids, groups, prompts, responses, &samples));
  check(evenkeel_samples_add(samples, &field)); /* copies */
  free(tokens);
  return samples;
}

/* Stands in for the model: the log-prob of a row. */
static float log_prob_of(const evenkeel_field* labels, int64_t row) {
  return -1.0F / (float)(2 + llabs(((const int64_t*)labels->data)[row]) % 7);
}

/* The log-prob pass: each sample's log-probs return to the rank that supplied it. */
static evenkeel_samples* collect_log_probs(const evenkeel_service* service, const evenkeel_step* pass) {
  evenkeel_results* results = NULL;
  check(evenkeel_results_create(pass, &results));
  for (int64_t m = 0; m < evenkeel_step_num_micro_batches(pass); ++m) {
    evenkeel_field of;
    check(evenkeel_step_find_field(pass, m, "labels", &of));
    float* const values = malloc((size_t)of.rows * sizeof *values);
    for (int64_t row = 0; values != NULL && row < of.rows; ++row) values[row] = log_prob_of(&of, row);
    const evenkeel_field field = {
        .name = "old", .dtype = EVENKEEL_FLOAT32, .kind = EVENKEEL_RESPONSE_TOKEN, .rows = of.rows, .data = values};
    evenkeel_results_put(results, m, &field); /* errors are reported on all ranks when collecting */
    free(values);
  }
  evenkeel_samples* log_probs;
  check(evenkeel_service_collect(service, pass, results, &log_probs));
  evenkeel_results_destroy(results);
  return log_probs;
}

/* The update pass: the mean PPO ratio over all loss tokens, weighted as the loss is. It is 1 before the first
 * optimizer step. `scale` undoes the trainer's own mean over DP ranks. */
static double mean_ratio(const evenkeel_step* pass, int dp) {
  double sum = 0;
  for (int64_t m = 0; m < evenkeel_step_num_micro_batches(pass); ++m) {
    evenkeel_micro_batch view;
    evenkeel_field labels, before, weights;
    check(evenkeel_step_micro_batch(pass, m, &view));
    check(evenkeel_step_find_field(pass, m, "labels", &labels));
    check(evenkeel_step_find_field(pass, m, "old", &before));
    check(evenkeel_step_find_field(pass, m, "loss_weights", &weights));
    const float *then = before.data, *weight = weights.data;
    for (int64_t row = 0; row < view.local_rows; ++row)
      sum += view.scale * weight[row] * exp(log_prob_of(&labels, row) - then[row]);
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum / dp;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* const override = ranks % 4 == 0 ? "mesh.cp=2" : "mesh.cp=1";
  evenkeel_config* config;
  evenkeel_ranks* connected;
  evenkeel_service* service;
  evenkeel_place place;
  check(evenkeel_config_parse(configuration, NULL, &override, 1, &config));
  check(evenkeel_ranks_of_mpi(MPI_COMM_WORLD, &connected));
  check(evenkeel_service_create(connected, config, &service));
  evenkeel_config_destroy(config);
  evenkeel_ranks_destroy(connected);
  check(evenkeel_service_get_place(service, &place));
  for (int64_t number = 0; number < steps; ++number) {
    evenkeel_samples* const samples = generate(place.rank, number);
    evenkeel_step* step = NULL;
    check(evenkeel_service_step(service, samples, "log_prob", &step));
    const int wide = (int)evenkeel_step_num_micro_batches(step);
    evenkeel_samples* const log_probs = collect_log_probs(service, step);
    check(evenkeel_service_step_again(service, step, "update", log_probs)); /* tokens are not sent again */
    const double ratio = mean_ratio(step, place.dp_size);
    if (place.rank == 0)
      printf("step %d: %d log-prob and %d update micro-batches, mean ratio %.6f\n", (int)number, wide,
             (int)evenkeel_step_num_micro_batches(step), ratio);
    evenkeel_samples_destroy(log_probs);
    evenkeel_step_destroy(step);
    evenkeel_samples_destroy(samples);
  }
  evenkeel_service_destroy(service);
  return MPI_Finalize();
}
