//! What the HPA's controller says of itself in its log. In: a line of the controller manager's log at verbosity 4. Out:
//! the event of a service, with the microsecond at which it was written. Pure.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A line that tells of a sync.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub(super) service: usize,
    /// When it was written.
    pub(super) time: Timestamp,
    pub(super) event: Event,
}

/// How far a sync has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Metrics ask for this many; written just before stabilization.
    Proposed(u32),
    /// Over: the target was given other replicas.
    Rescaled { current: u32, desired: u32 },
    /// Over: the target was left at this many.
    Kept(u32),
    /// Over: the metrics allowed no answer.
    Failed,
}

/// The name of a service by its number.
pub(super) fn name(service: usize) -> String {
    format!("svc-{service:03}")
}

/// The number in a name of [`name`]'s form, which may stand behind other text.
pub(super) fn number(text: &str) -> Option<usize> {
    let digits = text.rsplit_once("svc-")?.1;
    digits.get(..3)?.parse().ok()
}

/// The entry on this line, if it tells of a sync. `year` and `zone`: the log has neither.
pub(super) fn parse(line: &str, year: i16, zone: &TimeZone) -> Option<Entry> {
    let (event, target) = if line.contains("] \"Proposing desired replicas\"") {
        (Event::Proposed(count(line, "desiredReplicas")?), field(line, "scaleTarget")?)
    } else if line.contains("] \"Successfully rescaled\"") {
        let (current, desired) = (count(line, "currentReplicas")?, count(line, "desiredReplicas")?);
        (Event::Rescaled { current, desired }, field(line, "HPA")?)
    } else if line.contains("] \"Decided not to scale\"") {
        (Event::Kept(count(line, "desiredReplicas")?), field(line, "scaleTarget")?)
    } else if line.contains("] \"Unhandled Error\"") {
        const FAILED: &str = "failed to compute desired number of replicas based on listed metrics for ";
        let (_, rest) = line.split_once(FAILED)?;
        (Event::Failed, rest.split(':').next()?)
    } else {
        return None;
    };
    Some(Entry { service: number(target)?, time: written_at(line, year, zone)?, event })
}

/// `I1130 07:41:38.052694 ...`
fn written_at(line: &str, year: i16, zone: &TimeZone) -> Option<Timestamp> {
    let written = line.get(1..21)?;
    let civil = DateTime::strptime("%Y%m%d %H:%M:%S%.f", format!("{year}{written}")).ok()?;
    Some(civil.to_zoned(zone.clone()).ok()?.timestamp())
}

fn count(line: &str, key: &str) -> Option<u32> {
    let (_, rest) = line.split_once(&format!(" {key}="))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {key}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(usize, Event)>) {
        let time = "2026-11-30T07:41:38.052694Z".parse().unwrap();
        let expected = expected.map(|(service, event)| Entry { service, time, event });
        assert_eq!(parse(line, 2026, &TimeZone::UTC), expected, "{line}");
    }

    #[test]
    fn the_controllers_lines_are_read() {
        check(
            r#"I1130 07:41:38.052694   27265 horizontal.go:909] "Proposing desired replicas" desiredReplicas=5 metric="cpu resource utilization (percentage of request)" scaleTarget="Deployment/default/svc-012""#,
            Some((12, Event::Proposed(5))),
        );
        check(
            r#"I1130 07:41:38.052694   27265 horizontal.go:990] "Successfully rescaled" HPA="default/svc-003" currentReplicas=3 desiredReplicas=5 reason="x above target""#,
            Some((3, Event::Rescaled { current: 3, desired: 5 })),
        );
        check(
            r#"I1130 07:41:38.052694   27265 horizontal.go:1019] "Decided not to scale" scaleTarget="Deployment/default/svc-003" desiredReplicas=4 lastScaleTime="""#,
            Some((3, Event::Kept(4))),
        );
        check(
            r#"E1130 07:41:38.052694   27265 horizontal.go:274] "Unhandled Error" err="failed to compute desired number of replicas based on listed metrics for Deployment/default/svc-003: invalid metrics (1 invalid out of 1), first error is: x""#,
            Some((3, Event::Failed)),
        );
        check(r#"I1130 07:41:38.052694   27265 horizontal.go:204] "Starting HPA controller""#, None);
        check("", None);
    }
}
