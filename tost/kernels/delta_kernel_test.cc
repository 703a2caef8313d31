// The delta rule against its reference; ops/delta_test.cc has the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/delta.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

struct DeltaShape {
  int64_t batch, tokens, heads, keys, values;
};

// The definition in float64, one token after the other: o [B, T, H, V]
// of float32 inputs; `state` [B, H, K, V] is replaced by that after the last token.
void delta_reference(const DeltaArgs& in, double* state, double* o) {
  const int64_t tokens = in.tokens, heads = in.heads, keys = in.keys, values = in.values;
  for (int64_t row = 0; row < in.samples * heads; ++row) {
    double* s = state + row * keys * values;
    for (int64_t t = 0; t < tokens; ++t) {
      const auto at = [&](const ConstHeads& x, int64_t i) -> double {
        return static_cast<const float*>(
            x.data)[row / heads * x.sample_stride + t * x.token_stride +
                    row % heads * x.head_stride + i];
      };
      const double decay = in.log_decay.data != nullptr ? std::exp(at(in.log_decay, 0)) : 1;
      for (int64_t j = 0; j < values; ++j) {
        double known = 0, out = 0;
        for (int64_t i = 0; i < keys; ++i) known += decay * s[i * values + j] * at(in.k, i);
        const double u = at(in.beta, 0) * (at(in.v, j) - known);
        for (int64_t i = 0; i < keys; ++i) {
          double& number = s[i * values + j];
          number = decay * number + at(in.k, i) * u;
          out += number * at(in.q, i);
        }
        o[((row / heads * tokens + t) * heads + row % heads) * values + j] = in.scale * out;
      }
    }
  }
}

constexpr int64_t kGap = 3;  // numbers between tokens that belong to none

// [B, T, H, n] with gaps, or, with heads_first, [B, H, T, n].
struct HeadsArray {
  HeadsArray(const DeltaShape& shape, int64_t n, bool heads_first = false) : n(n), shape(shape) {
    const int64_t row = n + (heads_first ? 0 : kGap);
    token = heads_first ? row : row * shape.heads;
    head = heads_first ? row * shape.tokens : row;
    numbers.assign(shape.batch * shape.tokens * shape.heads * row + 1, kCanary);
  }
  float& at(int64_t b, int64_t t, int64_t h, int64_t i) {
    return numbers[(b * stride() + t * token + h * head) + i];
  }
  int64_t stride() const { return shape.batch > 0 ? int64_t(numbers.size() - 1) / shape.batch : 0; }
  template <class F>
  void each(F f) {
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t t = 0; t < shape.tokens; ++t) {
        for (int64_t h = 0; h < shape.heads; ++h) {
          for (int64_t i = 0; i < n; ++i) f(at(b, t, h, i));
        }
      }
    }
  }
  std::vector<float*> pointers() {
    std::vector<float*> all;
    each([&](float& x) { all.push_back(&x); });
    return all;
  }
  ConstHeads in() const { return {numbers.data(), stride(), token, head}; }
  Heads out() { return {numbers.data(), stride(), token, head}; }
  int64_t canaries() const { return std::count(numbers.begin(), numbers.end(), kCanary); }

  int64_t n;
  DeltaShape shape;
  int64_t token, head;
  std::vector<float> numbers;
};

struct DeltaCase {
  DeltaCase(const DeltaShape& shape, bool decays, bool has_state)
      : shape(shape),
        q(shape, shape.keys),
        k(shape, shape.keys),
        v(shape, shape.values, true),
        beta(shape, 1),
        log_decay(shape, 1, true),
        state(shape.batch * shape.heads * shape.keys * shape.values),
        has_state(has_state),
        decays(decays) {
    Random random(7);
    const auto normal = [&](float size) {
      return [&random, size](float& x) { x = size * static_cast<float>(random.normal()); };
    };
    const auto width = static_cast<float>(shape.keys);
    q.each(normal(1)), k.each(normal(1 / std::sqrt(width))), v.each(normal(1));
    beta.each([&](float& x) { x = static_cast<float>(random.uniform()); });
    log_decay.each([&](float& x) { x = -static_cast<float>(random.uniform()) * 0.5f; });
    for (float& x : state) x = has_state ? static_cast<float>(random.normal()) : 0;
  }

