#include "tost/study/op_bench.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/text.h"
#include "tost/bench/product_floor.h"
#include "tost/kernels/block_cache.h"
#include "tost/nn/causal_means.h"
#include "tost/ops/device.h"
#include "tost/ops/tssa.h"
#include "tost/ops/tssa_causal.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;
struct Case {
  Tensor x;            // [B, N, C], input of the layer
  Tensor w;            // [B, N, C], input of the operator
  Tensor grad;         // [B, N, C], gradient of either's output
  Tensor temp;         // [H, 1]
  Tensor denom_bias;   // [H, N, 1]; undefined for the bidirectional form
  Tensor in, in_bias;  // projections; the biases are undefined for the causal form
  Tensor out, out_bias;
  Tensor qkv;  // [3 C, C], for attention
  int64_t heads = 1;
  // Inputs of group means in addition to w: values, gate, memberships [B, N, H], rates and scale.
  Tensor values, gate, pi, log_rates, scale;
  int64_t from_end = 0;
  std::shared_ptr<GroupMeans> chunked;  // of that scale

  MeansCall means_call(const Tensor& base) const {
    return {base, values, gate, pi, log_rates, from_end};
  }
  std::vector<Tensor> with_parameters(std::vector<Tensor> inputs) const {
    if (pi.defined()) {
      for (const auto& x : {values, gate, pi, log_rates, scale}) {
        if (x.defined()) inputs.push_back(x);
      }
      return inputs;
    }
    inputs.push_back(temp);
    if (denom_bias.defined()) inputs.push_back(denom_bias);
    return inputs;
  }
  std::vector<Tensor> layer_inputs() const {
    if (!in_bias.defined()) return {x, in, out};
    return {x, in, in_bias, out, out_bias};
  }
};

using Operator = std::tuple<Tensor, Tensor> (*)(const Case&, const Tensor& w);

std::tuple<Tensor, Tensor> fused(const Case& c, const Tensor& w) {
  if (c.pi.defined()) return {group_means(c.means_call(w), c.scale, nullptr), c.pi};
  if (!c.denom_bias.defined()) return tssa(w, c.temp);
  const auto [y, pi, state] = tssa_causal(w, c.temp, c.denom_bias);
  return {y, pi};
}

std::tuple<Tensor, Tensor> plain(const Case& c, const Tensor& w) {
  if (c.pi.defined()) return {c.chunked->chunked(c.means_call(w), nullptr), c.pi};
  if (!c.denom_bias.defined()) return tssa_plain(w, c.temp);
  const auto [y, pi, state] = tssa_causal_plain(w, c.temp, c.denom_bias);
  return {y, pi};
}

Case make_case(const OpBenchOptions& options, const OpBenchShape& shape) {
  const auto dtype = options.dtype == "bfloat16" ? torch::kBFloat16 : torch::kFloat32;
  const auto wide = torch::dtype(torch::kFloat32).device(device_from_name(options.device));
  const auto tokens = [&] {
    return torch::randn({shape.batch, shape.tokens, options.dim}, wide).to(dtype);
  };
  const auto weight = [&](int64_t rows) {
    return (torch::randn({rows, options.dim}, wide) * 0.02).to(dtype).requires_grad_();
  };
  const auto bias = [&] { return torch::zeros({options.dim}, wide.dtype(dtype)).requires_grad_(); };
  Case c;
  c.x = tokens().requires_grad_();
  c.w = tokens().requires_grad_();
  c.grad = tokens();
  c.temp = torch::ones({options.heads, 1}, wide).requires_grad_();
  c.in = weight(options.dim);
  c.out = weight(options.dim);
  c.heads = options.heads;
  if (c.w.is_cuda()) c.qkv = weight(3 * options.dim);
  if (options.causal) {
    c.denom_bias = torch::zeros({options.heads, shape.tokens, 1}, wide).requires_grad_();
  } else {
    c.in_bias = bias(), c.out_bias = bias();
  }
  if (options.means) {
    if (!options.causal) c.from_end = options.heads / 2;
    c.values = tokens().requires_grad_();
    if (options.gate) c.gate = tokens().requires_grad_();
    c.pi = (torch::randn({shape.batch, shape.tokens, options.heads}, wide).softmax(-1) *
            double(options.heads))
               .requires_grad_();
    c.log_rates = ForgettingRates(options.heads, "learned").log_rates().detach().to(wide.device());
    c.log_rates.requires_grad_();
    c.chunked = std::make_shared<GroupMeans>(options.dim);
    c.chunked->to(wide.device());
    c.scale = c.chunked->scale;
  }
  return c;
}

