#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadField)]
pub struct GCStart1AB {
    pub x: Vec<Option<(u8,)>>,
}

#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "P", name = "GC/Start 1")]
pub struct GCStart1 {
    pub r#type: u8,
    #[trace_event(rename = "ClrInstanceID")]
    pub clr_instance_id: Option<u16>,
    #[trace_event(rename = "a b")]
    pub a_b: Option<GCStart1AB>,
}

#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadField)]
pub struct String2O {
    pub a: u8,
    // "a" is not read: u16
}

#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "P", name = "String")]
pub struct String2 {
    // "self" is not read: rest
    #[trace_event(rename = "Self")]
    pub self_it: u8,
    #[trace_event(rename = "9")]
    pub field_9: u8,
    #[trace_event(rename = "größe")]
    pub gr_e: u8,
    pub o: String2O,
    // "a;b" is not read: u8
    pub big: Vec<Vec<u8>>,
    #[trace_event(rename = "self_it")]
    pub self_it2: u8,
}

#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "P", name = "Wrapped")]
pub struct Wrapped {
    pub maybe: Option<Vec<u16>>,
    pub lists: Vec<Vec<u16>>,
    pub code: String,
}
