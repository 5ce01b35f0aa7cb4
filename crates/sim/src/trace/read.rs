//! Opens a trace file and finds out which of the accepted forms it has, by its first lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::{Trace, TraceFault, access_log, csv_file, prometheus, shorten};

/// What is accepted, for errors.
const FORMS: &str = "a trace: CSV with the header `t_seconds,requests_per_second`, CSV of RFC 3339 time and rate, \
                     a Prometheus query_range answer (JSON), or an access log in common or combined format";

/// Longest line looked at; an access log's longest requests are a tenth of it.
pub(super) const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Reads the file; `.gz` is unpacked on the way.
pub(super) fn read(path: &Path) -> Result<Trace, TraceFault> {
    let file = path.display().to_string();
    let stem = path.file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
    let name = stem.split('.').next().unwrap_or(&stem).to_owned();
    let opened = File::open(path).map_err(|source| TraceFault::Read { file: file.clone(), source })?;
    let plain = BufReader::new(opened);
    if path.extension().is_some_and(|extension| extension == "gz") {
        read_from(Box::new(BufReader::new(MultiGzDecoder::new(plain))), &file, &name)
    } else {
        read_from(Box::new(plain), &file, &name)
    }
}

/// Reads a trace from any reader; `file` is used in errors.
pub(super) fn read_from(reader: Box<dyn BufRead>, file: &str, name: &str) -> Result<Trace, TraceFault> {
    let mut lines = Lines::new(reader, file);
    let Some(first) = lines.next_line()? else {
        return Err(TraceFault::Content {
            file: file.into(),
            expected: FORMS.into(),
            found: "nothing".into(),
        });
    };
    let first = first.to_owned();
    if first.starts_with('{') {
        return prometheus::read(lines.rest(&first), file, name);
    }
    if first.starts_with("t_seconds") {
        return csv_file::read_seconds(&mut lines, &first, name);
    }
    if access_log::looks_like(&first) {
        return access_log::read(&mut lines, &first, name);
    }
    if csv_file::looks_like_times(&first) {
        return csv_file::read_times(&mut lines, Some(&first), name);
    }
    // A header of unknown words is accepted before lines of times.
    if first.split(',').count() == 2 && csv_file::is_header(&first) {
        return csv_file::read_times(&mut lines, None, name);
    }
    Err(lines.fault(FORMS, &first))
}

/// The lines of a file, one at a time, each of bounded length and counted for errors.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    file: String,
    line: u64,
    buffer: Vec<u8>,
    text: String,
}

impl Lines {
    fn new(reader: Box<dyn BufRead>, file: &str) -> Self {
        Self { reader, file: file.to_owned(), line: 0, buffer: Vec::new(), text: String::new() }
    }