Tensor run_layer(const Case& c, Operator op) {
  const auto w = torch::linear(c.x, c.in, c.in_bias);
  return torch::linear(op == nullptr ? w : std::get<0>(op(c, w)), c.out, c.out_bias);
}

void run_core_both(const Case& c, Operator op) {
  torch::autograd::grad({std::get<0>(op(c, c.w))}, c.with_parameters({c.w}), {c.grad});
}

void run_layer_both(const Case& c, Operator op) {
  const auto inputs = op == nullptr ? c.layer_inputs() : c.with_parameters(c.layer_inputs());
  torch::autograd::grad({run_layer(c, op)}, inputs, {c.grad});
}

Tensor run_attention(const Case& c) {
  const int64_t batch = c.x.size(0), tokens = c.x.size(1), dim = c.x.size(2);
  const auto parts = torch::linear(c.x, c.qkv)
                         .view({batch, tokens, 3, c.heads, dim / c.heads})
                         .permute({2, 0, 3, 1, 4});
  const auto y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0,
                                                  /*is_causal=*/c.denom_bias.defined());
  return torch::linear(y.transpose(1, 2).reshape(c.x.sizes()), c.out, c.out_bias);
}

void run_attention_both(const Case& c) {
  torch::autograd::grad({run_attention(c)}, {c.x, c.qkv, c.out}, {c.grad});
}

// The largest difference of gradients through y and pi. The gradient of temp depends on all tokens
// through the softmax.
double disagreement(const Case& c) {
  const auto [y, pi] = fused(c, c.w);
  const auto [plain_y, plain_pi] = plain(c, c.w);
  const auto inputs = c.with_parameters({c.w});
  const auto grads = torch::autograd::grad({y}, inputs, {c.grad});
  const auto plain_grads = torch::autograd::grad({plain_y}, inputs, {c.grad});
  const auto deviation = [](const Tensor& found, const Tensor& wanted) {
    return relative_error(floats_of(found), floats_of(wanted));
  };
  double error = std::max(deviation(y, plain_y), deviation(pi, plain_pi));
  for (size_t i = 0; i < inputs.size(); ++i)
    error = std::max(error, deviation(grads[i], plain_grads[i]));
  return error;
}

// The memory of a layer's input, and the memory that the layer allocates until its output is freed.
double saved_by_layer(const Case& c, Operator op) {
  if (!caching_allocator_enabled() || !c.x.is_cpu())
    return std::numeric_limits<double>::quiet_NaN();
  const auto bytes = static_cast<double>(c.x.nbytes());
  const int64_t before = BlockCache::instance().stats().in_use_bytes;
  const auto y = run_layer(c, op);
  const int64_t after = BlockCache::instance().stats().in_use_bytes;
  return (static_cast<double>(after - before) - static_cast<double>(y.nbytes()) + bytes) / bytes;
}

// Checks that input, output and one gradient, which every form needs, fit in memory.
void check_memory(const OpBenchOptions& options, const OpBenchShape& shape) {
  const std::string what = cat("--shapes ", shape.batch, "x", shape.tokens);
  const int64_t numbers = checked_mul(shape.batch, shape.tokens, what);
  const int64_t needed = checked_mul(checked_mul(numbers, options.dim, what), 3 * 4, what);
  const int64_t available = available_bytes();
  if (!device_from_name(options.device).is_cpu() || available == 0 || needed <= available) return;
  fail_data(what, " needs more than ", human_bytes(needed), " of memory, and ",
            human_bytes(available), " are available; give fewer tokens.");
}

