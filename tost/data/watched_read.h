// Reads a batch with a time limit. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace tost {

// Runs a read on any thread, and returns at its end or throws. An aborted read still runs, so it
// must own the memory to which it writes.
using ReadGuard = std::function<void(std::function<void()> reading)>;

// Calls `read`, through `guard` if there is one, and returns the result. Everything to which `read`
// refers must outlive the call.
template <class Read>
auto read_watched(const ReadGuard& guard, Read read) {
  if (!guard) return read();
  const auto result = std::make_shared<std::optional<decltype(read())>>();
  guard([result, read = std::move(read)] { result->emplace(read()); });
  return std::move(**result);
}

}  // namespace tost
