#include "tost/kernels/products/few_rows.h"

#include <gtest/gtest.h>

#include "tost/engine/weight_source.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/wide_rows.h"
#include "tost/ops/arrays.h"
#include "tost/torch.h"

namespace tost {
namespace {

using Type = kernels::WeightType;

// A weight of torch or integers in the layout of the kernel.
StepWeight step_weight(Type type, const torch::Tensor& weight, const torch::Tensor& bias = {}) {
  StepWeight step{.type = type, .inputs = weight.size(1)};
  if (type == Type::kInt8 || type == Type::kInt4) {
    const auto q = step_rows(quantize(array_of(weight), type));
    step.values = q.values;
    step.scales = q.scales;
  } else {
    step.values = array_of(weight.to(type == Type::kBfloat16 ? torch::kBFloat16 : torch::kFloat));
  }
  if (bias.defined()) {
    step.bias = array_of(bias);
  }
  step.lay_out();
  return step;
}

kernels::FewRowsArgs args_of(const torch::Tensor& x, const StepWeight& weight, torch::Tensor& y) {
  kernels::FewRowsArgs args{.rows = x.size(0), .inputs = weight.inputs, .outputs = y.size(1)};
  args.type = weight.type;
  if (x.scalar_type() == torch::kFloat) args.x = x.const_data_ptr<float>();
  args.weight = weight.values.data<void>();
  args.scales = weight.scales.data<void>();
  args.bias = weight.bias.data();
  args.y = y.mutable_data_ptr<float>();
  return args;
}

// By calls for `part` outputs, or by one.
torch::Tensor product_of(const torch::Tensor& x, const StepWeight& weight, int64_t part = 0) {
  auto y = torch::full({x.size(0), weight.outputs()}, NAN);
  auto args = args_of(x, weight, y);
  Array prepared = Array::empty({args.rows * kernels::prepared_stride(args.type, args.inputs)},
                                TorchDtype::kUInt8);
  kernels::prepare_few_rows(args.type, args.x, args.rows, args.inputs,
                            prepared.mutable_data<void>());
  args.prepared = prepared.data<void>();
  const int64_t step = part > 0 ? part : args.outputs;
  for (int64_t o = 0; o < args.outputs; o += step) {
    kernels::linear_few_rows(args, o, std::min(args.outputs, o + step));
  }
  return y;
}

constexpr int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 31, 65};
constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 1},    {5, 3},   {64, 9},   {127, 130},
                                                   {160, 32}, {513, 5}, {768, 257}};

// Against float64, as a multiple of torch's own error at that dtype.
TEST(FewRows, AgreesWithLinearOnEveryInstructionSet) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto type : {Type::kFloat32, Type::kBfloat16}) {
      for (const int64_t rows : kRows) {
        for (const auto& [inputs, outputs] : kShapes) {
          const auto dtype = type == Type::kFloat32 ? torch::kFloat : torch::kBFloat16;
          const auto x = torch::randn({rows, inputs});
          const auto weight = torch::randn({outputs, inputs}).to(dtype).to(torch::kFloat);
          const auto bias =
              rows % 2 == 0 ? torch::randn({outputs}).to(dtype).to(torch::kFloat) : torch::Tensor();
          const auto found = product_of(x, step_weight(type, weight, bias));
          const auto exact = torch::linear(x.to(torch::kDouble), weight.to(torch::kDouble),
                                           bias.defined() ? bias.to(torch::kDouble) : bias);
          const auto plain = torch::linear(x, weight, bias);
          const auto error = [&](const torch::Tensor& y) {
            return (y.to(torch::kDouble) - exact).abs().max().item<double>();
          };
          const double unit = exact.abs().max().item<double>() * 6e-8;
          // Has two sums for each output where torch may have sixteen.
          EXPECT_LE(error(found), 4 * error(plain) + 2 * unit)
              << isa << " " << rows << " x " << inputs << " x " << outputs;
        }
      }
    }
  }
  kernels::force_isa("auto");
}

// Against the plain product with the dequantised weight, in float64.
TEST(FewRows, IntegerWeightsGiveTheDequantisedProduct) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const int64_t rows : kRows) {
      for (const auto& [inputs, outputs] : kShapes) {
        const auto x = torch::randn({rows, inputs}), weight = torch::randn({outputs, inputs});
        const auto bias = rows % 2 == 0 ? torch::randn({outputs}) : torch::Tensor();
        // `share`: of the largest input, by which each input may be off.
        const auto check = [&](Type type, double share) {
          const auto found = product_of(x, step_weight(type, weight, bias)).to(torch::kDouble);
          const auto plain = dequantize(quantize(array_of(weight), type));
          const auto w = tensor_of(plain).to(torch::kDouble), wide = x.to(torch::kDouble);
          const auto exact =
              torch::linear(wide, w, bias.defined() ? bias.to(torch::kDouble) : bias);
          const auto top = wide.abs().amax(1, true).expand_as(wide);
          const auto allowed =
              2e-6 * (torch::linear(wide.abs(), w.abs()) + 1) + share * torch::linear(top, w.abs());
          EXPECT_TRUE(((found - exact).abs() <= allowed).all().item<bool>())
              << isa << " " << rows << " x " << inputs << " x " << outputs;
        };
        check(Type::kInt8, 0);
        check(Type::kInt4, 1.6e-5);
      }
    }
  }
  kernels::force_isa("auto");
}

