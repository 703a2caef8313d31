// Tensors out of the calls that would have made them.
#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/torch_layout.h"

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
      if (tree_.is(id, PickleKind::kObject)) visit(id);
    }
    return std::move(tensors_);
  }

 private:
  void visit(PickleId id) {
    const PickleObject& made = tree_.object(id);
    if (!tree_.is(made.callee, PickleKind::kGlobal)) return;
    const PickleGlobal& callee = tree_.global(made.callee);
    const auto& args = tree_.items(made.args);
    at_ = tree_[id].offset;
    if (callee.module == "torch._utils") {
      visit_call(id, callee.name, args);
    } else if (callee.name == "_rebuild_from_type_v2" &&
               (callee.module == "torch._tensor" || callee.module == "torch.tensor")) {
      // (function, class, arguments, state): a tensor with attributes.
      if (args.size() != 4 || !tree_.is(args[0], PickleKind::kGlobal) ||
          !tree_.is(args[2], PickleKind::kTuple)) {
        refuse("is rebuilt from something unknown");
      }
      const PickleGlobal& inner = tree_.global(args[0]);
      if (inner.module == "torch._utils") visit_call(id, inner.name, tree_.items(args[2]));
    }
  }

  void visit_call(PickleId id, std::string_view function, const std::vector<PickleId>& args) {
    if (function == "_rebuild_tensor") {
      rebuild(id, args, 4, 4);
    } else if (function == "_rebuild_tensor_v2") {
      rebuild(id, args, 6, 7);
    } else if (function == "_rebuild_tensor_v3") {
      rebuild(id, args, 7, 8);
    } else if (function == "_rebuild_parameter" || function == "_rebuild_parameter_with_state") {
      const auto data = args.empty() ? tensors_.end() : tensors_.find(args[0]);
      if (data == tensors_.end()) return;  // of something opaque, such as a quantised tensor
      TorchTensor parameter = data->second;
      parameter.parameter = true;
      parameter.requires_grad = args.size() > 1 && args[1] == PickleTree::kTrueId;
      keep(id, std::move(parameter));
    }
  }

  void rebuild(PickleId id, const std::vector<PickleId>& args, size_t least, size_t most) {
    if (args.size() < least || args.size() > most) {
      refuse(cat("is made of ", args.size(), " arguments, not of ", least));
    }
    const auto storage = parts_.storage_of.find(args[0]);
    if (storage == parts_.storage_of.end()) refuse("has no storage in this file");
    TorchTensor tensor;
    tensor.storage = storage->second;
    TorchStorageRef ref;
    read_storage_ref(tree_, args[0], file_, ref);
    tensor.dtype = least == 7 ? named_dtype(args[6]) : ref.dtype->dtype;
    if (!tree_.is(args[1], PickleKind::kInt) || tree_[args[1]].integer < 0) {
      refuse("begins at something else than a count");
    }
    tensor.offset = tree_[args[1]].integer;
    tensor.shape = read_sizes(tree_, args[2], cat("the shape of the tensor at byte ", at_), file_);
    tensor.strides =
        read_sizes(tree_, args[3], cat("the strides of the tensor at byte ", at_), file_);
    tensor.requires_grad = args.size() > 4 && args[4] == PickleTree::kTrueId;
    if (args.size() == most && most > 4) check_metadata(args.back());
    place(tensor, ref);
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

  // Views that conjugate or negate what their storage holds.
  void check_metadata(PickleId id) const {
    if (tree_.is(id, PickleKind::kNone)) return;
    if (!tree_.is(id, PickleKind::kDict)) refuse("carries metadata that is not a dict");
    for (const char* bit : {"conj", "neg"}) {
      const PickleId* set = tree_.find(id, bit);
      if (set != nullptr && *set != PickleTree::kFalseId) {
        refuse(cat("is a view with the ", bit, " bit, which is not read; save it after resolve_",
                   bit, "()"));
      }
    }
  }

  // Checks that the tensor lies in its storage, or in the view of it that it is on; from then on
  // its offset is that into the storage.
  void place(TorchTensor& tensor, const TorchStorageRef& ref) const {
    const int64_t width = dtype_info(tensor.dtype).bytes;
    auto held = static_cast<int64_t>(parts_.storages[tensor.storage].bytes.size());
    if (ref.is_view) held = ref.view_elements * ref.dtype->bytes;
    check_place(tensor, held / width);
    if (!ref.is_view) return;
    const int64_t begin = ref.view_offset * ref.dtype->bytes;
    if (begin % width != 0) refuse("begins between two elements of its storage");
    tensor.offset += begin / width;
  }

  void check_place(const TorchTensor& tensor, int64_t held) const {
    const std::string what = cat("'", file_, "': the tensor at byte ", at_, " of the pickle");
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
    if (last >= held) {
      refuse(cat("reaches to element ", last, " of a storage of ", held));
    }
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
