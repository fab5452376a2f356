// Requests as clients send them: what is read, what is refused and by which name.
#include <gtest/gtest.h>

#include "serve/chat_request.h"
#include "serve/completion_request.h"

namespace tandem::serve {
namespace {

OrderedJson json(const char* text) { return parse_ordered_json(text).value(); }

void expect_chat_refused(const char* text, const char* param) {
  const auto result = parse_chat_request(json(text));
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().param, param) << result.error().message;
}

void expect_completion_refused(const char* text, const char* param) {
  const auto result = parse_completion_request(json(text), 4);
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().param, param) << result.error().message;
}

TEST(ChatRequest, ReadsTheUsualFields) {
  const auto r =
      parse_chat_request(json(R"({"model":"m","messages":[{"role":"user","content":"hi"}],
      "max_tokens":9,"max_completion_tokens":3,"temperature":0,"seed":-7,"stop":"x","stream":true,
      "stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2,"user":"u","unknown":[1],
      "top_k":null,"tools":[],"response_format":{"type":"text"}})"));
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->options.max_tokens, 3);
  EXPECT_EQ(r->options.seed, -7);
  EXPECT_EQ(r->options.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(r->options.logprobs, 2);
  EXPECT_TRUE(r->stream.include_usage);
  EXPECT_TRUE(r->input.add_generation_prompt);
}

TEST(ChatRequest, MessagesAreNormalized) {
  const auto r = parse_chat_request(json(R"({"messages":[
      {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"reasoning":"why","tool_calls":[]},
      {"role":"tool","content":"5","tool_call_id":"c1"}]})"));
  ASSERT_TRUE(r) << r.error().message;
  const OrderedJson& m = r->input.messages;
  EXPECT_EQ(dump_json(m[0]), R"({"role":"system","content":"a\nb"})");
  EXPECT_EQ(dump_json(m[1]), R"({"role":"assistant","content":"","reasoning_content":"why"})");
  EXPECT_EQ(m[2]["tool_call_id"], "c1");
}

TEST(ChatRequest, WrongMessagesAreRefused) {
  for (const char* messages :
       {"[]",
        "{}",
        "\"x\"",
        "5",
        "null",
        "[5]",
        "[[]]",
        "[{}]",
        R"([{"role":"user"}])",
        R"([{"role":"user","content":5}])",
        R"([{"role":"user","content":[5]}])",
        R"([{"role":"user","content":[{"type":"text"}]}])",
        R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
        R"([{"role":"alien","content":"x"}])"}) {
    expect_chat_refused((std::string("{\"messages\":") + messages + "}").c_str(), "messages");
  }
}

TEST(ChatRequest, FieldsThatAreNotBuiltAreNamed) {
  const auto with = [](const std::string& field) {
    return "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]," + field + "}";
  };
  expect_chat_refused(with(R"("tools":[{"type":"function"}])").c_str(), "tools");
  expect_chat_refused(with(R"("response_format":{"type":"json_object"})").c_str(),
                      "response_format");
  expect_chat_refused(with(R"("structured_outputs":{"regex":"a"})").c_str(), "structured_outputs");
  expect_chat_refused(with(R"("guided_json":{"type":"object"})").c_str(), "guided_json");
  expect_chat_refused(with(R"("tool_choice":"required")").c_str(), "tool_choice");
  expect_chat_refused(with(R"("chat_template":"x")").c_str(), "chat_template");
  expect_chat_refused(with(R"("chat_template_kwargs":{"messages":[]})").c_str(),
                      "chat_template_kwargs");
  expect_chat_refused(with(R"("top_logprobs":3)").c_str(), "top_logprobs");
  expect_chat_refused(with(R"("stream_options":{})").c_str(), "stream_options");
  expect_chat_refused(with(R"("temperature":"hot")").c_str(), "temperature");
  expect_chat_refused(with(R"("max_tokens":1180591620717411303424)").c_str(), "max_tokens");
  expect_chat_refused(with(R"("seed":18446744073709551615)").c_str(), "seed");
}

