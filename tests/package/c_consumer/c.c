#include <evenkeel/c/evenkeel.h>
#include <stdio.h>

/* A configuration, without MPI. */
int main(void) {
  evenkeel_config* config;
  if (evenkeel_config_parse("micro_batch: {max_tokens: 64}", NULL, NULL, 0, &config) != EVENKEEL_OK) {
    printf("%s\n", evenkeel_last_error_message());
    return 1;
  }
  evenkeel_config_destroy(config);
  return 0;
}
