#include "tost/engine/array.h"

#include <cstring>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kernels/block_cache.h"

namespace tost {
namespace {

float from_float16(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31;
  const uint32_t fraction = half & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = float(fraction) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

struct BlockRelease {
  void operator()(void* data) const { BlockCache::instance().release(data); }
};

// Copies elements in the order of their indices.
void copy_strided(const Array& from, size_t dimension, const char* data, char*& to, int64_t width) {
  const int64_t count = from.size(dimension), step = from.strides()[dimension] * width;
  if (dimension + 1 == from.shape().size()) {
    for (int64_t i = 0; i < count; ++i, to += width) {
      std::memcpy(to, data + i * step, size_t(width));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) copy_strided(from, dimension + 1, data + i * step, to, width);
}

}  // namespace

Array::Array(Shape shape, TorchDtype dtype, std::shared_ptr<void> data, Shape strides,
             int64_t held_bytes)
    : shape_(std::move(shape)), dtype_(dtype), data_(std::move(data)), held_bytes_(held_bytes) {
  int64_t step = 1;
  for (size_t i = strides.size(); i-- > 0; step *= shape_[i]) {
    if (shape_[i] != 1 && strides[i] != step) strides_ = strides;
  }
}

Array Array::empty(Shape shape, TorchDtype dtype) {
  Array array(std::move(shape), dtype, nullptr);
  const int64_t bytes = std::max<int64_t>(1, array.numel() * dtype_info(dtype).bytes);
  array.data_ = {BlockCache::instance().allocate(size_t(bytes)), BlockRelease()};
  return array;
}

bool Array::made_here() const {
  return std::get_deleter<BlockRelease>(data_) != nullptr;
}

void Array::forget() const {
  if (std::get_deleter<MappedPart>(data_) != nullptr && strides_.empty()) {
    forget_pages(data<char>(), size_t(bytes()));
  }
}

Array Array::zeros(Shape shape, TorchDtype dtype) {
  Array array = empty(std::move(shape), dtype);
  std::memset(array.mutable_data<char>(), 0, size_t(array.bytes()));
  return array;
}

int64_t Array::numel() const {
  int64_t count = 1;
  for (const int64_t size : shape_) count *= size;
  return count;
}

int64_t Array::bytes() const {
  return defined() || !shape_.empty() ? numel() * dtype_info(dtype_).bytes : 0;
}

Array Array::clone() const {
  Array copy = empty(shape_, dtype_);
  char* to = copy.mutable_data<char>();
  if (strides_.empty()) {
    std::memcpy(to, data<char>(), size_t(bytes()));
  } else if (numel() > 0) {
    copy_strided(*this, 0, data<char>(), to, dtype_info(dtype_).bytes);
  }
  return copy;
}

Array Array::contiguous() const {
  return strides_.empty() ? *this : clone();
}

Array Array::row(int64_t i) const {
  const int64_t width = size(1);
  char* first = static_cast<char*>(data_.get()) + i * width * dtype_info(dtype_).bytes;
  return {{1, width}, dtype_, {data_, first}};
}

Array Array::as_float() const {
  const Array from = contiguous();
  if (!defined() || dtype_ == TorchDtype::kFloat32) return from;
  Array wide = empty(shape_);
  const int64_t count = numel();
  float* to = wide.mutable_data();
  const auto fill = [&](auto* values, auto&& read) {
    for (int64_t i = 0; i < count; ++i) to[i] = read(values[i]);
  };
  switch (dtype_) {
    case TorchDtype::kFloat64:
      fill(from.data<double>(), [](double x) { return float(x); });
      break;
    case TorchDtype::kBFloat16:
      fill(from.data<uint16_t>(), from_bfloat16);
      break;
    case TorchDtype::kFloat16:
      fill(from.data<uint16_t>(), from_float16);
      break;
    default:
      fail_usage("Numbers of type ", dtype_info(dtype_).name, " are no weights in float32.");
  }
  return wide;
}

std::string shown(const Array::Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i > 0 ? ", " : "", shape[i]);
  return text + "]";
}

std::string shown(const Array& array) {
  return cat(dtype_info(array.dtype()).name, " ", shown(array.shape()));
}

}  // namespace tost
