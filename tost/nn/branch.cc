#include "tost/nn/branch.h"

#include <ATen/autocast_mode.h>

#include <optional>
#include <utility>

#include "tost/nn/device_autocast.h"
#include "tost/ops/mlp_grad.h"
#include "tost/ops/plain.h"

namespace tost {
namespace {

using branch::AddGradients;
using branch::rows_of;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Inside the functions every type is chosen by hand, and nothing is recorded.
struct ByHand {
  at::AutoDispatchBelowAutograd below;
  WithoutAutocast types;
};

// Inputs that may be undefined, as torch's functions take them.
using Optional = std::optional<Tensor>;
Optional if_defined(const Tensor& x) {
  return x.defined() ? Optional(x) : std::nullopt;
}
Tensor or_undefined(const Optional& x) {
  return x.value_or(Tensor());
}

// The type of matrix products: bfloat16 under autocast of x's device, else float32.
torch::ScalarType compute_type(const Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? torch::kBFloat16 : torch::kFloat;
}

// A matrix in that type: itself, its working copy, or a rounded one.
Tensor in_type(const Tensor& weight, const Tensor& working, torch::ScalarType type) {
  if (type == weight.scalar_type()) return weight;
  return working.defined() ? working : weight.to(type);
}

// Sets the gradient of the matrix at `place` of the inputs, or of its working copy, which follows
// it, where that requires a gradient.
void set_matrix_gradient(variable_list& result, size_t place, const Tensor& working,
                         Tensor gradient) {
  result[working.defined() && working.requires_grad() ? place + 1 : place] = std::move(gradient);
}

class NormAndMap : public Function<NormAndMap> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& norm_weight,
                               const Optional& norm_shift, const Tensor& weight,
                               const Optional& copy, const Optional& shift, double eps) {
    const Tensor norm_bias = or_undefined(norm_shift), working = or_undefined(copy),
                 bias = or_undefined(shift);
    const auto type = compute_type(x);
    const ByHand by_hand;
    Tensor mean, rstd;
    const Tensor n = branch::normed(rows_of(x), norm_weight, norm_bias, eps, type, &mean, &rstd);
    const Tensor w = in_type(weight, working, type);
    const Tensor out = bias.defined() ? at::addmm(bias.to(type), n, w.t()) : at::mm(n, w.t());
    context->save_for_backward({x, norm_weight, norm_bias, weight, working, bias, mean, rstd});
    context->saved_data["eps"] = eps;
    context->saved_data["type"] = type;
    context->set_materialize_grads(false);
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    return {x, out.view(sizes)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    if (!grads[1].defined()) return {grads[0], {}, {}, {}, {}, {}, {}};
    if (torch::GradMode::is_enabled()) return differentiable(saved, eps, grads);
    const auto &x = saved[0], &norm_weight = saved[1], &norm_bias = saved[2], &weight = saved[3],
               &working = saved[4], &bias = saved[5];
    const ByHand by_hand;
    const auto type = context->saved_data["type"].toScalarType();
    const Tensor rows = rows_of(x), grad = rows_of(grads[1].to(type));
    const Tensor residual = grads[0].defined() ? rows_of(grads[0]) : Tensor();
    variable_list result(7);
    set_matrix_gradient(result, 3, working,
                        at::mm(grad.t(), branch::normed(rows, norm_weight, norm_bias, eps, type)));
    if (bias.defined()) result[5] = grad.sum(0, false, torch::kFloat);
    const auto through =
        branch::norm_gradients(at::mm(grad, in_type(weight, working, type)), residual, rows,
                               saved[6], saved[7], norm_weight, norm_bias.defined());
    result[0] = through.x.view(x.sizes());
    result[1] = through.weight;
    result[2] = through.bias;
    return result;
  }

 private:
  static variable_list differentiable(const variable_list& saved, double eps,
                                      const variable_list& grads) {
    const auto &x = saved[0], &norm_weight = saved[1];
    const Tensor n = torch::layer_norm(x, norm_weight.sizes(), norm_weight, saved[2], eps);
    variable_list inputs(saved.begin(), saved.begin() + 6);
    inputs.resize(7);
    return plain_gradients({x.view_as(x), torch::linear(n, saved[3], saved[5])}, inputs,
                           {grads[0], grads[1].to(torch::kFloat)});
  }
};

class MapAndAdd : public Function<MapAndAdd> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& y,
                        const Tensor& weight, const Optional& copy, const Optional& shift,
                        const Tensor& gamma, const Optional& factors) {
    const Tensor working = or_undefined(copy), bias = or_undefined(shift),
                 keep = or_undefined(factors);
    const auto type = compute_type(x);
    const ByHand by_hand;
    const Tensor value = at::mm(rows_of(y.to(type)), in_type(weight, working, type).t());
    context->save_for_backward({y, weight, working, bias, gamma, keep});
    context->saved_data["type"] = type;
    return branch::added(rows_of(x), value, bias, gamma, keep).view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    if (torch::GradMode::is_enabled()) return differentiable(saved, grads[0]);
    const auto &y = saved[0], &weight = saved[1], &working = saved[2], &bias = saved[3],
               &gamma = saved[4], &keep = saved[5];
    const ByHand by_hand;
    const auto type = context->saved_data["type"].toScalarType();
    AddGradients add(rows_of(grads[0]), keep, type);
    add.of_parameters(rows_of(y.to(type)), weight, bias, gamma);
    variable_list result(7);
    result[0] = grads[0];
    result[1] = add.of_input(weight, gamma).to(y.scalar_type()).view(y.sizes());
    set_matrix_gradient(result, 2, working, add.weight);
    result[4] = add.bias;
    result[5] = add.gamma;
    return result;
  }

 private:
  static variable_list differentiable(const variable_list& saved, const Tensor& grad) {
    const auto &y = saved[0], &weight = saved[1], &bias = saved[3], &gamma = saved[4],
               &keep = saved[5];
    Tensor value = gamma * torch::linear(y.to(torch::kFloat), weight, bias);
    if (keep.defined()) value = value * keep.view({-1, 1, 1});
    variable_list result = plain_gradients({value}, {y, weight, {}, bias, gamma, {}}, {grad});
    result.insert(result.begin(), grad);
    return result;
  }
};

}  // namespace

