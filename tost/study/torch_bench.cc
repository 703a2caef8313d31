#include "tost/study/torch_bench.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/bench/product_floor.h"
#include "tost/engine/model_files.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/arrays.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

std::unique_ptr<BenchModel> open_file(const BenchModelSource& source) {
  if (!source.mixer.empty()) {
    fail_usage("'", source.name, "' is a trained model with the mixer it was trained with; leave ",
               "out --mixer, or give a preset.");
  }
  return kind_named(model_kind(source.name)).open_bench(source, true);
}

[[noreturn]] void fail_unknown(const std::string& name) {
  const std::string hint = did_you_mean(name, PresetNames::all());
  fail_usage("'", name, "' is neither a preset nor a file.",
             hint.empty() ? " `tost info --models` lists the presets." : hint);
}

// Gives presets weights such that every layer affects the logits: LayerScale is 1, biases are not
// 0, batch norms have the statistics of their inputs. Throws a usage Error for unknown names, and
// for a mixer that is set together with a file.
std::unique_ptr<BenchModel> open_bench_model(const BenchModelSource& source) {
  torch::manual_seed(0);
  for (const Kind& kind : kinds()) {
    const auto names = kind.presets();
    if (std::find(names.begin(), names.end(), source.name) == names.end()) continue;
    return kind.open_bench(source, false);
  }
  if (path_exists(source.name)) return open_file(source);
  fail_unknown(source.name);
}

class BenchGpu : public BenchDevice {
 public:
  BenchGpu(const std::string& name, torch::Device device) : BenchDevice(name), device_(device) {}

  void synchronize() const override { tost::synchronize(device_); }
  void restart_peak() override { restart_device_peak(device_); }
  int64_t peak_bytes() const override { return device_peak_bytes(device_); }
  double read_ms(int64_t bytes) const override { return memory_read_ms(bytes, device_); }

 private:
  const torch::Device device_;
};

std::unique_ptr<BenchDevice> open_device(const std::string& name) {
  const torch::Device device = device_from_name(name);
  if (device.is_cpu()) return std::make_unique<BenchDevice>();
  const auto facts = gpu_facts(device.index());
  return std::make_unique<BenchGpu>(facts ? facts->name : device.str(), device);
}

}  // namespace

BenchBackend torch_bench() {
  BenchBackend backend{open_bench_model, open_device, at::set_num_threads};
  backend.modules = true;
  backend.floats = [](const Array& logits) { return floats_of(tensor_of(logits)); };
  backend.products = [](const std::vector<Product>& products, Precision precision, int64_t repeat,
                        const std::string& device) {
    return measure_products(products, precision, repeat, device_from_name(device));
  };
  return backend;
}

}  // namespace tost
