//! Bytes as lowercase hexadecimal digits.

/// Why digits cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HexError {
    /// There are not two digits for each byte.
    Length,
    /// A character is not a lowercase hexadecimal digit.
    Digit,
}

/// Reads two lowercase digits for each of `N` bytes.
pub(crate) fn read<const N: usize>(digits: &[u8]) -> Result<[u8; N], HexError> {
    if digits.len() != 2 * N {
        return Err(HexError::Length);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

fn digit(digit: u8) -> Result<u8, HexError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(HexError::Digit),
    }
}

/// Writes two digits for each byte. `digits` must have that length.
pub(crate) fn write(bytes: &[u8], digits: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(digits.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}
