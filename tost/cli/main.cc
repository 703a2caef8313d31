// The program is a thin shell around libtost_program.so. OpenMP's runtime reads when it is loaded
// how its threads wait, so a program that links it cannot choose in main(). By default threads
// spin, which is ruinous if another process needs the cores: next to two busy processes a training
// run fell from 360 to 13 images a second. Without spinning every parallel region must wake its
// threads: decoding, with a hundred short regions a token, took 9.5 ms instead of 7.0. So threads
// spin for some 20 microseconds and then sleep.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

int main(int argc, char** argv) {
  // Without a working directory relative paths fail, and loading the math library ends the program.
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (error) {
    std::fprintf(stderr,
                 "tost: the working directory cannot be used (%s); go to one that is there.\n",
                 error.message().c_str());
    return 1;
  }
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "2000", /*overwrite=*/0);
  void* program = dlopen("libtost_program.so", RTLD_NOW);
  auto* run = program == nullptr
                  ? nullptr
                  : reinterpret_cast<int (*)(int, char**)>(dlsym(program, "tost_run_program"));
  if (run == nullptr) {
    std::fprintf(stderr, "tost: cannot load its library: %s\n", dlerror());
    return 1;
  }
  const int code = run(argc, argv);
  // Ends without destructors, because those of LibTorch's registries take tens of milliseconds.
  std::fflush(nullptr);
  std::_Exit(code);
}
