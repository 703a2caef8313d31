// Tensors out of the calls that would have made them.
#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/torch_file.h"

namespace tost {
namespace {

constexpr size_t kMaxDimensions = 4'000'000;

class Rebuilder {
 public:
  Rebuilder(const TorchParts& parts, const std::string& file)
      : parts_(parts), tree_(parts.tree), file_(file) {}

  std::unordered_map<PickleId, TorchTensor> run() {
    // Arguments are made before the call, so an object's tensor has a smaller number than it.
    for (PickleId id = 0; id < tree_.size(); ++id) {
      if (!tree_.is(id, PickleKind::kObject)) continue;
      at_ = tree_[id].offset;
      const PickleObject& made = tree_.object(id);
      const auto& args = tree_.items(made.args);
      if (tree_.is_global(made.callee, "torch._tensor", "_rebuild_from_type_v2") ||
          tree_.is_global(made.callee, "torch.tensor", "_rebuild_from_type_v2")) {
        // (function, class, arguments, state): a tensor with attributes.
        if (args.size() != 4 || !tree_.is(args[0], PickleKind::kGlobal) ||
            !tree_.is(args[2], PickleKind::kTuple)) {
          refuse("is rebuilt from something unknown");
        }
        visit_call(id, args[0], tree_.items(args[2]));
      } else {
        visit_call(id, made.callee, args);
      }
    }
    return std::move(tensors_);
  }

 private:
  void visit_call(PickleId id, PickleId callee, const std::vector<PickleId>& args) {
    if (!tree_.is(callee, PickleKind::kGlobal)) return;
    const PickleGlobal& function = tree_.global(callee);
    if (function.module != "torch._utils") return;
    if (function.name == "_rebuild_tensor") {
      rebuild(id, args, 4, 4);
    } else if (function.name == "_rebuild_tensor_v2") {
      rebuild(id, args, 6, 7);
    } else if (function.name == "_rebuild_tensor_v3") {
      rebuild(id, args, 7, 8);
    } else if (function.name == "_rebuild_parameter" ||
               function.name == "_rebuild_parameter_with_state") {
      const auto data = args.empty() ? tensors_.end() : tensors_.find(args[0]);
      if (data == tensors_.end()) return;  // of something opaque, such as a quantised tensor
      TorchTensor parameter = data->second;
      parameter.parameter = true;
      parameter.requires_grad = args.size() > 1 && args[1] == PickleTree::kTrueId;
      keep(id, std::move(parameter));
    }
  }

  // Of (storage, offset, shape, strides[, requires_grad, hooks[, dtype][, metadata]]).
  void rebuild(PickleId id, const std::vector<PickleId>& args, size_t least, size_t most) {
    if (args.size() < least || args.size() > most) {
      refuse(cat("is made of ", args.size(), " arguments, not of ", least));
    }
    const auto storage = parts_.storage_of.find(args[0]);
    if (storage == parts_.storage_of.end()) refuse("has no storage in this file");
    TorchTensor tensor;
    tensor.storage = storage->second.storage;
    tensor.dtype = least == 7 ? named_dtype(args[6]) : storage->second.dtype;
    if (!tree_.is(args[1], PickleKind::kInt) || tree_[args[1]].integer < 0) {
      refuse("begins at something else than a count");
    }
    tensor.offset = tree_[args[1]].integer;
    tensor.shape = sizes(args[2], "shape");
    tensor.strides = sizes(args[3], "strides");
    tensor.requires_grad = args.size() > 4 && args[4] == PickleTree::kTrueId;
    if (args.size() == most && most > 4) check_metadata(args.back());
    check_place(tensor);
    keep(id, std::move(tensor));
  }

  // A call may take seven bytes of the pickle, and a shape a kilobyte of memory.
  void keep(PickleId id, TorchTensor tensor) {
    dimensions_ += tensor.shape.size() + 1;
    if (dimensions_ > kMaxDimensions) {
      fail_torch(file_, cat("its tensors have more than ", kMaxDimensions, " dimensions together"));
    }
    tensors_.emplace(id, std::move(tensor));
  }

