#include "tost/ops/few_rows.h"

#include <gtest/gtest.h>

#include "tost/engine/quantized_weight.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/few_rows.h"
#include "tost/ops/arrays.h"
#include "tost/torch.h"

namespace tost {
namespace {

// Against float64, as a multiple of torch's own error at that dtype.
TEST(FewRows, AgreesWithLinearOnEveryInstructionSet) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
      for (const int64_t rows : {1, 2, 3, 4}) {
        for (const auto& [inputs, outputs] :
             {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {64, 9}, {127, 130}, {768, 257}}) {
          const auto x = torch::randn({rows, inputs}).to(dtype);
          const auto weight = torch::randn({outputs, inputs}).to(dtype);
          const auto bias = rows % 2 == 0 ? torch::randn({outputs}).to(dtype) : torch::Tensor();
          ASSERT_TRUE(few_rows_apply(x, weight, bias));
          const auto found = linear_few_rows(x, weight, bias);
          ASSERT_EQ(found.scalar_type(), dtype);
          const auto exact = torch::linear(x.to(torch::kDouble), weight.to(torch::kDouble),
                                           bias.defined() ? bias.to(torch::kDouble) : bias);
          const auto plain = torch::linear(x, weight, bias);
          const auto error = [&](const torch::Tensor& y) {
            return (y.to(torch::kDouble) - exact).abs().max().item<double>();
          };
          const double unit =
              exact.abs().max().item<double>() * (dtype == torch::kFloat ? 6e-8 : 4e-3);
          // Scalar code sums in one lane where torch has sixteen.
          EXPECT_LE(error(found), (isa == "scalar" ? 4 : 2) * error(plain) + 2 * unit)
              << isa << " " << rows << " x " << inputs << " x " << outputs;
        }
      }
    }
  }
  kernels::force_isa("auto");
}

// y of a weight, integers in the order in which step_rows() puts them.
torch::Tensor product_of(const torch::Tensor& x, const QuantizedWeight& weight,
                         const torch::Tensor& bias) {
  const int64_t rows = x.size(0);
  auto y = torch::empty({rows, weight.values.size(0)});
  kernels::FewRowsArgs args{.rows = rows, .inputs = weight.inputs, .outputs = y.size(1)};
  args.type = weight.type;
  args.x = x.const_data_ptr<float>();
  Array prepared =
      Array::empty({rows * kernels::prepared_stride(args.type, weight.inputs)}, TorchDtype::kUInt8);
  kernels::prepare_few_rows(args.type, args.x, rows, weight.inputs, prepared.mutable_data<void>());
  args.prepared = prepared.data<void>();
  args.weight = weight.values.data<void>();
  args.scales = weight.scales.data<void>();
  args.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  args.y = y.mutable_data_ptr<float>();
  kernels::linear_few_rows(args, 0, args.outputs);
  return y;
}

// Against the plain product with the dequantised weight, in float64.
TEST(FewRows, IntegerWeightsGiveTheDequantisedProduct) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const int64_t rows : {1, 2, 3, 4}) {
      for (const auto& [inputs, outputs] : {std::pair<int64_t, int64_t>{1, 1},
                                            {5, 3},
                                            {64, 9},
                                            {127, 130},
                                            {160, 4},
                                            {513, 5},
                                            {768, 257}}) {
        const auto x = torch::randn({rows, inputs}), weight = torch::randn({outputs, inputs});
        const auto bias = rows % 2 == 0 ? torch::randn({outputs}) : torch::Tensor();
        // `share`: of the largest input, by which each input may be off.
        const auto check = [&](const QuantizedWeight& packed, const QuantizedWeight& plain,
                               double share) {
          const auto found = product_of(x, packed, bias).to(torch::kDouble);
          const auto w = tensor_of(dequantize(plain)).to(torch::kDouble),
                     wide = x.to(torch::kDouble);
          const auto exact =
              torch::linear(wide, w, bias.defined() ? bias.to(torch::kDouble) : bias);
          const auto top = wide.abs().amax(1, true).expand_as(wide);
          const auto allowed =
              2e-6 * (torch::linear(wide.abs(), w.abs()) + 1) + share * torch::linear(top, w.abs());
          EXPECT_TRUE(((found - exact).abs() <= allowed).all().item<bool>())
              << isa << " " << rows << " x " << inputs << " x " << outputs;
        };
        const auto eight = quantize_int8(array_of(weight)), four = quantize_int4(array_of(weight));
        check(eight, eight, 0);
        check(step_rows(four), four, 1.6e-5);
      }
    }
  }
  kernels::force_isa("auto");
}