const char* why_no_branches(const Tensor& x, const torch::nn::Module& block, double dropout) {
  if (!torch::GradMode::is_enabled() || !block.is_training()) return "it does not train";
  if (!x.is_cpu()) return "it runs on a GPU";
  if (x.numel() == 0) return "there are no tokens";
  if (dropout != 0) return "it has dropout";
  if (x.scalar_type() != torch::kFloat && x.scalar_type() != torch::kBFloat16) {
    return "its input is neither float32 nor bfloat16";
  }
  if (at::autocast::is_autocast_enabled(torch::kCPU) &&
      at::autocast::get_autocast_dtype(torch::kCPU) != torch::kBFloat16) {
    return "autocast is to another type than bfloat16";
  }
  bool wanted = x.requires_grad();
  for (const Tensor& p : block.parameters()) {
    if (!p.is_cpu() || p.scalar_type() != torch::kFloat || !p.is_contiguous()) {
      return "a parameter is not contiguous float32 on the CPU";
    }
    wanted = wanted || p.requires_grad();
  }
  return wanted ? nullptr : "nothing requires a gradient";
}

NormedMap norm_and_map(const Tensor& x, const LayerNorm& norm, const Linear& map) {
  const auto both =
      NormAndMap::apply(x.to(torch::kFloat), norm.weight, if_defined(norm.bias), map.weight,
                        if_defined(working_values(map.copy)), if_defined(map.bias), norm.eps());
  return {both[0], both[1]};
}

Tensor map_and_add(const Tensor& x, const Tensor& y, const Linear& map, const Tensor& gamma,
                   const Tensor& keep) {
  return MapAndAdd::apply(x, y, map.weight, if_defined(working_values(map.copy)),
                          if_defined(map.bias), gamma, if_defined(keep));
}

