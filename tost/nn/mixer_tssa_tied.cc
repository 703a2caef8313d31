#include "tost/nn/mixer_tssa_tied.h"

#include <cmath>
#include <limits>

#include "tost/nn/device_autocast.h"
#include "tost/ops/tssa_plain.h"

namespace tost {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// U [H, C, P] as one matrix [C, H P].
Tensor side_by_side(const Tensor& u) {
  return u.transpose(0, 1).flatten(1);
}

// The QR factor with a positive diagonal in R, column by column: each loses its share of those
// before it, twice, so that rounding does not add up (Gram-Schmidt).
Tensor orthonormal_columns(const Tensor& basis) {
  const auto u = torch::empty({basis.size(0), basis.size(2), basis.size(1)}, basis.options());
  for (int64_t j = 0; j < basis.size(2); ++j) {
    const auto before = u.narrow(1, 0, j);  // [H, j, C]
    auto column = basis.narrow(2, j, 1);
    for (int time = 0; j > 0 && time < 2; ++time) {
      column = column - torch::matmul(before.transpose(1, 2), torch::matmul(before, column));
    }
    const auto length = column.square().sum(1, /*keepdim=*/true).sqrt();
    u.narrow(1, j, 1).copy_(
        (column / length.clamp_min(std::numeric_limits<float>::min())).transpose(1, 2));
  }
  return u.transpose(1, 2).contiguous();
}

// That with QR's derivative. On a GPU torch's own QR calls a solver that no CUDA graph is sure to
// hold.
class OrthonormalColumns : public torch::autograd::Function<OrthonormalColumns> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& basis) {
    const WithoutAutocast own_types;
    const auto u = orthonormal_columns(basis);
    context->save_for_backward({basis, u});
    return u;
  }

  // (G + U M) R^-T, where M has the lower triangle of -G^T U on both sides of its diagonal.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const WithoutAutocast own_types;
    const auto saved = context->get_saved_variables();
    const Tensor &basis = saved[0], &u = saved[1], &g = gradients[0];
    const auto m = torch::matmul(g.transpose(1, 2), u).neg();
    const auto both = m.tril() + m.tril(-1).transpose(1, 2);
    const auto r = torch::matmul(basis.transpose(1, 2), u).tril();  // R^T
    return {at::linalg_solve_triangular(r, g + torch::matmul(u, both), /*upper=*/false,
                                        /*left=*/false)};
  }
};

}  // namespace

TssaTiedMixer::TssaTiedMixer(const MixerConfig& config) {
  const int64_t width = config.dim / config.heads;
  basis = register_parameter("basis", torch::empty({config.heads, config.dim, width}));
  log_eta = register_parameter("log_eta", torch::full({1}, std::log(double(width))));
  step = register_parameter("step", torch::ones({1}));
}

void TssaTiedMixer::draw_weights() {
  const torch::NoGradGuard no_grad;
  basis.normal_(0, 0.02);
}

Tensor TssaTiedMixer::subspaces() const {
  if (basis.is_cuda()) {
    const bool kept = torch::GradMode::is_enabled() && basis.requires_grad();
    const WithoutAutocast own_types;
    return kept ? OrthonormalColumns::apply(basis) : orthonormal_columns(basis);
  }
  const auto [q, r] = torch::linalg_qr(basis);
  const auto diagonal = r.diagonal(0, 1, 2).detach();
  return q * torch::where(diagonal < 0, -1, 1).to(q.scalar_type()).unsqueeze(1);
}

Tensor TssaTiedMixer::project(const Tensor& x) const {
  return torch::matmul(x, side_by_side(subspaces()));
}

Tensor TssaTiedMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = basis.size(0);
  const auto u = side_by_side(subspaces());
  const auto w = torch::matmul(x, u);
  auto split = w.to(tssa_accumulation_dtype(w.scalar_type()))
                   .view({batch, tokens, heads, -1})
                   .transpose(1, 2);  // [B, H, N, P]
  Tensor padding;                     // [B, 1, N]
  if (call.lengths.defined()) {
    padding = own_tokens(call.lengths, tokens).logical_not().unsqueeze(1);
    split = split.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto squares = split.square();
  auto pi = (squares.sum(-1) * (0.5 * (-log_eta).exp())).softmax(1);  // [B, H, N]
  if (padding.defined()) pi = pi.masked_fill(padding, 0);
  const auto count = pi.sum(-1, /*keepdim=*/true).clamp_min(1e-8);
  const auto moment = torch::matmul((pi / count).unsqueeze(2), squares);  // [B, H, 1, P]
  const auto y = split * pi.unsqueeze(-1) * (-step / (1 + moment));
  if (call.trace != nullptr) *call.trace = {w, pi};
  const auto merged = y.transpose(1, 2).reshape(w.sizes()).to(w.scalar_type());
  return torch::matmul(merged, u.t());
}

}  // namespace tost
