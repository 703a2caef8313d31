// Coding rates and their variational bound: the objective from which TSSA is derived (arXiv
// 2412.17810, Theorem 1). For measurements and tests. All arithmetic is in float64 and
// deterministic. Functions are differentiable in z, w and u; pi is constant.
//
// f(x) = log(1 + scale * x). The theory has scale = d / eps^2; the official code has D = 1 / (1 +
// S), which is f' with scale 1. Tokens are rows: z [..., N, C] are tokens, w [..., N, C] projected
// tokens with head k in columns kP ... kP+P-1, pi [..., H, N] memberships. Results have the leading
// dimensions of z or w. Every function throws a usage Error for wrong shapes or dtypes, for a scale
// that is not positive and finite, and for no tokens. A group without tokens (n_k = 0) adds 0. A
// sample that is not finite gives a result that is not finite. Values may reach 1e150.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tost {

// R = 1/2 logdet(I + scale/N z^T z), from the singular values of z: a Gram matrix loses the small
// ones.
at::Tensor coding_rate(const at::Tensor& z, double scale);

// R_c = 1/2 sum_k n_k/N logdet(I + scale/n_k z^T Diag(pi_k) z), n_k = sum_j pi_kj: the rate of the
// groups in the whole space.
at::Tensor compression_rate(const at::Tensor& z, const at::Tensor& pi, double scale);

// The rate of the groups in the coordinates of each head: 1/2 sum_k n_k/N logdet(I + scale/n_k
// w_k^T Diag(pi_k) w_k). The rate is at most compression_bound(w, pi, scale), and equal if each
// group's features are uncorrelated. For w = z U with orthonormal U_k the rate is at most
// compression_rate, and equal if every U_k is square.
at::Tensor head_compression_rate(const at::Tensor& w, const at::Tensor& pi, double scale);

// R_var = 1/2 sum_k n_k/N sum_i f(1/n_k sum_j pi_kj w_jki^2): the objective of a layer's step.
// R_var bounds compression_rate (Theorem 1) if w = z U with orthonormal U_k and image(z_k) inside
// image(U_k). For w = z U with orthonormal U_k, a step z - tau * gradient lowers R_var for every
// tau in (0, 2 N / scale), because f is concave and each token's matrix sum_k pi_kj U_k D_k U_k^T
// is at most `scale`.
at::Tensor compression_bound(const at::Tensor& w, const at::Tensor& pi, double scale);

// Projects z [..., N, C] by u [H, C, P] to the operator's layout [..., N, H P].
at::Tensor project_heads(const at::Tensor& z, const at::Tensor& u);

// Scales each token's part in each head to unit norm, unless the norm is below 1e-12. For unit
// norms, compression_bound with scale P / 0.01 is at most 1/2 P log(1 + 1 / 0.01), which is 110.763
// for P = 48.
at::Tensor unit_heads(const at::Tensor& w, int64_t heads);

}  // namespace tost
