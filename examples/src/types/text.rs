//! Text: every type that holds it, every encoding, NUL inside, and data behind the fields.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use super::{MIXED, Sample, table};

/// What `text` looks like if its UTF-8 is read as Latin-1 up to the first NUL, as the reference
/// reader does.
fn as_latin1(text: &str) -> String {
    text.bytes().take_while(|byte| *byte != 0).map(char::from).collect()
}

pub(super) fn samples() -> Vec<Sample> {
    vec![text_types(), encodings(), nul_inside(), locations()]
}

fn text_types() -> Sample {
    table! {
        TextTypes;
        a_str: &'a str = MIXED => (MIXED);
        empty: &'a str = "" => ("");
        string: String = MIXED.into() => (MIXED);
        borrowed: Cow<'a, str> = Cow::Borrowed(MIXED) => (MIXED);
        owned: Cow<'a, str> = Cow::Owned(MIXED.into()) => (MIXED);
        boxed: Box<str> = MIXED.into() => (MIXED);
        shared: Arc<str> = MIXED.into() => (MIXED);
        counted: Rc<String> = Rc::new(MIXED.into()) => (MIXED);
        twice: &'a &'a str = &MIXED => (MIXED);
        path: &'a Path = Path::new("/tmp/é") => ("/tmp/é");
        path_buf: PathBuf = "/tmp/é".into() => ("/tmp/é");
        os_str: &'a OsStr = OsStr::new(MIXED) => (MIXED);
        os_string: OsString = MIXED.into() => (MIXED);
        last: u8 = 1 => (1);
    }
}

fn encodings() -> Sample {
    table! {
        TextEncodings;
        #[trace_event(encoding = utf16)]
        utf16: &'a str = MIXED => (MIXED);
        #[trace_event(encoding = utf16_nul)]
        utf16_nul: &'a str = MIXED => (MIXED);
        #[trace_event(encoding = utf8)]
        utf8: &'a str = "plain letters" => ("plain letters");
        #[trace_event(encoding = utf8)]
        utf8_mixed: &'a str = MIXED => (MIXED), reference (as_latin1(MIXED));
        #[trace_event(encoding = utf8)]
        utf8_list: Vec<String> = vec!["a".into(), "é".into()]
            => (["a", "é"]), reference (["a", as_latin1("é")]);
        last: u8 = 1 => (1);
    }
}

/// UTF-16 text never holds a NUL, because readers would stop there. The NUL becomes U+FFFD.
fn nul_inside() -> Sample {
    table! {
        NulInside;
        natural: &'a str = "a\0b" => ("a\u{fffd}b");
        only: &'a str = "\0" => ("\u{fffd}");
        beyond_ascii: &'a str = "é\0🦀" => ("é\u{fffd}🦀");
        #[trace_event(encoding = utf16_nul)]
        terminated: &'a str = "a\0b" => ("a\u{fffd}b");
        #[trace_event(encoding = utf8)]
        utf8: &'a str = "a\0b" => ("a\0b"), reference ("a");
        a_char: char = '\0' => ("\u{fffd}");
        behind: u32 = 0x1234_5678 => (0x1234_5678);
        last: &'a str = MIXED => (MIXED);
    }
}

fn locations() -> Sample {
    table! {
        Locations;
        #[trace_event(encoding = rel_loc)]
        rel: &'a str = MIXED => (MIXED);
        between: u16 = 77 => (77);
        #[trace_event(encoding = data_loc)]
        data: String = MIXED.into() => (MIXED);
        #[trace_event(encoding = utf8_rel_loc)]
        utf8_rel: &'a str = "plain" => ("plain");
        #[trace_event(encoding = utf8_data_loc)]
        utf8_data: &'a str = "é" => ("é"), reference (as_latin1("é"));
        #[trace_event(encoding = rel_loc)]
        numbers: &'a [u32] = &[1, 2, u32::MAX] => ([1, 2, u32::MAX]);
        #[trace_event(encoding = data_loc)]
        bytes: Vec<u8> = vec![9, 8] => ([9, 8]);
        #[trace_event(encoding = rel_loc)]
        none: [u64; 0] = [] => ([]);
        #[trace_event(encoding = data_loc)]
        floats: [f64; 2] = [0.5, -0.5] => ([0.5, -0.5]);
        last: u8 = 1 => (1);
    }
}
