// Work of a device recorded once and started as a whole: a CUDA graph.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "tost/base/function_ref.h"

namespace tost {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Runs `work` on the stream that captures, after what the caller queued before it and before what
  // it queues next. Whatever is to be captured goes through this first: libraries make their
  // workspaces in their first calls.
  virtual void warm_up(function_ref<void()> work) = 0;

  // Records what `work` queues and runs none of it: memory it writes holds nothing before a replay.
  // Shapes, addresses and numbers of the host are recorded as they are now. Once a graph. Throws
  // c10::Error where `work` waits for the device, copies from the host's memory or asks for a size
  // that depends on values; what it had recorded is dropped.
  void capture(function_ref<void()> work);

  // Queues all of it again, with the values that its tensors have by then. Random numbers
  // continue from the state of the device's generator.
  virtual void replay() = 0;

  // A graph that takes its memory from where this one did. The two must never run at once.
  virtual std::unique_ptr<DeviceGraph> beside() const = 0;

 private:
  virtual void record(function_ref<void()> work) = 0;
};

bool graphs_run_on(c10::Device device);
// For a device of which graphs_run_on() holds.
std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device);

// Whether anything is being captured, on any thread.
bool capturing_graph();

// choice: "on", "off", or "auto": as "on" where graphs run, but what cannot be captured
// runs without a graph. Throws a usage Error for other words, and for "on" where there are none.
bool graphs_wanted(const std::string& choice, c10::Device device);

// Who makes the graphs of CUDA devices: set once, before main().
using GraphMaker = std::unique_ptr<DeviceGraph> (*)(c10::Device);
struct GraphMakerSetter {
  explicit GraphMakerSetter(GraphMaker maker);
};

}  // namespace tost