namespace {

// Places among the inputs; a matrix's working copy follows it.
enum Input : size_t {
  kX,
  kNormWeight,
  kNormBias,
  kIn,
  kInCopy,
  kInBias,
  kOut,
  kOutCopy,
  kOutBias,
  kGamma,
  kKeep,
  kInputs
};
// Places after them among the saved tensors.
enum Saved : size_t { kMean = kInputs, kRstd, kHidden };

struct Form {
  double eps;
  bool tanh, recompute;
};

Tensor hidden_of(const variable_list& v, const Tensor& n) {
  return at::mm(n, in_type(v[kIn], v[kInCopy], n.scalar_type()).t());
}

class MlpFunction : public Function<MlpFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& norm_weight,
                        const Optional& norm_shift, const Tensor& in, const Optional& in_copy,
                        const Optional& in_shift, const Tensor& out, const Optional& out_copy,
                        const Optional& out_shift, const Tensor& gamma, const Optional& factors,
                        Form form) {
    const auto type = compute_type(x);
    const ByHand by_hand;
    variable_list saved{x,
                        norm_weight,
                        or_undefined(norm_shift),
                        in,
                        or_undefined(in_copy),
                        or_undefined(in_shift),
                        out,
                        or_undefined(out_copy),
                        or_undefined(out_shift),
                        gamma,
                        or_undefined(factors)};
    const Tensor rows = rows_of(x);
    Tensor mean, rstd;
    Tensor n = branch::normed(rows, norm_weight, saved[kNormBias], form.eps, type, &mean, &rstd);
    Tensor hidden = hidden_of(saved, n);
    n.reset();
    saved.insert(saved.end(), {mean, rstd, form.recompute ? Tensor() : hidden});
    Tensor a = branch::activated(hidden, saved[kInBias], form.tanh);
    hidden.reset();
    const Tensor value = at::mm(a, in_type(out, saved[kOutCopy], type).t());
    const Tensor y = branch::added(rows, value, saved[kOutBias], gamma, saved[kKeep]);
    context->save_for_backward(std::move(saved));
    context->saved_data["eps"] = form.eps;
    context->saved_data["tanh"] = form.tanh;
    context->saved_data["type"] = type;
    return y.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto v = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const bool tanh = context->saved_data["tanh"].toBool();
    if (torch::GradMode::is_enabled()) return differentiable(v, eps, tanh, grads[0]);
    const ByHand by_hand;
    const auto type = context->saved_data["type"].toScalarType();
    const Tensor rows = rows_of(v[kX]), grad_y = rows_of(grads[0]);
    const auto normed = [&] {
      return branch::normed(rows, v[kNormWeight], v[kNormBias], eps, type);
    };
    variable_list result(kInputs + 1);
    Tensor hidden_grad;
    {
      AddGradients add(grad_y, v[kKeep], type);
      hidden_grad = add.of_input(v[kOut], v[kGamma]);
      const bool has_hidden = v[kHidden].defined();
      const Tensor hidden = has_hidden ? v[kHidden] : hidden_of(v, normed());
      Tensor a = has_hidden ? torch::empty_like(hidden) : hidden;
      result[kInBias] = branch::back_through_gelu(hidden, v[kInBias], tanh, hidden_grad, a);
      add.of_parameters(a, v[kOut], v[kOutBias], v[kGamma]);
      set_matrix_gradient(result, kOut, v[kOutCopy], add.weight);
      result[kOutBias] = add.bias;
      result[kGamma] = add.gamma;
    }
    set_matrix_gradient(result, kIn, v[kInCopy], at::mm(hidden_grad.t(), normed()));
    const Tensor grad_n = at::mm(hidden_grad, in_type(v[kIn], v[kInCopy], type));
    hidden_grad.reset();
    const auto through = branch::norm_gradients(grad_n, grad_y, rows, v[kMean], v[kRstd],
                                                v[kNormWeight], v[kNormBias].defined());
    result[kX] = through.x.view(v[kX].sizes());
    result[kNormWeight] = through.weight;
    result[kNormBias] = through.bias;
    return result;
  }

 private:
  static variable_list differentiable(const variable_list& v, double eps, bool tanh,
                                      const Tensor& grad) {
    const auto n =
        torch::layer_norm(v[kX], v[kNormWeight].sizes(), v[kNormWeight], v[kNormBias], eps);
    const auto a = torch::gelu(torch::linear(n, v[kIn], v[kInBias]), tanh ? "tanh" : "none");
    Tensor value = v[kGamma] * torch::linear(a, v[kOut], v[kOutBias]);
    if (v[kKeep].defined()) value = value * v[kKeep].view({-1, 1, 1});
    variable_list inputs(v.begin(), v.begin() + kInputs);
    inputs[kInCopy] = inputs[kOutCopy] = Tensor();
    variable_list result = plain_gradients({v[kX] + value}, inputs, {grad});
    result.emplace_back();
    return result;
  }
};

}  // namespace

Tensor mlp_branch(const Tensor& x, const MlpBranch& mlp, const Tensor& keep) {
  const bool save_nothing = mlp.recompute || !torch::GradMode::is_enabled();
  return MlpFunction::apply(
      x.to(torch::kFloat), mlp.norm.weight, if_defined(mlp.norm.bias), mlp.in.weight,
      if_defined(working_values(mlp.in.copy)), if_defined(mlp.in.bias), mlp.out.weight,
      if_defined(working_values(mlp.out.copy)), if_defined(mlp.out.bias), mlp.gamma,
      if_defined(keep), Form{mlp.norm.eps(), mlp.tanh_gelu, save_nothing});
}

}  // namespace tost