  DeltaArgs inputs() const {
    DeltaArgs in;
    in.samples = shape.batch, in.tokens = shape.tokens, in.heads = shape.heads;
    in.keys = shape.keys, in.values = shape.values;
    in.q = q.in(), in.k = k.in(), in.v = v.in(), in.beta = beta.in();
    if (decays) in.log_decay = log_decay.in();
    in.scale = 0.5f;
    return in;
  }
  int64_t outputs() const { return shape.batch * shape.tokens * shape.heads * shape.values; }

  DeltaShape shape;
  HeadsArray q, k, v, beta, log_decay;
  std::vector<float> state;
  bool has_state, decays;
};

struct ForwardResult {
  HeadsArray o;
  std::vector<float> state, carry;
};

ForwardResult forward(const DeltaCase& c, bool keep, bool want_state = true, int threads = 1) {
  ForwardResult r{HeadsArray(c.shape, c.shape.values), std::vector<float>(c.state.size()),
                  std::vector<float>(delta_carry_size(c.inputs()))};
  DeltaArgs args = c.inputs();
  args.o = r.o.out();
  if (c.has_state) args.state = c.state.data();
  if (want_state) args.next_state = r.state.data();
  if (keep) args.carry = r.carry.data();
  Workspace workspace(delta_workspace(args, false, threads));
  delta_forward(args, workspace.data, threads > 1 ? ParallelFor(kTwoThreads) : serial_for, threads);
  return r;
}

struct BackwardResult {
  HeadsArray q, k, v, beta, log_decay;
  std::vector<float> state;
};

BackwardResult backward(const DeltaCase& c, ForwardResult forward, HeadsArray& grad_o,
                        const std::vector<float>& grad_state, int threads = 1) {
  BackwardResult r{HeadsArray(c.shape, c.shape.keys),
                   HeadsArray(c.shape, c.shape.keys, true),
                   HeadsArray(c.shape, c.shape.values),
                   HeadsArray(c.shape, 1),
                   HeadsArray(c.shape, 1),
                   std::vector<float>(c.state.size())};
  DeltaArgs args = c.inputs();
  args.carry = forward.carry.data();
  args.grad_o = grad_o.in();
  args.grad_next_state = grad_state.data();
  args.grad_q = r.q.out(), args.grad_k = r.k.out(), args.grad_v = r.v.out();
  args.grad_beta = r.beta.out();
  if (c.decays) args.grad_log_decay = r.log_decay.out();
  args.grad_state = r.state.data();
  Workspace workspace(delta_workspace(args, true, threads));
  delta_backward(args, workspace.data, threads > 1 ? ParallelFor(kTwoThreads) : serial_for,
                 threads);
  return r;
}

std::vector<double> reference(const DeltaCase& c, std::vector<double>& state) {
  state.assign(c.state.begin(), c.state.end());
  std::vector<double> o(c.outputs());
  delta_reference(c.inputs(), state.data(), o.data());
  return o;
}

void expect_near(const std::vector<float*>& found, const std::vector<double>& wanted, double by) {
  ASSERT_EQ(found.size(), wanted.size());
  double most = 1e-30;
  for (const double x : wanted) most = std::max(most, std::abs(x));
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(*found[i], wanted[i], by * most) << i;
}
std::vector<float*> pointers(std::vector<float>& x) {
  std::vector<float*> all;
  for (float& number : x) all.push_back(&number);
  return all;
}

