// The program is a thin shell around libtost_program.so. OpenMP's runtime decides how its threads
// wait when it is loaded, before any main() that links it could change this. Its default, to spin,
// is ruinous where another process wants the same cores: measured here, a training run next to two
// busy processes fell from 360 to 13 images a second. Not to spin at all costs a wake-up for every
// parallel region: decoding, which has a hundred short ones a token, took 9.5 ms instead of 7.0. So
// they spin for some 20 microseconds and then sleep.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

int main(int argc, char** argv) {
  // Without one, relative paths fail, and the math library ends the program as it is loaded.
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
  // Skips destructors: those of LibTorch's registries cost tens of milliseconds.
  std::fflush(nullptr);
  std::_Exit(code);
}
