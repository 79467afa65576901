//! Reads message templates: text with `{field}` in place of values.

/// Returns the names in braces, or what is wrong with the braces.
pub(crate) fn placeholders(template: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        if rest.as_bytes()[at] == b'}' {
            return Err("a `}` without a `{` before it".to_owned());
        }
        let inner = &rest[at + 1..];
        let Some(end) = inner.find(['{', '}']) else {
            return Err("a `{` without a `}` after it".to_owned());
        };
        if inner.as_bytes()[end] == b'{' {
            return Err("a `{` within braces: templates have no escape for a brace".to_owned());
        }
        if end == 0 {
            return Err("`{}` without a field's name in it".to_owned());
        }
        names.push(&inner[..end]);
        rest = &inner[end + 1..];
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn names_come_in_order() {
        assert_eq!(placeholders("{a} of {b}: {a}").unwrap(), ["a", "b", "a"]);
        assert!(placeholders("no values").unwrap().is_empty());
    }

    #[test]
    fn lone_braces_are_refused() {
        for template in ["{a", "a}", "{{a}}", "{a} }", "{}"] {
            assert!(placeholders(template).is_err(), "{template}");
        }
    }
}
