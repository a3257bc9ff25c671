//! Turns a feed of earthquakes into alerts: a GeoJSON feature whose magnitude reaches the configured one becomes an alert, the others
//! are dropped.
//!
//! An alert's key is the region, so that the alerts of one region stay in order. It keeps the headers of its record, and one more
//! says which version of the plugin made it.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tidegate_plugin::{Context, Failure, Message, Output, Outputs, Plugin};

const VERSION: &str = if cfg!(feature = "v2") { "2" } else { "1" };

/// The transform's `config`. It is also the plugin: nothing else is kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quakes {
    /// The least magnitude that is worth an alert.
    magnitude: f64,
}

/// The part of a GeoJSON feature that matters here.
#[derive(Deserialize)]
struct Feature<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    properties: Properties<'a>,
}

#[derive(Deserialize)]
struct Properties<'a> {
    /// The feed has it empty where it could not be worked out.
    mag: Option<f64>,
    #[serde(borrow)]
    place: Option<Cow<'a, str>>,
    /// Milliseconds since 1970.
    time: i64,
    /// 1 where a tsunami is possible.
    #[cfg(feature = "v2")]
    tsunami: u8,
}

#[derive(Serialize)]
struct Alert<'a> {
    id: &'a str,
    magnitude: f64,
    place: &'a str,
    time: i64,
    level: &'static str,
    #[cfg(feature = "v2")]
    tsunami: bool,
}

impl Plugin for Quakes {
    fn init(context: &Context) -> Result<Self, String> {
        serde_json::from_str(&context.config).map_err(|error| format!("config must be like {{ magnitude: 4.5 }}: {error}"))
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        let value = message.value.as_deref().ok_or_else(|| Failure::reject("a feature is expected, not null"))?;
        let feature: Feature<'_> = serde_json::from_slice(value)
            .map_err(|error| Failure::reject(format!("not a GeoJSON feature of an earthquake: {error}")))?;
        let Some(magnitude) = feature.properties.mag.filter(|magnitude| *magnitude >= self.magnitude) else {
            return Ok(());
        };
        let place = feature.properties.place.as_deref().unwrap_or("unknown");
        let alert = Alert {
            id: &feature.id,
            magnitude,
            place,
            time: feature.properties.time,
            level: level(magnitude),
            #[cfg(feature = "v2")]
            tsunami: feature.properties.tsunami == 1,
        };
        let value = serde_json::to_vec(&alert).map_err(|error| Failure::fatal(error.to_string()))?;
        let mut output = Output::new(region(place).as_bytes().to_vec(), value);
        output.headers = message.headers;
        output.headers.push("plugin-version", VERSION.as_bytes());
        outputs.push(output);
        Ok(())
    }
}

tidegate_plugin::export!(Quakes);

/// "17km E of Hualian, Taiwan" is in Taiwan, "Banda Sea" is a region by itself.
fn region(place: &str) -> &str {
    place.rsplit(", ").next().unwrap_or(place)
}

/// The name that the Geological Survey has for a magnitude.
fn level(magnitude: f64) -> &'static str {
    match magnitude {
        8.0.. => "great",
        7.0.. => "major",
        6.0.. => "strong",
        5.0.. => "moderate",
        4.0.. => "light",
        _ => "minor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strong_quake_becomes_an_alert_under_its_region() {
        let mut message = Message::new(
            b"any",
            br#"{"id":"us1","properties":{"mag":6.4,"place":"22km NNE of Hualian, Taiwan","time":1517932242000,"tsunami":0}}"#,
        );
        message.headers.push("record-id", &b"7"[..]);
        let outputs = process(message).unwrap();
        let alert = &outputs.as_slice()[0];
        let mut expected =
            r#"{"id":"us1","magnitude":6.4,"place":"22km NNE of Hualian, Taiwan","time":1517932242000,"level":"strong"}"#
                .to_owned();
        if cfg!(feature = "v2") {
            expected = expected.replace('}', r#","tsunami":false}"#);
        }
        assert_eq!(alert.value.as_deref(), Some(expected.as_bytes()));
        assert_eq!(alert.key.as_deref(), Some(&b"Taiwan"[..]));
        assert_eq!(alert.headers.last("record-id"), Some(Some(&b"7"[..])));
        assert_eq!(alert.headers.last("plugin-version"), Some(Some(VERSION.as_bytes())));
        assert_eq!(outputs.as_slice().len(), 1);
    }

    #[test]
    fn only_what_reaches_the_magnitude_becomes_an_alert() {
        for (magnitude, alerts) in [("4.4", 0), ("4.5", 1), ("5", 1), ("-0.3", 0), ("null", 0)] {
            let feature = format!(r#"{{"id":"x","properties":{{"mag":{magnitude},"place":null,"time":0,"tsunami":1}}}}"#);
            let outputs = process(Message::new(b"", feature.as_bytes())).unwrap();
            assert_eq!(outputs.as_slice().len(), alerts, "magnitude {magnitude}");
        }
    }

    #[test]
    fn what_is_no_feature_is_rejected() {
        for value in [&b"{"[..], b"", b"[]", br#"{"id":"x","properties":{"mag":"strong","time":0,"tsunami":0}}"#, b"\xff"] {
            assert!(matches!(process(Message::new(b"", value)), Err(Failure::Reject(_))), "{value:?}");
        }
        assert!(matches!(process(Message { value: None, ..Message::default() }), Err(Failure::Reject(_))));
    }

    #[test]
    fn a_config_without_magnitude_or_with_more_is_refused() {
        for config in ["", "null", "{}", r#"{"magnitude":"high"}"#, r#"{"magnitude":4.5,"mag":1}"#] {
            let context = Context { config: config.to_owned(), ..Context::default() };
            assert!(Quakes::init(&context).is_err(), "{config}");
        }
    }

    #[test]
    fn a_region_is_what_follows_the_last_comma() {
        let cases = [("1km N of A, B, Chile", "Chile"), ("Banda Sea", "Banda Sea"), ("", "")];
        for (place, expected) in cases {
            assert_eq!(region(place), expected);
        }
    }

    #[test]
    fn the_whole_week_is_read_and_85_quakes_reach_magnitude_4_5() {
        let alerts = include_str!("../earthquakes.jsonl")
            .lines()
            .map(|line| process(Message::new(b"", line.as_bytes())).unwrap().as_slice().len())
            .collect::<Vec<_>>();
        assert_eq!((alerts.len(), alerts.iter().sum::<usize>()), (1707, 85));
    }

    fn process(message: Message<'_>) -> Result<Outputs<'_>, Failure> {
        let context = Context { config: r#"{"magnitude":4.5}"#.to_owned(), ..Context::default() };
        let mut outputs = Outputs::new();
        Quakes::init(&context).unwrap().process(message, &mut outputs).map(|()| outputs)
    }
}
