// A network as a graph of ONNX operators (onnx.ai, IR version 8, opset 17), built node by node and
// written as a model file. Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tost/io/protobuf.h"

namespace tost {

enum class OnnxType { kFloat = 1, kInt64 = 7 };

// A side of a tensor: a number, or the name of a size that is known when the graph runs.
using OnnxSide = std::variant<int64_t, std::string>;
using OnnxAttribute = std::variant<int64_t, double, std::vector<int64_t>, std::string>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

// Values are named; every call that makes one returns its name.
class OnnxGraph {
 public:
  explicit OnnxGraph(std::string name) : name_(std::move(name)) {}

  std::string input(const std::string& name, OnnxType type, const std::vector<OnnxSide>& shape);
  // Gives `value` the name and the shape of an output.
  void output(const std::string& name, const std::string& value, OnnxType type,
              const std::vector<OnnxSide>& shape);

  // A tensor kept in the file; equal names are kept once. `bytes`: little-endian, row-major.
  std::string constant(const std::string& name, OnnxType type, const std::vector<int64_t>& shape,
                       std::string_view bytes);
  std::string integers(const std::vector<int64_t>& values);  // [n]
  std::string integer(int64_t value);                        // []
  std::string number(float value);                           // []

  // A node with one result.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {});
  // A node with several.
  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 const OnnxAttributes& attributes, size_t results);

  int64_t node_count() const { return next_; }

  // Writes the model, atomically and durably. Throws a data Error for a graph of 2 GiB or more,
  // which one file of this format cannot hold, and as write_file_atomic().
  void save(const std::filesystem::path& file, const std::string& producer_version,
            const std::map<std::string, std::string>& metadata) const;

 private:
  std::string name_;
  Protobuf nodes_, constants_, inputs_, outputs_;  // fields of GraphProto
  std::set<std::string> kept_;                     // names of constants
  int64_t next_ = 0;
};

}  // namespace tost
