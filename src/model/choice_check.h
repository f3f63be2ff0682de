// Class labels and indices in the data, compared with what a model makes of them: as many classes as outputs, indices within a table.
#pragma once

#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/model/model.h"

namespace perigee {

class ChoiceCheck {
 public:
  // Error(model) at `where` when a label of `source` has no output: where the source has more classes than the network has outputs, and an
  // example is of such a class. A source that is read from far or live is not read; check() finds it.
  ChoiceCheck(const Model& model, const DataSource& source, const std::string& where);

  // Error(data) at where() when a number of the batch chooses nothing. Takes no time where the source vouches for its labels.
  template <class Where>
  void check(const Batch& batch, Where where) const {
    for (const Choice& choice : choices_)
      if (const int64_t at = first_wrong(choice, batch); at >= 0)
        refuse(choice, batch.fields[choice.field].view(), at, batch.ids[static_cast<size_t>(at / choice.elements)], where());
  }
  // The same for every example of the source.
  void check_all(const DataSource& source, const std::string& where) const;

 private:
  struct Choice {
    size_t field = 0;
    std::string name;
    int64_t elements = 1, low = 0, count = 0;
    std::string hint, scope;
  };
  static int64_t first_wrong(const Choice& choice, const Batch& batch);
  [[noreturn]] static void refuse(const Choice& choice, const View& view, int64_t at, int64_t example, const std::string& where);

  std::vector<Choice> choices_;  // that the source does not vouch for
};

}  // namespace perigee
