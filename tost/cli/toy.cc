// tost toy: says hello.
#include <iostream>

#include "tost/cli/commands.h"

namespace tost {

void add_toy_command(CLI::App& app) {
  app.add_subcommand("toy", "Say hello")->callback([] { std::cout << "hello\n"; });
}

}  // namespace tost
