// Help of `tost train`, which has more settings than a reader wants at once.
#pragma once

#include <CLI/CLI.hpp>
#include <compare>
#include <map>
#include <string>

namespace tost {

// Where help shows a setting; less is further up.
struct TrainPlace {
  size_t heading = 0;
  size_t place = 0;
  auto operator<=>(const TrainPlace&) const = default;
};
TrainPlace train_place(const std::string& key);

// --help then shows the usual settings of the kind of run that the other flags ask for, with the
// values of its recipe; --help-all shows all of that kind, or of every kind where none is asked
// for. `options`: the flag of every setting, by its key. `examples` stand below.
void set_train_help(CLI::App& command, std::map<std::string, CLI::Option*> options,
                    std::string examples);

}  // namespace tost
