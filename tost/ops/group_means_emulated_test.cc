// The GPU's kernels of group means, run by the emulator on arguments as the operator builds them,
// against the plain form in float64.
#include "tost/kernels/cuda/emulator.h"
#include "tost/kernels/cuda/means_cuda.h"
#include "tost/ops/group_means_cases_test_util.h"
#include "tost/ops/group_means_rows.h"
#include "tost/ops/inner_operator.h"

namespace tost {
namespace group_means_test {
namespace {

namespace cuda = kernels::cuda;

constexpr int64_t kMargin = 64;   // numbers around every result
constexpr double kCanary = 0.75;  // which bfloat16 has

std::vector<Tensor> margins;  // of the results that were made
bool in_place = false;        // whether the state becomes the next one where it is

struct OnEmulator {
  struct Guard {
    explicit Guard(at::Device) {}
  };
  static auto empty(const Tensor&) {
    return [](at::IntArrayRef sizes, at::ScalarType dtype) {
      const int64_t count = c10::multiply_integers(sizes);
      const auto all = torch::full({count + 2 * kMargin}, kCanary, dtype);
      const auto own = all.narrow(0, kMargin, count);
      own.fill_(std::nan(""));
      margins.push_back(all.narrow(0, 0, kMargin));
      margins.push_back(all.narrow(0, kMargin + count, kMargin));
      return own.view(sizes);
    };
  }
  static void run(kernels::MeansForwardArgs args, const Tensor&) {
    if (args.state != nullptr && in_place) {
      std::copy_n(args.state, args.in.shape.batch * kernels::means_state_size(args.in.shape),
                  args.next_state);
      args.state = args.next_state;
    }
    check(args, cuda::means_forward);
  }
  static void run(const kernels::MeansBackwardArgs& args, const Tensor&) {
    check(args, cuda::means_backward);
  }

 private:
  template <class Args>
  static void check(const Args& args, int (*kernel)(const Args&, void*, cuda::Stream)) {
    EXPECT_TRUE(cuda::supports_causal(args.in.shape));
    const auto workspace = torch::full({cuda::means_workspace(args)}, 255, torch::kByte);
    EXPECT_EQ(kernel(args, workspace.mutable_data_ptr(), nullptr), 0);
  }
};
using Emulated = MeansRows<OnEmulator>;

// y and the sums after the last token; the sums before each chunk are kept for backward.
std::tuple<Tensor, Tensor, Tensor> forward(const Inputs& in, bool keep) {
  return Emulated::forward(in.call.base, in.call.values, if_defined(in.call.gate), in.call.pi,
                           if_defined(in.call.log_rates), in.scale, if_defined(in.sums),
                           in.call.from_end, keep);
}

// As run() of the plain form.
std::vector<Tensor> run_emulated(const Inputs& in, bool descending = false) {
  margins.clear();
  cuda::emulator::descending = descending;
  const auto [y, after, carry] = forward(in, /*keep=*/true);
  const auto [base, gate, values, pi, decay, scale] = Emulated::backward(
      in.grad, in.call.base, in.call.values, if_defined(in.call.gate), in.call.pi,
      if_defined(in.call.log_rates), in.scale, carry, in.call.from_end);
  cuda::emulator::descending = false;
  const bool gated = in.call.gate.defined();
  std::vector<Tensor> found{y, gated ? base : in.grad, values};
  if (gated) found.push_back(gate);
  found.push_back(pi);
  if (in.call.log_rates.defined()) {
    const auto rates = in.call.log_rates.to(torch::kDouble);
    found.push_back((decay * rates.exp()).to(in.call.log_rates.scalar_type()));
  }
  found.push_back(scale);
  if (in.sums.defined()) found.push_back(after);
  for (const auto& margin : margins) EXPECT_TRUE(margin.eq(kCanary).all().item<bool>());
  return found;
}

class EmulatedMeans : public ::testing::TestWithParam<MeansCase> {};

TEST_P(EmulatedMeans, AgreesWithThePlainForm) {
  const MeansCase& c = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    if (dtype == torch::kFloat16 && c.scale > 100) continue;  // beyond its range
    for (const bool state : {false, true}) {
      if (state && c.from_end > 0) continue;
      SCOPED_TRACE(::testing::Message() << c << " " << dtype << (state ? " with a state" : ""));
      const auto in = inputs_of(c, dtype, state), narrow = cast(in, dtype, c.sliced);
      expect_near(run_emulated(narrow), run(group_means_plain, narrow), run(group_means_plain, in),
                  &in);
    }
  }
}

TEST_P(EmulatedMeans, DoNotDependOnTheOrderOfThreads) {
  const MeansCase& c = GetParam();
  const auto in = cast(inputs_of(c, torch::kFloat32, c.from_end == 0), torch::kFloat32, c.sliced);
  const auto one = run_emulated(in), two = run_emulated(in, /*descending=*/true);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], two[i])) << i;
}

