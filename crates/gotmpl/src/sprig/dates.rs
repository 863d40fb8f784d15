//! Dates and durations, and Go's time types as templates see them.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use super::cast::to_int;
use crate::func::{Args, Ctx, FuncError, FuncMap, FuncResult, Signature, Ty};
use crate::object::{Json, Object};
use crate::str::Str;
use crate::value::{Kind, Value};
use slipway_go::time::{self, Duration, GoTime, Zone};

const A: Ty = Ty::Any;
const S: Ty = Ty::String;
const T: Ty = Ty::Named("time.Time");
const D: Ty = Ty::Named("time.Duration");

/// Go's `time.Time`.
#[derive(Clone, Debug)]
pub struct Time(pub GoTime);

struct Span(Duration);

/// `time.Month` or `time.Weekday`: a number with a name.
struct Named {
    type_name: &'static str,
    number: i64,
    name: &'static str,
}

struct Location(Zone);

pub(super) fn add(map: &mut FuncMap) {
    map.add("now", &[], T, |ctx, _| Ok(Value::object(Time(now(ctx)))));
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
        Ok(Value::object(Time(changed)))
    });
    map.alias("date_modify", "dateModify");
    map.add("mustDateModify", &[S, T], T, |_, args| {
        let duration = Duration::parse(args.str(0)).map_err(|error| FuncError::new(error.to_string()))?;
        Ok(Value::object(Time(time_of(args.get(1)).add(duration))))
    });
    map.alias("must_date_modify", "mustDateModify");
    map.add("toDate", &[S, S], T, |ctx, args| {
        let parsed = time::parse(args.str(0), args.str(1), &local(ctx));
        Ok(Value::object(Time(parsed.unwrap_or_else(|_| GoTime::zero()))))
    });
    map.add("mustToDate", &[S, S], T, |ctx, args| {
        let parsed = time::parse(args.str(0), args.str(1), &local(ctx));
        parsed.map(|time| Value::object(Time(time))).map_err(|error| FuncError::new(error.to_string()))
    });
    map.add("unixEpoch", &[T], S, |_, args| Ok(time_of(args.get(0)).secs.to_string().into()));
    map.add("ago", &[A], S, |ctx, args| {
        let at = match args.get(0) {
            Value::Object(object) if object.downcast::<Time>().is_some() => time_of(args.get(0)),
            value @ (Value::Int(_) | Value::Int64(_)) => GoTime::unix(to_int(value), 0, Zone::Utc),
            _ => now(ctx),
        };
        Ok(now(ctx).since(&at).round(Duration(1_000_000_000)).to_string().into())
    });
    map.add("duration", &[A], S, |_, args| {
        let seconds = match args.get(0) {
            Value::Str(text) => {
                text.utf8().and_then(|text| slipway_go::strconv::parse_int(text, 10).ok()).unwrap_or(0)
            }
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(Duration(seconds.wrapping_mul(1_000_000_000)).to_string().into())
    });
    map.add("durationRound", &[A], S, |ctx, args| {
        let duration = match args.get(0) {
            Value::Str(text) => Duration::parse(text).unwrap_or_default(),
            Value::Int64(nanos) => Duration(*nanos),
            Value::Object(object) if object.downcast::<Time>().is_some() => {
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
fn local(ctx: &Ctx<'_>) -> Zone {
    ctx.host().local_zone().and_then(|name| Zone::load(&name)).unwrap_or(Zone::Utc)
}

fn zone(ctx: &Ctx<'_>, name: &[u8]) -> Zone {
    match name {
        b"Local" => local(ctx),
        _ => std::str::from_utf8(name).ok().and_then(Zone::load).unwrap_or(Zone::Utc),
    }
}

pub(super) fn now(ctx: &Ctx<'_>) -> GoTime {
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

fn time_of(value: &Value) -> GoTime {
    match value {
        Value::Object(object) | Value::Ptr(object) => {
            object.downcast::<Time>().map_or_else(GoTime::zero, |time| time.0.clone())
        }
        _ => GoTime::zero(),
    }
}

fn date_in(ctx: &mut Ctx<'_>, layout: &[u8], value: &Value, zone: Zone) -> FuncResult {
    let time = match value {
        Value::Object(object) | Value::Ptr(object) if object.downcast::<Time>().is_some() => time_of(value),
        Value::Int(_) | Value::Int64(_) | Value::Int32(_) => GoTime::unix(to_int(value), 0, Zone::Utc),
        _ => now(ctx),
    };
    ctx.charge(layout.len().saturating_mul(4))?;
    Ok(time.in_zone(zone).format(layout).into())
}

impl Object for Time {
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

    fn method(&self, name: &str, _addressable: bool) -> Option<Signature> {
        Some(match name {
            "Year" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay" => {
                Signature::new(&[], Ty::Int)
            }
            "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" => Signature::new(&[], Ty::Int64),
            "Month" => Signature::new(&[], Ty::Named("time.Month")),
            "Weekday" => Signature::new(&[], Ty::Named("time.Weekday")),
            "String" | "GoString" => Signature::new(&[], S),
            "Format" => Signature::new(&[S], S),
            "IsZero" | "IsDST" => Signature::new(&[], Ty::Bool),
            "Before" | "After" | "Equal" => Signature::new(&[T], Ty::Bool),
            "Compare" => Signature::new(&[T], Ty::Int),
            "Sub" => Signature::new(&[T], D),
            "Add" | "Round" | "Truncate" => Signature::new(&[D], T),
            "AddDate" => Signature::new(&[Ty::Int, Ty::Int, Ty::Int], T),
            "UTC" | "Local" => Signature::new(&[], T),
            "In" => Signature::new(&[Ty::Named("*time.Location")], T),
            "Location" => Signature::new(&[], Ty::Named("*time.Location")),
            _ => return None,
        })
    }

    fn call(&self, name: &str, ctx: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        let time = &self.0;
        let civil = time.civil();
        let other = || time_of(args.get(0));
        let instant = |time: &GoTime| (time.secs, time.nanos);
        let nanos_total = || i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
        let span = || args.get(0).as_int().unwrap_or(0);
        Ok(match name {
            "Year" => Value::Int(civil.year),
            "Day" => Value::Int(civil.day.into()),
            "Hour" => Value::Int(civil.hour.into()),
            "Minute" => Value::Int(civil.minute.into()),
            "Second" => Value::Int(civil.second.into()),
            "Nanosecond" => Value::Int(time.nanos.into()),
            "YearDay" => Value::Int(civil.yday.into()),
            "Unix" => Value::Int64(time.secs),
            "UnixMilli" => Value::Int64((nanos_total() / 1_000_000) as i64),
            "UnixMicro" => Value::Int64((nanos_total() / 1000) as i64),
            "UnixNano" => Value::Int64(nanos_total() as i64),
            "Month" => Value::object(Named {
                type_name: "time.Month",
                number: civil.month.into(),
                name: time::MONTHS[(civil.month as usize + 11) % 12],
            }),
            "Weekday" => Value::object(Named {
                type_name: "time.Weekday",
                number: civil.weekday.into(),
                name: time::DAYS[civil.weekday as usize % 7],
            }),
            "String" => time.to_string().into(),
            "GoString" => {
                let month = time::MONTHS[(civil.month as usize + 11) % 12];
                let zone = match &time.zone {
                    Zone::Utc => "time.UTC".to_owned(),
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
            "Compare" => Value::Int(instant(time).cmp(&instant(&other())) as i64),
            "Sub" => Value::object(Span(time.since(&other()))),
            "Add" => Value::object(Time(time.add(Duration(span())))),
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
                Value::object(Time(plain))
            }
            "AddDate" => {
                let months = (civil.year + args.int(0)) * 12 + i64::from(civil.month) - 1 + args.int(1);
                let month = u32::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
                let (hour, minute, second) = (civil.hour.into(), civil.minute.into(), civil.second.into());
                let day = i64::from(civil.day) + args.int(2);
                let (year, zone) = (months.div_euclid(12), time.zone.clone());
                Value::object(Time(GoTime::date(year, month, day, hour, minute, second, time.nanos, zone)))
            }
            "UTC" => Value::object(Time(time.in_zone(Zone::Utc))),
            "Local" => Value::object(Time(time.in_zone(local(ctx)))),
            "In" => match args.get(0) {
                Value::Ptr(object) => match object.downcast::<Location>() {
                    Some(location) => Value::object(Time(time.in_zone(location.0.clone()))),
                    None => return Err(FuncError::new("time: missing Location in call to Time.In")),
                },
                _ => return Err(FuncError::new("time: missing Location in call to Time.In")),
            },
            "Location" => Value::ptr(Location(time.zone.clone())),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> Json {
        let year = self.0.civil().year;
        if (0..=9999).contains(&year) {
            return Json::Value(self.0.rfc3339().into());
        }
        let text = "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside of range [0,9999]";
        Json::Error(text.to_owned())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.downcast::<Self>().is_some_and(|other| self.0 == other.0)
    }
}

impl Object for Span {
    fn type_name(&self) -> Cow<'static, str> {
        "time.Duration".into()
    }

    fn kind(&self) -> Kind {
        Kind::Int64
    }

    fn inner(&self) -> Option<Value> {
        Some(Value::Int64(self.0.0))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<Signature> {
        Some(match name {
            "Hours" | "Minutes" | "Seconds" => Signature::new(&[], Ty::Float64),
            "Milliseconds" | "Microseconds" | "Nanoseconds" => Signature::new(&[], Ty::Int64),
            "String" => Signature::new(&[], S),
            "Round" | "Truncate" => Signature::new(&[D], D),
            "Abs" => Signature::new(&[], D),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        let nanos = self.0.0;
        // Whole units first, then the rest, so that large values keep their precision.
        let float = |unit: i64| (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64;
        let unit = args.get(0).as_int().unwrap_or(0);
        Ok(match name {
            "Hours" => float(3_600_000_000_000).into(),
            "Minutes" => float(60_000_000_000).into(),
            "Seconds" => float(1_000_000_000).into(),
            "Milliseconds" => Value::Int64(nanos / 1_000_000),
            "Microseconds" => Value::Int64(nanos / 1000),
            "Nanoseconds" => Value::Int64(nanos),
            "String" => self.0.to_string().into(),
            "Round" => Value::object(Span(self.0.round(Duration(unit)))),
            "Truncate" if unit > 0 => Value::object(Span(Duration(nanos - nanos % unit))),
            "Truncate" => Value::object(Span(self.0)),
            "Abs" => Value::object(Span(Duration(nanos.saturating_abs()))),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> Json {
        Json::Value(Value::Int64(self.0.0))
    }
}

impl Object for Named {
    fn type_name(&self) -> Cow<'static, str> {
        self.type_name.into()
    }

    fn kind(&self) -> Kind {
        Kind::Int
    }

    fn inner(&self) -> Option<Value> {
        Some(Value::Int(self.number))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<Signature> {
        (name == "String").then(|| Signature::new(&[], S))
    }

    fn call(&self, _name: &str, _ctx: &mut Ctx<'_>, _args: Args<'_>) -> FuncResult {
        Ok(self.name.into())
    }

    fn text(&self, _addressable: bool) -> Option<Str> {
        Some(self.name.into())
    }

    fn json(&self) -> Json {
        Json::Value(Value::Int(self.number))
    }
}

impl Object for Location {
    fn type_name(&self) -> Cow<'static, str> {
        "time.Location".into()
    }

    fn method(&self, name: &str, addressable: bool) -> Option<Signature> {
        (name == "String" && addressable).then(|| Signature::new(&[], S))
    }

    fn call(&self, _name: &str, _ctx: &mut Ctx<'_>, _args: Args<'_>) -> FuncResult {
        Ok(self.0.name().into())
    }

    fn text(&self, addressable: bool) -> Option<Str> {
        addressable.then(|| self.0.name().into())
    }
}
