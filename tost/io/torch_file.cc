#include "tost/io/torch_file.h"

#include <charconv>
#include <utility>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/crc.h"
#include "tost/io/safe_text.h"
#include "tost/io/zip_archive.h"

namespace tost {
namespace {

bool looks_like_tar(std::string_view bytes) {
  return bytes.size() > 262 && bytes.substr(257, 5) == "ustar";
}

// Whether the bytes begin with the magic number of torch.save before 1.6.
bool looks_like_old_pickles(std::string_view bytes) {
  constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  return bytes.substr(0, 32).find(kMagic) != std::string_view::npos;
}

class ArchiveReader {
 public:
  ArchiveReader(std::string_view bytes, const std::string& file)
      : file_(file), archive_(bytes, file), tree_(parts_.tree) {}

  TorchParts run() {
    find_folder();
    if (archive_.find(folder_ + "constants.pkl") != nullptr) {
      fail_torch(file_, "it is a TorchScript program (torch.jit.save), not a checkpoint");
    }
    const ZipEntry* pickle = archive_.find(folder_ + "data.pkl");
    if (pickle == nullptr) fail_torch(file_, cat("it has no entry ", shown(folder_ + "data.pkl")));
    read_version();
    check_byte_order();
    tree_ = read_pickle(archive_.read(*pickle), cat("'", file_, "'"));
    for (PickleId id = 0; id < tree_.size(); ++id) {
      if (tree_.is(id, PickleKind::kPersistentId)) add_storage(id);
    }
    return std::move(parts_);
  }

 private:
  // Finds the folder of all entries, with the slash at its end.
  void find_folder() {
    if (archive_.entries().empty()) fail_torch(file_, "its archive is empty");
    const std::string_view first = archive_.entries().front().name;
    const size_t slash = first.find('/');
    if (slash == first.npos) {
      fail_torch(file_, cat("its entry ", shown(first), " lies in no folder"));
    }
    folder_ = first.substr(0, slash + 1);
    for (const ZipEntry& entry : archive_.entries()) {
      if (!entry.name.starts_with(folder_)) {
        fail_torch(file_, cat("its entries ", shown(first), " and ", shown(entry.name),
                              " lie in different folders"));
      }
    }
  }

  void read_version() {
    const ZipEntry* entry = archive_.find(folder_ + "version");
    if (entry == nullptr) entry = archive_.find(folder_ + ".data/version");
    if (entry == nullptr) fail_torch(file_, "it has no version");
    std::string_view text = archive_.read(*entry);
    while (text.ends_with('\n')) text.remove_suffix(1);
    int version = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc() || stop != text.data() + text.size() || version < 1 || version > 10) {
      fail_torch(file_, cat("its version is ", shown(text, 20), "; 1 to 10 are known"));
    }
    parts_.version = text;
  }

  void check_byte_order() const {
    const ZipEntry* entry = archive_.find(folder_ + "byteorder");
    if (entry == nullptr) return;  // torch before 2.1, little-endian machines
    const std::string_view order = archive_.read(*entry);
    if (order == "big") {
      fail_torch(file_,
                 "it was saved on a big-endian machine; load and save it on a little-endian one");
    }
    if (order != "little") fail_torch(file_, cat("its byte order is ", shown(order, 20)));
  }

  // Adds the storage of a persistent id ("storage", class, key, location, elements).
  void add_storage(PickleId id) {
    const PickleId tuple = tree_.items(id).front();
    const auto& items = tree_.items(tuple);
    if (!tree_.is(tuple, PickleKind::kTuple) || items.empty()) {
      fail_torch(file_, "a persistent id is not a tuple");
    }
    const bool view = items.size() == 6 && !tree_.is(items[5], PickleKind::kNone);
    if (tree_.is_string(items[0], "module") || view) {
      fail_torch(file_, "a persistent id is of the layout before torch 1.6");
    }
    if (!tree_.is_string(items[0], "storage") || items.size() < 5 || items.size() > 6) {
      fail_torch(file_, cat("a persistent id at byte ", tree_[tuple].offset,
                            " of the pickle does not describe a storage"));
    }
    const TorchDtypeInfo& dtype = storage_class(items[1]);
    const PickleValue &key = tree_[items[2]], &count = tree_[items[4]];
    if (key.kind != PickleKind::kString || key.text.empty() || key.text.size() > 256) {
      fail_torch(file_, "a storage has a key that is not a short string");
    }
    if (!tree_.is(items[3], PickleKind::kString)) {
      fail_torch(file_, cat("storage ", shown(key.text), " has no location"));
    }
    if (count.kind != PickleKind::kInt || count.integer < 0) {
      fail_torch(file_,
                 cat("the size of a storage is ", kind_name(count.kind), " and should be a count"));
    }
    const std::string name = cat("storage ", shown(key.text));
    const int64_t bytes = checked_mul(count.integer, dtype.bytes, cat("'", file_, "': ", name));
    const size_t index = index_of(key.text);
    if (static_cast<size_t>(bytes) != parts_.storages[index].bytes.size()) {
      fail_torch(file_, cat(name, " should have ", bytes, " bytes and has ",
                            parts_.storages[index].bytes.size()));
    }
    parts_.storage_of.emplace(id, TorchStorageRef{index, dtype.dtype});
  }

