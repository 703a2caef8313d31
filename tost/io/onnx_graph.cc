#include "tost/io/onnx_graph.h"

#include <bit>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"

namespace tost {
namespace {

// Field numbers of onnx.proto.
enum GraphField { kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12 };
constexpr int64_t kIrVersion = 8, kOpset = 17;
constexpr size_t kMostBytes = (size_t{2} << 30) - 1;

Protobuf value_info(const std::string& name, OnnxType type, const std::vector<OnnxSide>& shape) {
  Protobuf sides;  // TensorShapeProto: dim = 1
  for (const OnnxSide& side : shape) {
    Protobuf one;  // dim_value = 1, dim_param = 2
    if (const auto* number = std::get_if<int64_t>(&side)) one.varint(1, *number);
    if (const auto* named = std::get_if<std::string>(&side)) one.bytes(2, *named);
    sides.message(1, one);
  }
  // ValueInfoProto: name = 1, type = 2; TypeProto: tensor_type = 1 with elem_type = 1, shape = 2.
  const Protobuf tensor = Protobuf().varint(1, int64_t(type)).message(2, sides);
  return Protobuf().bytes(1, name).message(2, Protobuf().message(1, tensor));
}

// AttributeProto: name = 1, f = 2, i = 3, s = 4, ints = 8, type = 20.
Protobuf attribute(const std::string& name, const OnnxAttribute& value) {
  enum { kReal = 1, kInt = 2, kString = 3, kInts = 7 };
  Protobuf one;
  one.bytes(1, name);
  if (const auto* real = std::get_if<double>(&value)) {
    one.real32(2, float(*real)).varint(20, kReal);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    one.varint(3, *integer).varint(20, kInt);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    one.bytes(4, *text).varint(20, kString);
  } else {
    for (const int64_t part : std::get<std::vector<int64_t>>(value)) one.varint(8, part);
    one.varint(20, kInts);
  }
  return one;
}

std::string bytes_of(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) put_little_endian(bytes, uint64_t(value));
  return bytes;
}

}  // namespace

std::string OnnxGraph::input(const std::string& name, OnnxType type,
                             const std::vector<OnnxSide>& shape) {
  inputs_.message(kInput, value_info(name, type, shape));
  return name;
}

void OnnxGraph::output(const std::string& name, const std::string& value, OnnxType type,
                       const std::vector<OnnxSide>& shape) {
  // NodeProto: input = 1, output = 2, op_type = 4
  nodes_.message(kNode, Protobuf().bytes(1, value).bytes(2, name).bytes(4, "Identity"));
  outputs_.message(kOutput, value_info(name, type, shape));
}

std::string OnnxGraph::constant(const std::string& name, OnnxType type,
                                const std::vector<int64_t>& shape, std::string_view bytes) {
  if (!kept_.insert(name).second) return name;
  Protobuf tensor;  // TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9
  for (const int64_t side : shape) tensor.varint(1, side);
  tensor.varint(2, int64_t(type)).bytes(8, name).bytes(9, bytes);
  constants_.message(kInitializer, tensor);
  return name;
}

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (const int64_t value : values) parts.push_back(cat(value));
  return constant(cat("ints [", join(parts, ","), "]"), OnnxType::kInt64, {int64_t(values.size())},
                  bytes_of(values));
}

std::string OnnxGraph::integer(int64_t value) {
  return constant(cat("int ", value), OnnxType::kInt64, {}, bytes_of({value}));
}

std::string OnnxGraph::number(float value) {
  std::string bytes;
  put_little_endian(bytes, std::bit_cast<uint32_t>(value));
  return constant(cat("number ", std::bit_cast<uint32_t>(value)), OnnxType::kFloat, {}, bytes);
}

std::vector<std::string> OnnxGraph::nodes(const std::string& op,
                                          const std::vector<std::string>& inputs,
                                          const OnnxAttributes& attributes, size_t results) {
  Protobuf one;  // NodeProto: input = 1, output = 2, name = 3, op_type = 4, attribute = 5
  for (const std::string& input : inputs) one.bytes(1, input);
  std::vector<std::string> made;
  const std::string name = cat(op, "_", next_++);
  for (size_t i = 0; i < results; ++i) {
    made.push_back(results == 1 ? name : cat(name, "_", i));
    one.bytes(2, made.back());
  }
  one.bytes(3, name).bytes(4, op);
  for (const auto& [key, value] : attributes) one.message(5, attribute(key, value));
  nodes_.message(kNode, one);
  return made;
}

std::string OnnxGraph::node(const std::string& op, const std::vector<std::string>& inputs,
                            const OnnxAttributes& attributes) {
  return nodes(op, inputs, attributes, 1).front();
}

void OnnxGraph::save(const std::filesystem::path& file, const std::string& producer_version,
                     const std::map<std::string, std::string>& metadata) const {
  const std::string graph = nodes_.text() + Protobuf().bytes(kGraphName, name_).text() +
                            constants_.text() + inputs_.text() + outputs_.text();
  if (graph.size() > kMostBytes - (size_t{1} << 20)) {
    fail_data("The model has ", human_bytes(int64_t(graph.size())),
              " and an ONNX file holds less than 2 GiB; export a smaller model.");
  }
  // ModelProto: ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, opset_import =
  // 8, metadata_props = 14
  Protobuf model;
  model.varint(1, kIrVersion).bytes(2, "tost").bytes(3, producer_version).bytes(7, graph);
  model.message(8, Protobuf().bytes(1, "").varint(2, kOpset));
  for (const auto& [key, value] : metadata) {
    model.message(14, Protobuf().bytes(1, key).bytes(2, value));
  }
  write_file_atomic(file, model.text());
}

}  // namespace tost
