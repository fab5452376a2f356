#pragma once
// A view of a callable: two words, no allocation, never owns. The callable must outlive the call
// that takes the view; do not store one. Any thread.

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::system {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<F>> &&
             std::is_invocable_r_v<Result, F&, Args...>)
  FunctionRef(F&& callable) noexcept  // NOLINT: implicit, so that a lambda is an argument
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return std::invoke(*static_cast<std::remove_reference_t<F>*>(object),
                             std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace tandem::system
