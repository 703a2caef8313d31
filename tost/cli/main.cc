// Runs one of two libraries: libtost_small.so, which needs no torch and starts at once, or
// libtost_program.so, which has all commands. OpenMP's runtime reads its settings when it is
// loaded, so this program sets them first. By default OpenMP's threads spin while they wait: a
// training run next to two busy processes fell from 360 to 13 images a second. Threads that never
// spin must be woken for every parallel region, so that decoding, with a hundred short regions a
// token, took 9.5 ms instead of 7.0. So threads spin for some 20 microseconds and then sleep.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

constexpr int kNoLibrary = -2;

int main(int argc, char** argv) {
#ifdef TOST_PROCESSOR_NEEDS
  if (!__builtin_cpu_supports(TOST_PROCESSOR_NEEDS)) {
    std::fputs("tost: needs " TOST_PROCESSOR_NEEDS "; see `make small NATIVE=OFF`.\n", stderr);
    return 1;
  }
#endif
  // Checks the working directory: without one, the math library would end the program.
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (error) {
    std::fprintf(stderr,
                 "tost: the working directory cannot be used (%s); go to one that is there.\n",
                 error.message().c_str());
    return 1;
  }
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "2000", /*overwrite=*/0);
  const auto run = [&](const char* library, const char* function) {
    void* program = dlopen(library, RTLD_NOW);
    void* found = program == nullptr ? nullptr : dlsym(program, function);
    return found == nullptr ? kNoLibrary
                            : reinterpret_cast<int (*)(int, char**)>(found)(argc, argv);
  };
  // Asked only for what it knows, so that other commands load one library.
  const char* const commands[] = {"bench",   "data",   "eval",    "generate", "info",
                                  "inspect", "models", "predict", "serve"};
  const bool small =
      argc > 1 && std::any_of(std::begin(commands), std::end(commands),
                              [&](auto name) { return std::strcmp(argv[1], name) == 0; });
  int code = small ? run("libtost_small.so", "tost_run_small_program") : kNoLibrary;
  if (code < 0) code = run("libtost_program.so", "tost_run_program");
  // Alone, the small program has the help and the version.
  const bool general = argc < 2 || argv[1][0] == '-';
  if (code == kNoLibrary && general) code = run("libtost_small.so", "tost_run_small_program");
  if (code == kNoLibrary) {
    std::fprintf(stderr, "tost: this needs the full program with torch, which `make` builds: %s\n",
                 dlerror());
    code = 1;
  }
  // Skips destructors, because those of LibTorch's registries take tens of milliseconds.
  std::fflush(nullptr);
  std::_Exit(code);
}