  TorchDtype named_dtype(PickleId id) const {
    const TorchDtypeInfo* info =
        tree_.is(id, PickleKind::kGlobal) && tree_.global(id).module == "torch"
            ? find_torch_dtype(tree_.global(id).name)
            : nullptr;
    if (info == nullptr) refuse("has an element type that is unknown");
    return info->dtype;
  }

  // A tuple or list of integers >= 0, or a torch.Size of one.
  std::vector<int64_t> sizes(PickleId id, const char* which) const {
    const std::string what = cat("the ", which, " of the tensor at byte ", at_);
    if (tree_.is_call(id, "torch", "Size") && tree_.items(tree_.object(id).args).size() == 1) {
      id = tree_.items(tree_.object(id).args).front();
    }
    if (!tree_.is(id, PickleKind::kTuple) && !tree_.is(id, PickleKind::kList)) {
      fail_torch(file_, cat(what, " is ", kind_name(tree_[id].kind), " and should be a tuple"));
    }
    const auto& items = tree_.items(id);
    if (items.size() > 64) {
      fail_torch(file_, cat(what, " has ", items.size(), " dimensions, over 64"));
    }
    std::vector<int64_t> sizes;
    for (const PickleId item : items) {
      const PickleValue& size = tree_[item];
      if (size.kind != PickleKind::kInt) {
        fail_torch(file_, cat(what, " holds ", kind_name(size.kind), " where integers belong"));
      }
      if (size.integer < 0) {
        fail_torch(file_, cat(what, " holds ", size.integer, ", which is negative"));
      }
      sizes.push_back(size.integer);
    }
    return sizes;
  }

  // Refuses views that conjugate or negate what their storage holds.
  void check_metadata(PickleId id) const {
    if (tree_.is(id, PickleKind::kNone)) return;
    if (!tree_.is(id, PickleKind::kDict)) refuse("carries metadata that is not a dict");
    const auto& pairs = tree_.items(id);
    for (size_t i = 0; i < pairs.size(); i += 2) {
      for (const char* bit : {"conj", "neg"}) {
        if (!tree_.is_string(pairs[i], bit) || pairs[i + 1] == PickleTree::kFalseId) continue;
        refuse(cat("is a view with the ", bit, " bit, which is not read; save it after resolve_",
                   bit, "()"));
      }
    }
  }

  void check_place(const TorchTensor& tensor) const {
    const std::string what = cat("'", file_, "': the tensor at byte ", at_, " of the pickle");
    const auto held = static_cast<int64_t>(parts_.storages[tensor.storage].bytes.size()) /
                      dtype_info(tensor.dtype).bytes;
    if (tensor.shape.size() != tensor.strides.size()) {
      refuse(
          cat("has ", tensor.shape.size(), " dimensions and ", tensor.strides.size(), " strides"));
    }
    int64_t elements = 1, last = tensor.offset;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      elements = checked_mul(elements, tensor.shape[d], what);
      if (tensor.shape[d] > 0) {
        last = checked_add(last, checked_mul(tensor.shape[d] - 1, tensor.strides[d], what), what);
      }
    }
    if (elements == 0) {
      if (tensor.offset > held) refuse(cat("is empty and begins past its storage of ", held));
      return;
    }
    if (last >= held) refuse(cat("reaches to element ", last, " of a storage of ", held));
    if (elements > held && elements > kMaxExpandedElements) {
      refuse(cat("claims ", elements, " elements of a storage of ", held,
                 "; save it after contiguous()"));
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail_torch(file_, cat("the tensor at byte ", at_, " of the pickle ", what));
  }

  const TorchParts& parts_;
  const PickleTree& tree_;
  const std::string& file_;
  std::unordered_map<PickleId, TorchTensor> tensors_;
  size_t dimensions_ = 0;
  uint32_t at_ = 0;
};

}  // namespace

std::unordered_map<PickleId, TorchTensor> rebuild_tensors(const TorchParts& parts,
                                                          const std::string& file) {
  return Rebuilder(parts, file).run();
}

}  // namespace tost
