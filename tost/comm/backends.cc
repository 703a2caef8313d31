// Opens Gloo, and NCCL in builds with TOST_WITH_NCCL; reads stores and waits for calls.
#define USE_C10D_GLOO 1
#if defined(TOST_WITH_NCCL)
#define USE_C10D_NCCL 1
#endif
#include "tost/comm/backends.h"

#include <torch/version.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#if defined(TOST_WITH_NCCL)
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "tost/comm/group.h"

namespace tost {

BackendPtr open_gloo(const BackendPlace& place) {
  auto options = c10d::ProcessGroupGloo::Options::create(milliseconds_of(place.timeout));
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (place.one_machine) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(place.store, int(place.rank), int(place.world),
                                                     options);
}

#if defined(TOST_WITH_NCCL)
namespace {

BackendPtr open_nccl(const BackendPlace& place) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  // NCCL's timeout is longer than the group's, so that the group's message is printed.
  options->timeout = 2 * milliseconds_of(place.timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(place.store, int(place.rank), int(place.world),
                                                     options);
}

}  // namespace
#endif

BackendPtr (*&gpu_backend())(const BackendPlace&) {
#if defined(TOST_WITH_NCCL)
  static BackendPtr (*open)(const BackendPlace&) = &open_nccl;
#else
  static BackendPtr (*open)(const BackendPlace&) = nullptr;
#endif
  return open;
}

bool built_with_nccl() {
  return gpu_backend() != nullptr;
}

std::string agreed_in_store(const std::string& address, int64_t port, const std::string& key,
                            const std::string& value) {
  c10d::TCPStoreOptions options;
  options.port = uint16_t(port);
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(30);
  try {
    c10d::TCPStore store(address, options);
    const std::vector<uint8_t> bytes = store.compareSet(
        key, /*currentValue=*/{}, std::vector<uint8_t>(value.begin(), value.end()));
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception&) {
    return "";
  }
}

bool ends_within(c10d::Work& work, std::chrono::milliseconds turn) {
  const auto start = std::chrono::steady_clock::now();
  try {
    work.wait(turn);
    return true;
  } catch (const std::exception&) {
    // Rethrows a failure, because a failed reduce-scatter never completes; a wait that timed out
    // returns false.
    if (std::chrono::steady_clock::now() - start < turn) throw;
    if (!work.isCompleted()) return false;
  }
  // Returns the result of a call that ended while the wait timed out.
  work.wait(turn);
  return true;
}

WorkPtr reduce_scatter(c10d::Backend& backend, at::Tensor& part, at::Tensor& x) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  return backend.reduce_scatter_single(part, x);
#else
  return backend._reduce_scatter_base(part, x);
#endif
}

WorkPtr all_gather(c10d::Backend& backend, at::Tensor& x, at::Tensor& part) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  return backend.all_gather_single(x, part);
#else
  return backend._allgather_base(x, part);
#endif
}

}  // namespace tost