// Tiles of rows add what single rows add, in the same order.
TEST(FewRows, RowsHaveTheSameBitsInAnyCompany) {
  torch::manual_seed(4);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto type : {Type::kFloat32, Type::kBfloat16, Type::kInt8, Type::kInt4}) {
      for (const auto& [inputs, outputs] :
           {std::pair<int64_t, int64_t>{1, 1}, {63, 4}, {129, 131}, {1600, 25}}) {
        const auto weight = step_weight(type, torch::randn({outputs, inputs}));
        const auto x = torch::randn({71, inputs}), all = product_of(x, weight);
        EXPECT_EQ(product_of(x.slice(0, 0, 0), weight).numel(), 0);
        for (const int64_t row : {0, 7, 35, 58}) {
          for (const int64_t rows : {1, 2, 4, 6, 7, 13}) {
            const auto some = x.slice(0, row, row + rows);
            EXPECT_TRUE(torch::equal(all.slice(0, row, row + rows), product_of(some, weight)))
                << isa << " " << int(type) << " " << inputs << ": " << rows;
            EXPECT_TRUE(torch::equal(product_of(some, weight, 16), product_of(some, weight)));
          }
        }
      }
    }
  }
  kernels::force_isa("auto");
}

TEST(FewRows, RoundedRowsHaveTheSameBitsInAnyCompany) {
  if (!kernels::multiplies(kernels::Numbers::kBfloat16)) GTEST_SKIP() << "no products of bfloat16";
  torch::manual_seed(5);
  for (const auto& [inputs, outputs] :
       {std::pair<int64_t, int64_t>{32, 1}, {96, 17}, {160, 131}, {768, 300}}) {
    const auto w = torch::randn({outputs, inputs}), bias = torch::randn({outputs});
    const auto gamma = torch::randn({outputs}), before = torch::randn({71, outputs});
    const auto weight = step_weight(Type::kBfloat16, w, bias);
    const auto x = torch::randn({71, inputs}).to(torch::kBFloat16);
    const auto product = [&](int64_t row, int64_t rows, int64_t part) {
      auto y = before.slice(0, row, row + rows).clone();
      auto args = args_of(x, weight, y);
      args.rows = rows;
      args.gamma = gamma.const_data_ptr<float>();
      args.rounded =
          reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>()) + row * inputs;
      for (int64_t o = 0; o < outputs; o += part) {
        kernels::linear_few_rows(args, o, std::min(outputs, o + part));
      }
      return y;
    };
    const auto all = product(0, 71, outputs);
    const auto narrow = [](const torch::Tensor& t) {
      return t.to(torch::kBFloat16).to(torch::kDouble);
    };
    const auto exact =
        before + gamma * torch::linear(narrow(x), narrow(w), bias.to(torch::kDouble));
    EXPECT_LE((all - exact).abs().max().item<double>(), 1e-5 * exact.abs().max().item<double>());
    for (const int64_t row : {0, 7, 35, 58}) {
      for (const int64_t rows : {1, 2, 13}) {
        const auto wanted = all.slice(0, row, row + rows);
        EXPECT_TRUE(torch::equal(wanted, product(row, rows, outputs))) << inputs << ": " << rows;
        const int64_t part = kernels::shared_columns(kernels::Numbers::kBfloat16);
        EXPECT_TRUE(torch::equal(wanted, product(row, rows, part))) << inputs << ": " << rows;
      }
    }
  }
}

TEST(FewRows, FourBitsSpreadWhatIsNotFinite) {
  const torch::NoGradGuard no_grad;
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    const auto weight = step_weight(Type::kInt4, torch::randn({3, 100}));
    for (const double value : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      auto x = torch::zeros({2, 100});
      x[1][77] = value;
      const auto y = product_of(x, weight);
      EXPECT_TRUE(y[0].eq(0).all().item<bool>()) << isa;
      EXPECT_FALSE(y[1].isfinite().any().item<bool>()) << isa << " " << value;
    }
  }
  kernels::force_isa("auto");
}

TEST(FewRows, PartsAddToThePreviousValues) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({7, 40}), weight = torch::randn({41, 40}), gamma = torch::randn({41});
  auto y = torch::randn({7, 41});
  const auto wanted = y + gamma * torch::linear(x, weight);
  const auto step = step_weight(Type::kFloat32, weight);
  auto args = args_of(x, step, y);
  args.gamma = gamma.const_data_ptr<float>();
  kernels::linear_few_rows(args, 0, 16);
  kernels::linear_few_rows(args, 16, 32);
  kernels::linear_few_rows(args, 32, 41);
  EXPECT_TRUE(torch::allclose(y, wanted, 1e-5, 1e-5));
}

// Tables are looked up by rows.
TEST(FewRows, PanelsGiveTheRowsBack) {
  const auto weight = torch::randn({70, 33});
  for (const auto type : {Type::kFloat32, Type::kBfloat16, Type::kInt8, Type::kInt4}) {
    const auto step = step_weight(type, weight);
    ASSERT_EQ(step.outputs(), 70);
    const bool integers = type == Type::kInt8 || type == Type::kInt4;
    const auto wanted = integers
                            ? tensor_of(dequantize(quantize(array_of(weight), type)))
                            : weight.to(type == Type::kFloat32 ? torch::kFloat : torch::kBFloat16);
    EXPECT_TRUE(torch::equal(tensor_of(step.rounded()), wanted.to(torch::kFloat))) << int(type);
  }
}

}  // namespace
}  // namespace tost
