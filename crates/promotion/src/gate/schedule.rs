//! The calendar as gates see it: fields of a moment in a time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use slipway_cel::{EvalError, Key, Map, Str, Value};

/// Finds a time zone of the IANA database by its name.
pub(crate) fn find_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() }
}

/// The English name of a day of the week.
pub(crate) fn day_name(time: &Zoned) -> &'static str {
    use jiff::civil::Weekday;
    match time.weekday() {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

fn is_weekend(time: &Zoned) -> bool {
    matches!(time.weekday(), jiff::civil::Weekday::Saturday | jiff::civil::Weekday::Sunday)
}

/// The variable `schedule` at a moment, in a zone.
pub(crate) fn schedule_value<'a>(at: Timestamp, zone: TimeZone) -> Value<'a> {
    let time = at.to_zoned(zone);
    let date = format!("{:04}-{:02}-{:02}", time.year(), time.month(), time.day());
    let fields = [
        ("isWeekend", Value::Bool(is_weekend(&time))),
        ("hour", Value::Int(time.hour().into())),
        ("minute", Value::Int(time.minute().into())),
        ("dayOfWeek", Value::string(day_name(&time))),
        ("date", Value::string(date)),
        ("now", Value::Timestamp(at)),
    ];
    Value::Map(fields.into_iter().map(|(name, value)| (Key::String(name.into()), value)).collect())
}

/// `schedule.in("Europe/Berlin")`: the same moment in another zone.
pub(crate) fn in_zone<'a>(schedule: &Map<'a>, zone: &Str<'a>) -> Result<Value<'a>, EvalError> {
    let Some(Value::Timestamp(at)) = schedule.field("now") else { return Err(EvalError::no_overload()) };
    match find_zone(zone) {
        Some(zone) => Ok(schedule_value(at, zone)),
        None => Err(EvalError::invalid(format!("unknown time zone `{zone}`"))),
    }
}
