//! `outboard ping`: is the device there, and where does the time of a message go?

use super::device_args::DeviceArgs;
use crate::report::{self, Failure};
use outboard_host::{Hops, Session};
use serde_json::{Value, json};
use std::time::Duration;

/// Ask a device for its version, and how long an answer takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard ping
  outboard ping --device sim:/tmp/dsp --hops --count 1000")]
pub(crate) struct Args {
    #[command(flatten)]
    device: DeviceArgs,

    /// Show where the time goes: to the device, in it, back to the host.
    #[arg(long)]
    hops: bool,

    /// How often to ask.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    /// Deadline, in seconds, of each answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Times of one kind, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, percent: usize) -> f64 {
        super::micros(self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default())
    }

    fn json(&self) -> Value {
        json!({"p50_us": self.at(50), "p99_us": self.at(99), "samples": self.0.len()})
    }

    fn row(&self, name: &str) -> String {
        format!("{name:<16} {:>10.1} {:>10.1}\n", self.at(50), self.at(99))
    }
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let mut session = args.device.open(args.timeout)?;
    let first = session.ping()?;
    let round_trips = (0..args.count).map(|_| Ok(session.ping()?.round_trip)).collect::<Result<Vec<_>, Failure>>()?;
    let mut rows = vec![("round trip", Times::of(round_trips))];
    if args.hops {
        rows.extend(hops(&mut session, args.count)?);
    }
    let device = session.device().to_owned();
    session.close()?;
    if args.json {
        let times: serde_json::Map<String, Value> =
            rows.iter().map(|(name, times)| (name.replace(' ', "_"), times.json())).collect();
        return report::result(&json!({
            "status": "ok",
            "device": device,
            "version": first.version.to_string(),
            "uptime_ms": u64::try_from(first.uptime.as_millis()).unwrap_or(u64::MAX),
            "times": times,
        }));
    }
    let mut text = format!("{device}: protocol {}, up {:.3} s\n", first.version, first.uptime.as_secs_f64());
    text += &format!("{:<16} {:>10} {:>10}\n", "", "p50 us", "p99 us");
    rows.iter().for_each(|(name, times)| text += &times.row(name));
    report::print(&text)
}

fn hops(session: &mut Session, count: u32) -> Result<Vec<(&'static str, Times)>, Failure> {
    let mut seen: Vec<Hops> = Vec::new();
    for _ in 0..count {
        seen.extend(session.ping_hops()?);
    }
    let of = |hop: fn(&Hops) -> Duration| Times::of(seen.iter().map(hop).collect());
    Ok(vec![
        ("to the device", of(|hops| hops.to_device)),
        ("in the device", of(|hops| hops.in_device)),
        ("to the host", of(|hops| hops.to_host)),
    ])
}
