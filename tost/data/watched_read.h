// Reading a batch under a watchdog. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace tost {

// Does the reading it is given, on whatever thread, and returns at its end or throws. An aborted
// reading still runs: it must own what it writes to.
using ReadGuard = std::function<void(std::function<void()> reading)>;

// What `read` gives, read under `guard` where there is one. What `read` refers to outlives it.
template <class Read>
auto read_watched(const ReadGuard& guard, Read read) {
  if (!guard) return read();
  const auto result = std::make_shared<std::optional<decltype(read())>>();
  guard([result, read = std::move(read)] { result->emplace(read()); });
  return std::move(**result);
}

}  // namespace tost
