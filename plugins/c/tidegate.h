// A Tidegate plugin in C: short names for the generated bindings in plugin.h, and what nearly every plugin has to do with them.
//
// A plugin defines tidegate_init, tidegate_process and tidegate_generation_ended. What they mean is in wit/README.md. The host makes a new
// instance of the whole component for each partition and generation, so static variables are the state of an instance.
//
// Memory: what a function gets is its own. It frees it, or moves it into an output, which costs nothing. What it returns is freed by the
// bindings after the host has read it, so every pointer in an output comes from malloc and stands in one place only.
#ifndef TIDEGATE_H
#define TIDEGATE_H

#include "plugin.h"

#include <stdlib.h>
#include <string.h>

// UTF-8 text with a length, without a zero at its end.
typedef plugin_string_t tidegate_text;
// Bytes that may be null (`is_some` is false), which is not the same as empty.
typedef plugin_option_list_u8_t tidegate_bytes;

typedef tidegate_plugin_types_context_t tidegate_context;
typedef tidegate_plugin_types_header_t tidegate_header;
typedef tidegate_plugin_types_message_t tidegate_message;
typedef tidegate_plugin_types_output_t tidegate_output;
typedef exports_tidegate_plugin_transform_list_output_t tidegate_outputs;
typedef tidegate_plugin_types_failure_t tidegate_failure;
typedef tidegate_plugin_types_commit_policy_t tidegate_commit_policy;
typedef tidegate_plugin_types_end_reason_t tidegate_end_reason;

#define TIDEGATE_ANY_TIME TIDEGATE_PLUGIN_TYPES_COMMIT_POLICY_ANY_TIME
#define TIDEGATE_GENERATION_END TIDEGATE_PLUGIN_TYPES_COMMIT_POLICY_GENERATION_END

#define TIDEGATE_REJECT TIDEGATE_PLUGIN_TYPES_FAILURE_REJECT
#define TIDEGATE_RETRY TIDEGATE_PLUGIN_TYPES_FAILURE_RETRY
#define TIDEGATE_FATAL TIDEGATE_PLUGIN_TYPES_FAILURE_FATAL

#define TIDEGATE_INFO TIDEGATE_PLUGIN_LOG_LEVEL_INFO
#define TIDEGATE_WARN TIDEGATE_PLUGIN_LOG_LEVEL_WARN

#define tidegate_init exports_tidegate_plugin_transform_init
#define tidegate_process exports_tidegate_plugin_transform_process
#define tidegate_generation_ended exports_tidegate_plugin_transform_generation_ended
#define tidegate_free_context tidegate_plugin_types_context_free
#define tidegate_free_message tidegate_plugin_types_message_free

// Zeroed memory, or a trap: an address of 0 can be written to in WebAssembly, so nobody would notice.
static inline void *tidegate_allocate(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (memory == NULL && count > 0)
    abort();
  return memory;
}

// A copy of a text that ends with a zero.
static inline tidegate_text tidegate_copy(const char *text) {
  tidegate_text copy;
  plugin_string_dup(&copy, text);
  return copy;
}

// The same as bytes, for keys, values and values of headers.
static inline tidegate_bytes tidegate_bytes_of(const char *text) {
  tidegate_text copy = tidegate_copy(text);
  return (tidegate_bytes){.is_some = true, .val = {copy.ptr, copy.len}};
}

// One event of the host's log.
static inline void tidegate_log(tidegate_plugin_log_level_t level, const char *line) {
  tidegate_text text = {(uint8_t *)line, strlen(line)};
  tidegate_plugin_log_write(level, &text);
}

// What a failing call returns: `return tidegate_fail(failure, TIDEGATE_REJECT, "why");`
static inline bool tidegate_fail(tidegate_failure *failure, uint8_t kind, const char *why) {
  failure->tag = kind;
  // The three kinds have the same content in the same place.
  failure->val.reject = tidegate_copy(why);
  return false;
}

// Room for so many outputs, each of them null and for the next transform or the output topic.
static inline void tidegate_make_outputs(tidegate_outputs *outputs, size_t count) {
  outputs->ptr = tidegate_allocate(count, sizeof *outputs->ptr);
  outputs->len = count;
}

// Moves the record into the one output of the call. The message is gone then: it is not to be freed.
static inline void tidegate_pass_on(tidegate_message *message, tidegate_outputs *outputs) {
  tidegate_make_outputs(outputs, 1);
  outputs->ptr[0] = (tidegate_output){
      .timestamp = message->timestamp, .key = message->key, .value = message->value, .headers = message->headers};
}

#endif
