#include <evenkeel/service/data_service.hpp>

int main() {
  return sizeof(evenkeel::DataService) == 0 ? 1 : 0;
}