TEST(DeltaKernel, OutputsAreThoseOfTheReference) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const DeltaShape& shape :
         {DeltaShape{1, 1, 1, 1, 1}, DeltaShape{2, 3, 2, 5, 7}, DeltaShape{1, 16, 1, 16, 16},
          DeltaShape{2, 37, 3, 33, 20}, DeltaShape{1, 200, 2, 64, 64},
          DeltaShape{2, 35, 30, 64, 33}, DeltaShape{1, 65, 1, 256, 250}, DeltaShape{0, 5, 2, 4, 4},
          DeltaShape{2, 0, 2, 4, 4}}) {
      for (const int mode : {0, 1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa << " " << shape.tokens << "x" << shape.keys << "x"
                                          << shape.values << " mode " << mode);
        const DeltaCase c(shape, mode % 2 == 1, mode / 2 == 1);
        std::vector<double> state;
        const auto wanted = reference(c, state);
        auto found = forward(c, /*keep=*/false);
        expect_near(found.o.pointers(), wanted, 3e-6);
        expect_near(pointers(found.state), state, 3e-6);
        EXPECT_EQ(found.o.canaries(), int64_t(found.o.numbers.size() - wanted.size()));
        auto alone = forward(c, /*keep=*/true, /*want_state=*/false);
        expect_near(alone.o.pointers(), wanted, 3e-6);
      }
    }
  }
  force_isa("auto");
}

// Gradients of sum(o grad_o) + sum(state grad_state) against central differences of the reference.
TEST(DeltaKernel, GradientsAreThoseOfTheReference) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const DeltaShape& shape : {DeltaShape{1, 1, 1, 1, 1}, DeltaShape{2, 3, 2, 5, 7},
                                    DeltaShape{1, 17, 1, 4, 18}, DeltaShape{1, 70, 1, 17, 3}}) {
      for (const bool decays : {false, true}) {
        SCOPED_TRACE(::testing::Message() << isa << " " << shape.tokens << "x" << shape.keys);
        DeltaCase c(shape, decays, /*has_state=*/true);
        HeadsArray grad_o(shape, shape.values);
        Random random(11);
        grad_o.each([&](float& x) { x = static_cast<float>(random.normal()); });
        std::vector<float> grad_state(c.state.size());
        for (float& x : grad_state) x = static_cast<float>(random.normal());
        const auto weights = grad_o.pointers();
        const auto loss = [&] {
          std::vector<double> state;
          const auto o = reference(c, state);
          double sum = 0;
          for (size_t i = 0; i < o.size(); ++i) sum += o[i] * *weights[i];
          for (size_t i = 0; i < state.size(); ++i) sum += state[i] * grad_state[i];
          return sum;
        };
        const auto differences = [&](const std::vector<float*>& numbers) {
          std::vector<double> all;
          for (float* x : numbers) {
            const float start = *x, up = start + 1e-3f, down = start - 1e-3f;
            *x = up;
            const double above = loss();
            *x = down;
            all.push_back((above - loss()) / (double(up) - double(down)));
            *x = start;
          }
          return all;
        };
        auto r = backward(c, forward(c, true), grad_o, grad_state);
        expect_near(r.q.pointers(), differences(c.q.pointers()), 2e-5);
        expect_near(r.k.pointers(), differences(c.k.pointers()), 2e-5);
        expect_near(r.v.pointers(), differences(c.v.pointers()), 2e-5);
        expect_near(r.beta.pointers(), differences(c.beta.pointers()), 2e-5);
        if (decays) {
          expect_near(r.log_decay.pointers(), differences(c.log_decay.pointers()), 2e-5);
        }
        expect_near(pointers(r.state), differences(pointers(c.state)), 2e-5);
        EXPECT_EQ(r.q.canaries(), int64_t(r.q.numbers.size() - c.q.pointers().size()));
      }
    }
  }
  force_isa("auto");
}

