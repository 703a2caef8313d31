// A function of tensors on a GPU, run as a graph for each set of shapes it is called with.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tost/ops/device_graph.h"

namespace tost {

using Tensors = std::vector<at::Tensor>;

// Of the tensors it is given the function sees copies on the device, always at the same place. It
// may change other tensors, if these stay where they are; every call runs it once, in whatever
// way: plainly for the first calls with given shapes, then captured and replayed. Beyond
// kMostShapes, and once a capture has failed, it runs plainly on the very tensors it is given, or,
// where graphs are demanded, ends in a usage Error.
class GraphedCall {
 public:
  using Function = std::function<Tensors(const Tensors&)>;

  // graphs: false runs it plainly, always, on the very tensors it is given.
  GraphedCall(at::Device device, bool graphs, Function function);

  // Tensors, also undefined ones, on the CPU or the device. The results are those of the function,
  // but may be overwritten by the next call. Calls must agree in gradient and inference mode.
  Tensors operator()(const Tensors& given);

  // For `graphs on`, see graphs_wanted().
  void demand_graphs() { demanded_ = true; }

  // Called before each capture, when no other thread may use the device any more.
  void before_capture(std::function<void()> call) { before_capture_ = std::move(call); }

  bool by_graphs() const { return graphs_; }
  int64_t replays() const { return replays_; }
  // Why calls run plainly that were to be graphs: said once for captures, once for shapes; else
  // empty.
  std::string take_complaint() { return std::exchange(complaint_, {}); }

  // Calls with the same shapes before they are captured, and sets of shapes that are.
  static constexpr int kWarmUps = 2;
  static constexpr size_t kMostShapes = 6;

 private:
  struct Form {
    Tensors given, results;
    std::unique_ptr<DeviceGraph> graph;
    int runs = 0;
    bool captured = false;
  };
  Form* form_of(const Tensors& given);
  void take(Form& form, const Tensors& given);
  bool capture(Form& form);
  void give_way(const std::string& why);

  const at::Device device_;
  bool graphs_, demanded_ = false, shapes_told_ = false;
  const Function function_;
  std::function<void()> before_capture_ = [] {};
  std::map<std::vector<int64_t>, Form> forms_;
  std::string complaint_;
  int64_t replays_ = 0;
};

}  // namespace tost