TEST(ChatRequest, RoleAndEchoFollowTheLastMessage) {
  const auto parsed = [](const char* more) {
    const std::string messages =
        R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}])";
    auto request = parse_chat_request(json((messages + more + "}").c_str()));
    EXPECT_TRUE(request) << more;
    return request.value_or(ChatRequest{});
  };
  EXPECT_EQ(parsed(R"(,"echo":true,"continue_final_message":true)").echo, "y");
  EXPECT_EQ(parsed(R"(,"echo":false,"continue_final_message":true)").echo, "");
  const ChatRequest answered = parsed(R"(,"echo":true)");
  EXPECT_EQ(answered.role, "assistant");
  EXPECT_EQ(answered.echo, "y") << "the answer has the last message's role";
  const auto user = parse_chat_request(json(
      R"({"messages":[{"role":"user","content":"x"}],"echo":true,"add_generation_prompt":true})"));
  ASSERT_TRUE(user);
  EXPECT_EQ(user->echo, "");
}

TEST(ChatRequest, AdvisoryFieldsAndNullsChangeNothing) {
  for (const char* field : {R"("user":"u")",
                            R"("store":false)",
                            R"("metadata":{"a":"b"})",
                            R"("service_tier":"auto")",
                            R"("parallel_tool_calls":true)",
                            R"("tools":null)",
                            R"("tool_choice":null)",
                            R"("response_format":null)",
                            R"("response_format":{"type":"text"})",
                            R"("structured_outputs":null)",
                            R"("temperature":null)",
                            R"("stop":null)",
                            R"("stream_options":null)",
                            R"("reasoning_effort":"low")",
                            R"("no_such_field":[1])"}) {
    const std::string body =
        std::string(R"({"messages":[{"role":"user","content":"x"}],)") + field + "}";
    EXPECT_TRUE(parse_chat_request(json(body.c_str()))) << field;
  }
}

TEST(CompletionRequest, FieldsOfVllmsOwn) {
  const auto request = parse_completion_request(
      json(R"({"prompt":"a","truncate_prompt_tokens":3,"truncation_side":"right","stream":true,
               "stream_interval":4,"repetition_detection":{"max_pattern_size":8,"min_count":3}})"),
      4);
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->options.truncate_end);
  EXPECT_EQ(request->stream.interval, 4);
  ASSERT_TRUE(request->options.repetition);
  EXPECT_EQ(request->options.repetition->max_pattern_size, 8);
  expect_completion_refused(R"({"prompt":"a","truncation_side":"middle"})", "truncation_side");
  expect_completion_refused(R"({"prompt":"a","stream_interval":0})", "stream_interval");
  expect_completion_refused(R"({"prompt":"a","repetition_detection":3})", "repetition_detection");
}

TEST(CompletionRequest, PromptsOfEveryKind) {
  EXPECT_EQ(parse_completion_request(json(R"({"prompt":"a"})"), 4)->prompts.size(), 1u);
  EXPECT_EQ(parse_completion_request(json(R"({"prompt":["a","b"]})"), 4)->prompts.size(), 2u);
  EXPECT_EQ(std::get<1>(parse_completion_request(json(R"({"prompt":[1,2]})"), 4)->prompts[0]),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(parse_completion_request(json(R"({"prompt":[[1],[2]]})"), 4)->prompts.size(), 2u);
  for (const char* prompt : {"[]",
                             "{}",
                             "5",
                             "[[]]",
                             "[1.5]",
                             R"(["a",1])",
                             R"([["a"]])",
                             "[null]",
                             "true",
                             "[99999999999]",
                             R"(["a","b","c","d","e"])"}) {
    expect_completion_refused((std::string("{\"prompt\":") + prompt + "}").c_str(), "prompt");
  }
  expect_completion_refused("{}", "prompt");
}

TEST(CompletionRequest, EchoWithZeroTokensScores) {
  const auto r = parse_completion_request(
      json(R"({"prompt":"a","echo":true,"max_tokens":0,"logprobs":1})"), 4);
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->score_only);
  EXPECT_EQ(r->options.prompt_logprobs, 1);
  expect_completion_refused(R"({"prompt":"a","suffix":"b"})", "suffix");
  expect_completion_refused(R"({"prompt":"a","n":1,"best_of":2})", "best_of");
  expect_completion_refused(R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias");
}

}  // namespace
}  // namespace tandem::serve