// Tiles of rows add what single rows add, in the same order.
TEST(FewRows, RowsHaveTheSameBitsInAnyCompany) {
  torch::manual_seed(4);
  using Type = kernels::WeightType;
  const auto stored = [](const torch::Tensor& weight, Type type) {
    if (type == Type::kInt8) return quantize_int8(array_of(weight));
    if (type == Type::kInt4) return step_rows(quantize_int4(array_of(weight)));
    const auto dtype = type == Type::kBfloat16 ? torch::kBFloat16 : torch::kFloat;
    return QuantizedWeight{type, array_of(weight.to(dtype)), {}, weight.size(1)};
  };
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto type : {Type::kFloat32, Type::kBfloat16, Type::kInt8, Type::kInt4}) {
      for (const auto& [inputs, outputs] :
           {std::pair<int64_t, int64_t>{1, 1}, {63, 4}, {129, 131}, {1600, 25}}) {
        const auto weight = stored(torch::randn({outputs, inputs}), type);
        const auto x = torch::randn({39, inputs}), all = product_of(x, weight, {});
        EXPECT_EQ(product_of(x.slice(0, 0, 0), weight, {}).numel(), 0);
        for (const int64_t row : {0, 7, 35, 38}) {
          const auto alone = product_of(x.slice(0, row, row + 1), weight, {});
          EXPECT_TRUE(torch::equal(all.slice(0, row, row + 1), alone))
              << isa << " " << int(type) << " " << inputs;
        }
      }
    }
  }
  kernels::force_isa("auto");
}

TEST(FewRows, FourBitsSpreadWhatIsNotFinite) {
  const torch::NoGradGuard no_grad;
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    const auto weight = step_rows(quantize_int4(array_of(torch::randn({3, 100}))));
    for (const double value : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      auto x = torch::zeros({2, 100});
      x[1][77] = value;
      const auto y = product_of(x, weight, {});
      EXPECT_TRUE(y[0].eq(0).all().item<bool>()) << isa;
      EXPECT_FALSE(y[1].isfinite().any().item<bool>()) << isa << " " << value;
    }
  }
  kernels::force_isa("auto");
}

TEST(FewRows, PartsAddToThePreviousValues) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({7, 40}), weight = torch::randn({9, 40}), gamma = torch::randn({9});
  auto y = torch::randn({7, 9});
  const auto wanted = y + gamma * torch::linear(x, weight);
  kernels::FewRowsArgs args;
  args.rows = 7;
  args.inputs = 40;
  args.outputs = 9;
  args.x = x.const_data_ptr<float>();
  args.weight = weight.const_data_ptr();
  args.gamma = gamma.const_data_ptr<float>();
  args.y = y.mutable_data_ptr<float>();
  kernels::linear_few_rows(args, 0, 7);
  kernels::linear_few_rows(args, 7, 9);
  EXPECT_TRUE(torch::allclose(y, wanted, 1e-5, 1e-5));
}

TEST(FewRows, KeepsLeadingDimensionsAndReadsStridedInput) {
  const torch::NoGradGuard no_grad;
  const auto weight = torch::randn({7, 10});
  const auto x = torch::randn({2, 1, 20}).slice(2, 0, 20, 2);
  const auto y = linear_few_rows(x, weight, {});
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{2, 1, 7}));
  EXPECT_TRUE(torch::allclose(y, torch::linear(x, weight), 1e-5, 1e-5));
}

TEST(FewRows, LeavesTheRestToTorch) {
  const auto weight = torch::randn({7, 10});
  EXPECT_FALSE(few_rows_apply(torch::randn({1, 10}), weight, {})) << "gradients are wanted";
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(few_rows_apply(torch::randn({4, 10}), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::randn({5, 10}), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::randn({0, 10}), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::randn({1, 10}).to(torch::kBFloat16), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::randn({1, 10}), torch::randn({10, 7}).t(), {}));
}

TEST(FewRows, LeavesWhatDoesNotFitToTorch) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({2, 10}), weight = torch::randn({7, 10});
  EXPECT_TRUE(few_rows_apply(x, weight, torch::randn({7})));
  EXPECT_FALSE(few_rows_apply(torch::randn({2, 9}), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::randn({2, 11}), weight, {}));
  EXPECT_FALSE(few_rows_apply(torch::tensor(1.0f), weight, {}));
  EXPECT_FALSE(few_rows_apply(x, torch::randn({10}), {}));
  EXPECT_FALSE(few_rows_apply(x, torch::randn({7, 10, 1}), {}));
  for (const auto& bias : {torch::randn({6}), torch::randn({1}), torch::randn({1, 7}),
                           torch::tensor(1.0f), torch::randn({7}).to(torch::kBFloat16)}) {
    EXPECT_FALSE(few_rows_apply(x, weight, bias)) << bias.sizes() << " " << bias.scalar_type();
  }
}

}  // namespace
}  // namespace tost
