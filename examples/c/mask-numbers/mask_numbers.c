// Masks card numbers in the values of records: `4111 1111 1111 1111` becomes `**** **** **** 1111`.
//
// A card number has 13 to 19 digits, which single spaces or hyphens may set apart, and its last digit is a checksum of the others (Luhn): one
// in ten other numbers of that length passes too. All else of the record stays as it is.

#include "tidegate.h"

#include <inttypes.h>
#include <stdio.h>

#define SHORTEST 13
#define LONGEST 19
// Digits at the end that are not masked.
#define SHOWN 4

static uint64_t masked;

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

// Whether the digits in these places end with their checksum: every second one from the right counts double, in its cross sum.
static bool has_checksum(const uint8_t *text, const size_t *places, size_t count) {
  unsigned sum = 0;
  for (size_t i = 0; i < count; i++) {
    unsigned digit = text[places[count - 1 - i]] - '0';
    unsigned weighted = i % 2 == 0 ? digit : 2 * digit;
    sum += weighted > 9 ? weighted - 9 : weighted;
  }
  return sum % 10 == 0;
}

// Masks the numbers in a text; how many.
static uint64_t mask(uint8_t *text, size_t length) {
  uint64_t found = 0;
  for (size_t at = 0; at < length; at++) {
    // What follows one another as a number: where its digits are, and how many.
    size_t places[LONGEST];
    size_t count = 0;
    for (; at < length; at++) {
      bool joins = (text[at] == ' ' || text[at] == '-') && count > 0 && at + 1 < length && is_digit(text[at + 1]);
      if (is_digit(text[at])) {
        if (count < LONGEST)
          places[count] = at;
        count++;
      } else if (!joins) {
        break;
      }
    }
    if (count < SHORTEST || count > LONGEST || !has_checksum(text, places, count))
      continue;
    for (size_t i = 0; i < count - SHOWN; i++)
      text[places[i]] = '*';
    found++;
  }
  return found;
}

bool tidegate_init(tidegate_context *context, tidegate_commit_policy *policy, tidegate_text *refusal) {
  bool is_empty = context->config.len == 4 && memcmp(context->config.ptr, "null", 4) == 0;
  if (is_empty)
    *policy = TIDEGATE_ANY_TIME;
  else
    *refusal = tidegate_copy("there is nothing to configure: leave `config` out");
  tidegate_free_context(context);
  return is_empty;
}

bool tidegate_process(tidegate_message *message, tidegate_outputs *outputs, tidegate_failure *failure) {
  (void)failure;
  if (message->value.is_some)
    masked += mask(message->value.val.ptr, message->value.val.len);
  tidegate_pass_on(message, outputs);
  return true;
}

bool tidegate_generation_ended(tidegate_end_reason reason, tidegate_outputs *outputs, tidegate_failure *failure) {
  (void)reason, (void)failure;
  char line[64];
  snprintf(line, sizeof line, "masked %" PRIu64 " numbers", masked);
  tidegate_log(TIDEGATE_INFO, line);
  *outputs = (tidegate_outputs){0};
  return true;
}
