#include "tost/nn/cross_entropy.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/nn/precision.h"

namespace tost {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kPieceBytes = int64_t{256} << 10;  // of logits, in one core's cache

// Adds up the losses of logits [n, V] in nats over the targets [n] int64 that are not -1. Replaces
// the logits by the gradient (softmax - onehot) scale, or by zeros if the target is -1. Without a
// scale the logits become undefined.
Tensor softmax_gradient(const Tensor& logits, const Tensor& targets,
                        const std::optional<Tensor>& scale) {
  const Tensor index = targets.clamp_min(0).unsqueeze(1);
  const bool wide = logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kDouble;
  Tensor x = wide ? logits : logits.to(at::kFloat);
  const Tensor has_target = targets.ge(0).to(x.scalar_type()).unsqueeze(1);
  const Tensor picked = x.gather(1, index);
  const Tensor largest = x.amax(1, /*keepdim=*/true);
  x.sub_(largest).exp_();
  const Tensor sum = x.sum(1, /*keepdim=*/true);
  const Tensor loss = ((sum.log() + largest - picked) * has_target).sum();
  if (!scale.has_value()) return loss;
  x.mul_(has_target * *scale / sum).scatter_add_(1, index, has_target * scale->neg());
  if (!wide) logits.copy_(x);
  return loss;
}

// Calls softmax_gradient(), on the CPU in pieces that stay in the cache.
Tensor softmax_rows(const Tensor& logits, const Tensor& targets,
                    const std::optional<Tensor>& scale) {
  if (!logits.is_cpu()) return softmax_gradient(logits, targets, scale);
  const int64_t rows = logits.size(0);
  const int64_t piece = std::clamp<int64_t>(kPieceBytes / (4 * logits.size(1)), 1, rows);
  std::vector<double> losses(size_t((rows + piece - 1) / piece));
  at::parallel_for(0, int64_t(losses.size()), 1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard no_grad;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * piece, count = std::min(piece, rows - first);
      losses[size_t(i)] =
          softmax_gradient(logits.narrow(0, first, count), targets.narrow(0, first, count), scale)
              .item<double>();
    }
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return torch::tensor(sum, torch::kDouble);
}

struct LossAndGradients {
  Tensor loss;            // sum, float64
  Tensor hidden, weight;  // of the mean; undefined if not wanted
};

void add_chunk(LossAndGradients& result, const Tensor& hidden, const Tensor& weight,
               const Tensor& targets, int64_t first, int64_t count, const Tensor& scale) {
  const Tensor h = hidden.narrow(0, first, count);
  const Tensor logits = at::mm(h, weight.t());
  const bool want_gradient = result.hidden.defined() || result.weight.defined();
  result.loss += softmax_rows(logits, targets.narrow(0, first, count),
                              want_gradient ? std::optional(scale) : std::nullopt);
  if (result.hidden.defined()) {
    Tensor out = result.hidden.narrow(0, first, count);
    at::mm_out(out, logits, weight);
  }
  if (!result.weight.defined()) return;
  if (count == hidden.size(0)) {
    result.weight = at::mm(logits.t(), h);
  } else if (first == 0) {
    result.weight = at::mm(logits.t(), h).to(torch::promoteTypes(h.scalar_type(), torch::kFloat));
  } else if (h.scalar_type() == result.weight.scalar_type()) {
    result.weight.addmm_(logits.t(), h);
  } else {
    result.weight.add_(at::mm(logits.t(), h));
  }
}

LossAndGradients run(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                     bool want_hidden, bool want_weight, int64_t logit_bytes) {
  const int64_t rows = hidden.size(0);
  const Tensor counted = targets.ge(0).sum().to(torch::kDouble);
  const Tensor scale = counted.reciprocal();
  LossAndGradients result;
  result.loss = torch::zeros_like(counted);
  if (want_hidden) result.hidden = torch::empty_like(hidden, at::MemoryFormat::Contiguous);
  if (want_weight) {  // made by the first chunk, if there is one
    result.weight = rows > 0 ? torch::empty({0}, weight.options()) : torch::zeros_like(weight);
  }
  const int64_t row_bytes = weight.size(0) * int64_t(hidden.element_size());
  const int64_t chunk = std::clamp<int64_t>(logit_bytes / row_bytes, 1, std::max<int64_t>(rows, 1));
  for (int64_t first = 0; first < rows; first += chunk) {
    add_chunk(result, hidden, weight, targets, first, std::min(chunk, rows - first), scale);
  }
  result.loss /= counted;  // NaN without targets
  return result;
}

void check(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  const bool fits = hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1) &&
                    targets.dim() == 1 && targets.size(0) == hidden.size(0) &&
                    targets.scalar_type() == torch::kLong;
  if (!fits) {
    fail_data("The loss takes hidden [N, C], weight [V, C] and int64 targets [N], found ",
              hidden.sizes(), ", ", weight.sizes(), " and ", targets.scalar_type(), " ",
              targets.sizes(), ".");
  }
  if (targets.is_cpu()) check_targets(targets, weight.size(0));
}