TEST(DeltaKernel, ThreadsDoNotChangeABit) {
  const DeltaShape shape{2, 100, 35, 48, 40};  // 28 heads take turns, or 23 and 24
  const DeltaCase c(shape, true, true);
  HeadsArray grad_o(shape, shape.values);
  grad_o.each([i = 0](float& x) mutable { x = static_cast<float>(i++ % 7) - 3; });
  const auto one = forward(c, true), many = forward(c, true, true, 3);
  EXPECT_EQ(one.o.numbers, many.o.numbers);
  EXPECT_EQ(one.state, many.state);
  const auto grads = backward(c, one, grad_o, c.state);
  const auto grads_of_many = backward(c, many, grad_o, c.state, 3);
  EXPECT_EQ(grads.q.numbers, grads_of_many.q.numbers);
  EXPECT_EQ(grads.k.numbers, grads_of_many.k.numbers);
  EXPECT_EQ(grads.log_decay.numbers, grads_of_many.log_decay.numbers);
  EXPECT_EQ(grads.state, grads_of_many.state);
}

TEST(DeltaKernel, PartsContinueFromTheState) {
  const DeltaShape shape{1, 90, 2, 24, 40};
  const DeltaCase c(shape, true, true);
  const auto whole = forward(c, false);
  for (const int64_t part : {1, 2, 7, 64}) {
    HeadsArray o(shape, shape.values);
    std::vector<float> state = c.state;
    for (int64_t t = 0; t < shape.tokens; t += part) {
      DeltaArgs args = c.inputs();
      args.tokens = std::min(part, shape.tokens - t);
      const auto skip = [&](auto& x) {
        x.data = const_cast<float*>(static_cast<const float*>(x.data)) + t * x.token_stride;
      };
      args.o = o.out();
      skip(args.q), skip(args.k), skip(args.v), skip(args.beta);
      skip(args.log_decay), skip(args.o);
      args.state = args.next_state = state.data();
      Workspace workspace(delta_workspace(args, false, 1));
      delta_forward(args, workspace.data, serial_for, 1);
    }
    for (size_t i = 0; i < o.numbers.size(); ++i) {
      EXPECT_NEAR(o.numbers[i], whole.o.numbers[i], 2e-5) << part;
    }
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(state[i], whole.state[i], 1e-5) << part;
  }
}

TEST(DeltaKernel, HugeTinyAndForgottenValues) {
  const DeltaShape shape{1, 40, 1, 8, 8};
  for (const float size : {1e-30f, 1e30f}) {
    DeltaCase c(shape, true, false);
    c.v.each([&](float& x) { x *= size; });
    c.log_decay.at(0, 5, 0, 0) = -std::numeric_limits<float>::infinity();
    c.log_decay.at(0, 21, 0, 0) = -200;
    std::vector<double> state;
    const auto wanted = reference(c, state);
    auto found = forward(c, true);
    expect_near(found.o.pointers(), wanted, 3e-6);
    HeadsArray grad_o(shape, shape.values);
    grad_o.each([](float& x) { x = 1; });
    auto r = backward(c, found, grad_o, c.state);
    for (HeadsArray* x : {&r.q, &r.k, &r.v, &r.beta}) {
      x->each([](float& number) { EXPECT_TRUE(std::isfinite(number)); });
    }
  }
}

TEST(DeltaKernel, NotANumberReachesNoEarlierToken) {
  const DeltaShape shape{1, 20, 1, 8, 8};
  DeltaCase c(shape, true, false);
  const auto before = forward(c, false);
  c.v.at(0, 9, 0, 2) = c.k.at(0, 9, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  auto found = forward(c, false);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t t = 0; t < 9; ++t) EXPECT_EQ(found.o.at(0, t, 0, i), before.o.numbers[t * 11 + i]);
    EXPECT_TRUE(std::isnan(found.o.at(0, 19, 0, i)));
  }
}

}  // namespace
}  // namespace tost::kernels
