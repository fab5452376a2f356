#pragma once
// Collects the first broken rule of an argument list.

#include <utility>

#include "kernels/host/status.h"

namespace tandem::kernels {

class Checker {
 public:
  explicit Checker(const char* name) : name_(name) {}

  bool good() const { return tensor::ok(status_); }
  const Status& status() const { return status_; }

  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
    if (condition || !good()) return;
    const Status text =
        make_status(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
    status_ = make_status(ErrorCode::kInvalidArgument, "{}: {}", name_, text.message);
  }

  // Rows of `columns` values of type `first` or `second`.
  void rows(const char* what, const RowsView& view, int64_t columns, DType first, DType second) {
    require(view.data != nullptr, "{} is null", what);
    require(view.dtype == first || view.dtype == second,
            "{} is {}, not {} or {}",
            what,
            to_string(view.dtype),
            to_string(first),
            to_string(second));
    require(view.columns == columns, "{} has {} columns, not {}", what, view.columns, columns);
    require(view.stride >= view.columns,
            "{} has stride {} under {} columns",
            what,
            view.stride,
            view.columns);
  }

 private:
  const char* name_;
  Status status_;
};

}  // namespace tandem::kernels
