#include "tost/engine/weight_source.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/threads.h"

namespace tost {

using kernels::kPanelColumns;
using kernels::panel_inputs;
using kernels::WeightType;

namespace {

Array narrowed(const Array& from) {
  if (from.dtype() == TorchDtype::kBFloat16) return from.contiguous();
  const Array wide = from.as_float();
  Array narrow = Array::empty(wide.shape(), TorchDtype::kBFloat16);
  auto* to = narrow.mutable_data<uint16_t>();
  parallel_tasks(wide.numel(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = to_bfloat16(wide.data()[i]);
  });
  return narrow;
}

// The panels of a weight [out, in].
template <WeightType kType, class T>
Array panels(const Array& weight) {
  constexpr int64_t kGroup = kType == WeightType::kBfloat16 ? 2 : 1;  // of inputs, and of panels
  const int64_t outputs = weight.size(0), inputs = weight.size(1);
  const int64_t count = divide_up(outputs, kGroup * kPanelColumns) * kGroup;
  const int64_t size = panel_inputs(kType, inputs) * kPanelColumns;
  Array all = Array::empty({count, size}, weight.dtype());
  parallel_tasks(count, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* panel = all.mutable_data<T>() + p * size;
      const int64_t filled = std::clamp<int64_t>(outputs - p * kPanelColumns, 0, kPanelColumns);
      if (filled < kPanelColumns || inputs % kGroup > 0) std::fill_n(panel, size, T{0});
      const T* rows = weight.data<T>() + p * kPanelColumns * inputs;
      for (int64_t i = 0; i < inputs; ++i) {
        T* to = panel + i / kGroup * kGroup * kPanelColumns + i % kGroup;
        for (int64_t o = 0; o < filled; ++o) to[o * kGroup] = rows[o * inputs + i];
      }
    }
  });
  return all;
}

bool all_finite(const Array& values) {
  // Sums products with zero, which gives 0 unless a value is not finite.
  float sum = 0;
  const bool narrow = values.dtype() == TorchDtype::kBFloat16;
  for (int64_t i = 0; i < values.numel(); ++i) {
    sum += (narrow ? from_bfloat16(values.data<uint16_t>()[i]) : values.data()[i]) * 0;
  }
  return sum == 0;
}

}  // namespace

void check_roundable(const Array& wide, const std::string& name) {
  if (all_finite(wide)) return;
  fail_data("Tensor '", name, "' has values that are not finite and cannot become integers; ",
            "use fp32 or bf16, or an earlier checkpoint.");
}

Array StepWeight::rounded() const {
  Array wide = Array::empty({outputs(), inputs});
  parallel_tasks(outputs(), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) row(o, wide.mutable_data() + o * inputs);
  });
  return wide;
}

void StepWeight::row(int64_t index, float* to) const {
  if (type == WeightType::kInt4) return read_int4_row(values, scales, inputs, index, to);
  const int64_t odd = panelled > 0 && type == WeightType::kBfloat16 ? 1 : 0;  // bit of pairs
  const int64_t step = panelled > 0 ? kPanelColumns : 1, column = index % step;
  const int64_t width = panelled > 0 ? panel_inputs(type, inputs) : inputs;
  const int64_t first = (index - column) * width + column * (1 + odd);
  const auto read = [&](const auto* from, const auto& wide) {
    for (int64_t i = 0; i < inputs; ++i) to[i] = wide(from[first + (i & ~odd) * step + (i & odd)]);
  };
  if (type == WeightType::kFloat32) {
    read(values.data(), [](float x) { return x; });
  } else if (type == WeightType::kBfloat16) {
    read(values.data<uint16_t>(), from_bfloat16);
  } else {
    read(values.data<int8_t>(), [scale = scales.data()[index]](int8_t x) { return x * scale; });
  }
}

void StepWeight::lay_out() {
  if (!defined() || panelled > 0 || type == WeightType::kInt4) return;
  const Array rows = std::exchange(
      values, type == WeightType::kFloat32 ? panels<WeightType::kFloat32, float>(values)
              : type == WeightType::kInt8  ? panels<WeightType::kInt8, int8_t>(values)
                                           : panels<WeightType::kBfloat16, uint16_t>(values));
  panelled = rows.size(0);
  rows.forget();
}

kernels::NormRowsArgs NormWeight::args(const float* x, int64_t rows, void* y) const {
  kernels::NormRowsArgs a;
  a.rows = rows;
  a.width = a.x_stride = a.y_stride = weight.size(0);
  a.x = x;
  a.weight = weight.data();
  a.bias = bias.data();
  a.eps = eps;
  a.y = y;
  return a;
}

const Array& WeightSource::find(const std::string& name) {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) fail_data(where_, " lacks the tensor '", name, "'.");
  used_.insert(name);
  return found->second;
}

void WeightSource::check_finite(const std::string& name, const Array& values) const {
  if (finite_ || all_finite(values)) return;
  fail_data(where_, " has values in tensor '", name,
            "' that are not finite; take weights from before they went wrong.");
}

Array WeightSource::values(const std::string& name, const Array::Shape& shape) {
  const Array& found = find(name);
  if (found.shape() != shape) {
    fail_data(where_, " has '", name, "' of sizes ", shown(found.shape()), " where ", shown(shape),
              " are needed.");
  }
  const Array wide = found.as_float();
  check_finite(name, wide);
  return wide;
}

StepWeight WeightSource::map(const std::string& map_name, int64_t out, int64_t in, bool bias,
                             WeightType type) {
  const std::string name = map_name + ".weight";
  StepWeight weight{.type = type, .inputs = in};
  if (bias) weight.bias = values(map_name + ".bias", {out});
  if (bias && type == WeightType::kBfloat16) weight.bias = narrowed(weight.bias).as_float();
  const Array& stored = find(name);
  Array wide;
  if (stored.dtype() == TorchDtype::kInt8 || stored.dtype() == TorchDtype::kUInt8) {
    const auto q = stored_integers(stored, find(name + ".scale"), out, in, name, where_);
    if (q.type == type) {
      const auto rows = step_rows(q);
      weight.values = rows.values;
      weight.scales = rows.scales;
      return weight;
    }
    wide = dequantize(q);
  } else if (type == WeightType::kBfloat16 && stored.dtype() == TorchDtype::kBFloat16 &&
             stored.shape() == Array::Shape{out, in}) {
    weight.values = stored.contiguous();
    check_finite(name, weight.values);
    return weight;
  } else {
    wide = values(name, {out, in});
  }
  if (type == WeightType::kFloat32) {
    weight.values = wide;
  } else if (type == WeightType::kBfloat16) {
    weight.values = narrowed(wide);
  } else {
    check_roundable(wide, name);
    const auto q = step_rows(quantize(wide, type));
    weight.values = q.values;
    weight.scales = q.scales;
  }
  return weight;
}

NormWeight WeightSource::norm(const std::string& name, int64_t dim, bool bias, float eps) {
  return {values(name + ".weight", {dim}).clone(),
          bias ? values(name + ".bias", {dim}).clone() : Array(), eps};
}

void WeightSource::finish() const {
  for (const auto& [name, array] : arrays_) {
    if (used_.count(name) != 0) continue;
    std::vector<std::string> known(used_.begin(), used_.end());
    fail_data(where_, " has the tensor '", name, "', which its model does not have.",
              did_you_mean(name, known));
  }
}

}  // namespace tost
