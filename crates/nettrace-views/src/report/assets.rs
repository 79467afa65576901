//! The parts of the page that are the same for every trace.
//!
//! `assets/README.md` says where the libraries come from.

/// A script, and its hash for the Content-Security-Policy.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    /// SHA-256 of the text, in base64.
    pub(crate) sha256: &'static str,
}

/// The scripts, in the order in which they run.
pub(crate) const SCRIPTS: &[Script] = &[
    Script {
        text: include_str!("../../assets/uPlot.iife.min.js"),
        sha256: "GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8=",
    },
    Script {
        text: include_str!("../../assets/d3.min.js"),
        sha256: "8glLv2FBs1lyLE/kVOtsSw8OQswQzHr5IfwVj864ZTk=",
    },
    Script {
        text: include_str!("../../assets/d3-flamegraph.umd.min.js"),
        sha256: "X42Lx79/gykkjUPB4hVDGoj3fhfaohfzwxsBm4txs/c=",
    },
    Script {
        text: include_str!("../../assets/instruments.js"),
        sha256: "j1tDEcT9b9WV2YQ8yyrQ12ZBJwbwtH7lrOc5EUbHdts=",
    },
    Script {
        text: include_str!("../../assets/page.js"),
        sha256: "xY5QGUj6MkcwA4gJ//p5zkMFUs8UuhBqZ275J3XDtkw=",
    },
];

/// The styles.
pub(crate) const STYLES: &[&str] =
    &[include_str!("../../assets/uPlot.min.css"), include_str!("../../assets/page.css")];

/// The licences of the libraries, which stand in every page.
pub(crate) const LICENCES: &[(&str, &str)] = &[
    ("uPlot", include_str!("../../assets/LICENSE-uPlot")),
    ("D3", include_str!("../../assets/LICENSE-d3")),
    ("d3-flame-graph", include_str!("../../assets/LICENSE-d3-flame-graph")),
];

/// The page without its data.
pub(crate) const MARKUP: &str = include_str!("../../assets/page.html");

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::SCRIPTS;

    #[test]
    fn scripts_have_their_hashes() {
        for script in SCRIPTS {
            let hash = base64(&Sha256::digest(script.text));
            let begin: String = script.text.chars().take(40).collect();
            assert_eq!(hash, script.sha256, "put this hash into assets.rs, for {begin}");
            assert!(!script.text.contains("</script"), "{begin}");
            assert!(!script.text.contains("<!--"), "{begin}");
        }
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let group = (0..3)
                .fold(0, |group, at| group << 8 | usize::from(chunk.get(at).copied().unwrap_or(0)));
            for digit in 0..4 {
                let is_there = digit <= chunk.len();
                let at = group >> (18 - 6 * digit) & 63;
                text.push(if is_there { char::from(DIGITS[at]) } else { '=' });
            }
        }
        text
    }
}