    /// The next line that is not blank, without its end; `None` after the last. Bytes that are not UTF-8 are
    /// replaced: access logs hold what clients send.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, TraceFault> {
        loop {
            self.buffer.clear();
            let mut limited = (&mut self.reader).take(MAX_LINE_BYTES);
            let read = limited
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| TraceFault::Read { file: self.file.clone(), source })?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read as u64 == MAX_LINE_BYTES && self.buffer.last() != Some(&b'\n') {
                let found = String::from_utf8_lossy(&self.buffer).into_owned();
                return Err(self.fault(&format!("a line of at most {MAX_LINE_BYTES} bytes"), &found));
            }
            let text = String::from_utf8_lossy(&self.buffer);
            let text = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
            if !text.trim().is_empty() {
                self.text.clear();
                self.text.push_str(text);
                return Ok(Some(&self.text));
            }
        }
    }

    /// An error at the line read last.
    pub(super) fn fault(&self, expected: &str, found: &str) -> TraceFault {
        TraceFault::Line {
            file: self.file.clone(),
            line: self.line,
            expected: expected.to_owned(),
            found: shorten(found),
        }
    }

    /// An error about the file as a whole.
    pub(super) fn content_fault(&self, expected: &str, found: &str) -> TraceFault {
        TraceFault::Content {
            file: self.file.clone(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    /// Everything, the first line (already read) included.
    fn rest(self, first: &str) -> impl Read + use<> {
        let blank_lines_before = "\n".repeat(usize::try_from(self.line - 1).unwrap_or(0));
        let head = format!("{blank_lines_before}{first}\n").into_bytes();
        std::io::Cursor::new(head).chain(self.reader)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn check(text: &str) -> Result<Trace, String> {
        let reader = Box::new(Cursor::new(text.as_bytes().to_vec()));
        read_from(reader, "file", "name").map_err(|fault| fault.to_string())
    }

    #[test]
    fn each_form_is_recognised_by_its_first_lines() {
        let log = "10.0.0.1 - - [10/Oct/2026:13:55:59 +0000] \"GET / HTTP/1.1\" 200 2326\n\
                   10.0.0.1 - bob [10/Oct/2026:15:56:01 +0200] \"GET /x HTTP/1.1\" 404 7 \"-\" \"curl [x]\"\n\
                   10.0.0.1 - - [10/Oct/2026:13:55:58 +0000] \"POST / HTTP/1.1\" 200 -\n";
        let json = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},
            "values":[[1000,"1"],[1015.0,"2.5"],[1030,"NaN"],[1045,"4"]]}]}}"#;
        for (text, step_secs, rates) in [
            ("t_seconds,requests_per_second,tokens\n0,1,9\n10,2,9\n20,0,9\n", 10.0, vec![1.0, 2.0, 0.0]),
            ("\u{feff}t_seconds, requests_per_second\r\n\r\n0,1\r\n60,2\r\n", 60.0, vec![1.0, 2.0]),
            ("2026-11-30T12:00:00Z,1\n2026-11-30T13:00:15+01:00,3\n", 15.0, vec![1.0, 3.0]),
            ("time,qps\n\"2026-11-30T12:00:00Z\",1\n2026-11-30T12:00:30Z,3\n", 30.0, vec![1.0, 3.0]),
            (json, 15.0, vec![1.0, 2.5, 3.25, 4.0]),
            (log, 1.0, vec![1.0, 1.0, 0.0, 1.0]),
        ] {
            let trace = check(text).unwrap();
            assert_eq!((trace.step_secs(), trace.rates()), (step_secs, rates.as_slice()), "{text}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_line_and_what_was_expected() {
        let log = "h - - [10/Oct/2026:13:55:59 +0000] \"GET /\" 200 1\n";
        for (text, expected) in [
            ("", "file: expected a trace"),
            ("hello\n", "file:1: expected a trace"),
            ("t_seconds,rps\n0,1\n", "file:1: expected the header `t_seconds,requests_per_second`"),
            ("t_seconds,requests_per_second\n0,1\n", "file: expected at least two samples, found 1"),
            ("t_seconds,requests_per_second\n0,1\n1,x\n", "file:3: expected two numbers"),
            ("t_seconds,requests_per_second\n0,1\n1,-2\n", "file:3: expected two numbers"),
            ("t_seconds,requests_per_second\n0,1\n1,NaN\n", "file:3: expected two numbers"),
            ("t_seconds,requests_per_second\n0,1\n1,2\n5,2\n", "file:4: expected t_seconds 2"),
            ("t_seconds,requests_per_second\n5,1\n6,2\n", "file:2: expected t_seconds 0"),
            ("2026-11-30T12:00:00Z,1\n\nyesterday,3\n", "file:3: expected an RFC 3339 time"),
            ("2026-11-30T12:00:00Z,1\n2026-11-30T12:00:00Z,3\n", "file:2: expected a time after"),
            (
                "2026-11-30T12:00:00Z,1\n",
                "file: expected at least two samples of a rate, found only one sample",
            ),
            ("{\n\"status\": oops}", "file:2: expected a Prometheus query_range answer in JSON"),
            (r#"{"status":"error","error":"bad"}"#, "expected status success, found error bad"),
            (
                r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
                "expected resultType matrix",
            ),
            (r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, "found 0 series"),
            (
                &format!("{log}h - - [10/Foo/2026:13:55:59 +0000] \"GET /\" 200 1\n"),
                "file:2: expected a line of an access",
            ),
            (&format!("{log}garbage\n"), "file:2: expected a line of an access log"),
            (
                &format!("{log}h - - [12/Oct/2028:13:55:59 +0000] \"GET /\" 200 1\n"),
                "file:2: expected times at most",
            ),
            (
                &format!("{log}h - - [10/Oct/2026:11:55:59 +0000] \"GET /\" 200 1\n"),
                "file:2: expected times at most",
            ),
        ] {
            let fault = check(text).unwrap_err();
            assert!(fault.contains(expected), "{text:?} gave {fault}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_instead_of_filling_the_memory() {
        let endless = std::io::repeat(b'x').take(1 << 40);
        let fault = read_from(Box::new(BufReader::new(endless)), "file", "name").unwrap_err();
        assert!(fault.to_string().contains("a line of at most 65536 bytes"), "{fault}");
    }
}
