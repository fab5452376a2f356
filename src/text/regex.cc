#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>

#include "base/check.h"
#include "text/regex_pattern.h"

namespace tandem::text {
namespace {

// Per match. A tokenizer's piece costs a handful; the longest honest case measured (10^6 blanks)
// stays far below. PCRE2's own default is 10^7.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr size_t kJitStackBytes = 8 << 20;  // taken only when the 32 KiB on the machine stack end

template <class T, void (*release)(T*)>
struct Releaser {
  void operator()(T* object) const { release(object); }
};
template <class T, void (*release)(T*)>
using Handle = std::unique_ptr<T, Releaser<T, release>>;

using CodeHandle = Handle<pcre2_code, pcre2_code_free>;
using MatchHandle = Handle<pcre2_match_data, pcre2_match_data_free>;
using ContextHandle = Handle<pcre2_match_context, pcre2_match_context_free>;
using CompileHandle = Handle<pcre2_compile_context, pcre2_compile_context_free>;
using StackHandle = Handle<pcre2_jit_stack, pcre2_jit_stack_free>;

}  // namespace

struct RegexScratch::State {
  MatchHandle match{pcre2_match_data_create(1, nullptr)};
  ContextHandle context{pcre2_match_context_create(nullptr)};
  StackHandle stack;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  TANDEM_CHECK(state_->match && state_->context, "memory for regular expressions");
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::Code {
  CodeHandle code;
  bool jit = false;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Expected<Regex> Regex::compile_pcre2(std::string_view pattern, std::string_view shown) {
  CompileHandle context(pcre2_compile_context_create(nullptr));
  TANDEM_CHECK(context != nullptr, "memory for regular expressions");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  // MULTILINE: in Ruby's syntax ^ and $ mean lines.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                 pattern.size(),
                                 kOptions,
                                 &error,
                                 &offset,
                                 context.get()));
  if (!code->code) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return fail(ErrorCode::kUnsupported,
                "regular expression '{}': {}",
                shown.substr(0, 200),
                reinterpret_cast<const char*>(message.data()));
  }
  // Without JIT (a kernel that forbids executable memory) the interpreter does the same, slower.
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(code));
}

Expected<Regex> Regex::compile(std::string_view pattern) {
  TANDEM_ASSIGN(const std::string translated, to_pcre2_pattern(pattern));
  return compile_pcre2(translated, pattern);
}

Expected<Regex> Regex::compile_literal(std::string_view literal) {
  return compile_pcre2(escape_pattern(literal), literal);
}

Expected<Range> Regex::find(std::string_view subject, size_t start, RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  const auto match = [&] {
    const auto* data = reinterpret_cast<PCRE2_SPTR>(subject.data());
    return code_->jit ? pcre2_jit_match(code_->code.get(),
                                        data,
                                        subject.size(),
                                        start,
                                        PCRE2_NO_UTF_CHECK,
                                        state.match.get(),
                                        state.context.get())
                      : pcre2_match(code_->code.get(),
                                    data,
                                    subject.size(),
                                    start,
                                    PCRE2_NO_UTF_CHECK,
                                    state.match.get(),
                                    state.context.get());
  };
  int result = match();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !state.stack) {
    state.stack.reset(pcre2_jit_stack_create(64 << 10, kJitStackBytes, nullptr));
    if (state.stack) {
      pcre2_jit_stack_assign(state.context.get(), nullptr, state.stack.get());
      result = match();
    }
  }
  if (result >= 0) {
    const size_t* ends = pcre2_get_ovector_pointer(state.match.get());
    return Range{ends[0], ends[1]};
  }
  if (result == PCRE2_ERROR_NOMATCH) return Range{1, 0};
  return fail(ErrorCode::kInvalidArgument,
              "the text is too hard to split into words: a regular expression passed its limit");
}

}  // namespace tandem::text
