//! The page: HTML around the data.

use std::io::{self, Write};

use serde_json::ser::{CharEscape, Formatter, Serializer};

use crate::{
    model::{OneLine, is_hidden, json_escape},
    report::{
        assets::{LICENCES, MARKUP, SCRIPTS, STYLES},
        data::Data,
    },
};

/// Writes the page.
pub(crate) fn write(data: &Data, mut out: impl Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src"
    )?;
    for script in SCRIPTS {
        write!(out, " 'sha256-{}'", script.sha256)?;
    }
    if data.followed.is_some() {
        // The page asks its own server for a newer one.
        write!(out, "; connect-src 'self'")?;
    }
    write!(
        out,
        "; base-uri 'none'; form-action 'none'\">\n<meta name=\"color-scheme\" \
         content=\"light dark\">\n<title>{} · NetTrace report</title>\n",
        Escaped(&OneLine(&data.title).to_string())
    )?;
    for style in STYLES {
        write!(out, "<style>\n{style}</style>\n")?;
    }
    write!(out, "</head>\n<body>\n{MARKUP}")?;
    writeln!(out, "<details class=\"licences\"><summary>Licences of the charts</summary>")?;
    for (name, licence) in LICENCES {
        writeln!(out, "<h2>{name}</h2>\n<pre>{}</pre>", Escaped(licence))?;
    }
    write!(out, "</details>\n<script type=\"application/json\" id=\"data\">")?;
    serde::Serialize::serialize(data, &mut Serializer::with_formatter(&mut out, InHtml))
        .map_err(io::Error::from)?;
    writeln!(out, "</script>")?;
    for script in SCRIPTS {
        // The hash is that of the text between the tags.
        writeln!(out, "<script>{}</script>", script.text)?;
    }
    write!(out, "</body>\n</html>\n")?;
    out.flush()
}

/// JSON that can stand in a script of HTML: without `<`, which could begin the script's end tag or
/// a comment. Hidden characters of a text are shown in it, as the command shows them.
struct InHtml;

impl Formatter for InHtml {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_special = |c: char| matches!(c, '<' | '>' | '&') || is_hidden(c);
        let mut rest = fragment;
        while let Some(at) = rest.find(is_special) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut after = from.chars();
            match after.next() {
                Some(c) if is_hidden(c) => write!(out, "\\{}", c.escape_unicode())?,
                Some(c) => json_escape(out, c)?,
                None => {}
            }
            rest = after.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(out, "\\\\u{{{byte:x}}}"),
            escape => serde_json::ser::CompactFormatter.write_char_escape(out, escape),
        }
    }
}

/// Text in HTML.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::{Escaped, InHtml, Serializer, is_hidden};

    #[test]
    fn text_cannot_leave_its_place() {
        let hostile = "</script><!-- \u{2028}\u{202E}\u{85} \" \n & é";
        let mut json = Vec::new();
        hostile.serialize(&mut Serializer::with_formatter(&mut json, InHtml)).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.contains(['<', '>', '&']) && !json.contains(is_hidden), "{json}");
        let shown = "</script><!-- \\u{2028}\\u{202e}\\u{85} \" \n & é";
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), shown);
        assert_eq!(Escaped("</title>&\"").to_string(), "&lt;/title&gt;&amp;&quot;");
    }
}
