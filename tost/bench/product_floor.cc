#include "tost/bench/product_floor.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tost/base/text.h"
#include "tost/nn/layers.h"
#include "tost/ops/arrays.h"
#include "tost/ops/device.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

// The largest number of rows that are timed; for more rows the time per row is constant.
constexpr int64_t kMaxRows = 16384;

int64_t timed_rows(const Product& p) {
  return p.channels > 0 ? p.rows : std::min(p.rows, kMaxRows);
}

using Call = std::function<void()>;

// Inputs of products, one for each shape, shared by all products of that shape.
class Inputs {
 public:
  explicit Inputs(torch::Device device) : device(device) {}

  Tensor get(int64_t rows, int64_t width, torch::ScalarType dtype) {
    Tensor& x = made_[{rows, width, dtype}];
    if (x.defined()) return x;
    x = dtype == torch::kChar ? torch::randint(-100, 100, {rows, width}, dtype)
                              : torch::randn({rows, width}).to(dtype);
    x = x.to(device);
    return x;
  }

  const torch::Device device;

 private:
  std::map<std::tuple<int64_t, int64_t, torch::ScalarType>, Tensor> made_;
};

// The candidate methods for one product, each with a separate weight.
std::vector<Call> variants(const Product& p, int64_t rows, Precision precision, Inputs& inputs) {
  std::vector<Call> calls;
  const bool conv = p.channels > 0;
  if (facts_of(precision).packing == Packing::kInt8 && !conv) {
    const Tensor x = inputs.get(rows, p.inputs, torch::kChar);
    const Tensor w = torch::randint(-100, 100, {p.outputs, p.inputs}, torch::kChar);
    calls.push_back([x, w] { at::_int_mm(x, w.t()); });
    return calls;
  }
  const auto dtype = precision == Precision::kFp32 ? torch::kFloat : torch::kBFloat16;
  const Tensor x = inputs.get(rows, p.inputs, dtype);
  const Tensor w = torch::randn({p.outputs, p.inputs}).to(dtype).to(inputs.device);
  calls.push_back([x, w] { at::mm(x, w.t()); });
  if (!conv) {
    calls.push_back([x, w] { at::linear(x, w); });
    return calls;
  }
  const auto last = torch::MemoryFormat::ChannelsLast;
  const Tensor picture = torch::randn({p.batch, p.channels, p.height, p.width})
                             .to(dtype)
                             .contiguous(last)
                             .to(inputs.device);
  const Tensor window =
      torch::randn({p.outputs, p.channels, 3, 3}).to(dtype).contiguous(last).to(inputs.device);
  calls.push_back([picture, window, stride = p.stride] {
    at::conv2d(picture, window, {}, stride, /*padding=*/1);
  });
  return calls;
}

}  // namespace

MsClock clock_of(torch::Device device) {
  return ms_clock([device] { synchronize(device); });
}

void add_linears(const torch::nn::Module& model,
                 const std::function<int64_t(const std::string& name)>& rows,
                 std::vector<Product>& products) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto* linear = item.value()->as<Linear>();
    const int64_t count = linear == nullptr ? 0 : rows(item.key());
    if (count == 0) continue;
    products.push_back(
        {.rows = count, .inputs = linear->weight.size(1), .outputs = linear->weight.size(0)});
  }
}

ProductFloor measure_products(const std::vector<Product>& products, Precision precision,
                              int64_t repeat, torch::Device device) {
  const torch::InferenceMode no_grad;
  ProductFloor floor;
  Inputs inputs(device);
  std::vector<std::vector<Call>> calls;
  for (const Product& p : products) {
    floor.gflop += p.gflop();
    calls.push_back(variants(p, timed_rows(p), precision, inputs));
  }
  std::vector<Candidate> candidates;
  std::vector<size_t> product_of;
  for (size_t variant = 0; variant < 2; ++variant) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (variant >= calls[i].size()) continue;
      candidates.push_back({calls[i][variant]});
      product_of.push_back(i);
    }
  }
  std::vector<double> best(products.size(), 1e30);
  try {
    const auto times = time_rounds(1, repeat, candidates, clock_of(device));
    for (size_t k = 0; k < times.size(); ++k) {
      best[product_of[k]] = std::min(best[product_of[k]], median(times[k]));
    }
  } catch (const c10::Error&) {  // no such product in this torch
    return {0, floor.gflop};
  }
  for (size_t i = 0; i < best.size(); ++i) {
    floor.ms += best[i] * double(products[i].rows) / double(timed_rows(products[i]));
  }
  return floor;
}

double memory_read_ms(int64_t bytes, torch::Device device) {
  // Copies many buffers in turn, so that no buffer is still cached when it is copied again.
  const auto facts = gpu_facts(device.index());
  const int64_t beyond_caches = std::max<int64_t>(32 << 20, facts ? 8 * facts->l2_bytes : 0);
  const int64_t numbers = bytes / 8, count = std::clamp<int64_t>(beyond_caches / bytes, 1, 256);
  const auto whole = torch::dtype(torch::kLong).device(device);
  const auto from = torch::ones({count, numbers}, whole);
  auto to = torch::zeros({count, numbers}, whole);
  const auto copy = [&] {
    for (int64_t i = 0; i < count; ++i) to[i].copy_(from[i]);
  };
  return best_ms(copy, clock_of(device)) / double(count) / 2;
}

void show_every_layer(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (ends_with(name, "gamma1") || ends_with(name, "gamma2")) item.value().fill_(1);
    if (ends_with(name, ".bias")) item.value().normal_(0, 0.02);
  }
}

Array floats_of(const Tensor& tensor) {
  return array_of(tensor.detach().to(torch::kCPU, torch::kFloat).contiguous());
}

}  // namespace tost
