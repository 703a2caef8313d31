// Large results go past the caches; they are those that go through them, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tost/kernels/isa.h"
#include "tost/kernels/schedule.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

// Just large enough, rows of whole cache lines; the last groups of tokens are not full.
TssaShape shape_for(DType dtype) {
  return {dtype == DType::kFloat32 ? 2 : 4, 1027, 8, 128};
}

// A [B, N, C] array `offset` elements after the start of a cache line; the gap and 64 bytes at the
// end hold canaries.
class Array {
 public:
  Array(const TssaShape& shape, DType dtype, int64_t offset)
      : shape_(shape),
        size_(element_size(dtype)),
        bytes_(shape.batch * shape.tokens * shape.channels() * size_),
        before_(offset * size_),
        memory_(before_ + bytes_ + 64) {
    std::memset(memory_.data, kGap, before_ + bytes_ + 64);
  }

  void fill(uint64_t seed) {
    Random random(seed);
    for (int64_t i = 0; i < bytes_ / size_; ++i) {
      const float value = static_cast<float>(random.uniform()) - 0.5f;
      // The upper half of a float32 is a bfloat16.
      std::memcpy(begin() + i * size_, reinterpret_cast<const char*>(&value) + 4 - size_, size_);
    }
  }
  Tokens tokens() { return {begin(), shape_.tokens * shape_.channels(), shape_.channels()}; }
  ConstTokens const_tokens() { return {begin(), tokens().batch_stride, tokens().token_stride}; }
  bool holds_the_same(Array& other) {
    return bytes_ == other.bytes_ && std::memcmp(begin(), other.begin(), bytes_) == 0;
  }
  bool gaps_are_whole() {
    const auto is_gap = [](char c) { return c == kGap; };
    return std::all_of(begin() - before_, begin(), is_gap) &&
           std::all_of(begin() + bytes_, begin() + bytes_ + 64, is_gap);
  }

 private:
  static constexpr char kGap = 0x5A;
  char* begin() { return static_cast<char*>(memory_.data) + before_; }

  TssaShape shape_;
  int64_t size_, bytes_, before_;
  Workspace memory_;
};

// y and grad_w of one form, `offset` elements after the start of a cache line.
struct Results {
  Results(const TssaShape& shape, DType dtype, int64_t offset)
      : y(shape, dtype, offset), grad_w(shape, dtype, offset) {}
  Array y, grad_w;
};

void run(const TssaShape& shape, DType dtype, Array& w, Array& g, Results& to) {
  const std::vector<float> temp(shape.heads, 1.0f);
  const int64_t stats = shape.batch * shape.channels();
  std::vector<float> pi(shape.batch * shape.heads * shape.tokens), energy(stats), moment(stats),
      pi_sum(shape.batch * shape.heads), grad_temp(shape.heads);
  TssaForwardArgs forward;
  forward.shape = shape, forward.dtype = dtype, forward.w = w.const_tokens();
  forward.temp = temp.data(), forward.y = to.y.tokens();
  forward.pi = pi.data(), forward.energy = energy.data();
  forward.moment = moment.data(), forward.pi_sum = pi_sum.data();
  Workspace scratch(tssa_forward_workspace(forward));
  tssa_forward(forward, scratch.data, kTwoThreads, 2);
  TssaBackwardArgs backward;
  backward.shape = shape, backward.dtype = dtype, backward.w = w.const_tokens();
  backward.grad_y = g.const_tokens(), backward.temp = temp.data(), backward.pi = pi.data();
  backward.energy = energy.data(), backward.moment = moment.data();
  backward.pi_sum = pi_sum.data();
  backward.grad_w = to.grad_w.tokens(), backward.grad_temp = grad_temp.data();
  Workspace other(tssa_backward_workspace(backward));
  tssa_backward(backward, other.data, kTwoThreads, 2);
}

void run_causal(const TssaShape& shape, DType dtype, Array& w, Array& g, Results& to) {
  const std::vector<float> temp(shape.heads, 1.0f), bias(shape.heads);
  const int64_t chunks = causal_chunks(shape.tokens);
  std::vector<float> pi(shape.batch * shape.heads * shape.tokens),
      carry(shape.batch * chunks * 2 * shape.channels()), grad_temp(shape.heads),
      grad_bias(shape.heads);
  std::vector<double> pi_carry(shape.batch * chunks * shape.heads);
  CausalForwardArgs forward;
  forward.shape = shape, forward.dtype = dtype, forward.w = w.const_tokens();
  forward.temp = temp.data(), forward.bias = {bias.data(), 1, 0}, forward.y = to.y.tokens();
  forward.pi = pi.data(), forward.carry = carry.data(), forward.pi_carry = pi_carry.data();
  Workspace scratch(causal_forward_workspace(forward, 2));
  causal_forward(forward, scratch.data, kTwoThreads, 2);
  CausalBackwardArgs backward;
  backward.shape = shape, backward.dtype = dtype, backward.w = w.const_tokens();
  backward.grad_y = g.const_tokens(), backward.temp = temp.data(), backward.bias = forward.bias;
  backward.pi = pi.data(), backward.carry = carry.data(), backward.pi_carry = pi_carry.data();
  backward.grad_w = to.grad_w.tokens();
  backward.grad_temp = grad_temp.data(), backward.grad_bias = grad_bias.data();
  Workspace other(causal_backward_workspace(backward, 2));
  causal_backward(backward, other.data, kTwoThreads, 2);
}

TEST(Streaming, ResultsAreThoseThatGoThroughTheCaches) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const TssaShape shape = shape_for(dtype);
      const int64_t row = shape.channels() * element_size(dtype);
      ASSERT_TRUE(worth_streaming(shape.batch * shape.tokens * row));
      Array w(shape, dtype, 0), g(shape, dtype, 0);
      w.fill(1);
      g.fill(2);
      for (const auto& form : {run, run_causal}) {
        SCOPED_TRACE(testing::Message() << isa << (dtype == DType::kFloat32 ? " fp32" : " bf16")
                                        << (form == run ? "" : " causal"));
        Results streamed(shape, dtype, 0), cached(shape, dtype, 1);
        ASSERT_TRUE(fills_lines(streamed.y.tokens().data, row, row));
        ASSERT_FALSE(fills_lines(cached.y.tokens().data, row, row));
        form(shape, dtype, w, g, streamed);
        form(shape, dtype, w, g, cached);
        EXPECT_TRUE(streamed.y.holds_the_same(cached.y));
        EXPECT_TRUE(streamed.grad_w.holds_the_same(cached.grad_w));
        for (Array* array : {&streamed.y, &streamed.grad_w, &cached.y, &cached.grad_w})
          EXPECT_TRUE(array->gaps_are_whole());
      }
    }
  }
  force_isa("auto");
}

}  // namespace
}  // namespace tost::kernels
