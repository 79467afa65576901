//! Days of the Gregorian calendar, and the units of `DateTime` (FILETIME of Windows).

/// 1970-01-01 in units of 100 ns since 1601-01-01.
pub const FILE_TIME_OF_1970: u64 = 116_444_736_000_000_000;

/// Nanoseconds since 1970 of a time in units of 100 ns since 1601.
#[must_use]
pub const fn unix_nanos_of_file_time(units: i128) -> i128 {
    (units - FILE_TIME_OF_1970 as i128) * 100
}

/// Days in 400 years.
const CYCLE: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const MARCH_0: i64 = 719_468;

/// The day of a date, from 1970-01-01 on; negative before it. `month` is 1 to 12, and `day` may be
/// beyond the month's end.
///
/// ```
/// use nettrace_event::calendar::{date_of, day_of};
///
/// assert_eq!(day_of(1970, 1, 1), 0);
/// assert_eq!(day_of(2000, 2, 29), 11_016);
/// assert_eq!(date_of(11_016), (2000, 2, 29));
/// ```
#[inline]
#[must_use]
pub const fn day_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have the leap day at their end.
    let month_of_year = (month + 9) % 12;
    let year = year - (month <= 2) as i64;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month_of_year + 2) / 5 + day - 1 - MARCH_0
}

/// The year, month and day of a day that is counted from 1970-01-01 on.
#[inline]
#[must_use]
pub const fn date_of(day: i64) -> (i64, u32, u32) {
    let day = day + MARCH_0;
    let (cycle, day) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE) as u32);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year as i64 + (month <= 2) as i64, month, day)
}

/// Milliseconds since 1970-01-01 UTC of a date (year, month, day) and a time of that day (hour,
/// minute, second, millisecond).
///
/// ```
/// use nettrace_event::calendar::unix_millis;
///
/// assert_eq!(unix_millis([1970, 1, 2], [0, 0, 1, 5]), 86_401_005);
/// ```
#[must_use]
pub const fn unix_millis(date: [i64; 3], time: [i64; 4]) -> i64 {
    let [year, month, day] = date;
    let [hour, minute, second, millisecond] = time;
    let minutes = (day_of(year, month, day) * 24 + hour) * 60 + minute;
    (minutes * 60 + second) * 1_000 + millisecond
}

/// The number of days of a month, which is 1 to 12.
#[must_use]
pub const fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    day_of(next_year, next, 1) - day_of(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::{FILE_TIME_OF_1970, date_of, day_of, days_in_month};

    #[test]
    fn every_day_of_two_cycles_follows_the_one_before() {
        let mut date = (-1, 1, 1);
        for day in day_of(-1, 1, 1)..day_of(801, 1, 1) {
            assert_eq!(date_of(day), date);
            let (year, month, of_month) = date;
            assert_eq!(day_of(year, month.into(), of_month.into()), day, "{date:?}");
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            assert_eq!(days_in_month(year, month.into()), length.into(), "{date:?}");
            date = match (month, of_month) {
                (12, 31) => (year + 1, 1, 1),
                (_, last) if last == length => (year, month + 1, 1),
                _ => (year, month, of_month + 1),
            };
        }
    }

    #[test]
    fn days_that_are_known() {
        assert_eq!((date_of(0), date_of(-1)), ((1970, 1, 1), (1969, 12, 31)));
        assert_eq!(date_of(20_818), (2026, 12, 31));
        assert_eq!(date_of(2_932_896), (9999, 12, 31));
        let of_1601 = day_of(1601, 1, 1) * 86_400 * 10_000_000;
        assert_eq!(FILE_TIME_OF_1970 as i64, -of_1601);
    }
}
