//! Reads numbers, texts and lists from the payload of a message.

/// A defect of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the message ends within a value")]
    Short,
    #[error("a text does not end in a zero")]
    Unterminated,
    #[error("a text is not valid UTF-16")]
    Text,
    #[error("a list of {count} elements is longer than its message")]
    List { count: u32 },
    #[error("a flag is {0}, neither 0 nor 1")]
    Flag(u8),
    #[error("{what} is {number}, which the protocol does not define")]
    Undefined { what: &'static str, number: u32 },
    #[error("a provider has no name")]
    NoName,
}

/// Reads a payload from its start to its end. What follows the last value is ignored, as .NET does,
/// so that later versions of a command can add to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed::Short)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        self.take(count)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Malformed::Flag(other)),
        }
    }

    /// A text. One without units, not even a zero, is empty.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let units = self.u32()? as usize;
        let bytes = self.take(units.checked_mul(2).ok_or(Malformed::Short)?)?;
        let Some((zero, bytes)) = bytes.split_last_chunk::<2>().map(|(text, zero)| (zero, text))
        else {
            return Ok(String::new());
        };
        if *zero != [0, 0] {
            return Err(Malformed::Unterminated);
        }
        let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        char::decode_utf16(units).collect::<Result<_, _>>().map_err(|_| Malformed::Text)
    }

    /// A list, each element of which has at least `least` bytes. So the memory that it takes is
    /// bounded by the size of the message.
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        if count as usize > self.rest.len() / least {
            return Err(Malformed::List { count });
        }
        (0..count).map(|_| element(self)).collect()
    }
}
