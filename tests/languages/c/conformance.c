// The plugin that each language has, in C: see tests/languages/README.md.

#include "tidegate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static tidegate_context context;
static uint64_t records;

// The argument behind `word:` of a text, with a zero at its end and to be freed; NULL for another word.
static char *argument_of(const uint8_t *text, size_t length, const char *word) {
  size_t skip = strlen(word) + 1;
  if (length < skip || memcmp(text, word, skip - 1) != 0 || text[skip - 1] != ':')
    return NULL;
  char *argument = tidegate_allocate(length - skip + 1, 1);
  memcpy(argument, text + skip, length - skip);
  return argument;
}

// The same for the config, a JSON string.
static char *config_of(const tidegate_context *of, const char *word) {
  size_t length = of->config.len;
  return length < 2 ? NULL : argument_of(of->config.ptr + 1, length - 2, word);
}

static char *key_of(const tidegate_message *message, const char *word) {
  return message->key.is_some ? argument_of(message->key.val.ptr, message->key.val.len, word) : NULL;
}

static bool is(const uint8_t *text, size_t length, const char *whole) {
  return length == strlen(whole) && memcmp(text, whole, length) == 0;
}

static tidegate_bytes copy_of(const tidegate_bytes *bytes) {
  if (!bytes->is_some)
    return *bytes;
  tidegate_bytes copy = {.is_some = true, .val = {tidegate_allocate(bytes->val.len, 1), bytes->val.len}};
  if (copy.val.len > 0)
    memcpy(copy.val.ptr, bytes->val.ptr, copy.val.len);
  return copy;
}

static void fan(const tidegate_message *message, unsigned long count, tidegate_outputs *outputs) {
  tidegate_make_outputs(outputs, count);
  for (size_t i = 0; i < count; i++) {
    tidegate_output *output = &outputs->ptr[i];
    output->timestamp = message->timestamp;
    output->key = copy_of(&message->key);
    output->value = copy_of(&message->value);
    size_t headers = message->headers.len;
    output->headers.len = headers + 1;
    output->headers.ptr = tidegate_allocate(headers + 1, sizeof(tidegate_header));
    for (size_t j = 0; j < headers; j++) {
      const tidegate_header *header = &message->headers.ptr[j];
      tidegate_header *copy = &output->headers.ptr[j];
      plugin_string_dup_n(&copy->key, (const char *)header->key.ptr, header->key.len);
      copy->value = copy_of(&header->value);
    }
    char number[24];
    snprintf(number, sizeof number, "%zu", i);
    output->headers.ptr[headers] = (tidegate_header){tidegate_copy("copy"), tidegate_bytes_of(number)};
  }
}

// Does what a key asks for instead of an output; false when it asks for nothing of that kind.
static bool fails(const tidegate_message *message, tidegate_failure *failure) {
  static const char *const words[] = {
      [TIDEGATE_REJECT] = "reject", [TIDEGATE_RETRY] = "retry", [TIDEGATE_FATAL] = "fatal"};
  char *why;
  for (uint8_t kind = 0; kind < sizeof words / sizeof *words; kind++)
    if ((why = key_of(message, words[kind])) != NULL) {
      tidegate_fail(failure, kind, why);
      free(why);
      return true;
    }
  if ((why = key_of(message, "trap")) != NULL) {
    fprintf(stderr, "%s\n", why);
    abort();
  }
  return false;
}

bool tidegate_init(tidegate_context *given, tidegate_commit_policy *policy, tidegate_text *refusal) {
  char *why = config_of(given, "refuse");
  if (why != NULL) {
    *refusal = tidegate_copy(why);
    free(why);
    tidegate_free_context(given);
    return false;
  }
  // It is kept, so it is not freed.
  context = *given;
  bool holds = is(context.config.ptr, context.config.len, "\"generation-end\"");
  *policy = holds ? TIDEGATE_GENERATION_END : TIDEGATE_ANY_TIME;
  return true;
}

bool tidegate_process(tidegate_message *message, tidegate_outputs *outputs, tidegate_failure *failure) {
  records++;
  char *argument;
  if (fails(message, failure)) {
    tidegate_free_message(message);
    return false;
  }
  if (message->key.is_some && is(message->key.val.ptr, message->key.val.len, "drop")) {
    *outputs = (tidegate_outputs){0};
    tidegate_free_message(message);
    return true;
  }
  if ((argument = key_of(message, "fan")) != NULL) {
    fan(message, strtoul(argument, NULL, 10), outputs);
    free(argument);
    tidegate_free_message(message);
    return true;
  }
  if ((argument = key_of(message, "to")) != NULL) {
    tidegate_pass_on(message, outputs);
    tidegate_output *output = outputs->ptr;
    output->topic = (plugin_option_string_t){.is_some = true, .val = tidegate_copy(argument)};
    output->partition = (plugin_option_s32_t){.is_some = true, .val = 2};
    output->timestamp = (plugin_option_s64_t){.is_some = true, .val = 77};
    free(argument);
    return true;
  }
  if ((argument = key_of(message, "log")) != NULL) {
    tidegate_log(TIDEGATE_WARN, argument);
    free(argument);
  } else if ((argument = key_of(message, "print")) != NULL) {
    printf("%s\n", argument);
    // A line that nobody flushes would wait for the next ones.
    fflush(stdout);
    free(argument);
  }
  tidegate_pass_on(message, outputs);
  return true;
}

// As printf, into memory that is as long as need be.
static char *printed(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  char *text = tidegate_allocate((size_t)length + 1, 1);
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

bool tidegate_generation_ended(tidegate_end_reason reason, tidegate_outputs *outputs, tidegate_failure *failure) {
  char *why = config_of(&context, "end");
  if (why != NULL) {
    tidegate_fail(failure, TIDEGATE_REJECT, why);
    free(why);
    return false;
  }
  static const char *const reasons[] = {"rebalance", "reload", "shutdown", "limit"};
  char *details = printed("%.*s/%.*s %.*s-%" PRId32 " generation %" PRIu64 " records %" PRIu64 " reason %s",
                          (int)context.pipeline.len, context.pipeline.ptr, (int)context.transform.len,
                          context.transform.ptr, (int)context.topic.len, context.topic.ptr, context.partition,
                          context.generation, records, reasons[reason]);
  tidegate_make_outputs(outputs, 1);
  outputs->ptr->key = tidegate_bytes_of("details");
  outputs->ptr->value = tidegate_bytes_of(details);
  free(details);
  return true;
}
