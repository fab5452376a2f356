#pragma once
// The fields that chat and completions share, from JSON to GenerationOptions; and the fields that
// are refused by name because they would change the answer and are not built. Pure.

#include "frontend/generation_options.h"
#include "serve/fields.h"

namespace tandem::serve {

enum class Endpoint { kChat, kCompletions };

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int64_t interval = 1;  // tokens of a choice in a chunk, after the first
};

// Everything of reference order: sampling, lengths, stop, ids, log-probabilities of prompts.
Checked<frontend::GenerationOptions> read_generation_options(const FieldReader& fields,
                                                             Endpoint endpoint);

Checked<StreamOptions> read_stream_options(const FieldReader& fields);

// An error naming the first field that is set to something that would change the answer and is not
// served.
Checked<void> refuse_unbuilt_fields(const FieldReader& fields, Endpoint endpoint);

}  // namespace tandem::serve
