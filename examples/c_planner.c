/* Plans a step and packs a micro-batch in C, without MPI. Prints each micro-batch of each DP rank with its
 * samples and tokens, and the rows of the first one on CP rank 0. python/tests/test_c_planner.py gets the
 * same from Python.
 *
 *   cc c_planner.c $(pkg-config --cflags --libs evenkeel-c) -o c_planner && ./c_planner */

#include <evenkeel/c/evenkeel.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(evenkeel_status status) {
  if (status == EVENKEEL_OK) return;
  fprintf(stderr, "%s\n", evenkeel_last_error_message());
  exit(1);
}

/* The array of this name. */
static const void* named(const evenkeel_arrays* arrays, const char* name) {
  evenkeel_array array;
  for (int64_t i = 0; i < evenkeel_arrays_count(arrays); ++i) {
    check(evenkeel_arrays_at(arrays, i, &array));
    if (strcmp(array.name, name) == 0) return array.data;
  }
  fprintf(stderr, "there is no array %s\n", name);
  exit(1);
}

int main(void) {
  const int64_t lengths[] = {5, 3, 4, 2, 7, 1}, prompts[6] = {0};
  evenkeel_lengths samples = {0};
  samples.count = 6;
  samples.prompts = prompts;
  samples.responses = lengths;

  evenkeel_config* config;
  evenkeel_plan* plan;
  check(
      evenkeel_config_parse("{mesh: {dp: 2, cp: 2}, micro_batch: {max_tokens: 16}}", NULL, NULL, 0, &config));
  check(evenkeel_plan_create(&samples, config, NULL, 0, -1, &plan));
  evenkeel_config_destroy(config);

  const evenkeel_arrays* planned = evenkeel_plan_arrays(plan);
  const int64_t *ranks = named(planned, "rank_offsets"), *bounds = named(planned, "sample_offsets"),
                *order = named(planned, "samples"), *tokens = named(planned, "tokens");
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t m = ranks[r]; m < ranks[r + 1]; ++m) {
      printf("DP rank %" PRId64 ", %" PRId64 " tokens, samples", r, tokens[m]);
      for (int64_t i = bounds[m]; i < bounds[m + 1]; ++i) printf(" %" PRId64, order[i]);
      printf("\n");
    }
  }

  /* Sample s has the tokens 100 * s, 100 * s + 1, ... */
  evenkeel_arrays* found;
  check(evenkeel_plan_layout(plan, 0, &found));
  evenkeel_layout layout = {0};
  layout.num_sequences = bounds[1] - bounds[0];
  layout.cu_seqlens = named(found, "cu_seqlens");
  layout.cu_seqlens_padded = named(found, "cu_seqlens_padded");
  layout.alignment = *(const int64_t*)named(found, "alignment");
  layout.cp_size = 2;
  layout.cp_layout = EVENKEEL_ZIGZAG;
  int32_t ragged[32], local[32], pad = -1;
  int64_t count = 0;
  for (int64_t i = bounds[0]; i < bounds[1]; ++i) {
    for (int64_t t = 0; t < lengths[order[i]]; ++t) ragged[count++] = (int32_t)(100 * order[i] + t);
  }
  const int64_t rows = layout.cu_seqlens_padded[layout.num_sequences] / 2;
  const evenkeel_rows from = {ragged, 4 * count}, fill = {&pad, 4}, to = {local, 4 * rows};
  check(evenkeel_pack_rows(&layout, 0, &from, &fill, &to, 1));
  printf("rows");
  for (int64_t i = 0; i < rows; ++i) printf(" %" PRId32, local[i]);
  printf("\n");
  evenkeel_arrays_destroy(found);
  evenkeel_plan_destroy(plan);
  return 0;
}