// Parts, single tokens among them, which are one kernel; each changes the state in place.
TEST_P(EmulatedMeans, PartsContinueTheWhole) {
  const MeansCase& c = GetParam();
  if (c.tokens == 0 || c.batch == 0 || c.from_end > 0) return;
  auto in = cast(inputs_of(c, torch::kFloat32, true), torch::kFloat32, c.sliced);
  const auto [whole, whole_sums, none] = forward(in, /*keep=*/false);
  std::vector<Tensor> parts;
  for (int64_t t = 0, count = 0; t < c.tokens; t += count) {
    count = std::min<int64_t>(parts.size() % 3 == 2 ? 40 : 1, c.tokens - t);
    Inputs part = in;
    for (Tensor* x : {&part.call.base, &part.call.values, &part.call.gate, &part.call.pi}) {
      if (x->defined()) *x = x->narrow(1, t, count);
    }
    in_place = true;
    const auto [y, sums, unused] = forward(part, /*keep=*/false);
    in_place = false;
    parts.push_back(y);
    in.sums = sums;
  }
  EXPECT_LE(distance(torch::cat(parts, 1), whole),
            1e-5 * std::max(1.0, whole.abs().max().item<double>()));
  EXPECT_LE(distance(in.sums, whole_sums), 1e-6 * whole_sums.abs().max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedMeans, ::testing::ValuesIn(means_gpu_cases()),
                         [](const auto& info) { return info.param.name; });

// Bit for bit, however many threads of a scan the chunks that follow bring.
TEST(EmulatedMeansOfTokens, DoNotDependOnLaterOnes) {
  const auto in =
      cast(inputs_of({"later", 1, 1300, 2, 4}, torch::kFloat32), torch::kFloat32, false);
  const auto whole = std::get<0>(forward(in, false));
  for (const int64_t tokens : {64, 500, 700}) {
    Inputs first = in;
    for (Tensor* x : {&first.call.base, &first.call.values, &first.call.gate, &first.call.pi}) {
      *x = x->narrow(1, 0, tokens);
    }
    const auto y = std::get<0>(forward(first, false));
    EXPECT_TRUE(torch::equal(y, whole.narrow(1, 0, tokens))) << tokens;
  }
}

TEST(EmulatedMeansOfTokens, SpreadNaNInTheDirectionOfReading) {
  auto in = cast(inputs_of({"nan", 1, 150, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.from_end = 1;
  in.call.values[0][70] = std::nan("");
  const auto nan = std::get<0>(forward(in, false)).isnan();
  const auto first = nan.narrow(2, 0, 5), second = nan.narrow(2, 5, 5);
  EXPECT_FALSE(first.narrow(1, 0, 70).any().item<bool>());
  EXPECT_TRUE(first.narrow(1, 70, 80).all().item<bool>());
  EXPECT_TRUE(second.narrow(1, 0, 71).all().item<bool>());
  EXPECT_FALSE(second.narrow(1, 71, 79).any().item<bool>());
}

}  // namespace
}  // namespace group_means_test
}  // namespace tost
