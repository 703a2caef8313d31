// The classes and functions that checkpoints name.
#pragma once

#include <string_view>

namespace tost {

// Whether torch.load could make it without running anything but constructors of plain data: torch's
// tensors, storages and types, numpy's arrays, and the containers and numbers of Python. A name
// that is not in this list need not be harmful, but nothing is known in its favour.
bool is_harmless_name(std::string_view module, std::string_view name);

}  // namespace tost