OpBenchRow measure(const OpBenchOptions& options, const OpBenchShape& shape) {
  check_memory(options, shape);
  const Case c = make_case(options, shape);
  OpBenchRow row;
  row.shape = shape;
  row.error = disagreement(c);
  // Ignores the first token, at which the gradient through q / E is 0 and the plain form has a
  // rounding error of about 1e-7 / w.
  const double allowed = options.dtype == "bfloat16" ? 2e-2 : options.causal ? 1e-3 : 1e-4;
  if (!(row.error <= allowed)) {
    fail_data("The operator and its plain form differ by ", row.error, " at ", shape.batch, "x",
              shape.tokens, ", more than ", allowed,
              "; please report this with the output of `tost info`.");
  }
  row.layer_kept = saved_by_layer(c, fused);
  row.plain_layer_kept = saved_by_layer(c, plain);
  const auto without_grad = [](auto run) {
    return [run] {
      const torch::NoGradGuard guard;
      run();
    };
  };
  const int64_t calls = c.w.is_cuda() ? 20 : 1;  // of one time
  std::vector<double*> results;
  std::vector<Candidate> candidates;
  const auto add = [&](double& result, const std::function<void()>& run) {
    results.push_back(&result);
    candidates.push_back({[run, calls] {
      for (int64_t i = 0; i < calls; ++i) run();
    }});
  };
  // Runs short calls once untimed, because the call before has evicted their data from the caches.
  const auto add_short = [&](double& result, const std::function<void()>& run) {
    add(result, run);
    candidates.back().prepare = run;
  };
  add_short(row.copy_ms, without_grad([&] { c.w.clone(); }));
  add_short(row.core_ms, without_grad([&] { fused(c, c.w); }));
  add_short(row.plain_ms, without_grad([&] { plain(c, c.w); }));
  add_short(row.core_both_ms, [&] { run_core_both(c, fused); });
  add_short(row.plain_both_ms, [&] { run_core_both(c, plain); });
  add(row.layer_ms, without_grad([&] { run_layer(c, fused); }));
  add(row.projections_ms, without_grad([&] { run_layer(c, nullptr); }));
  add(row.layer_both_ms, [&] { run_layer_both(c, fused); });
  add(row.projections_both_ms, [&] { run_layer_both(c, nullptr); });
  if (c.qkv.defined()) {
    add(row.attention_ms, without_grad([&] { run_attention(c); }));
    add(row.attention_both_ms, [&] { run_attention_both(c); });
  }
  const auto times = time_rounds(1, options.repeat, candidates, clock_of(c.w.device()));
  for (size_t i = 0; i < times.size(); ++i) *results[i] = median(times[i]) / double(calls);
  return row;
}

}  // namespace

std::vector<OpBenchShape> parse_op_shapes(const std::string& text) {
  std::vector<OpBenchShape> shapes;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (true) {
    OpBenchShape shape;
    const auto batch = std::from_chars(p, end, shape.batch);
    const bool has_cross = batch.ec == std::errc() && batch.ptr < end && *batch.ptr == 'x';
    const auto tokens = std::from_chars(has_cross ? batch.ptr + 1 : end, end, shape.tokens);
    const bool complete = tokens.ec == std::errc() && (tokens.ptr == end || *tokens.ptr == ',');
    if (!has_cross || !complete || shape.batch < 1 || shape.tokens < 1) {
      fail_usage("--shapes is '", text, "'; write batch x tokens pairs like 32x197,8x1024.");
    }
    shapes.push_back(shape);
    if (tokens.ptr == end) return shapes;
    p = tokens.ptr + 1;
  }
}

std::vector<OpBenchRow> run_op_bench(const OpBenchOptions& options,
                                     const std::function<void(const OpBenchRow&)>& report) {
  if (options.dtype != "float32" && options.dtype != "bfloat16") {
    fail_usage("--dtype is '", options.dtype, "'; use float32 or bfloat16.");
  }
  if (options.gate && !options.means) {
    fail_usage("--gate is for --means; leave it out.");
  }
  if (options.causal && options.means && options.device != "cpu") {
    fail_usage("Causal group means have kernels on the CPU only; use --device cpu.");
  }
  if (options.repeat < 1) fail_usage("--repeat is ", options.repeat, "; it must be at least 1.");
  if (options.heads < 1 || options.dim < 1 || options.dim % options.heads != 0) {
    fail_usage("--dim ", options.dim, " cannot be split over --heads ", options.heads,
               "; choose a number of heads that divides it.");
  }
  torch::manual_seed(0);
  std::vector<OpBenchRow> rows;
  for (const auto& shape : options.shapes) {
    rows.push_back(measure(options, shape));
    report(rows.back());
  }
  return rows;
}

}  // namespace tost
