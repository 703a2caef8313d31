// References to storages, and the sizes of what lies on them.
#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_layout.h"

namespace tost {
namespace {

int64_t read_count(const PickleTree& tree, PickleId id, const char* what, const std::string& file) {
  if (!tree.is(id, PickleKind::kInt) || tree[id].integer < 0) {
    fail_torch(file, cat("the ", what, " of a storage is ", kind_name(tree[id].kind),
                         " and should be a count"));
  }
  return tree[id].integer;
}

std::string_view read_key(const PickleTree& tree, PickleId id, const std::string& file) {
  if (!tree.is(id, PickleKind::kString) || tree[id].text.empty() || tree[id].text.size() > 256) {
    fail_torch(file, "a storage has a key that is not a short string");
  }
  return tree[id].text;
}

const TorchDtypeInfo* read_storage_class(const PickleTree& tree, PickleId id,
                                         const std::string& file) {
  if (!tree.is(id, PickleKind::kGlobal)) {
    fail_torch(file, cat("the class of a storage is ", kind_name(tree[id].kind)));
  }
  const PickleGlobal& named = tree.global(id);
  const bool known_module =
      named.module == "torch" || named.module == "torch.storage" || named.module == "torch.cuda";
  const TorchDtypeInfo* info = known_module ? find_torch_storage(named.name) : nullptr;
  if (info == nullptr) {
    fail_torch(file, cat("there is no class of storages ", shown(named.full_name())));
  }
  return info;
}

}  // namespace

void fail_torch(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid torch file: ", what, ".");
}

bool read_storage_ref(const PickleTree& tree, PickleId id, const std::string& file,
                      TorchStorageRef& ref) {
  const PickleId tuple = tree.items(id).front();
  const auto& parts = tree.items(tuple);
  if (!tree.is(tuple, PickleKind::kTuple) || parts.empty()) {
    fail_torch(file, "a persistent id is not a tuple");
  }
  if (tree.is_string(parts[0], "module")) return false;
  if (!tree.is_string(parts[0], "storage") || parts.size() < 5 || parts.size() > 6) {
    fail_torch(file, cat("a persistent id at byte ", tree[tuple].offset,
                         " of the pickle does not describe a storage"));
  }
  ref.dtype = read_storage_class(tree, parts[1], file);
  ref.key = read_key(tree, parts[2], file);
  if (!tree.is(parts[3], PickleKind::kString)) {
    fail_torch(file, cat("storage ", shown(ref.key), " has no location"));
  }
  ref.location = tree[parts[3]].text;
  ref.elements = read_count(tree, parts[4], "size", file);
  if (parts.size() == 5 || tree.is(parts[5], PickleKind::kNone)) return true;
  const auto& view = tree.items(parts[5]);
  if (!tree.is(parts[5], PickleKind::kTuple) || view.size() != 3) {
    fail_torch(file, cat("the view of storage ", shown(ref.key), " is damaged"));
  }
  ref.is_view = true;
  ref.view_key = read_key(tree, view[0], file);
  ref.view_offset = read_count(tree, view[1], "view", file);
  ref.view_elements = read_count(tree, view[2], "view", file);
  return true;
}

std::vector<int64_t> read_sizes(const PickleTree& tree, PickleId id, const std::string& what,
                                const std::string& file) {
  if (tree.is_call(id, "torch", "Size") && tree.items(tree.object(id).args).size() == 1) {
    id = tree.items(tree.object(id).args).front();
  }
  if (!tree.is(id, PickleKind::kTuple) && !tree.is(id, PickleKind::kList)) {
    fail_torch(file, cat(what, " is ", kind_name(tree[id].kind), " and should be a tuple"));
  }
  const auto& items = tree.items(id);
  if (items.size() > 64) fail_torch(file, cat(what, " has ", items.size(), " dimensions, over 64"));
  std::vector<int64_t> sizes;
  sizes.reserve(items.size());
  for (const PickleId item : items) {
    if (!tree.is(item, PickleKind::kInt)) {
      fail_torch(file, cat(what, " holds ", kind_name(tree[item].kind), " where integers belong"));
    }
    if (tree[item].integer < 0) {
      fail_torch(file, cat(what, " holds ", tree[item].integer, ", which is negative"));
    }
    sizes.push_back(tree[item].integer);
  }
  return sizes;
}

}  // namespace tost
