#include <evenkeel/evenkeel.hpp>

int main() {
  return sizeof(evenkeel::DataService) == 0 ? 1 : 0;
}
