#include "tost/nn/branch.h"
#include "tost/nn/branch_calls.h"

namespace tost {
namespace {

using branch::AddGradients;
using branch::given;
using branch::Optional;
using branch::or_none;
using branch::Raw;
using branch::rows_of;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Places among the inputs; a matrix's working copy stands behind it.
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
// And behind them among the saved.
enum Kept : size_t { kMean = kInputs, kRstd, kHidden };

struct Form {
  double eps;
  bool tanh, recompute;
};

Tensor hidden_of(const variable_list& v, const Tensor& n) {
  return at::mm(n, branch::in_type(v[kIn], v[kInCopy], n.scalar_type()).t());
}

class MlpFunction : public Function<MlpFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& norm_weight,
                        const Optional& norm_bias, const Tensor& in, const Optional& in_copy,
                        const Optional& in_shift, const Tensor& out, const Optional& out_copy,
                        const Optional& out_shift, const Tensor& gamma, const Optional& factors,
                        Form form) {
    const auto type = branch::compute_type(x);
    const Raw by_hand;
    const Tensor in_bias = or_none(in_shift), out_bias = or_none(out_shift);
    const Tensor keep = or_none(factors);
    variable_list saved{x,       norm_weight, or_none(norm_bias), in,       or_none(in_copy),
                        in_bias, out,         or_none(out_copy),  out_bias, gamma,
                        keep};
    const Tensor rows = rows_of(x);
    Tensor mean, rstd;
    Tensor n = branch::normed(rows, norm_weight, saved[kNormBias], form.eps, type, &mean, &rstd);
    Tensor hidden = hidden_of(saved, n);
    n.reset();
    saved.insert(saved.end(), {mean, rstd, form.recompute ? Tensor() : hidden});
    Tensor a = branch::activated(hidden, in_bias, form.tanh);
    hidden.reset();
    const Tensor value = at::mm(a, branch::in_type(out, saved[kOutCopy], type).t());
    context->save_for_backward(std::move(saved));
    context->saved_data["eps"] = form.eps;
    context->saved_data["tanh"] = form.tanh;
    context->saved_data["type"] = type;
    return branch::added(rows, value, out_bias, gamma, keep).view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto v = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const bool tanh = context->saved_data["tanh"].toBool();
    if (torch::GradMode::is_enabled()) return differentiable(v, eps, tanh, grads[0]);
    const Raw by_hand;
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
      const bool kept = v[kHidden].defined();
      const Tensor hidden = kept ? v[kHidden] : hidden_of(v, normed());
      Tensor a = kept ? torch::empty_like(hidden) : hidden;
      result[kInBias] = branch::back_through_gelu(hidden, v[kInBias], tanh, hidden_grad, a);
      add.of_parameters(a, v[kOut], v[kOutBias], v[kGamma]);
      branch::give_weight(result, kOut, v[kOutCopy], add.weight);
      result[kOutBias] = add.bias;
      result[kGamma] = add.gamma;
    }
    branch::give_weight(result, kIn, v[kInCopy], at::mm(hidden_grad.t(), normed()));
    const Tensor grad_n = at::mm(hidden_grad, branch::in_type(v[kIn], v[kInCopy], type));
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
    variable_list result = branch::through_definition({v[kX] + value}, inputs, {grad});
    result.emplace_back();
    return result;
  }
};

}  // namespace

Tensor mlp_branch(const Tensor& x, const MlpBranch& mlp, const Tensor& keep) {
  const bool nothing_kept = mlp.recompute || !torch::GradMode::is_enabled();
  return MlpFunction::apply(x.to(torch::kFloat), mlp.norm.weight, given(mlp.norm.bias),
                            mlp.in.weight, given(working_values(mlp.in.copy)), given(mlp.in.bias),
                            mlp.out.weight, given(working_values(mlp.out.copy)),
                            given(mlp.out.bias), mlp.gamma, given(keep),
                            Form{mlp.norm.eps(), mlp.tanh_gelu, nothing_kept});
}

}  // namespace tost
