//! Dates and durations, and Go's time types as templates see them.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use super::cast::to_int;
use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, FuncSignature, GoType};
use crate::object::{GoObject, ObjectJson};
use crate::str::GoString;
use crate::value::{GoKind, GoValue};
use slipway_go::time::{self, Duration, GoTime, GoZone};

const A: GoType = GoType::Any;
const S: GoType = GoType::String;
const T: GoType = GoType::Named("time.Time");
const D: GoType = GoType::Named("time.Duration");

/// Go's `time.Time`.
#[derive(Clone, Debug)]
pub struct TimeObject(pub GoTime);

struct Span(Duration);

/// `time.Month` or `time.Weekday`: a number with a name.
struct Named {
    type_name: &'static str,
    number: i64,
    name: &'static str,
}

struct Location(GoZone);

pub(super) fn add(map: &mut FuncMap) {
    map.add("now", &[], T, |ctx, _| Ok(GoValue::object(TimeObject(now(ctx)))));
    map.add("date", &[S, A], S, |ctx, args| {
        let zone = local(ctx);
        date_in(ctx, args.str(0), args.get(1), zone)
    });
    map.add("dateInZone", &[S, A, S], S, |ctx, args| {
        let zone = zone(ctx, args.str(2));
        date_in(ctx, args.str(0), args.get(1), zone)
    });
    map.alias("date_in_zone", "dateInZone");
    map.add("htmlDate", &[A], S, |ctx, args| {
        let zone = local(ctx);
        date_in(ctx, b"2006-01-02", args.get(0), zone)
    });
    map.add("htmlDateInZone", &[A, S], S, |ctx, args| {
        let zone = zone(ctx, args.str(1));
        date_in(ctx, b"2006-01-02", args.get(0), zone)
    });
    map.add("dateModify", &[S, T], T, |_, args| {
        let time = time_of(args.get(1));
        let changed = Duration::parse(args.str(0)).map_or(time.clone(), |duration| time.add(duration));
        Ok(GoValue::object(TimeObject(changed)))
    });
    map.alias("date_modify", "dateModify");
    map.add("mustDateModify", &[S, T], T, |_, args| {
        let duration = Duration::parse(args.str(0)).map_err(|error| FuncError::new(error.to_string()))?;
        Ok(GoValue::object(TimeObject(time_of(args.get(1)).add(duration))))
    });
    map.alias("must_date_modify", "mustDateModify");
    map.add("toDate", &[S, S], T, |ctx, args| {
        let parsed = time::parse(args.str(0), args.str(1), &local(ctx));
        Ok(GoValue::object(TimeObject(parsed.unwrap_or_else(|_| GoTime::zero()))))
    });
    map.add("mustToDate", &[S, S], T, |ctx, args| {
        let parsed = time::parse(args.str(0), args.str(1), &local(ctx));
        parsed
            .map(|time| GoValue::object(TimeObject(time)))
            .map_err(|error| FuncError::new(error.to_string()))
    });
    map.add("unixEpoch", &[T], S, |_, args| Ok(time_of(args.get(0)).secs.to_string().into()));
    map.add("ago", &[A], S, |ctx, args| {
        let at = match args.get(0) {
            GoValue::Object(object) if object.downcast::<TimeObject>().is_some() => time_of(args.get(0)),
            value @ (GoValue::Int(_) | GoValue::Int64(_)) => GoTime::unix(to_int(value), 0, GoZone::Utc),
            _ => now(ctx),
        };
        Ok(now(ctx).since(&at).round(Duration(1_000_000_000)).to_string().into())
    });
    map.add("duration", &[A], S, |_, args| {
        let seconds = match args.get(0) {
            GoValue::Str(text) => {
                text.utf8().and_then(|text| slipway_go::strconv::parse_int(text, 10).ok()).unwrap_or(0)
            }
            GoValue::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(Duration(seconds.wrapping_mul(1_000_000_000)).to_string().into())
    });
    map.add("durationRound", &[A], S, |ctx, args| {
        let duration = match args.get(0) {
            GoValue::Str(text) => Duration::parse(text).unwrap_or_default(),
            GoValue::Int64(nanos) => Duration(*nanos),
            GoValue::Object(object) if object.downcast::<TimeObject>().is_some() => {
                now(ctx).since(&time_of(args.get(0)))
            }
            _ => Duration(0),
        };
        Ok(rounded(duration).into())
    });
}

/// The largest unit that fits more than once.
fn rounded(duration: Duration) -> String {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 24 * 3600 * SECOND;
    let units = [
        (365 * DAY, "y"),
        (30 * DAY, "mo"),
        (DAY, "d"),
        (3600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let length = duration.0.unsigned_abs();
    units
        .iter()
        .find(|(unit, _)| length > *unit)
        .map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", length / unit))
}

/// The local zone of the host; UTC if it has none.
fn local(ctx: &FuncContext<'_>) -> GoZone {
    ctx.host().local_zone().and_then(|name| GoZone::load(&name)).unwrap_or(GoZone::Utc)
}

fn zone(ctx: &FuncContext<'_>, name: &[u8]) -> GoZone {
    match name {
        b"Local" => local(ctx),
        _ => std::str::from_utf8(name).ok().and_then(GoZone::load).unwrap_or(GoZone::Utc),
    }
}

pub(super) fn now(ctx: &FuncContext<'_>) -> GoTime {
    let now = ctx.host().now();
    let zone = local(ctx);
    match now.duration_since(UNIX_EPOCH) {
        Ok(after) => GoTime {
            secs: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanos: after.subsec_nanos(),
            zone,
            // Go shows how long the process runs; one that has just started will do.
            monotonic: Some(1_000_000),
        },
        Err(before) => GoTime::unix(0, 0, zone)
            .add(Duration(i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos))),
    }
}

fn time_of(value: &GoValue) -> GoTime {
    match value {
        GoValue::Object(object) | GoValue::Ptr(object) => {
            object.downcast::<TimeObject>().map_or_else(GoTime::zero, |time| time.0.clone())
        }
        _ => GoTime::zero(),
    }
}

fn date_in(ctx: &mut FuncContext<'_>, layout: &[u8], value: &GoValue, zone: GoZone) -> FuncResult {
    let time = match value {
        GoValue::Object(object) | GoValue::Ptr(object) if object.downcast::<TimeObject>().is_some() => {
            time_of(value)
        }
        GoValue::Int(_) | GoValue::Int64(_) | GoValue::Int32(_) => {
            GoTime::unix(to_int(value), 0, GoZone::Utc)
        }
        _ => now(ctx),
    };
    ctx.charge(layout.len().saturating_mul(4))?;
    Ok(time.in_zone(zone).format(layout).into())
}

impl GoObject for TimeObject {
    fn type_name(&self) -> Cow<'static, str> {
        "time.Time".into()
    }

    fn uncallable(&self, name: &str) -> Option<String> {
        let second = |kind: &str| {
            Some(format!(
                "invalid function signature for {name}: second return value should be error; is {kind}"
            ))
        };
        match name {
            "ISOWeek" | "Zone" => second("int"),
            "ZoneBounds" => second("time.Time"),
            "Clock" | "Date" => Some(format!("function {name} has 3 return values; should be 1 or 2")),
            _ => None,
        }
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<FuncSignature> {
        Some(match name {
            "Year" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay" => {
                FuncSignature::new(&[], GoType::Int)
            }
            "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" => FuncSignature::new(&[], GoType::Int64),
            "Month" => FuncSignature::new(&[], GoType::Named("time.Month")),
            "Weekday" => FuncSignature::new(&[], GoType::Named("time.Weekday")),
            "String" | "GoString" => FuncSignature::new(&[], S),
            "Format" => FuncSignature::new(&[S], S),
            "IsZero" | "IsDST" => FuncSignature::new(&[], GoType::Bool),
            "Before" | "After" | "Equal" => FuncSignature::new(&[T], GoType::Bool),
            "Compare" => FuncSignature::new(&[T], GoType::Int),
            "Sub" => FuncSignature::new(&[T], D),
            "Add" | "Round" | "Truncate" => FuncSignature::new(&[D], T),
            "AddDate" => FuncSignature::new(&[GoType::Int, GoType::Int, GoType::Int], T),
            "UTC" | "Local" => FuncSignature::new(&[], T),
            "In" => FuncSignature::new(&[GoType::Named("*time.Location")], T),
            "Location" => FuncSignature::new(&[], GoType::Named("*time.Location")),
            _ => return None,
        })
    }

    fn call(&self, name: &str, ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        let time = &self.0;
        let civil = time.civil();
        let other = || time_of(args.get(0));
        let instant = |time: &GoTime| (time.secs, time.nanos);
        let nanos_total = || i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
        let span = || args.get(0).as_int().unwrap_or(0);
        Ok(match name {
            "Year" => GoValue::Int(civil.year),
            "Day" => GoValue::Int(civil.day.into()),
            "Hour" => GoValue::Int(civil.hour.into()),
            "Minute" => GoValue::Int(civil.minute.into()),
            "Second" => GoValue::Int(civil.second.into()),
            "Nanosecond" => GoValue::Int(time.nanos.into()),
            "YearDay" => GoValue::Int(civil.yday.into()),
            "Unix" => GoValue::Int64(time.secs),
            "UnixMilli" => GoValue::Int64((nanos_total() / 1_000_000) as i64),
            "UnixMicro" => GoValue::Int64((nanos_total() / 1000) as i64),
            "UnixNano" => GoValue::Int64(nanos_total() as i64),
            "Month" => GoValue::object(Named {
                type_name: "time.Month",
                number: civil.month.into(),
                name: time::MONTHS[(civil.month as usize + 11) % 12],
            }),
            "Weekday" => GoValue::object(Named {
                type_name: "time.Weekday",
                number: civil.weekday.into(),
                name: time::DAYS[civil.weekday as usize % 7],
            }),
            "String" => time.to_string().into(),
            "GoString" => {
                let month = time::MONTHS[(civil.month as usize + 11) % 12];
                let zone = match &time.zone {
                    GoZone::Utc => "time.UTC".to_owned(),
                    other => format!("time.Location({})", super::quoted(other.name().as_bytes())),
                };
                let (year, day, nanos) = (civil.year, civil.day, time.nanos);
                let (hour, minute, second) = (civil.hour, civil.minute, civil.second);
                format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {nanos}, {zone})")
                    .into()
            }
            "Format" => {
                ctx.charge(args.str(0).len().saturating_mul(4))?;
                time.format(args.str(0)).into()
            }
            "IsZero" => time.is_zero().into(),
            "IsDST" => {
                let january = GoTime::date(civil.year, 1, 1, 0, 0, 0, 0, time.zone.clone()).civil().offset;
                let july = GoTime::date(civil.year, 7, 1, 0, 0, 0, 0, time.zone.clone()).civil().offset;
                (january != july && civil.offset == january.max(july)).into()
            }
            "Before" => (instant(time) < instant(&other())).into(),
            "After" => (instant(time) > instant(&other())).into(),
            "Equal" => (instant(time) == instant(&other())).into(),
            "Compare" => GoValue::Int(instant(time).cmp(&instant(&other())) as i64),
            "Sub" => GoValue::object(Span(time.since(&other()))),
            "Add" => GoValue::object(TimeObject(time.add(Duration(span())))),
            "Round" | "Truncate" => {
                let unit = i128::from(span());
                let mut plain = time.clone();
                plain.monotonic = None;
                if unit > 0 {
                    let since_zero = nanos_total() - i128::from(GoTime::zero().secs) * 1_000_000_000;
                    let rest = since_zero.rem_euclid(unit);
                    let shift = if name == "Round" && rest * 2 >= unit { unit - rest } else { -rest };
                    plain = plain.add(Duration(i64::try_from(shift).unwrap_or(0)));
                }
                GoValue::object(TimeObject(plain))
            }
            "AddDate" => {
                let months = (civil.year + args.int(0)) * 12 + i64::from(civil.month) - 1 + args.int(1);
                let month = u32::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
                let (hour, minute, second) = (civil.hour.into(), civil.minute.into(), civil.second.into());
                let day = i64::from(civil.day) + args.int(2);
                let (year, zone) = (months.div_euclid(12), time.zone.clone());
                GoValue::object(TimeObject(GoTime::date(
                    year, month, day, hour, minute, second, time.nanos, zone,
                )))
            }
            "UTC" => GoValue::object(TimeObject(time.in_zone(GoZone::Utc))),
            "Local" => GoValue::object(TimeObject(time.in_zone(local(ctx)))),
            "In" => match args.get(0) {
                GoValue::Ptr(object) => match object.downcast::<Location>() {
                    Some(location) => GoValue::object(TimeObject(time.in_zone(location.0.clone()))),
                    None => return Err(FuncError::new("time: missing Location in call to Time.In")),
                },
                _ => return Err(FuncError::new("time: missing Location in call to Time.In")),
            },
            "Location" => GoValue::ptr(Location(time.zone.clone())),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<GoString> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> ObjectJson {
        let year = self.0.civil().year;
        if (0..=9999).contains(&year) {
            return ObjectJson::Value(self.0.rfc3339().into());
        }
        let text = "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside of range [0,9999]";
        ObjectJson::Error(text.to_owned())
    }

    fn equals(&self, other: &dyn GoObject) -> bool {
        other.downcast::<Self>().is_some_and(|other| self.0 == other.0)
    }
}

impl GoObject for Span {
    fn type_name(&self) -> Cow<'static, str> {
        "time.Duration".into()
    }

    fn kind(&self) -> GoKind {
        GoKind::Int64
    }

    fn inner(&self) -> Option<GoValue> {
        Some(GoValue::Int64(self.0.0))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<FuncSignature> {
        Some(match name {
            "Hours" | "Minutes" | "Seconds" => FuncSignature::new(&[], GoType::Float64),
            "Milliseconds" | "Microseconds" | "Nanoseconds" => FuncSignature::new(&[], GoType::Int64),
            "String" => FuncSignature::new(&[], S),
            "Round" | "Truncate" => FuncSignature::new(&[D], D),
            "Abs" => FuncSignature::new(&[], D),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        let nanos = self.0.0;
        // Whole units first, then the rest, so that large values keep their precision.
        let float = |unit: i64| (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64;
        let unit = args.get(0).as_int().unwrap_or(0);
        Ok(match name {
            "Hours" => float(3_600_000_000_000).into(),
            "Minutes" => float(60_000_000_000).into(),
            "Seconds" => float(1_000_000_000).into(),
            "Milliseconds" => GoValue::Int64(nanos / 1_000_000),
            "Microseconds" => GoValue::Int64(nanos / 1000),
            "Nanoseconds" => GoValue::Int64(nanos),
            "String" => self.0.to_string().into(),
            "Round" => GoValue::object(Span(self.0.round(Duration(unit)))),
            "Truncate" if unit > 0 => GoValue::object(Span(Duration(nanos - nanos % unit))),
            "Truncate" => GoValue::object(Span(self.0)),
            "Abs" => GoValue::object(Span(Duration(nanos.saturating_abs()))),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<GoString> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> ObjectJson {
        ObjectJson::Value(GoValue::Int64(self.0.0))
    }
}

impl GoObject for Named {
    fn type_name(&self) -> Cow<'static, str> {
        self.type_name.into()
    }

    fn kind(&self) -> GoKind {
        GoKind::Int
    }

    fn inner(&self) -> Option<GoValue> {
        Some(GoValue::Int(self.number))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<FuncSignature> {
        (name == "String").then(|| FuncSignature::new(&[], S))
    }

    fn call(&self, _name: &str, _ctx: &mut FuncContext<'_>, _args: FuncArgs<'_>) -> FuncResult {
        Ok(self.name.into())
    }

    fn text(&self, _addressable: bool) -> Option<GoString> {
        Some(self.name.into())
    }

    fn json(&self) -> ObjectJson {
        ObjectJson::Value(GoValue::Int(self.number))
    }
}

impl GoObject for Location {
    fn type_name(&self) -> Cow<'static, str> {
        "time.Location".into()
    }

    fn method(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        (name == "String" && addressable).then(|| FuncSignature::new(&[], S))
    }

    fn call(&self, _name: &str, _ctx: &mut FuncContext<'_>, _args: FuncArgs<'_>) -> FuncResult {
        Ok(self.0.name().into())
    }

    fn text(&self, addressable: bool) -> Option<GoString> {
        addressable.then(|| self.0.name().into())
    }
}
