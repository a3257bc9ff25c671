//! Times as people and machines exchange them: RFC 3339, to the millisecond.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400_000;

/// Milliseconds since 1970-01-01 UTC of a time such as `2026-01-31T12:00:00.5+01:00`. What is finer than a millisecond is cut off.
/// None when it is no such time, or a time that does not exist; a zone is needed.
pub fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| {
        let digits = bytes.get(from..to).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        std::str::from_utf8(digits).ok()?.parse::<i64>().ok()
    };
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|byte| any.contains(byte));
    let punctuated = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let exists =
        (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !punctuated || !exists {
        return None;
    }
    let mut at = 19;
    let mut millis = 0;
    if is(at, b".") {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let kept = digits.min(3);
        millis = number(at + 1, at + 1 + kept).filter(|_| kept > 0)? * [1000, 100, 10, 1][kept];
        at += 1 + digits;
    }
    let time = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    Some(days_since_1970(year, month, day) * DAY + time - zone(bytes.get(at..)?)?)
}

/// Offset of a zone in milliseconds.
fn zone(text: &[u8]) -> Option<i64> {
    let digit = |at: usize| text.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'));
    let sign = match text {
        [b'Z' | b'z'] => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (digit(1)? * 10 + digit(2)?, digit(4)? * 10 + digit(5)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// A time in UTC: `2026-01-31T12:00:00.500Z`.
pub fn show(time: SystemTime) -> String {
    let millis = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    };
    let (year, month, day) = civil(millis.div_euclid(DAY));
    let time = millis.rem_euclid(DAY);
    let (hour, minute, second, milli) = (time / 3_600_000, time / 60_000 % 60, time / 1000 % 60, time % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the Gregorian calendar, counted in eras of 400 years that begin on the first of March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The other way round.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_times_with_a_zone() {
        let good = [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            ("2026-01-01T01:30:00+01:30", 1_767_225_600_000),
            ("2025-12-31T23:00:00.25-01:00", 1_767_225_600_250),
            ("2026-01-01 00:00:00.1239Z", 1_767_225_600_123),
            ("2000-02-29T12:00:00z", 951_825_600_000),
        ];
        for (text, millis) in good {
            assert_eq!(parse(text), Some(millis), "{text}");
        }
        let bad = [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+25:00",
            "2026-01-01T00:00:00Zx",
            "2026-1-01T00:00:00Z",
            "ääääääääääääää",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for days in (0..60_000).step_by(17) {
            let time = UNIX_EPOCH + Duration::from_millis(days * 86_400_000 + days * 997);
            let millis = i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
            assert_eq!(parse(&show(time)), Some(millis), "{}", show(time));
        }
        assert_eq!(show(UNIX_EPOCH - Duration::from_millis(1)), "1969-12-31T23:59:59.999Z");
    }
}
