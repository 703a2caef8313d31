// Training of language models, on texts and on tasks of recall, as kinds of run.
#include "tost/kinds/language/run.h"

#include "tost/kinds/language/model.h"
#include "tost/kinds/language/recall_task.h"
#include "tost/kinds/language/task.h"

namespace tost {

RunKind language_run_kind() {
  RunKind kind = make_run_kind<LanguageTask>("language", "language model", language_train_form(),
                                             language_preset_names(), language_info_from_json);
  kind.metric = "loss";
  kind.logged = {"loss"};
  return kind;
}

RunKind recall_run_kind() {
  RunKind kind = make_run_kind<RecallTask>("recall", "recall model", recall_train_form(),
                                           recall_preset_names(), language_info_from_json);
  kind.files = "language";
  kind.metric = "accuracy";
  kind.logged = {"accuracy", "exact", "loss"};
  return kind;
}

}  // namespace tost
