//! Numbers, times and sizes as people read them. All times are UTC, so that two readers see the same.

use crate::event::Micros;

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 request`, `2 requests`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A number without needless zeros: `0.5`, `12`, `1,500`.
pub fn trimmed(number: f64) -> String {
    if number.abs() >= 1000.0 {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(number.abs().round() as u64));
    }
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

/// Three digits that matter: `0.00314`, `3.14`, `314`, `31,400`.
pub fn rough(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_string();
    }
    let places = (2 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
    if number.abs() >= 1000.0 {
        let step = 10_f64.powi(number.abs().log10().floor() as i32 - 2);
        return trimmed((number / step).round() * step);
    }
    let text = format!("{number:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// `850 µs`, `12.3 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(micros: Micros) -> String {
    let micros = micros.max(0);
    let seconds = micros / 1_000_000;
    match micros {
        0 => "0 ms".to_string(),
        1..1_000 => format!("{micros} µs"),
        // What would round up to the next unit is said in it.
        1_000..999_500 => format!("{} ms", rough(micros as f64 / 1e3)),
        999_500..59_950_000 => format!("{} s", rough(micros as f64 / 1e6)),
        59_950_000..3_600_000_000 => two(seconds.max(60) / 60, "min", seconds.max(60) % 60, "s"),
        3_600_000_000..86_400_000_000 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Two digits that matter, for what is only an estimate: `40 min`, `1.5 s`, `2 h 10 min`.
pub fn about(micros: Micros) -> String {
    let micros = micros.max(0);
    let step = match micros {
        0..10_000_000 => 100_000,
        10_000_000..60_000_000 => 1_000_000,
        60_000_000..600_000_000 => 10_000_000,
        600_000_000..3_600_000_000 => 60_000_000,
        3_600_000_000..36_000_000_000 => 600_000_000,
        36_000_000_000..172_800_000_000 => 3_600_000_000,
        _ => 86_400_000_000,
    };
    if micros < 1_000_000 { duration(micros) } else { duration((micros + step / 2) / step * step) }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large} {large_unit}") } else { format!("{large} {large_unit} {small} {small_unit}") }
}

/// `512 B`, `1.5 KiB`, `3 MiB`.
pub fn bytes(number: f64) -> String {
    let mut value = number;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1023.5 {
            return format!("{} {unit}", rough(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", rough(value))
}

/// Year, month, day of a count of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, in eras of 400 years, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// `2026-11-18 02:03:04 UTC`.
pub fn date_time(at: Micros) -> String {
    let seconds = at.div_euclid(1_000_000);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02} {} UTC", clock(at))
}

/// `02:03:04`.
pub fn clock(at: Micros) -> String {
    let second = at.div_euclid(1_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second % 3600 / 60, second % 60)
}

/// `2026-11-18T02:03:04.123456Z`: for programs.
pub fn timestamp(at: Micros) -> String {
    let (year, month, day) = civil(at.div_euclid(86_400_000_000));
    format!("{year:04}-{month:02}-{day:02}T{}.{:06}Z", clock(at), at.rem_euclid(1_000_000))
}

/// A share in percent: `0.1 %`, `93 %`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_string();
    }
    let share = part as f64 / whole as f64 * 100.0;
    if share >= 10.0 || share == 0.0 {
        format!("{share:.0} %")
    } else {
        format!("{} %", rough((share * 100.0).round() / 100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "request", "requests"), "1 request");
        assert_eq!([0.0, 0.5, 12.0, 1500.0, -0.0001].map(trimmed), ["0", "0.5", "12", "1,500", "0"]);
        assert_eq!([0.004_567_89, 4.56789, 456.789, 45_678.9].map(rough), ["0.00457", "4.57", "457", "45,700"]);
        assert_eq!([512.0, 1536.0, 3.0 * 1048576.0].map(bytes), ["512 B", "1.5 KiB", "3 MiB"]);
        assert_eq!([percent(1, 1000), percent(50, 54), percent(0, 9)], ["0.1 %", "93 %", "0 %"]);
    }

    #[test]
    fn durations_use_the_unit_that_fits() {
        let told = [0, 850, 12_345, 999_600, 4_200_000, 200_000_000, 7_500_000_000, 273_600_000_000].map(duration);
        assert_eq!(told, ["0 ms", "850 µs", "12.3 ms", "1 s", "4.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"]);
        assert_eq!(duration(59_990_000), "1 min");
        assert_eq!(duration(-5), "0 ms");
        let told = [1_540_000, 47_300_000, 2_399_000_000, 7_830_000_000, 200_000_000_000].map(about);
        assert_eq!(told, ["1.5 s", "47 s", "40 min", "2 h 10 min", "2 d"]);
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_time(951_782_400_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(timestamp(1_794_962_996_282_050), "2026-11-18T00:49:56.282050Z");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59.999999Z");
        // The ends of the scale are dates like others, if odd ones.
        assert!(date_time(i64::MAX).contains("294247") && date_time(i64::MIN).ends_with("UTC"));
    }
}
