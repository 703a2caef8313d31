#include "tost/cli/program.h"

int main(int argc, char** argv) {
  return tost::run_program(argc, argv);
}
