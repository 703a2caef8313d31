// Arrays for engines: a shape, a type, and bytes that are owned, mapped from a file or borrowed.
// Arrays have no arithmetic and no gradients, so that the engine needs no torch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tost/io/torch_dtype.h"

namespace tost {

// Copies share the bytes; clone() does not.
class Array {
 public:
  using Shape = std::vector<int64_t>;

  Array() = default;  // undefined
  // `data` points to the first element and keeps the bytes alive. Strides count elements; empty
  // strides mean contiguous. `held_bytes` is the size of the whole memory if it has more than the
  // elements.
  Array(Shape shape, TorchDtype dtype, std::shared_ptr<void> data, Shape strides = {},
        int64_t held_bytes = 0);

  // New memory from the block cache, aligned to a cache line. Throws OutOfMemory.
  static Array empty(Shape shape, TorchDtype dtype = TorchDtype::kFloat32);
  static Array zeros(Shape shape, TorchDtype dtype = TorchDtype::kFloat32);
  template <class T>
  static Array of(const std::vector<T>& values, TorchDtype dtype) {
    Array array = empty({int64_t(values.size())}, dtype);
    std::copy(values.begin(), values.end(), array.mutable_data<T>());
    return array;
  }

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(size_t dimension) const { return shape_.at(dimension); }
  const Shape& strides() const { return strides_; }  // empty: contiguous
  TorchDtype dtype() const { return dtype_; }
  int64_t numel() const;
  int64_t bytes() const;  // of the elements
  int64_t held_bytes() const { return std::max(held_bytes_, bytes()); }
  // Whether this array is the only owner of the bytes, which may then be changed in place.
  bool unique() const { return data_.use_count() == 1; }
  bool made_here() const;  // whether its memory is that of empty()
  // Gives the memory of a mapped array back until it is read again. It must not have been changed.
  void forget() const;
  const std::shared_ptr<void>& owner() const { return data_; }

  // A pointer to the first element; null for an undefined array. The caller must know the type.
  template <class T = float>
  const T* data() const {
    return static_cast<const T*>(data_.get());
  }
  template <class T = float>
  T* mutable_data() {
    return static_cast<T*>(data_.get());
  }

  Array row(
      int64_t i) const;  // [1, width] of a contiguous array of two dimensions, sharing its bytes
  Array clone() const;   // contiguous
  Array contiguous() const;  // itself where it is
  // Converts to contiguous float32, without a copy if possible. Throws a usage Error for types
  // other than float32, float64, float16 and bfloat16.
  Array as_float() const;

 private:
  Shape shape_, strides_;
  TorchDtype dtype_ = TorchDtype::kFloat32;
  std::shared_ptr<void> data_;
  int64_t held_bytes_ = 0;
};

// Owns a part of a mapped file, as the deleter of an array's data.
struct MappedPart {
  void operator()(void* /*data*/) const {}
  std::shared_ptr<const void> file;
};

using Arrays = std::map<std::string, Array>;  // by name

// Formats type and shape as "float32 [2, 3]", for messages.
std::string shown(const Array& array);
std::string shown(const Array::Shape& shape);

// Converts bfloat16, which is the upper half of a float32.
inline float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}
// Rounds to the nearest bfloat16, with ties to even; NaN stays NaN.
inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7FC0;
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace tost
