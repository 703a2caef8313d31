#include "tost/ops/device_graph.h"

#include <atomic>

#include "tost/base/error.h"

namespace tost {
namespace {

std::atomic<int> captures{0};

GraphMaker& maker() {
  static GraphMaker made = nullptr;
  return made;
}

}  // namespace

GraphMakerSetter::GraphMakerSetter(GraphMaker of_cuda) {
  maker() = of_cuda;
}

void DeviceGraph::capture(function_ref<void()> work) {
  struct Counted {
    Counted() { ++captures; }
    ~Counted() { --captures; }
  } counted;
  record(work);
}

bool capturing_graph() {
  return captures > 0;
}

bool graphs_run_on(c10::Device device) {
  return device.is_cuda() && maker() != nullptr;
}

std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device) {
  return maker()(device);
}

bool graphs_wanted(const std::string& choice, c10::Device device) {
  if (choice == "off") return false;
  if (choice != "on" && choice != "auto") {
    fail_usage("Unknown choice '", choice, "' for graphs; use on, off or auto.");
  }
  if (choice == "on" && !graphs_run_on(device)) {
    fail_usage("graphs on needs a GPU (device cuda), and the device is ", device.str(),
               "; use off or auto.");
  }
  return graphs_run_on(device);
}

}  // namespace tost