  const TorchDtypeInfo& storage_class(PickleId id) const {
    if (!tree_.is(id, PickleKind::kGlobal)) {
      fail_torch(file_, cat("the class of a storage is ", kind_name(tree_[id].kind)));
    }
    const PickleGlobal& named = tree_.global(id);
    const bool known_module =
        named.module == "torch" || named.module == "torch.storage" || named.module == "torch.cuda";
    const TorchDtypeInfo* info = known_module ? find_torch_storage(named.name) : nullptr;
    if (info == nullptr) {
      fail_torch(file_, cat("there is no class of storages ", shown(named.full_name())));
    }
    return *info;
  }

  size_t index_of(std::string_view key) {
    const auto [found, fresh] = by_key_.emplace(key, parts_.storages.size());
    if (fresh) {
      const ZipEntry* entry = archive_.find(cat(folder_, "data/", key));
      if (entry == nullptr) fail_torch(file_, cat("storage ", shown(key), " is missing"));
      parts_.storages.push_back({key, entry->bytes, entry->crc});
    }
    return found->second;
  }

  const std::string& file_;
  ZipArchive archive_;
  std::string folder_;
  TorchParts parts_;
  PickleTree& tree_;
  std::unordered_map<std::string_view, size_t> by_key_;
};

constexpr size_t kMaxDimensions = 4'000'000;

// Makes tensors from the calls by which Python would make them.
class Rebuilder {
 public:
  Rebuilder(const TorchParts& parts, const std::string& file)
      : parts_(parts), tree_(parts.tree), file_(file) {}

  std::unordered_map<PickleId, TorchTensor> run() {
    // Visits values in the order of their numbers, because a tensor precedes the object that
    // contains it.
    for (PickleId id = 0; id < tree_.size(); ++id) {
      if (!tree_.is(id, PickleKind::kObject)) continue;
      at_ = tree_[id].offset;
      const PickleObject& made = tree_.object(id);
      const auto& args = tree_.items(made.args);
      if (tree_.is_global(made.callee, "torch._tensor", "_rebuild_from_type_v2") ||
          tree_.is_global(made.callee, "torch.tensor", "_rebuild_from_type_v2")) {
        // A tensor with attributes has the arguments (function, class, arguments, state).
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

  // Makes a tensor of (storage, offset, shape, strides[, requires_grad, hooks[, dtype][,
  // metadata]]).
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

  // Limits the number of tensors, because a call of seven bytes can make a shape of a kilobyte.
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

  // Reads a tuple, list or torch.Size of integers >= 0.
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

  // Refuses views that conjugate or negate the values of their storage.
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

TorchParts read_parts(std::string_view bytes, const std::string& file) {
  if (looks_like_zip(bytes)) return ArchiveReader(bytes, file).run();
  if (looks_like_old_pickles(bytes)) {
    fail_torch(file,
               "it has the layout of torch before 1.6, which is not read; save it again with a "
               "later torch: torch.save(torch.load(FILE, weights_only=True), FILE)");
  }
  if (looks_like_tar(bytes)) {
    fail_torch(file,
               "it has the tar layout of torch 0.1; load and save it with a torch before 2.9");
  }
  fail_torch(file, bytes.empty() ? "it is empty" : "it is not a zip archive, as torch.save writes");
}

}  // namespace

int64_t TorchTensor::elements() const {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

bool TorchTensor::contiguous() const {
  if (elements() == 0) return true;
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

std::shared_ptr<const TorchFile> TorchFile::open(const std::filesystem::path& path) {
  auto map = std::make_shared<MappedFile>(path, MappedFile::Access::kCopyOnWrite);
  const std::string_view bytes = map->bytes();
  return parse(bytes, path.string(), std::move(map));
}

std::shared_ptr<const TorchFile> TorchFile::parse(std::string_view bytes, const std::string& name,
                                                  std::shared_ptr<const void> owner) {
  std::shared_ptr<TorchFile> file(new TorchFile);
  file->name_ = escaped(name, 4096);
  file->owner_ = std::move(owner);
  file->parts_ = read_parts(bytes, file->name_);
  file->tensors_ = Rebuilder(file->parts_, file->name_).run();
  file->checked_ = std::make_unique<std::atomic<bool>[]>(file->parts_.storages.size());
  return file;
}

std::string_view TorchFile::storage_bytes(size_t storage) const {
  const TorchStorage& block = parts_.storages.at(storage);
  if (!checked_[storage].load(std::memory_order_acquire)) {
    if (zip_crc32(block.bytes) != block.crc) {
      fail_torch(name_, cat("the checksum of storage ", shown(block.key),
                            " does not fit its bytes; the file is damaged"));
    }
    checked_[storage].store(true, std::memory_order_release);
  }
  return block.bytes;
}

const TorchTensor* TorchFile::tensor(PickleId id) const {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool looks_like_torch_file(std::string_view bytes) {
  return looks_like_zip(bytes) || looks_like_old_pickles(bytes) || looks_like_tar(bytes);
}

void fail_torch(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid torch file: ", what, ".");
}

}  // namespace tost
