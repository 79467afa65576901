//! Names of files that are made of what others say: another process, or the name of another file.

/// The most characters of one, so that an id and an ending still fit behind it.
const LONGEST: usize = 60;
/// Names that Windows has for devices, whatever ending they have.
const DEVICES: [&str; 6] = ["aux", "con", "nul", "prn", "conin$", "conout$"];

/// One part of a file's name that leads nowhere else, hides nothing and is no option of a command:
/// letters and digits of all scripts, and `-`, `_` and `.` inside. Anything else becomes `_`.
pub(crate) fn part(text: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let part: String = text.chars().map(plain).take(LONGEST).collect();
    let part = part.trim_matches(['-', '.']);
    let device = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_numbered = ["com", "lpt"].iter().any(|name| {
        let number = device.strip_prefix(name).and_then(|rest| rest.chars().next());
        number.is_some_and(char::is_numeric) && device.chars().count() == 4
    });
    match part {
        "" => "unnamed".to_owned(),
        part if is_numbered || DEVICES.contains(&&*device) => format!("_{part}"),
        part => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for (text, expected) in [
            ("shop", "shop"),
            ("shop-1.2_x", "shop-1.2_x"),
            ("../../../../etc/profile.d/x", "_.._.._.._etc_profile.d_x"),
            ("/etc/passwd", "_etc_passwd"),
            ("C:\\x", "C__x"),
            ("..", "unnamed"),
            ("", "unnamed"),
            (".bashrc", "bashrc"),
            ("--help", "help"),
            ("a\u{202E}b\n\0c\u{1b}[2J", "a_b__c__2J"),
            ("Bücher", "Bücher"),
            ("CON.x", "_CON.x"),
            ("com1", "_com1"),
            ("com12", "com12"),
        ] {
            assert_eq!(part(text), expected, "{text:?}");
        }
        assert_eq!(part(&"x".repeat(1_000_000)).len(), LONGEST);
        assert!(part(&"💡ä".repeat(1_000)).len() <= 2 * LONGEST);
    }
}
