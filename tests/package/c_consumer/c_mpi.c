#include <evenkeel/c/evenkeel_mpi.h>
#include <stdio.h>

/* One step of one sample a rank. */
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int64_t id = rank, prompt = 1, response = 2, tokens[3] = {4, 5, 6};
  const evenkeel_field field = {
      .name = "input_ids", .dtype = EVENKEEL_INT64, .kind = EVENKEEL_TOKEN, .rows = 3, .data = tokens};
  evenkeel_config* config;
  evenkeel_ranks* ranks;
  evenkeel_service* service;
  evenkeel_samples* samples;
  evenkeel_step* step;
  evenkeel_step_info info = {0};
  const int fine = evenkeel_config_parse("{}", NULL, NULL, 0, &config) == EVENKEEL_OK &&
                   evenkeel_ranks_of_mpi(MPI_COMM_WORLD, &ranks) == EVENKEEL_OK &&
                   evenkeel_service_create(ranks, config, &service) == EVENKEEL_OK &&
                   evenkeel_samples_create(1, &id, NULL, &prompt, &response, &samples) == EVENKEEL_OK &&
                   evenkeel_samples_add(samples, &field) == EVENKEEL_OK &&
                   evenkeel_service_step(service, samples, NULL, &step) == EVENKEEL_OK &&
                   evenkeel_step_get_info(step, &info) == EVENKEEL_OK && info.num_samples == 2;
  if (!fine) {
    printf("%s\n", evenkeel_last_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  evenkeel_step_destroy(step);
  evenkeel_samples_destroy(samples);
  evenkeel_service_destroy(service);
  evenkeel_config_destroy(config);
  evenkeel_ranks_destroy(ranks);
  return MPI_Finalize();
}