class HeadCrossEntropy : public torch::autograd::Function<HeadCrossEntropy> {
 public:
  static Variable forward(AutogradContext* context, const Variable& hidden, const Variable& weight,
                          const Variable& targets, int64_t logit_bytes, bool differentiate) {
    // Casts the inputs inside the function under autocast, so that gradients have the types of the
    // inputs.
    const auto device = hidden.device().type();
    const bool cast = at::autocast::is_autocast_enabled(device);
    const auto type = cast ? at::autocast::get_autocast_dtype(device) : hidden.scalar_type();
    const at::AutoDispatchBelowAutograd below;
    const WithoutAutocast no_autocast;
    const LossAndGradients result =
        run(hidden.to(type), weight.to(type), targets, differentiate && hidden.requires_grad(),
            differentiate && weight.requires_grad(), logit_bytes);
    context->saved_data["hidden"] = result.hidden;
    context->saved_data["weight"] = result.weight;
    context->saved_data["hidden_type"] = hidden.scalar_type();
    context->saved_data["weight_type"] = weight.scalar_type();
    return result.loss.to(torch::promoteTypes(type, torch::kFloat));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (torch::GradMode::is_enabled()) {
      fail_usage(
          "The gradient of this loss cannot be differentiated; take it without create_graph.");
    }
    // Reads the factor on the CPU only, because a read from a GPU would wait.
    const bool one = gradients[0].is_cpu() && gradients[0].item<double>() == 1;
    const auto take = [&](const char* name, const char* type) {
      // Moves the gradient out, so that it has one owner and autograd need not copy it into .grad.
      auto& slot = context->saved_data[name];
      if (slot.isNone()) fail_usage("The gradient of this loss can be taken once only.");
      Tensor value = std::move(slot).toTensor();
      slot = c10::IValue();
      if (!value.defined()) return value;
      value = value.to(context->saved_data[type].toScalarType());
      return one ? value : value.mul_(gradients[0]);
    };
    Tensor hidden = take("hidden", "hidden_type"), weight = take("weight", "weight_type");
    return {hidden, weight, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

void check_targets(const Tensor& targets, int64_t vocab) {
  if (targets.numel() == 0) return;
  const int64_t low = targets.min().item<int64_t>(), high = targets.max().item<int64_t>();
  if (low < -1 || high >= vocab) {
    fail_data("Target ", low < -1 ? low : high, " is outside the model's vocabulary of ", vocab,
              "; was the text cut by another tokenizer?");
  }
}

Tensor head_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                          int64_t logit_bytes) {
  check(hidden, weight, targets);
  if (logit_bytes == 0) logit_bytes = int64_t{hidden.is_cpu() ? 256 : 1024} << 20;
  return HeadCrossEntropy::apply(hidden, weight, targets, logit_bytes,
                                 torch::GradMode::is_enabled());
}

}  // namespace tost
